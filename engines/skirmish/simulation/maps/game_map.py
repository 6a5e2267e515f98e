"""One map as the game plays it: grids, bases and neutral units.

In: nothing. Out: the records that the other modules of this room fill. Arrays are [H, W] = [y, x]
with row 0 in the south; images of the protocol have row 0 in the north. Knows no rules.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation.maps.mini_games import MiniGame

BORDER = 8  # cells around the playable area
LEVEL_HEIGHTS = (111, 127, 143)  # low, middle and high ground in the height map


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resource:
    """A mineral field or geyser.

    Attributes:
        unit_type: raw id.
        x: of its centre, in world units.
        y: likewise.
        minerals: what it holds; 0 for a geyser.
        vespene: what it holds; 0 for a mineral field.
    """

    unit_type: int
    x: float
    y: float
    minerals: int = 0
    vespene: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Base:
    """A place for a town hall.

    Attributes:
        x: of its centre, in world units.
        y: likewise.
        resources: the mineral fields and geysers around it.
    """

    x: float
    y: float
    resources: tuple[Resource, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GameMap:
    """One map.

    Attributes:
        name: as clients and replays call it.
        width: of the arrays, in cells; even.
        height: likewise.
        playable: x0, y0, x1, y1 of the area that units can enter.
        pathable: [H, W] where ground units can be.
        placeable: [H, W] where buildings can be.
        terrain: [H, W] height, as in the plane `height_map`.
        starts: (x, y) of the two start town halls; a player's setup says which one it has.
        bases: all places for town halls in pairs: the starts, the naturals, then the others.
        neutrals: (raw unit type, x, y) of towers, rocks and critters.
        melee: whether players start with a town hall and workers, and lose with their last
            building.
        mini_game: the mini-game that is played on it, for one player; None on other maps.
    """

    name: str
    width: int
    height: int
    playable: tuple[int, int, int, int]
    pathable: NDArray[np.bool_]
    placeable: NDArray[np.bool_]
    terrain: NDArray[np.uint8]
    starts: tuple[tuple[float, float], tuple[float, float]]
    bases: tuple[Base, ...]
    neutrals: tuple[tuple[int, float, float], ...]
    melee: bool = True
    mini_game: MiniGame | None = None
