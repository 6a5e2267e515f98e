"""An episode: one player's side of one replay, as arrays over time; and how time works.

    loop      0 ........ 12 ....... 15 .............. 40 (end)
    step      0          1          2                 3 (last)
    obs       o[0]       o[1]       o[2]              o[3]
    action    a[0]       a[1]       a[2]              a[3]  never trained on
    delay     12         3          25                25    the last repeats the one before
    prev_delay 0         12         3                 25
    reward    0          0          0                 outcome

o[t] is the observation *before* a[t] took effect. delay[t] = loop[t+1] - loop[t] is part of
a[t]; the discount from t to t+1 is gamma0 ** delay[t]. Reward is zero but on the last step.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors, specs
from starmill.schema.settings import ConverterSettings

Arrays = dict[str, NDArray[Any]]

# step_type values, those of dm_env.
FIRST, MID, LAST = 0, 1, 2
# Arrays that follow from the others and the outcome; made when read, never stored.
DERIVED = ("reward", "prev_delay", "step_type")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpisodeMeta:
    """What is known of an episode without decoding it: one row of the episode table.

    replay_id: sha256 of the replay file, hex.  player_id: 1 or 2.
    mmr, opponent_mmr: None where unknown.  apm: None where unknown.
    race, opponent_race: as played: "terran", "zerg", "protoss".
    outcome: +1 win, 0 draw, -1 loss.
    steps: T.  game_loops: loop of the last observation.
    duration_loops: length of the game by the replay's header.
    """

    replay_id: str
    player_id: int
    game_version: str
    base_build: int
    data_version: str | None
    map_name: str
    race: str
    opponent_race: str
    mmr: int | None
    opponent_mmr: int | None
    apm: float | None
    outcome: int
    steps: int
    game_loops: int
    duration_loops: int

    def __post_init__(self) -> None:
        """Checks the fields whose values are few."""
        problems = []
        if self.player_id not in (1, 2):
            problems.append(f"player_id: expected 1 or 2, found {self.player_id!r}")
        if self.outcome not in (-1, 0, 1):
            problems.append(f"outcome: expected -1, 0 or 1, found {self.outcome!r}")
        if self.steps < 1:
            problems.append(f"steps: expected at least 1, found {self.steps!r}")
        if problems:
            raise errors.SpecError(f"episode {self.episode_id}: " + "; ".join(problems))

    @property
    def episode_id(self) -> str:
        """Returns `{replay_id}-{player_id}`."""
        return f"{self.replay_id}-{self.player_id}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Episode:
    """A whole episode in memory.

    arrays: by key of `specs.episode_specs(settings)`, each [T, *spec.shape].
    """

    meta: EpisodeMeta
    arrays: Arrays

    def check(self, settings: ConverterSettings) -> None:
        """Raises SpecError, naming every array that does not satisfy the spec."""
        expected = specs.episode_specs(settings)
        problems = []
        if set(self.arrays) != set(expected):
            missing = sorted(set(expected) - set(self.arrays))
            extra = sorted(set(self.arrays) - set(expected))
            problems.append(f"missing arrays {missing}, unexpected {extra}")
        for key in sorted(set(expected) & set(self.arrays)):
            array, spec = self.arrays[key], expected[key]
            want = (self.meta.steps, *spec.shape)
            if array.shape != want or array.dtype != np.dtype(spec.dtype):
                problems.append(
                    f"{key}: expected {spec.dtype} {want}, "
                    f"found {array.dtype} {array.shape}"
                )
        if problems:
            raise errors.SpecError(
                f"episode {self.meta.episode_id}: " + "; ".join(problems)
            )


def derived(
    delay: NDArray[np.int32], *, start: int, steps: int, outcome: int, before: int = 0
) -> Arrays:
    """Returns the DERIVED arrays of a window of an episode.

    Args:
        delay: the window's `action/delay`, shape [K].
        start: the window's first step within the episode.
        steps: T, the episode's length.
        outcome: the episode's.
        before: `action/delay` of step start - 1; 0 where start is 0.
    """
    index = start + np.arange(len(delay))
    step_type = np.full(len(delay), MID, np.int32)
    step_type[index == 0] = FIRST
    step_type[index == steps - 1] = LAST
    prev_delay = np.empty(len(delay), np.int32)
    if len(delay):
        prev_delay[0] = before
        prev_delay[1:] = delay[:-1]
    reward = np.where(index == steps - 1, np.float32(outcome), np.float32(0))
    return {
        "reward": reward.astype(np.float32),
        "prev_delay": prev_delay,
        "step_type": step_type,
    }
