"""Packs episodes of a dataset for the viewer, a few steps at a time.

In: an open dataset and episode numbers. Out: payloads and games. Both sides of a replay make one game
if the dataset has both.
"""

from typing import Any

from starmill.pipelines.viewing import packing
from starmill.pipelines.viewing.viewer import Game
from starmill.schema import errors
from starmill.schema.loader.dataset import Dataset

# Steps that are decoded at a time. A whole game's observations take a gigabyte.
_STEPS = 64


def payload(dataset: Dataset, number: int) -> dict[str, Any]:
    """Returns the packed episode with this number."""
    episode = dataset[number]
    meta = episode.meta
    packer = packing.EpisodePacker(dataset.settings)
    keys = packing.keys(dataset.settings)
    for start in range(0, len(episode), _STEPS):
        packer.add(episode.read(start, min(start + _STEPS, len(episode)), keys=keys))
    return packer.finish(
        {
            "id": meta.episode_id,
            "side": meta.player_id,
            "map": meta.map_name,
            "race": meta.race,
            "opponent_race": meta.opponent_race,
            "mmr": meta.mmr,
            "outcome": meta.outcome,
        }
    )


def game(dataset: Dataset, name: str) -> Game:
    """Returns the game of an episode's or a replay's id, or of its first letters.

    Raises ConfigError if none begins so, or several replays do.
    """
    prefix, _, side = name.partition("-")
    replay_ids = dataset.table.column("replay_id").to_pylist()
    matches = sorted({one for one in replay_ids if prefix and one.startswith(prefix)})
    if len(matches) != 1:
        matched = f"{len(matches)} replays" if matches else "no replay"
        raise errors.ConfigError(
            f"{name}: expected the beginning of one replay's or episode's id, found {matched} "
            f"in {dataset.manifest.name}"
        )
    numbers = [i for i, one in enumerate(replay_ids) if one == matches[0]]
    sides = [payload(dataset, number) for number in numbers]
    sides.sort(key=lambda one: one["side"])
    if side and side not in {str(one["side"]) for one in sides}:
        raise errors.ConfigError(
            f"{name}: the dataset does not have this side of the replay"
        )
    return Game(game_id=matches[0], title="", sides=tuple(sides))
