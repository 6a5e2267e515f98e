"""The maps: terrain, start locations and resources, drawn from a few numbers each.

In: nothing. Out: `MAPS`, name -> `GameMap`, the same in every process. All maps are symmetric
under half a turn, so neither start is better. Arrays are [H, W] = [y, x] with row 0 in the south;
images of the protocol have row 0 in the north. Knows unit types, but no rules.
"""

import dataclasses
import functools

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import ids

BORDER = 8  # cells around the playable area
LEVEL_HEIGHTS = (111, 127, 143)  # low, middle and high ground in the height map
_BORDER_HEIGHT = 95
_SMOOTHING_ROUNDS = 24  # how far ramps are smoothed
# Resources around a town hall at (0, 0), for a base with its back to the west and north.
MINERAL_OFFSETS = (
    (-6, -3.5),
    (-7, -1.5),
    (-7, 0.5),
    (-6, 2.5),
    (-5, 4.5),
    (-3, 5.5),
    (-1, 6.5),
    (1, 6.5),
)
GEYSER_OFFSETS = ((5, 7), (-7, -6))
MINERALS, MINERALS_SMALL, VESPENE = 1800, 900, 2250  # in a field, a small one, a geyser


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


def _resources(
    design: Design, x: float, y: float, *, rich: bool
) -> tuple[Resource, ...]:
    """Returns the mineral fields and geysers of a base, on the side away from the map's centre."""
    flip_x = 1 if x < design.width / 2 else -1
    flip_y = 1 if y >= design.height / 2 else -1
    resources = []
    for index, (dx, dy) in enumerate(MINERAL_OFFSETS):
        small = index % 2 == 1
        kind = ids.UNIT_MINERAL_FIELD_750 if small else ids.UNIT_MINERAL_FIELD
        resources.append(
            Resource(
                unit_type=ids.UNIT_RICH_MINERAL_FIELD if rich else kind,
                x=x + dx * flip_x - 0.5,
                y=y + dy * flip_y - 0.5 + (0.5 if dy * 2 % 2 else 0.0),
                minerals=MINERALS_SMALL if small else MINERALS,
            )
        )
    for dx, dy in GEYSER_OFFSETS:
        resources.append(
            Resource(
                unit_type=ids.UNIT_RICH_GEYSER if rich else ids.UNIT_GEYSER,
                x=x + dx * flip_x,
                y=y + dy * flip_y,
                vespene=VESPENE,
            )
        )
    return tuple(resources)


def _mirror_base(design: Design, base: Base) -> Base:
    return Base(
        x=design.width - base.x,
        y=design.height - base.y,
        resources=tuple(
            dataclasses.replace(r, x=design.width - r.x, y=design.height - r.y)
            for r in base.resources
        ),
    )


def _bases(design: Design) -> tuple[Base, ...]:
    """Returns all bases in pairs: the starts, the naturals, then the others."""
    bases: list[Base] = []
    spots = ((*design.main, False), (*design.natural, False), *design.thirds)
    for x, y, rich in spots:
        centre = (x + 0.5, y + 0.5)
        base = Base(
            x=centre[0],
            y=centre[1],
            resources=_resources(design, *centre, rich=rich),
        )
        bases += [base, _mirror_base(design, base)]
    return tuple(bases)


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
    bases = _bases(design)
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
        starts=((bases[0].x, bases[0].y), (bases[1].x, bases[1].y)),
        bases=bases,
        neutrals=towers + rocks + critters,
    )


@functools.cache
def map_named(name: str) -> GameMap:
    """Returns the map of this name, drawn once per process. Raises KeyError if there is none."""
    return draw({design.name: design for design in DESIGNS}[name])


MAPS: dict[str, GameMap] = {design.name: map_named(design.name) for design in DESIGNS}
