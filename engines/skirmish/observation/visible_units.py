"""What one player knows of the units: who is in sight, who is remembered, how much of each.

In: a game and a player. Out: a `View`, the rows that an observation is written from. The fog of
war is applied here, once, for raw units, feature layers and queries alike.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.observation import unit_messages
from starmill.engines.skirmish.simulation import records
from starmill.engines.skirmish.simulation.game import Game

DISPLAY_VISIBLE, DISPLAY_SNAPSHOT, DISPLAY_HIDDEN, DISPLAY_PLACEHOLDER = 1, 2, 3, 4
ALLIANCE_SELF, ALLIANCE_ALLY, ALLIANCE_NEUTRAL, ALLIANCE_ENEMY = 1, 2, 3, 4
CLOAKED, CLOAKED_DETECTED, NOT_CLOAKED, CLOAKED_ALLIED = 1, 2, 3, 4
_MAX_UNSEEN = records.MAX_SNAPSHOTS + 256  # that many placeholders, not more


class View(NamedTuple):
    """Units as a player sees them; N rows: in sight by row, then snapshots, then placeholders.

    units: [N] records.UNIT, copies. rows: [N] rows in the world, -1 for what is not there now.
    display, alliance, cloak: [N] values of the game's enums. blip: [N] known from a sensor
        tower only.
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
    room = int(world.clock[records.ROWS]) + _MAX_UNSEEN
    seen = View(
        units=np.zeros(room, records.UNIT),
        rows=np.full(room, -1, np.int64),
        display=np.zeros(room, np.int64),
        alliance=np.zeros(room, np.int64),
        cloak=np.full(room, NOT_CLOAKED, np.int64),
        blip=np.zeros(room, bool),
    )
    count = unit_messages.look(
        world.state,
        player,
        disable_fog,
        show_cloaked,
        show_burrowed,
        show_placeholders,
        seen,
    )
    return View(
        units=seen.units[:count],
        rows=seen.rows[:count],
        display=seen.display[:count],
        alliance=seen.alliance[:count],
        cloak=seen.cloak[:count],
        blip=seen.blip[:count],
    )
