"""Computes the statistics that a dataset's report shows.

In: the rows of the episode table, and a sample of decoded episodes. Out: a `Statistics`
record of plain numbers. The page states the sample's size beside what comes from it.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import specs, vocab
from starmill.schema.episode import InMemoryEpisode
from starmill.schema.game_constants import LOOPS_PER_MINUTE, RACES

# Arrays of an episode that `gather` reads.
KEYS = ("action/delay", "action/function", "game_loop", "unit_counts_bow")
_DELAY_EDGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram:
    """How many values fall between neighbouring edges.

    Attributes:
        edges: ascending; one entry more than counts.
        counts: values from edges[i] up to, but not including, edges[i + 1].
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistics:
    """The numbers that the report shows.

    Attributes:
        mmr: of the episode's player, over the episodes that have one.
        unrated: episodes without an MMR.
        outcomes: race -> (wins, draws, losses) of its episodes.
        match_ups: (like "TvZ", episodes), most frequent first.
        maps: (name, episodes), most frequent first.
        versions: (game version, episodes), most frequent first.
        splits: (name, episodes), most frequent first.
        minutes: game length in minutes.
        actions_per_minute: steps per game minute.
        delay_compression: game loops per step, over all episodes.
        delays: in game loops; of the sample.
        functions: (name, steps), most used first; of the sample.
        units_by_minute: (game minute, mean number of own units); of the sample.
        sample: how many episodes were decoded for delays, functions and units.
    """

    mmr: Histogram
    unrated: int
    outcomes: dict[str, tuple[int, int, int]]
    match_ups: list[tuple[str, int]]
    maps: list[tuple[str, int]]
    versions: list[tuple[str, int]]
    splits: list[tuple[str, int]]
    minutes: Histogram
    actions_per_minute: Histogram
    delay_compression: float
    delays: Histogram
    functions: list[tuple[str, int]]
    units_by_minute: list[tuple[float, float]]
    sample: int


def gather(
    rows: Sequence[Mapping[str, Any]], sample: Iterable[InMemoryEpisode]
) -> Statistics:
    """Returns the statistics of a dataset.

    Args:
        rows: one mapping per episode, with the columns of the episode table.
        sample: decoded episodes, with KEYS at least. Only one is held in memory at a time.
    """
    rated = [row["mmr"] for row in rows if row["mmr"] is not None]
    minutes = [row["game_loops"] / LOOPS_PER_MINUTE for row in rows]
    steps = sum(row["steps"] for row in rows)
    actions = [
        row["steps"] / max(row["game_loops"] / LOOPS_PER_MINUTE, 1e-3) for row in rows
    ]
    sampled = _Sample()
    for episode in sample:
        sampled.add(episode)
    return Statistics(
        mmr=_histogram(rated, 100),
        unrated=len(rows) - len(rated),
        outcomes={race: _outcomes(rows, race) for race in RACES},
        match_ups=_frequent(
            f"{row['race'][0].upper()}v{row['opponent_race'][0].upper()}"
            for row in rows
        ),
        maps=_frequent(row["map_name"] for row in rows),
        versions=_frequent(row["game_version"] for row in rows),
        splits=_frequent(row["split"] for row in rows),
        minutes=_histogram(minutes, 1),
        actions_per_minute=_histogram(actions, 10),
        delay_compression=sum(row["game_loops"] for row in rows) / max(steps, 1),
        delays=sampled.delay_histogram(),
        functions=sampled.function_counts(),
        units_by_minute=sampled.units_by_minute(),
        sample=sampled.episodes,
    )


class _Sample:
    """Sums over the decoded episodes so far."""

    def __init__(self) -> None:
        self.episodes = 0
        self._delays: NDArray[np.int64] = np.zeros(len(_DELAY_EDGES) - 1, np.int64)
        self._functions: NDArray[np.int64] = np.zeros(len(vocab.functions()), np.int64)
        self._units: dict[int, list[float]] = collections.defaultdict(list)

    def add(self, episode: InMemoryEpisode) -> None:
        """Counts one episode, except its last action, which training leaves out too."""
        self.episodes += 1
        arrays = episode.arrays
        delay = np.clip(arrays["action/delay"][:-1], 1, specs.MAX_DELAY)
        self._delays += np.histogram(delay, _DELAY_EDGES)[0]
        function = arrays["action/function"][:-1]
        self._functions += np.bincount(function, minlength=len(self._functions))
        minute = (arrays["game_loop"] / LOOPS_PER_MINUTE).astype(int)
        own = arrays["unit_counts_bow"].sum(axis=1)
        for value in np.unique(minute):
            self._units[int(value)].append(float(own[minute == value].mean()))

    def delay_histogram(self) -> Histogram:
        """Returns the distribution of delays, in game loops."""
        return Histogram(
            edges=_DELAY_EDGES, counts=tuple(int(count) for count in self._delays)
        )

    def function_counts(self) -> list[tuple[str, int]]:
        """Returns the functions that occur, most used first."""
        used = [
            (function.name, int(count))
            for function, count in zip(vocab.functions(), self._functions, strict=True)
            if count
        ]
        return sorted(used, key=lambda pair: (-pair[1], pair[0]))

    def units_by_minute(self) -> list[tuple[float, float]]:
        """Returns, per game minute, the mean over episodes of their mean own unit count."""
        return [
            (float(minute), float(np.mean(counts)))
            for minute, counts in sorted(self._units.items())
        ]


def _histogram(values: Sequence[float], width: float) -> Histogram:
    """Returns a histogram whose bins have this width and cover all values."""
    if not values:
        return Histogram(edges=(0.0, float(width)), counts=(0,))
    low = int(min(values) // width)
    high = int(max(values) // width) + 1
    edges = tuple(float(index * width) for index in range(low, high + 1))
    index = (np.asarray(values, np.float64) // width).astype(int) - low
    counts = np.bincount(index, minlength=high - low)
    return Histogram(edges=edges, counts=tuple(int(count) for count in counts))


def _outcomes(rows: Sequence[Mapping[str, Any]], race: str) -> tuple[int, int, int]:
    outcomes = [row["outcome"] for row in rows if row["race"] == race]
    return outcomes.count(1), outcomes.count(0), outcomes.count(-1)


def _frequent(values: Iterable[str]) -> list[tuple[str, int]]:
    counts = collections.Counter(values)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
