"""Reads an episode piece by piece, so that memory does not grow with its length.

In: an opened dataset and an episode's number. Out: its arrays, some steps at a time.
"""

from collections.abc import Iterator

from starmill.schema import episode
from starmill.schema.loader import dataset

# Steps in memory at a time: 128 dense steps are 61 MB.
_STEPS = 128


def windows(
    opened: dataset.Dataset, number: int, keys: list[str] | None = None
) -> Iterator[episode.Arrays]:
    """Yields the arrays of an episode, consecutive steps at a time; all arrays without keys."""
    entry = opened[number]
    for start in range(0, len(entry), _STEPS):
        yield entry.read(start, min(start + _STEPS, len(entry)), keys=keys)
