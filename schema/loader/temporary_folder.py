"""A folder on this machine's disk that lasts as long as something refers to it.

In: nothing. Out: the folder's path. Must not know what is in it.
"""

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class TemporaryFolder:
    """A temporary folder. It goes with the last reference to it, or when its process ends.

    Attributes:
        path: of the folder.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="starmill-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, owner: int) -> None:
    # A forked process has a copy of the reference; the folder is its parent's.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
