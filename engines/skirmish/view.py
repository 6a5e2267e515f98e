"""What one player knows of the units: who is in sight, who is remembered, how much of each.

In: a game and a player. Out: a `View`, the rows that an observation is written from. The fog of
war is applied here, once, for raw units, feature layers and queries alike.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish import game as game_lib
from starmill.engines.skirmish import rules, vision
from starmill.engines.skirmish import world as world_lib

VISIBLE, SNAPSHOT, HIDDEN, PLACEHOLDER = 1, 2, 3, 4
SELF, ALLY, NEUTRAL, ENEMY = 1, 2, 3, 4
CLOAKED, DETECTED, NOT_CLOAKED, ALLIED_CLOAK = 1, 2, 3, 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """Units as a player sees them; N rows: in sight by row, then snapshots, then placeholders.

    units: [N] world.UNIT, copies. rows: [N] rows in the world, -1 for what is not there now.
    display, alliance, cloak: [N] values of the game's enums. blip: [N] known from a sensor
        tower only.
    """

    units: np.ndarray
    rows: NDArray[np.int64]
    display: NDArray[np.int64]
    alliance: NDArray[np.int64]
    cloak: NDArray[np.int64]
    blip: NDArray[np.bool_]


def alliances(owners: NDArray[np.int32], player: int) -> NDArray[np.int64]:
    """Returns self, enemy or neutral for each owner."""
    found = np.full(len(owners), ENEMY, np.int64)
    found[owners == player] = SELF
    found[owners == world_lib.NEUTRAL] = NEUTRAL
    return found


def player_view(
    game: game_lib.Game,
    player: int,
    *,
    disable_fog: bool = False,
    show_cloaked: bool = True,
    show_burrowed: bool = True,
    show_placeholders: bool = True,
) -> View:
    """Returns what the player sees now.

    Args:
        game: as it stands.
        player: 1 or 2.
        disable_fog: everything that is alive, and no snapshots.
        show_cloaked: enemies that are cloaked and not detected are listed as such.
        show_burrowed: the same for burrowed ones.
        show_placeholders: buildings that the player's workers are on their way to.
    """
    world = game.world
    if disable_fog:
        units = world.units[: int(world.clock[world_lib.ROWS])]
        rows = np.flatnonzero((units["alive"] == 1) & (units["carrier"] < 0))
        display = np.full(len(rows), VISIBLE, np.int64)
        blip = np.zeros(len(rows), bool)
        cloak = _revealed_cloak(units[rows], player)
        remembered = world.snapshots[player][:0]
    else:
        seen = vision.visible_to(game, player)
        listed = _listed(game, seen, show_cloaked, show_burrowed)
        rows, blip = seen.rows[listed], seen.blip[listed]
        display = np.where(blip, HIDDEN, seen.display[listed]).astype(np.int64)
        cloak = seen.cloak[listed].astype(np.int64)
        remembered = seen.snapshots
    parts = [world.units[rows], remembered]
    displays = [display, np.full(len(remembered), SNAPSHOT, np.int64)]
    if show_placeholders:
        mine = rows[world.units["owner"][rows] == player]
        planned = _placeholders(world, mine, player)
        parts.append(planned)
        displays.append(np.full(len(planned), PLACEHOLDER, np.int64))
    # Not np.concatenate: that compares the sixty fields of each record type every time.
    everything = np.empty(sum(len(part) for part in parts), world_lib.UNIT)
    begin = 0
    for part in parts:
        everything[begin : begin + len(part)] = part
        begin += len(part)
    all_rows = np.full(len(everything), -1, np.int64)
    all_rows[: len(rows)] = rows
    cloaks = np.full(len(everything), NOT_CLOAKED, np.int64)
    cloaks[: len(rows)] = cloak
    blips = np.zeros(len(everything), bool)
    blips[: len(rows)] = blip
    return View(
        units=everything,
        rows=all_rows,
        display=np.concatenate(displays),
        alliance=alliances(everything["owner"], player),
        cloak=cloaks,
        blip=blips,
    )


def _revealed_cloak(units: np.ndarray, player: int) -> NDArray[np.int64]:
    cloaked = units["cloaked"] == 1
    kind = np.where(units["owner"] == player, ALLIED_CLOAK, DETECTED)
    return np.where(cloaked, kind, NOT_CLOAKED).astype(np.int64)


def _listed(
    game: game_lib.Game, seen: vision.Visible, show_cloaked: bool, show_burrowed: bool
) -> NDArray[np.bool_]:
    """Returns which of the visible rows the interface lists: not all clients ask for all."""
    hidden = seen.cloak == CLOAKED
    burrowed = game.world.units["burrowed"][seen.rows] == 1
    listed = np.ones(len(seen.rows), bool)
    if not show_cloaked:
        listed &= ~(hidden & ~burrowed)
    if not show_burrowed:
        listed &= ~(hidden & burrowed)
    return listed


def _placeholders(
    world: world_lib.World, mine: NDArray[np.int64], player: int
) -> np.ndarray:
    """Returns a row for each building that an order of these units has not begun yet."""
    orders = world.orders[mine]
    waiting = (
        np.arange(world_lib.MAX_ORDERS) < world.units["order_count"][mine][:, None]
    )
    building = rules.ability_rules()["kind"][orders["ability"]] == rules.BUILD
    unit_index, slot = np.nonzero(waiting & building & (orders["stage"] == 0))
    planned = orders[unit_index, slot]
    found = np.zeros(len(planned), world_lib.UNIT)
    types = rules.ability_rules()["makes"][planned["ability"]]
    found["unit_type"] = types
    found["owner"] = player
    found["x"], found["y"] = planned["x"], planned["y"]
    found["radius"] = rules.unit_rules()["radius"][types]
    found["carrier"] = found["addon"] = found["host"] = -1
    return found
