"""An episode: one player's side of one replay, as arrays over time; and how time works.

    loop      0 ........ 12 ....... 15 .............. 40 (end)
    step      0          1          2                 3 (last)
    obs       o[0]       o[1]       o[2]              o[3]
    action    a[0]       a[1]       a[2]              a[3]  never trained on
    delay     12         3          25                25    the last repeats the one before
    prev_delay 0         12         3                 25
    reward    0          0          0                 outcome

o[t] is the observation *before* a[t] took effect. delay[t] = loop[t+1] - loop[t] is part of
a[t]; the discount from t to t+1 is gamma0 ** delay[t]. Reward is zero except on the last step.
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
# Arrays that follow from the others and the outcome: computed on reading, never stored.
DERIVED = ("reward", "prev_delay", "step_type")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpisodeMeta:
    """What is known of an episode without decoding it: one row of the episode table.

    Attributes:
        replay_id: sha256 of the replay file, hex.
        player_id: the player whose side this is, 1 or 2.
        game_version: the game's release, like "4.9.2".
        base_build: the build whose protocol the replay uses.
        data_version: the game's own hash of its unit and ability data; None if unknown.
        map_name: the map's English name, like "Acropolis".
        race: as played: "terran", "zerg" or "protoss".
        opponent_race: the same for the opponent.
        mmr: the player's matchmaking rating; None if unknown.
        opponent_mmr: the opponent's; None if unknown.
        apm: the player's actions per minute by the game's own count; None if unknown.
        outcome: +1 for a win, 0 for a draw, -1 for a loss.
        steps: T, the number of steps.
        game_loops: the game loop of the last observation.
        duration_loops: the game's length in game loops, by the replay's header.
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
        """Raises SpecError if a field has a value that no episode can have."""
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
class InMemoryEpisode:
    """An episode with all of its stored arrays in memory.

    A converter makes one and a codec stores it. `loader.lazy_episode.Episode` is the view of a
    stored episode, which reads arrays when they are asked for.

    Attributes:
        meta: the episode's row of the table.
        arrays: by key of `specs.episode_specs(settings)`, each [T, *spec.shape].
    """

    meta: EpisodeMeta
    arrays: Arrays

    def check(self, settings: ConverterSettings) -> None:
        """Raises SpecError, naming every array that does not satisfy the spec."""
        expected = specs.episode_specs(settings)
        problems = specs.problems(self.arrays, expected, (self.meta.steps,))
        if problems:
            raise errors.SpecError(
                f"episode {self.meta.episode_id}: " + "; ".join(problems)
            )


def derived(
    delay: NDArray[np.int32],
    *,
    step: NDArray[np.integer[Any]],
    steps: NDArray[np.integer[Any]] | int,
    outcome: NDArray[np.integer[Any]] | int,
    before: NDArray[np.integer[Any]] | int = 0,
) -> Arrays:
    """Returns the DERIVED arrays of windows, each of the shape of `delay`.

    A window is a run of steps along the last axis. It may hold the end of one episode and the
    beginning of the next: a step that does not follow its left neighbour begins a new run.

    Args:
        delay: `action/delay`, shape [..., K].
        step: the number of each step within its episode, shape [..., K].
        steps: T of each step's episode; broadcast to the shape of `delay`.
        outcome: of each step's episode; broadcast likewise.
        before: `action/delay` of the step before, read only where a run begins; 0 at the
            beginning of an episode. Broadcast likewise.
    """
    is_last = step == np.asarray(steps) - 1
    step_type = np.full(delay.shape, MID, np.int32)
    step_type[step == 0] = FIRST
    # The only step of an episode is both first and last; the reference calls it LAST too.
    step_type[is_last] = LAST
    begins = np.ones(delay.shape, np.bool_)
    begins[..., 1:] = step[..., 1:] != step[..., :-1] + 1
    previous = np.zeros_like(delay)
    previous[..., 1:] = delay[..., :-1]
    return {
        "reward": np.where(is_last, outcome, 0).astype(np.float32),
        "prev_delay": np.where(begins, before, previous).astype(np.int32),
        "step_type": step_type,
    }
