"""Which units a player sees now: those in sight, those remembered, and how much of each.

In: a game and a player. Out: a `View`, the rows that an observation is written from. The fog of
war is applied here, once, for raw units, feature layers and queries alike. Knows no messages.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import records
from starmill.engines.skirmish.simulation.accounts import opponent
from starmill.engines.skirmish.simulation.game import Game
from starmill.engines.skirmish.simulation.ids import KIND_BUILD, UNIT_SENSOR_TOWER
from starmill.engines.skirmish.simulation.records import (
    MAX_SNAPSHOTS,
    OWNER_NEUTRAL,
    ROWS,
    STAGE_WAITING,
    State,
)
from starmill.engines.skirmish.simulation.vision import SENSOR_RANGE
from starmill.schema.compilation import entry, kernel

# sc2api's DisplayType, Alliance and CloakState.
DISPLAY_VISIBLE, DISPLAY_SNAPSHOT, DISPLAY_HIDDEN, DISPLAY_PLACEHOLDER = 1, 2, 3, 4
_UNLISTED = 0
ALLIANCE_SELF, ALLIANCE_ALLY, ALLIANCE_NEUTRAL, ALLIANCE_ENEMY = 1, 2, 3, 4
CLOAK_UNKNOWN, CLOAKED, CLOAKED_DETECTED, NOT_CLOAKED, CLOAKED_ALLIED = range(5)
_MAX_PLACEHOLDERS = 256


class View(NamedTuple):
    """Units as a player sees them: those in sight by row, then snapshots, then placeholders.

    Attributes:
        units: [N] records.UNIT, copies.
        rows: [N] their rows in the world; -1 for snapshots and placeholders.
        display: [N] DISPLAY_*.
        alliance: [N] ALLIANCE_*.
        cloak: [N] CLOAK_UNKNOWN, CLOAKED, CLOAKED_DETECTED, NOT_CLOAKED or CLOAKED_ALLIED.
        blip: [N] whether only a sensor tower reports the unit.
    """

    units: np.ndarray
    rows: NDArray[np.int64]
    display: NDArray[np.int64]
    alliance: NDArray[np.int64]
    cloak: NDArray[np.int64]
    blip: NDArray[np.bool_]


def player_view(
    game: Game,
    player: int,
    *,
    disable_fog: bool = False,
    list_hidden: bool = False,
    show_cloaked: bool = True,
    show_burrowed: bool = True,
    show_placeholders: bool = True,
) -> View:
    """Returns what the player sees now.

    Args:
        game: the game as it stands.
        player: 1 or 2.
        disable_fog: see everything that is alive, and no snapshots.
        list_hidden: list what is alive but out of sight, without details, and no snapshots.
        show_cloaked: list enemies that are cloaked and not detected.
        show_burrowed: list enemies that are burrowed and not detected.
        show_placeholders: list buildings that the player's workers are on their way to.
    """
    world = game.world
    room = int(world.clock[records.ROWS]) + MAX_SNAPSHOTS + _MAX_PLACEHOLDERS
    view = View(
        units=np.zeros(room, records.UNIT),
        rows=np.full(room, -1, np.int64),
        display=np.zeros(room, np.int64),
        alliance=np.zeros(room, np.int64),
        cloak=np.full(room, NOT_CLOAKED, np.int64),
        blip=np.zeros(room, bool),
    )
    count = fill_view(
        world.state,
        player,
        disable_fog,
        list_hidden,
        show_cloaked,
        show_burrowed,
        show_placeholders,
        view,
    )
    return View(
        units=view.units[:count],
        rows=view.rows[:count],
        display=view.display[:count],
        alliance=view.alliance[:count],
        cloak=view.cloak[:count],
        blip=view.blip[:count],
    )


@kernel
def _is_blip(w: State, player: int, unit: State) -> bool:
    """Returns whether a sensor tower of the player reports this enemy."""
    structure = w.unit_rules[unit.unit_type].structure != 0
    if unit.owner != opponent(player) or structure:
        return False
    for row in range(w.clock[ROWS]):
        tower = w.units[row]
        if tower.unit_type != UNIT_SENSOR_TOWER or tower.owner != player:
            continue
        if tower.alive == 1 and tower.build_progress >= 1.0:
            dx, dy = unit.x - tower.x, unit.y - tower.y
            if dx * dx + dy * dy < SENSOR_RANGE * SENSOR_RANGE:
                return True
    return False


@kernel
def _appearance(unit: State, player: int, no_fog: bool) -> tuple[int, int]:
    """Returns display type and cloak state of a unit in sight."""
    if unit.cloaked == 0:
        return DISPLAY_VISIBLE, NOT_CLOAKED
    if unit.owner == player:
        return DISPLAY_VISIBLE, CLOAKED_ALLIED
    if no_fog or unit.detected & (1 << player) != 0:
        return DISPLAY_VISIBLE, CLOAKED_DETECTED
    return DISPLAY_HIDDEN, CLOAKED


@kernel
def _sight(
    w: State, player: int, unit: State, no_fog: bool, list_hidden: bool
) -> tuple[int, int, bool]:
    """Returns display type, cloak state, and whether only a sensor tower reports the unit.

    The display type is _UNLISTED if the player does not learn of the unit.
    """
    appearance, cloaked = _appearance(unit, player, no_fog)
    if no_fog or unit.seen & (1 << player) != 0:
        return appearance, cloaked, False
    if _is_blip(w, player, unit):
        return DISPLAY_HIDDEN, cloaked, True
    return DISPLAY_HIDDEN if list_hidden else _UNLISTED, CLOAK_UNKNOWN, False


@kernel
def _is_listed(unit: State, show_cloaked: bool, show_burrowed: bool) -> bool:
    """Returns whether the client asked for hidden units of this sort."""
    return show_burrowed if unit.burrowed == 1 else show_cloaked


@kernel
def _alliance(owner: int, player: int) -> int:
    if owner == player:
        return ALLIANCE_SELF
    return ALLIANCE_NEUTRAL if owner == OWNER_NEUTRAL else ALLIANCE_ENEMY


@kernel
def _add_placeholders(
    w: State, player: int, row: int, units: np.ndarray, count: int
) -> int:
    """Adds a unit for each building that this unit has orders for and has not begun.

    count: units so far. Returns how many there are then.
    """
    for slot in range(w.units[row].order_count):
        order = w.orders[row, slot]
        rule = w.ability_rules[order.ability]
        waiting = rule.kind == KIND_BUILD and order.stage == STAGE_WAITING
        if not waiting or count == len(units):
            continue
        unit = units[count]
        unit.unit_type = rule.makes
        unit.owner = player
        unit.x, unit.y = order.x, order.y
        unit.radius = w.unit_rules[rule.makes].radius
        unit.carrier = unit.addon = unit.host = -1
        count += 1
    return count


@entry
def fill_view(
    state: np.ndarray,
    player: int,
    no_fog: bool,
    list_hidden: bool,
    show_cloaked: bool,
    show_burrowed: bool,
    show_placeholders: bool,
    view: View,
) -> int:
    """Fills the first rows of a view and returns how many units it shows.

    The view must have room for all rows in use, all snapshots, and some placeholders: those
    beyond its end are left out. Beforehand, `units` is 0, `rows` -1, `cloak` NOT_CLOAKED and
    `blip` False.
    """
    w = state[0]
    units, rows, display, cloak = view.units, view.rows, view.display, view.cloak
    count = 0
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive != 1 or unit.carrier >= 0:
            continue
        appearance, cloaked, blip = _sight(w, player, unit, no_fog, list_hidden)
        listed = cloaked != CLOAKED or _is_listed(unit, show_cloaked, show_burrowed)
        if appearance == _UNLISTED or not listed:
            continue
        units[count] = unit
        rows[count] = row
        display[count] = appearance
        cloak[count] = cloaked
        view.blip[count] = blip
        if unit.owner != player and unit.detected & (1 << player) == 0 and not no_fog:
            units[count].hallucination = 0
        count += 1
    present = count
    for k in range(0 if no_fog or list_hidden else MAX_SNAPSHOTS):
        if w.snapshots[player, k].alive == 1:
            units[count] = w.snapshots[player, k]
            display[count] = DISPLAY_SNAPSHOT
            count += 1
    remembered = count
    for i in range(present if show_placeholders else 0):
        if units[i].owner == player:
            count = _add_placeholders(w, player, rows[i], units, count)
    display[remembered:count] = DISPLAY_PLACEHOLDER
    for i in range(count):
        view.alliance[i] = _alliance(units[i].owner, player)
    return count
