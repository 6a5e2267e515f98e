"""The ladder maps: terrain, start locations and resources, drawn from a few numbers each.

In: a `Design`. Out: a `GameMap`, the same in every process. All maps are symmetric under half a
turn, so neither start is better. Knows unit types, but no rules.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.maps import bases
from starmill.engines.skirmish.simulation.maps.game_map import (
    BORDER,
    LEVEL_HEIGHTS,
    Base,
    GameMap,
)

_BORDER_HEIGHT = 95
_SMOOTHING_ROUNDS = 24  # how far ramps are smoothed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Design:
    """What a map is drawn from. Positions are cells of one half; the other half mirrors it.

    Attributes:
        name: the map's name.
        width: in cells.
        height: in cells.
        main: centre of the start's plateau, and of its town hall.
        natural: centre of the second base's plateau, and of its town hall.
        ramp: from main to natural: x0, y0, x1, y1, half width.
        exit: from natural to low ground, likewise.
        thirds: x, y of further bases on low ground, and whether they are rich.
        walls: x, y, half width, half height of blocks.
        rocks: x, y of destructible rocks.
        main_radius: of the main's plateau, in cells.
        natural_radius: of the natural's plateau, in cells.
    """

    name: str
    width: int
    height: int
    main: tuple[int, int]
    natural: tuple[int, int]
    ramp: tuple[float, float, float, float, float]
    exit: tuple[float, float, float, float, float]
    thirds: tuple[tuple[int, int, bool], ...]
    walls: tuple[tuple[int, int, int, int], ...]
    rocks: tuple[tuple[int, int], ...] = ()
    main_radius: float = 16.5
    natural_radius: float = 12.5


DESIGNS = (
    Design(
        name="Amber Basin",
        width=120,
        height=120,
        main=(26, 26),
        natural=(26, 58),
        ramp=(26, 36, 26, 52, 4),
        exit=(34, 58, 46, 60, 5),
        thirds=((58, 24, False), (20, 90, True)),
        walls=((60, 50, 3, 6), (44, 44, 3, 3)),
        rocks=((46, 70),),
    ),
    Design(
        name="Twin Ridges",
        width=152,
        height=112,
        main=(26, 28),
        natural=(60, 24),
        ramp=(36, 28, 54, 25, 4),
        exit=(60, 30, 62, 46, 5),
        thirds=((26, 62, False), (100, 22, True)),
        walls=((76, 44, 4, 4), (44, 50, 3, 4)),
        rocks=((84, 36),),
    ),
    Design(
        name="Long Reach",
        width=104,
        height=160,
        main=(28, 27),
        natural=(70, 29),
        ramp=(38, 27, 64, 28, 4),
        exit=(68, 36, 64, 50, 5),
        thirds=((26, 66, False), (78, 66, True)),
        walls=((52, 58, 5, 3), (52, 76, 3, 2)),
        rocks=((40, 72),),
    ),
    Design(
        name="Frost Hollow",
        width=136,
        height=136,
        main=(28, 28),
        natural=(60, 30),
        ramp=(38, 28, 54, 30, 4),
        exit=(62, 36, 66, 50, 5),
        thirds=((28, 68, False), (96, 26, False), (28, 104, True)),
        walls=((52, 62, 4, 4), (84, 58, 3, 5)),
        rocks=((46, 84), (80, 44)),
    ),
    Design(
        name="Broken Span",
        width=168,
        height=128,
        main=(28, 98),
        natural=(28, 62),
        ramp=(28, 88, 28, 68, 4),
        exit=(36, 62, 50, 60, 5),
        thirds=((62, 100, False), (30, 28, False), (100, 102, True)),
        walls=((70, 70, 5, 4), (60, 46, 3, 5)),
        rocks=((74, 84),),
    ),
)


def _levels(design: Design) -> NDArray[np.int8]:
    """Returns each cell's level, from 0 for low to 2 for high ground. Shape [H, W]."""
    rows, columns = np.mgrid[0 : design.height, 0 : design.width]
    levels = np.zeros((design.height, design.width), np.int8)
    for (x, y), radius, level in (
        (design.natural, design.natural_radius, 1),
        (design.main, design.main_radius, 2),
    ):
        near = (columns + 0.5 - x) ** 2 + (rows + 0.5 - y) ** 2 <= radius**2
        levels[near | near[::-1, ::-1]] = level
    return levels


def _corridor(design: Design, line: tuple[float, ...]) -> NDArray[np.bool_]:
    """Returns the cells of a ramp and of its mirror image. Shape [H, W]."""
    x0, y0, x1, y1, half = line
    rows, columns = np.mgrid[0 : design.height, 0 : design.width]
    dx, dy = x1 - x0, y1 - y0
    along = (columns + 0.5 - x0) * dx + (rows + 0.5 - y0) * dy
    along = np.clip(along / (dx * dx + dy * dy), 0.0, 1.0)
    far = (columns + 0.5 - x0 - along * dx) ** 2 + (rows + 0.5 - y0 - along * dy) ** 2
    inside = far <= half * half
    return inside | inside[::-1, ::-1]


def _smooth(values: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """Returns the values after `rounds` averages of each with its four neighbours."""
    for _ in range(rounds):
        wide = np.pad(values, 1, mode="edge")
        values = (
            values + wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        ) / 5.0
    return values


def _bases(design: Design) -> tuple[Base, ...]:
    """Returns all bases in pairs: the starts, the naturals, then the others."""
    spots = ((*design.main, False), (*design.natural, False), *design.thirds)
    size = (design.width, design.height)
    pairs = [bases.pair(x + 0.5, y + 0.5, size, rich=rich) for x, y, rich in spots]
    return tuple(base for pair in pairs for base in pair)


def draw(design: Design) -> GameMap:
    """Returns the map that a design describes."""
    height, width = design.height, design.width
    levels = _levels(design)
    ramps = _corridor(design, design.ramp) | _corridor(design, design.exit)
    wide = np.pad(levels, 1, mode="edge")
    cliff = np.zeros((height, width), bool)
    for dy, dx in np.ndindex(3, 3):
        cliff |= wide[dy : dy + height, dx : dx + width] > levels
    inner = np.zeros((height, width), bool)
    inner[BORDER : height - BORDER, BORDER : width - BORDER] = True
    pathable = inner & ~(cliff & ~ramps)
    for x, y, half_width, half_height in design.walls:
        block = np.zeros((height, width), bool)
        block[y - half_height : y + half_height, x - half_width : x + half_width] = True
        pathable &= ~(block | block[::-1, ::-1])
    heights = np.asarray(LEVEL_HEIGHTS, np.float64)[levels]
    sloped = _smooth(heights, _SMOOTHING_ROUNDS)
    slope = ramps & (np.abs(sloped - heights) >= 1.0)
    terrain = np.where(slope, np.floor(sloped + 0.5), heights)
    terrain[~inner] = _BORDER_HEIGHT
    placeable = pathable & ~slope
    all_bases = _bases(design)
    towers = (
        (ids.UNIT_XELNAGA_TOWER, width / 2 - 14.0, height / 2),
        (ids.UNIT_XELNAGA_TOWER, width / 2 + 14.0, height / 2),
    )
    rocks = tuple(
        (ids.UNIT_ROCK, float(x), float(y))
        for rx, ry in design.rocks
        for x, y in ((rx, ry), (width - rx, height - ry))
    )
    critters = (
        (ids.UNIT_CRITTER, width / 2 + 3.5, height / 2 - 5.5),
        (ids.UNIT_CRITTER, width / 2 - 3.5, height / 2 + 5.5),
    )
    for array in (pathable, placeable, terrain):
        array.setflags(write=False)
    return GameMap(
        name=design.name,
        width=width,
        height=height,
        playable=(BORDER, BORDER, width - BORDER, height - BORDER),
        pathable=pathable,
        placeable=placeable,
        terrain=terrain.astype(np.uint8),
        starts=((all_bases[0].x, all_bases[0].y), (all_bases[1].x, all_bases[1].y)),
        bases=all_bases,
        neutrals=towers + rocks + critters,
    )
