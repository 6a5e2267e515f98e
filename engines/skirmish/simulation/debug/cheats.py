"""Cheats: what debug commands create, kill, set and switch.

In: a world, its map and a `Cheat`. Out: the world, changed. A cheat is an input like others, so a
replay holds it and plays it again. Arguments that make no sense are ignored.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import entry_points, records, rules
from starmill.engines.skirmish.simulation.maps.game_map import GameMap
from starmill.engines.skirmish.simulation.records import World

CREATE, KILL, SET, SWITCH = "create", "kill", "set", "switch"
ENERGY, HEALTH, SHIELD = range(3)
MAX_CREATED = 100  # units at a time
RESOURCES = 5000  # that a cheat gives
LEVELS = 3  # of an upgrade of weapons, armour or shields
# A unit's field -> the field of its rules with the first level's upgrade; the others follow it.
_LEVELS = {
    "attack_level": "attack_up",
    "armor_level": "armor_up",
    "shield_level": "shield_up",
}
_STATISTICS = {ENERGY: "energy", HEALTH: "health", SHIELD: "shield"}
_CREATE_NUMBERS, _SET_NUMBERS = 5, 3
_MAX_TAG = 1 << 62  # arrays hold signed numbers
# The protocol's DebugGameState. Control of the enemy's units (2) is ignored.
_SHOW_MAP, _ALL_RESOURCES, _MINERALS, _VESPENE, _UPGRADES = 1, 5, 7, 8, 11
_SWITCHES = {
    3: records.CHEAT_FOOD,
    4: records.CHEAT_FREE,
    6: records.CHEAT_GOD,
    9: records.CHEAT_COOLDOWN,
    10: records.CHEAT_TECH_TREE,
    12: records.CHEAT_FAST_BUILD,
}


@dataclasses.dataclass(frozen=True)
class Cheat:
    """A change of the game that its rules do not know.

    Attributes:
        player: who asks for it, 1 or 2.
        verb: CREATE, KILL, SET or SWITCH.
        numbers: for CREATE the unit type, its owner, x, y and how many; for KILL tags; for SET a
            tag, ENERGY, HEALTH or SHIELD, and the value; for SWITCH the protocol's DebugGameState.
    """

    player: int
    verb: str
    numbers: tuple[float, ...]


def apply(world: World, game_map: GameMap, cheat: Cheat) -> None:
    """Carries out a cheat, and updates what the players see."""
    numbers = cheat.numbers
    if not all(math.isfinite(number) for number in numbers):
        return
    if cheat.verb == CREATE and len(numbers) == _CREATE_NUMBERS:
        _create(world, game_map, numbers)
    elif cheat.verb == KILL:
        for row in _rows(world, numbers):
            entry_points.kill(world.state, row, -1)
    elif cheat.verb == SET and len(numbers) == _SET_NUMBERS:
        _set(world, numbers)
    elif cheat.verb == SWITCH and numbers:
        _switch(world, cheat.player, int(numbers[0]))
    entry_points.refresh_vision(world.state)


def _create(world: World, game_map: GameMap, numbers: Sequence[float]) -> None:
    unit_type, owner, quantity = (int(numbers[i]) for i in (0, 1, 4))
    known = 0 < unit_type < records.TYPE_LIMIT
    if not known or not rules.unit_rules()["known"][unit_type]:
        return
    if owner not in (1, 2, records.OWNER_NEUTRAL):
        return
    left, bottom, right, top = game_map.playable
    x = min(max(float(numbers[2]), left), right - 1)
    y = min(max(float(numbers[3]), bottom), top - 1)
    place = float(x), float(y)
    for _ in range(min(quantity, MAX_CREATED)):
        row = entry_points.spawn(world.state, unit_type, owner, *place, 1.0)
        if row >= 0 and owner != records.OWNER_NEUTRAL:
            _set_levels(world, np.array([row]))


def _rows(world: World, tags: Sequence[float]) -> list[int]:
    """Returns the rows of the living units with these tags."""
    units, rows = world.units, []
    for tag in tags:
        row = (int(tag) >> records.TAG_SHIFT) - 1 if 0 < tag < _MAX_TAG else -1
        if 0 <= row < records.MAX_UNITS and units["tag"][row] == int(tag):
            rows += [row] if units["alive"][row] else []
    return rows


def _set(world: World, numbers: Sequence[float]) -> None:
    name = _STATISTICS.get(int(numbers[1]))
    for row in _rows(world, numbers[:1]) if name else ():
        most = float(world.units[f"{name}_max"][row])
        world.units[name][row] = np.clip(numbers[2], 0.0, most)


def _switch(world: World, player: int, state: int) -> None:
    """Switches a cheat on or off, or gives once what the state names."""
    record = world.players[player]
    if state == _SHOW_MAP:
        record["all_visible"] = 1 - record["all_visible"]
    elif state == _UPGRADES:
        _grant_upgrades(world, player)
    elif state in _SWITCHES:
        record["cheats"] ^= _SWITCHES[state]
    if state in (_ALL_RESOURCES, _MINERALS):
        record["minerals"] += RESOURCES
    if state in (_ALL_RESOURCES, _VESPENE):
        record["vespene"] += RESOURCES


def _grant_upgrades(world: World, player: int) -> None:
    """Gives the player all upgrades that it could research: of levels, the next one."""
    owned = world.upgrades[player]
    before = owned.copy()
    entry_points.grant_upgrades(world.state, player)
    unit_rules = rules.unit_rules()
    for first in np.unique([unit_rules[name] for name in _LEVELS.values()]):
        for upgrade in range(first + 1, first + LEVELS) if first else ():
            owned[upgrade] = before[upgrade - 1]
    units = world.units
    _set_levels(
        world, np.flatnonzero((units["alive"] == 1) & (units["owner"] == player))
    )


def _set_levels(world: World, rows: NDArray[np.int64]) -> None:
    """Sets the levels of players' units from their owners' upgrades."""
    units = world.units
    for field, name in _LEVELS.items():
        first = rules.unit_rules()[name][units["unit_type"][rows]]
        units[field][rows] = 0
        for level in range(LEVELS):
            owned = world.upgrades[units["owner"][rows], first + level]
            units[field][rows[(first > 0) & (owned > 0)]] = level + 1
