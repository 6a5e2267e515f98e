"""What one player knows of the units: who is in sight, who is remembered, how much of each.

In: a game and a player. Out: a `View`, the rows that an observation is written from. The fog of
war is applied here, once, for raw units, feature layers and queries alike.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish import game as game_lib
from starmill.engines.skirmish import unit_kernels
from starmill.engines.skirmish import world as world_lib

VISIBLE, SNAPSHOT, HIDDEN, PLACEHOLDER = 1, 2, 3, 4
SELF, ALLY, NEUTRAL, ENEMY = 1, 2, 3, 4
CLOAKED, DETECTED, NOT_CLOAKED, ALLIED_CLOAK = 1, 2, 3, 4
_MAX_PLACEHOLDERS = 256


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
    rows = np.empty(world_lib.MAX_UNITS, np.int64)
    display, cloak = np.empty_like(rows), np.empty_like(rows)
    blip = np.zeros(len(rows), bool)
    count = unit_kernels.look(
        world.state,
        player,
        disable_fog,
        show_cloaked,
        show_burrowed,
        rows,
        display,
        cloak,
        blip,
    )
    memories = world.snapshots[player]
    remembered = np.zeros(0, np.intp)
    if not disable_fog:
        remembered = np.flatnonzero(memories["alive"] == 1)
    planned = np.zeros(_MAX_PLACEHOLDERS if show_placeholders else 0, world_lib.UNIT)
    planned = planned[
        : unit_kernels.placeholders(world.state, player, rows[:count], planned)
    ]
    middle = count + len(remembered)
    total = middle + len(planned)
    units = np.empty(total, world_lib.UNIT)
    # Taken into place: record types are compared field by field when arrays are joined.
    np.take(world.units, rows[:count], out=units[:count])
    np.take(memories, remembered, out=units[count:middle])
    units[middle:] = planned
    rows[count:total], cloak[count:total], blip[count:total] = -1, NOT_CLOAKED, False
    display[count:middle], display[middle:total] = SNAPSHOT, PLACEHOLDER
    return View(
        units=units,
        rows=rows[:total],
        display=display[:total],
        alliance=alliances(units["owner"], player),
        cloak=cloak[:total],
        blip=blip[:total],
    )
