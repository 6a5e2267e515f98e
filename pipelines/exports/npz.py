"""One npz file for each episode: all arrays and the derived ones, with time in axis 0.

In: an opened dataset and an episode's number. Out: the file's name and bytes.
"""

import tempfile
import zipfile
from collections.abc import Iterator
from typing import IO

import numpy as np

from starmill.pipelines.exports.windows import windows
from starmill.schema.loader import dataset

# More files than this in one folder make most tools slow.
MOST_FLAT = 10_000
FLAT = "{episode_id}.npz"
# By the first three hex digits: 4,096 folders, of 700 files each for 2.8 million episodes.
NESTED = "{episode_id:.3}/{episode_id}.npz"
_PIECE_BYTES = 1 << 20


def path_format(episodes: int) -> str:
    """Returns the pattern of the file names for so many episodes, for `str.format`."""
    return FLAT if episodes <= MOST_FLAT else NESTED


def pieces(opened: dataset.Dataset, number: int) -> Iterator[bytes]:
    """Yields the bytes of an episode's file."""
    with tempfile.TemporaryFile() as scratch:
        _write(opened, number, scratch)
        scratch.seek(0)
        while piece := scratch.read(_PIECE_BYTES):
            yield piece


def _write(opened: dataset.Dataset, number: int, file: IO[bytes]) -> None:
    """Writes the file of numpy.savez_compressed, one array and one window at a time."""
    steps = len(opened[number])
    first = opened[number].read(0, 1)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for key in sorted(first):
            # Without a date, so that the bytes are the same each time.
            entry = zipfile.ZipInfo(f"{key}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as member:
                header = {
                    "descr": np.lib.format.dtype_to_descr(first[key].dtype),
                    "fortran_order": False,
                    "shape": (steps, *first[key].shape[1:]),
                }
                np.lib.format.write_array_header_1_0(member, header)
                for window in windows(opened, number, [key]):
                    member.write(np.ascontiguousarray(window[key]).tobytes())
