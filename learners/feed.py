"""Brings batches to the devices: loads them, gives them one shape, and sends them ahead.

In: a learner and a dataset's iterator. Out: groups of batches, on the devices. While the devices
compute one group, the next is on its way to them and the one after that is loaded. So a process
holds three groups at most, and a group has a limited size: the memory of an update does not grow
with its frames.
Must not know: losses and files.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax

from starmill.learners import processes, rollouts, splits
from starmill.learners.columns import LookUp
from starmill.learners.learner import Learner
from starmill.learners.rollouts import Batch

# As much as a group may take as the loader stores it. A single batch may be larger.
GROUP_BYTES = 192 << 20


class Group(NamedTuple):
    """Batches that are computed together.

    Attributes:
        batches: this process's rows of each, on the host.
        device: all of them as `Learner.put` returns them.
    """

    batches: list[Batch]
    device: Batch


class _Loaded(NamedTuple):
    """A group that has no shape yet.

    Attributes:
        arrays: of each batch, as the loader gave them.
        rows: unit rows that this process needs, or that any process needs.
    """

    arrays: list[dict[str, Any]]
    rows: int | jax.Array


class Feed:
    """Yields groups. A context manager, which ends the loading.

    Attributes:
        group_size: batches in a group; it divides those of an update.
        wait_seconds: spent waiting for the loader.
    """

    def __init__(
        self,
        learner: Learner,
        iterator: Any,
        groups: int,
        columns: Sequence[LookUp] = (),
    ) -> None:
        run = learner.run
        self.group_size = group_size(run.algorithm.accumulate, iterator.batch_bytes)
        self.wait_seconds = 0.0
        self._learner, self._iterator, self._left = learner, iterator, groups
        self._columns = columns
        self._settings = run.algorithm.settings
        self._cut = splits.cut(run)
        self._loaded: _Loaded | None = None
        self._ready: Group | None = None

    def next(self) -> Group:
        """Returns the next group. Call `advance` when its computation has been started."""
        if self._ready is None:
            self._load()
            self._send()
            self._load()
        group = self._ready
        if group is None:
            raise StopIteration
        self._ready = None
        return group

    def advance(self) -> None:
        """Sends the next group to the devices and loads the one after it."""
        self._send()
        self._load()

    def _load(self) -> None:
        if not self._left:
            return
        self._left -= 1
        began = time.monotonic()
        arrays = [next(self._iterator) for _ in range(self.group_size)]
        self.wait_seconds += time.monotonic() - began
        for column in self._columns:
            arrays = [{**one, **column.of(one)} for one in arrays]
        rows = max(rollouts.unit_rows(one, self._settings) for one in arrays)
        if processes.count() > 1:
            # Computed before the next group, whose start it does not delay.
            self._loaded = _Loaded(arrays, self._learner.most(rows))
        else:
            self._loaded = _Loaded(arrays, rows)

    def _send(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        rows = int(loaded.rows)
        batches = [
            rollouts.prepare(
                arrays,
                self._settings,
                self._cut,
                first_row=self._learner.first_row,
                rows=rows,
            )
            for arrays in _emptied(loaded.arrays)
        ]
        self._ready = Group(batches, self._learner.put(batches))


def group_size(accumulate: int, batch_bytes: int) -> int:
    """Returns how many batches of an update are computed together."""
    sizes = [n for n in range(1, accumulate + 1) if accumulate % n == 0]
    return max(n for n in sizes if n == 1 or n * batch_bytes <= GROUP_BYTES)


def _emptied(items: list[Any]) -> Iterator[Any]:
    """Yields the items and forgets each, so that its memory is free once it was used."""
    items.reverse()
    while items:
        yield items.pop()
