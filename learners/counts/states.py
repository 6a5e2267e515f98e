"""The states of units and of the ground that distinguish legal actions from others.

In: rows of units and planes, as numpy's or JAX's arrays. Out: numbers of states, and the names and
shapes of the tables that say which states an action allows. A state holds only what any unit shows:
whether it is finished, has orders, has energy. All types of units are treated alike.
"""

from collections.abc import Mapping
from typing import Any

# Values of raw_units' alliance.
OWN, NEUTRAL, ENEMY = 1, 3, 4
# Types of units, with room for those that the game may add: the last axis of tables of types.
TYPES = 272
RACES = 5
# Of a commanded unit: unfinished, or finished with 0, 1 or more orders.
COMMANDED = 4
# Of a commanded unit: energy in steps of 25, which are those of the game's prices.
ENERGIES, ENERGY_STEP = 4, 25
# Of a target: own, own with a buff, neutral, and others.
TARGETED = 4
# What a player spends: minerals, vespene and free supply.
BANK = 3
# Functions with fewer uses say nothing about floors, ground and needs.
ENOUGH = 50
# Distances, in cells, within which a target point is near a unit without orders.
NEAR = (0, 1, 2)

_FINISHED = 100


def commanded(units: Any, column: Mapping[str, int]) -> Any:
    """Returns the state of each unit as one that is commanded, [..., U]."""
    orders = units[..., column["order_length"]]
    finished = units[..., column["build_progress"]] >= _FINISHED
    return finished * (1 + (orders > 0) + (orders > 1))


def energies(units: Any, column: Mapping[str, int]) -> Any:
    """Returns the step of each unit's energy, [..., U]; the last step is open-ended."""
    energy = units[..., column["energy"]]
    return sum((energy >= ENERGY_STEP * k) * 1 for k in range(1, ENERGIES))


def targeted(units: Any, column: Mapping[str, int]) -> Any:
    """Returns the state of each unit as a target, [..., U]."""
    alliance = units[..., column["alliance"]]
    own, neutral = alliance == OWN, alliance == NEUTRAL
    buffed = own & (units[..., column["buff_id_0"]] > 0)
    return buffed * 1 + neutral * 2 + ~(own | neutral) * 3


def bank(player: Any, column: Mapping[str, int]) -> tuple[Any, ...]:
    """Returns minerals, vespene and free supply of players [..., columns]."""
    minerals, vespene, used, cap = (
        player[..., column[name]]
        for name in ("minerals", "vespene", "food_used", "food_cap")
    )
    return minerals, vespene, cap - used


def ground_features(planes: int) -> int:
    """Returns how many features a target point's ground has.

    They are each plane's value there, whether a plane has its value in all of the 3x3 cells around,
    and whether a unit without orders is within each distance of NEAR.
    """
    return 2 * planes + len(NEAR)


def shapes(functions: int, planes: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the tables of legal actions, whose zeros forbid nothing.

    races: 1 where a race never uses the function.
    commanded, energies, targets: by type, the sum of 2**state over the states that never occur.
    needed: 1 where an own, finished unit of the type is always there.
    floors: what the player has at least.
    ground: 1 where a feature of the target point's ground is never 0, and never 1.
    apart: by type, how far target points are from units of the type (`spacing`).
    near: by type, one more than how far target points are from an own unit of the type that they need.
    """
    by_type = (functions, TYPES)
    return {
        "races": (functions, RACES),
        "commanded": by_type,
        "energies": by_type,
        "targets": by_type,
        "needed": by_type,
        "floors": (functions, BANK),
        "ground": (functions, 2 * ground_features(planes)),
        "apart": by_type,
        "near": by_type,
    }
