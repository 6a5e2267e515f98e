"""The critic's view of a step: how many units of each type both sides have, the bank, and time.

In: a dataset. Out: `Steps`: one row of numbers for each step of each episode. Counts and amounts are on a
logarithmic scale, because ratios decide who is stronger.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.learners import columns, rollouts
from starmill.learners.counts.states import ENEMY, OWN, TYPES
from starmill.schema import specs
from starmill.schema.loader.batch_options import BatchOptions
from starmill.schema.loader.dataset import Dataset

# Loops of a long game, so that time is about 1 at its end.
_LONG = 20_000.0
_STEPS, _LANES = 32, 8


class Steps(NamedTuple):
    """The steps of N episodes' sides, in the dataset's order; S steps in all.

    Attributes:
        inputs: float32 [S, I].
        outcome: float32 [S], of the step's episode.
        loop: int32 [S], the game loop.
        episode: int32 [S], the number of the step's episode in the dataset.
        game: int32 [S], the number of its game; both sides of a game share it.
        starts: int64 [N + 1], where each episode's steps start, and the end of the last.
    """

    inputs: NDArray[np.float32]
    outcome: NDArray[np.float32]
    loop: NDArray[np.int32]
    episode: NDArray[np.int32]
    game: NDArray[np.int32]
    starts: NDArray[np.int64]


def read(data: Dataset) -> Steps:
    """Returns the steps of all episodes."""
    lengths = np.asarray(data.table.column("steps"), np.int64)
    starts = columns.starts(data)
    column = {name: i for i, name in enumerate(specs.unit_columns(data.settings))}
    width = 2 * TYPES + len(specs.PLAYER_COLUMNS) + 1
    inputs = np.zeros((starts[-1], width), np.float32)
    loop = np.zeros(starts[-1], np.int32)
    options = BatchOptions(
        batch_size=_LANES,
        rollout=_STEPS,
        sampler="sequential",
        form="compact",
        keys=sorted(("raw_units", "player", "game_loop")),
    )
    for arrays in data.batches(options):
        batch = rollouts.flatten(rollouts.trim_units(arrays, data.settings))
        keep = batch["valid"]
        row = starts[batch["episode"][keep]] + batch["step"][keep]
        loop[row] = batch["game_loop"][keep]
        inputs[row] = _inputs(
            batch["units"][keep], batch["player"][keep], loop[row], column
        )
    number = np.repeat(np.arange(len(lengths)), lengths)
    outcomes = np.asarray(data.table.column("outcome").to_pylist(), np.float32)
    replays = data.table.column("replay_id").to_pylist()
    games = np.unique(replays, return_inverse=True)[1]
    return Steps(
        inputs,
        outcomes[number],
        loop,
        number.astype(np.int32),
        games[number].astype(np.int32),
        starts,
    )


def _inputs(
    units: NDArray[np.int32],
    player: NDArray[np.int32],
    loop: NDArray[np.int32],
    column: dict[str, int],
) -> NDArray[np.float32]:
    types = np.clip(units[..., column["unit_type"]], 0, TYPES - 1)
    alliance = units[..., column["alliance"]]
    frame = np.arange(len(units))[:, None]
    sides = []
    for owner in (OWN, ENEMY):
        counts = np.zeros((len(units), TYPES), np.float32)
        np.add.at(
            counts, (np.broadcast_to(frame, types.shape), types), alliance == owner
        )
        sides.append(counts)
    amounts = np.maximum(player, 0).astype(np.float32)
    time = (loop[:, None] / _LONG).astype(np.float32)
    return np.concatenate([*(np.log1p(x) for x in (*sides, amounts)), time], axis=1)
