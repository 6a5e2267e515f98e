"""The score of an observation, in the real game's categories.

In: a game and a player. Out: a Score. The score is what the player has: unspent minerals and vespene,
and the value of units, buildings and upgrades that exist or are being made. Everything that the
player ever lost, killed or made is summed up in `records.PLAYER`. Durations are in seconds at the
game speed "normal", as in the real game.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from starmill.converters.protos import score_pb2
from starmill.engines.skirmish.simulation import entry_points, records
from starmill.engines.skirmish.simulation.game import Game

NORMAL_LOOPS_PER_SECOND = 16
_NAMES = ("none", "army", "economy", "technology", "upgrade")


def score(game: Game, player: int) -> score_pb2.Score:
    """Returns the player's score now."""
    state = game.world.players[player]
    used = np.zeros((records.CATEGORIES, 2), np.int64)
    food_halves = np.zeros(records.CATEGORIES, np.int64)
    entry_points.used_value(game.world.state, player, used, food_halves)
    unspent = max(int(state["minerals"]), 0) + max(int(state["vespene"]), 0)
    kind, total = score_pb2.Score.Melee, int(used.sum()) + unspent
    if game.mini_game is not None:
        kind, total = score_pb2.Score.Curriculum, game.mini_game.score
    message = score_pb2.Score(score_type=kind, score=total)
    details = message.score_details
    for name in ("idle_production", "idle_worker"):
        seconds = float(state[f"{name}_loops"]) / NORMAL_LOOPS_PER_SECOND
        setattr(details, f"{name}_time", seconds)
    details.total_value_units = float(state["made_units_value"])
    details.total_value_structures = float(state["made_structures_value"])
    details.killed_value_units = float(state["killed_units_value"])
    details.killed_value_structures = float(state["killed_structures_value"])
    for k, resource in enumerate(("minerals", "vespene")):
        for name in ("collected", "spent"):
            setattr(details, f"{name}_{resource}", float(state[f"{name}_{resource}"]))
        rate = float(state["collection_rate"][k])
        setattr(details, f"collection_rate_{resource}", rate)
        for name, values in (
            ("killed", state["killed_value"]),
            ("lost", state["lost_value"]),
            ("friendly_fire", np.zeros_like(used)),
            ("used", used),
            ("total_used", state["made_value"]),
        ):
            _fill(getattr(details, f"{name}_{resource}"), values[:, k])
    _fill(details.food_used, food_halves / 2)
    for name in ("damage_dealt", "damage_taken", "healed"):
        vital = getattr(details, f"total_{name}")
        vital.life, vital.shields, vital.energy = (float(v) for v in state[name])
    return message


def _fill(
    message: score_pb2.CategoryScoreDetails,
    values: Sequence[float] | NDArray[np.int64] | NDArray[np.float64],
) -> None:
    for name, value in zip(_NAMES, values, strict=True):
        setattr(message, name, float(value))
