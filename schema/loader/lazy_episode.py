"""One episode of a dataset, whose arrays are read when they are asked for.

In: the episode's number, and a reader. Out: any arrays of any steps, and the episode's
metadata. Must not know which other episodes there are, or how batches are made.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import overload

import numpy as np
from numpy.typing import NDArray

from starmill.schema import episode, errors
from starmill.schema.episode import Arrays, EpisodeMeta, InMemoryEpisode
from starmill.schema.loader import batch_options
from starmill.schema.loader.windows import WindowReader
from starmill.schema.specs import ArraySpec

_DELAY = "action/delay"
_OUTCOMES = {1: "won", 0: "drawn", -1: "lost"}


class Episode:
    """One player's side of one replay; `schema.episode` explains the steps.

    `len(episode)` is the number of steps, `episode["reward"]` a whole array [T, *shape], and
    `episode[a:b]` a dict of all arrays of these steps, [b - a, *shape]. Each call reads from
    the dataset, and nothing is kept: read a range of steps instead of one array after another.

    Attributes:
        number: the episode's row in its dataset's table; batches call it `episode`.
    """

    def __init__(
        self,
        number: int,
        find_meta: Callable[[int], EpisodeMeta],
        reader: WindowReader,
        specs: Mapping[str, ArraySpec],
    ) -> None:
        self.number = number
        self._find_meta = find_meta
        self._reader = reader
        self._specs = specs

    @functools.cached_property
    def meta(self) -> EpisodeMeta:
        """Returns what is known of the episode without decoding it."""
        return self._find_meta(self.number)

    # Without this, Python would iterate by calling episode[0], episode[1] and so on.
    __iter__ = None

    def keys(self) -> tuple[str, ...]:
        """Returns the names of all arrays: the stored ones, and those of `episode.DERIVED`."""
        if _DELAY in self._specs:
            return (*self._specs, *episode.DERIVED)
        return (*self._specs, *(key for key in episode.DERIVED if key != "prev_delay"))

    def __len__(self) -> int:
        return int(self._reader.index.steps[self.number])

    def __repr__(self) -> str:
        meta = self.meta
        rating = "" if meta.mmr is None else f" (MMR {meta.mmr:,})"
        return (
            f"episode {meta.replay_id[:8]}...-{meta.player_id}: {meta.race}{rating} against "
            f"{meta.opponent_race} on {meta.map_name}, {_OUTCOMES[meta.outcome]}, "
            f"{meta.steps:,} steps"
        )

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    @overload
    def __getitem__(self, item: str) -> NDArray[np.generic]: ...

    @overload
    def __getitem__(self, item: slice) -> Arrays: ...

    def __getitem__(self, item: str | slice) -> NDArray[np.generic] | Arrays:
        """Returns a whole array by its name, or all arrays of a range of steps."""
        if isinstance(item, str):
            return self.read(keys=[item])[item]
        if not isinstance(item, slice):
            raise TypeError(
                f"expected the name of an array or a slice of steps, found {item!r}; for "
                f"a single step t, use episode[t : t + 1]"
            )
        start, stop, stride = item.indices(len(self))
        if stride != 1:
            raise errors.ConfigError(
                f"slice of steps: expected stride 1, found {stride}"
            )
        return self.read(start, max(start, stop))

    def read(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        keys: Iterable[str] | None = None,
    ) -> Arrays:
        """Returns arrays of steps start:stop, each [stop - start, *shape].

        Args:
            start: the first step.
            stop: the step after the last one; None for the episode's end.
            keys: names of the arrays to read; all of `keys()` by default.
        """
        steps = len(self)
        stop = steps if stop is None else stop
        if not 0 <= start <= stop <= steps:
            raise errors.ConfigError(
                f"steps {start}:{stop}: the episode has {steps} steps"
            )
        names = list(self.keys() if keys is None else keys)
        batch_options.check_keys(names, self.keys())
        arrays: Arrays = {
            key: np.empty(
                (stop - start, *self._specs[key].shape), self._specs[key].dtype
            )
            for key in names
            if key in self._specs
        }
        delay = np.zeros(stop - start, np.int32)
        stored = dict(arrays)
        if _DELAY in self._specs:
            delay = stored.setdefault(_DELAY, delay)
        before = 0
        if stop > start:
            before = self._reader.read(self.number, start, stop, stored)
        derived = episode.derived(
            delay,
            step=np.arange(start, stop),
            steps=steps,
            outcome=int(self._reader.index.outcome[self.number]),
            before=before,
        )
        return {key: arrays[key] if key in arrays else derived[key] for key in names}

    def load(self) -> InMemoryEpisode:
        """Returns the metadata and all stored arrays, in memory."""
        return InMemoryEpisode(meta=self.meta, arrays=self.read(keys=self._specs))
