"""Draws a ladder map: grids, bases and neutral units from a `Design`.

In: a design. Out: a `GameMap`, the same in every process. All maps are symmetric under half a
turn, so neither start is better. Knows unit types, but no rules.

A main ramp runs diagonally, as ladder maps' do: bots compute their walls from the two cells at its
top, which are diagonal neighbours. In the ramp's own coordinates i and j grow towards the main,
`rise` = i + j, and `side` = |i - j|.
"""

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.maps import bases, designs
from starmill.engines.skirmish.simulation.maps.designs import Design
from starmill.engines.skirmish.simulation.maps.game_map import (
    LEVEL_HEIGHTS,
    Base,
    GameMap,
)

_BORDER_HEIGHT = 95
_SMOOTHING_ROUNDS = 24  # how far ramps to low ground are smoothed
_EXIT_HALF_WIDTH = 5.0
# A main ramp: where it begins and ends, and how wide it and the cliffs beside it are.
_RAMP_TOP, _RAMP_BOTTOM = 1, -8
_RAMP_SIDE, _CLIFF_SIDE = 4, 8
_TOP_SIDE, _PLATEAU_SIDE = 1, 3  # of the cells with rise 1: ramp, and plateau beside it

Grid = NDArray[np.bool_]


def _half_turn(grid: Grid) -> Grid:
    """Returns a grid together with its mirror image."""
    return grid | grid[::-1, ::-1]


def _disc(design: Design, centre: tuple[float, float], radius: float) -> Grid:
    """Returns the cells within a radius of a place. Shape [H, W]."""
    rows, columns = np.mgrid[0 : design.height, 0 : design.width]
    x, y = centre
    return np.asarray((columns + 0.5 - x) ** 2 + (rows + 0.5 - y) ** 2 <= radius**2)


def _corridor(design: Design, line: tuple[float, ...], half: float) -> Grid:
    """Returns the cells within a distance of a line. Shape [H, W]."""
    x0, y0, x1, y1 = line
    rows, columns = np.mgrid[0 : design.height, 0 : design.width]
    dx, dy = x1 - x0, y1 - y0
    along = (columns + 0.5 - x0) * dx + (rows + 0.5 - y0) * dy
    along = np.clip(along / (dx * dx + dy * dy), 0.0, 1.0)
    far = (columns + 0.5 - x0 - along * dx) ** 2 + (rows + 0.5 - y0 - along * dy) ** 2
    return np.asarray(far <= half * half)


def _ramp_coordinates(design: Design) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns each cell's `rise` and `side` for the main ramp. Shapes [H, W]."""
    rows, columns = np.mgrid[0 : design.height, 0 : design.width]
    x, y = design.ramp_direction
    i = (design.main[0] + x * designs.RAMP_OFFSET - columns) * x
    j = (design.main[1] + y * designs.RAMP_OFFSET - rows) * y
    return i + j, np.abs(i - j)


def _main_ramp(design: Design) -> Grid:
    """Returns the cells of the main ramp. Shape [H, W]."""
    rise, side = _ramp_coordinates(design)
    top = (rise == _RAMP_TOP) & (side == _TOP_SIDE)
    below = (rise < _RAMP_TOP) & (rise >= _RAMP_BOTTOM) & (side <= _RAMP_SIDE)
    return np.asarray(top | below)


def _levels(design: Design) -> NDArray[np.int8]:
    """Returns each cell's level, from 0 for low to 2 for high ground. Shape [H, W]."""
    rise, side = _ramp_coordinates(design)
    middle = _disc(design, design.natural, designs.NATURAL_RADIUS)
    way = (*design.apron, *design.natural)
    middle |= _corridor(design, way, designs.APRON_HALF_WIDTH)
    high = _disc(design, design.main, designs.MAIN_RADIUS)
    # The plateau ends at the ramp in a straight line, so that cliffs flank the ramp.
    high &= (rise > _RAMP_TOP) | ((rise == _RAMP_TOP) & (side == _PLATEAU_SIDE))
    levels = np.zeros((design.height, design.width), np.int8)
    levels[_half_turn(middle | _main_ramp(design))] = 1
    levels[_half_turn(high)] = 2
    return levels


def _cliffs(design: Design, levels: NDArray[np.int8]) -> Grid:
    """Returns the cells below higher ground, and those beside the main ramps. Shape [H, W]."""
    height, width = levels.shape
    wide = np.pad(levels, 1, mode="edge")
    cliffs = np.zeros((height, width), bool)
    for dy, dx in np.ndindex(3, 3):
        cliffs |= wide[dy : dy + height, dx : dx + width] > levels
    rise, side = _ramp_coordinates(design)
    flanks = (side > _RAMP_SIDE) & (side <= _CLIFF_SIDE)
    flanks &= (rise <= _RAMP_TOP) & (rise >= _RAMP_BOTTOM)
    return cliffs | (_half_turn(flanks) & (levels < 2))


def _ramp_heights(design: Design) -> NDArray[np.float64]:
    """Returns the heights of the cells of both main ramps; other cells' have no meaning."""
    rise, _ = _ramp_coordinates(design)
    low, high = LEVEL_HEIGHTS[1:]
    share = (rise - _RAMP_BOTTOM + 1) / (_RAMP_TOP - _RAMP_BOTTOM + 2)
    heights = np.floor(low + (high - low) * share)
    mirrored = _main_ramp(design)[::-1, ::-1]
    return np.where(mirrored, heights[::-1, ::-1], heights)


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
    spots = ((*design.main, False), (*design.natural, False), *design.others)
    size = (design.width, design.height)
    pairs = [bases.pair(x + 0.5, y + 0.5, size, rich=rich) for x, y, rich in spots]
    return tuple(base for pair in pairs for base in pair)


def _neutrals(design: Design) -> tuple[tuple[int, float, float], ...]:
    """Returns towers, rocks and critters."""
    x, y = design.width / 2, design.height / 2
    towers = tuple((ids.UNIT_XELNAGA_TOWER, x + dx, y) for dx in (-14.0, 14.0))
    rocks = tuple(
        (ids.UNIT_ROCK, float(column), float(row))
        for rx, ry in design.rocks
        for column, row in ((rx, ry), (design.width - rx, design.height - ry))
    )
    critters = (
        (ids.UNIT_CRITTER, x + 3.5, y - 5.5),
        (ids.UNIT_CRITTER, x - 3.5, y + 5.5),
    )
    return towers + rocks + critters


def draw(design: Design) -> GameMap:
    """Returns the map that a design describes."""
    height, width = design.height, design.width
    left, bottom = design.border
    levels = _levels(design)
    main_ramps = _half_turn(_main_ramp(design))
    exits = _half_turn(_corridor(design, design.exit, _EXIT_HALF_WIDTH))
    inner = np.zeros((height, width), bool)
    inner[bottom : height - bottom, left : width - left] = True
    pathable = inner & (~_cliffs(design, levels) | main_ramps | exits)
    for x, y, half_width, half_height in design.walls:
        block = np.zeros((height, width), bool)
        block[y - half_height : y + half_height, x - half_width : x + half_width] = True
        pathable &= ~_half_turn(block)
    heights = np.asarray(LEVEL_HEIGHTS, np.float64)[levels]
    sloped = _smooth(heights, _SMOOTHING_ROUNDS)
    slope = exits & (np.abs(sloped - heights) >= 1.0) & (levels < 2)
    terrain = np.where(slope, np.floor(sloped + 0.5), heights)
    terrain = np.where(main_ramps, _ramp_heights(design), terrain)
    terrain[~inner] = _BORDER_HEIGHT
    placeable = pathable & ~slope & ~main_ramps
    all_bases = _bases(design)
    for array in (pathable, placeable, terrain):
        array.setflags(write=False)
    return GameMap(
        name=design.name,
        width=width,
        height=height,
        playable=(left, bottom, width - left, height - bottom),
        pathable=pathable,
        placeable=placeable,
        terrain=terrain.astype(np.uint8),
        starts=((all_bases[0].x, all_bases[0].y), (all_bases[1].x, all_bases[1].y)),
        bases=all_bases,
        neutrals=_neutrals(design),
    )
