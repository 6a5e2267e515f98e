"""Where loader workers put batches: how many slots of shared memory, and in which folder.

In: how large a batch is, and how many workers there are. Out: a folder with enough room. A file in
a full /dev/shm would end whoever writes to it with SIGBUS, so the room is checked before. Must not
know what is in a batch.
"""

import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from starmill.schema import errors

_log = logging.getLogger(__name__)
# Kept in memory on Linux. Containers have 64 MB of it unless they are told otherwise.
SHARED = "/dev/shm"
# Shared memory that each worker fills ahead. A worker has one slot even if that is larger.
AHEAD_BYTES = 512 << 20
_MOST_SLOTS = 4


class Place(NamedTuple):
    """Where the slots of all workers are.

    Attributes:
        folder: the folder of their files.
        slots: how many each worker has.
    """

    folder: str
    slots: int


def place(size_bytes: int, workers: int, folders: Sequence[str] = ()) -> Place:
    """Returns a folder with room for the slots of all workers.

    Fewer slots in memory are better than more on a disk, which are the last resort. Raises
    ConfigError if there is no room for one slot each.

    Args:
        size_bytes: of a slot.
        workers: how many there are.
        folders: one in memory, if there is one, and one on a disk; this machine's by default.
    """
    places = folders or _folders()
    most = max(1, min(_MOST_SLOTS, AHEAD_BYTES // max(size_bytes, 1)))
    need = size_bytes * workers
    room = [_free_bytes(folder) for folder in places]
    for folder, free in zip(places, room, strict=True):
        if free < need:
            continue
        slots = max(1, min(most, free // max(need, 1)))
        if folder != places[0]:
            _log.warning(
                "%s has %s free, and batches of %d loader workers need %s. They go through "
                "files in %s, which is slower. Start the container with --shm-size=%dm or "
                "more, or use fewer workers or smaller batches",
                places[0],
                _megabytes(room[0]),
                workers,
                _megabytes(need),
                folder,
                -(-need * most // (1 << 20)),
            )
        return Place(folder, slots)
    texts = [
        f"{folder} has {_megabytes(free)} free"
        for folder, free in zip(places, room, strict=True)
    ]
    raise errors.ConfigError(
        f"workers: batches of {workers} loader workers need {_megabytes(need)}, but "
        f"{' and '.join(texts)}. Use fewer workers or smaller batches, or start the container "
        f"with --shm-size={-(-need // (1 << 20))}m or more"
    )


def _folders() -> list[str]:
    # Not a set: on systems without /dev/shm, and where it is TMPDIR, there is one folder.
    return list(dict.fromkeys([*_shared(), tempfile.gettempdir()]))


def _shared() -> list[str]:
    return [SHARED] if Path(SHARED).is_dir() and os.access(SHARED, os.W_OK) else []


def _free_bytes(folder: str) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MB"
