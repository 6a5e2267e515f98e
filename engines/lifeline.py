"""Ends a worker process together with the process that started it.

`multiprocessing` ends the children of a process that exits normally. A process that is killed
leaves its children running, unless each of them calls `end_with_parent` once.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable


def end_with_parent(clean_up: Callable[[], None] = lambda: None) -> None:
    """Makes this process exit as soon as its parent ends, even if the parent is killed.

    clean_up: called before, to delete what the parent can no longer delete.
    """
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            try:
                clean_up()
            finally:
                os._exit(1)

    threading.Thread(target=wait, daemon=True, name="parent").start()
