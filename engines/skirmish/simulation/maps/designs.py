"""What ladder maps are drawn from: where plateaus, ramps and bases are.

In: `designs.json` beside this file. Out: `DESIGNS` and `STAND_INS`, name -> `Design`. A stand-in
has the size and the number of bases of a map of the real game; its description says these and in
which corner a start is, and the rest follows. Knows no cells.
"""

import dataclasses
import itertools
import json
import math
from importlib import resources
from typing import Any

from starmill.engines.skirmish.simulation.maps.game_map import BORDER

LARGEST = 176  # cells of a map each way, with its border
MAIN_RADIUS, NATURAL_RADIUS = 16.5, 12.5  # of the plateaus, in cells
RAMP_OFFSET = 10  # of a main ramp's top from the town hall, in cells each way
APRON_OFFSET = 17  # of the place below the ramp, likewise
APRON_HALF_WIDTH = 6.0  # of the middle ground from there to the natural
_CORNER_INSET = 18  # of a stand-in's start from the edges of the playable area
_NATURAL_GAP = 35  # between a stand-in's start and natural
_EXIT_START, _EXIT_END = 8.0, 21.0  # from a natural's town hall, in cells
_BASE_INSET = 12  # of other bases from the edges
_BASE_GAP = 44  # between bases at most; less if they do not fit
_PLATEAU_GAP = 12.0  # between other bases and higher ground
_WAY_GAP = 14.0  # between other bases, or blocks, and the way out of a natural
_BLOCK_GAP = 13.0  # between blocks and bases
_SIDES = {"west": (-1, 0), "east": (1, 0), "south": (0, -1), "north": (0, 1)}

Spot = tuple[float, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Design:
    """What a map is drawn from. Positions are cells of one half; the other half mirrors it.

    Attributes:
        name: the map's name.
        width: in cells, with the border.
        height: in cells, with the border.
        border: cells around the playable area: west and east, south and north.
        main: centre of the start's plateau, and of its town hall.
        natural: centre of the second base's plateau, and of its town hall.
        exit: ramp from the natural to low ground: x0, y0, x1, y1.
        others: x, y of further bases on low ground, and whether they are rich.
        walls: x, y, half width, half height of blocks.
        rocks: x, y of destructible rocks.
    """

    name: str
    width: int
    height: int
    border: tuple[int, int]
    main: tuple[int, int]
    natural: tuple[int, int]
    exit: tuple[float, float, float, float]
    others: tuple[tuple[int, int, bool], ...]
    walls: tuple[tuple[int, int, int, int], ...]
    rocks: tuple[tuple[int, int], ...] = ()

    @property
    def ramp_direction(self) -> tuple[int, int]:
        """Signs of x and y from the main to its ramp, which leads towards the map's centre."""
        return (
            1 if self.main[0] < self.width / 2 else -1,
            1 if self.main[1] < self.height / 2 else -1,
        )

    @property
    def apron(self) -> Spot:
        """The place below the main ramp, from which middle ground leads to the natural."""
        x, y = self.ramp_direction
        return self.main[0] + x * APRON_OFFSET, self.main[1] + y * APRON_OFFSET


def _border(cells: int) -> int:
    return min(BORDER, (LARGEST - cells) // 2)


def _designed(entry: dict[str, Any]) -> Design:
    """Returns a design that names all places, in cells of the playable area."""
    width, height = entry["playable"]
    left, bottom = _border(width), _border(height)

    def at(place: list[Any]) -> tuple[int, int]:
        return place[0] + left, place[1] + bottom

    natural = at(entry["natural"])
    x0, y0, x1, y1 = entry["exit"]
    return Design(
        name=entry["name"],
        width=width + 2 * left,
        height=height + 2 * bottom,
        border=(left, bottom),
        main=at(entry["main"]),
        natural=natural,
        exit=(natural[0] + x0, natural[1] + y0, natural[0] + x1, natural[1] + y1),
        others=tuple((*at(place), len(place) > 2) for place in entry["others"]),
        walls=tuple((*at(wall), wall[2], wall[3]) for wall in entry["walls"]),
        rocks=tuple(at(rock) for rock in entry["rocks"]),
    )


def _stand_in(entry: dict[str, Any]) -> Design:
    """Returns a design of a given size and number of bases."""
    width, height = (cells + 2 * _border(cells) for cells in entry["playable"])
    left, bottom = (_border(cells) for cells in entry["playable"])
    signs = [_SIDES[side] for side in entry["corner"].split()]
    north, east = signs[0][1] > 0, signs[1][0] > 0
    main = (
        width - left - _CORNER_INSET if east else left + _CORNER_INSET,
        height - bottom - _CORNER_INSET if north else bottom + _CORNER_INSET,
    )
    along = _SIDES[entry["natural"]]
    natural = (main[0] + along[0] * _NATURAL_GAP, main[1] + along[1] * _NATURAL_GAP)
    bare = Design(
        name=entry["name"],
        width=width,
        height=height,
        border=(left, bottom),
        main=main,
        natural=natural,
        exit=_way_out(natural, (width, height)),
        others=(),
        walls=(),
    )
    others = _other_bases(bare, entry["bases"] // 2 - 2)
    full = dataclasses.replace(bare, others=others)
    return dataclasses.replace(full, walls=_walls(full), rocks=_rocks(full))


def _way_out(natural: Spot, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """Returns the ramp from a natural towards the map's centre, in whole cells."""
    dx, dy = size[0] / 2 - natural[0], size[1] / 2 - natural[1]
    length = math.hypot(dx, dy)
    start, end = (
        (round(natural[0] + dx / length * far), round(natural[1] + dy / length * far))
        for far in (_EXIT_START, _EXIT_END)
    )
    return (*start, *end)


def _both(design: Design, spot: Spot) -> tuple[Spot, Spot]:
    """Returns a place and its mirror image."""
    return spot, (design.width - spot[0], design.height - spot[1])


def _to_segment(spot: Spot, start: Spot, end: Spot) -> float:
    """Returns the distance between a point and a line from start to end."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    along = (spot[0] - start[0]) * dx + (spot[1] - start[1]) * dy
    along = min(max(along / (dx * dx + dy * dy), 0.0), 1.0)
    return math.hypot(spot[0] - start[0] - along * dx, spot[1] - start[1] - along * dy)


def _is_low_ground(design: Design, spot: Spot) -> bool:
    """Returns whether a base fits at a place, away from plateaus, aprons and ways out."""
    x0, y0, x1, y1 = design.exit
    return all(
        math.dist(place, design.main) >= MAIN_RADIUS + _PLATEAU_GAP
        and math.dist(place, design.natural) >= NATURAL_RADIUS + _PLATEAU_GAP
        and _to_segment(place, design.apron, design.natural)
        >= APRON_HALF_WIDTH + _PLATEAU_GAP
        and _to_segment(place, (x0, y0), (x1, y1)) >= _WAY_GAP
        for place in _both(design, spot)
    )


def _other_bases(design: Design, count: int) -> tuple[tuple[int, int, bool], ...]:
    """Returns bases as far from each other as they fit, nearest to the natural first.

    The last, which is the farthest from a natural, is rich.
    """
    left, bottom = design.border
    columns = range(left + _BASE_INSET, design.width - left - _BASE_INSET + 1, 2)
    rows = range(bottom + _BASE_INSET, design.height - bottom - _BASE_INSET + 1, 2)
    spots = sorted(
        (
            spot
            for spot in itertools.product(columns, rows)
            if _is_low_ground(design, spot)
        ),
        key=lambda spot: (math.dist(spot, design.natural), spot),
    )
    for gap in range(_BASE_GAP, 0, -1):
        bases: list[tuple[int, int]] = []
        for spot in spots:
            taken = [place for base in bases for place in _both(design, base)]
            mirror = math.dist(*_both(design, spot))
            if mirror >= gap and all(math.dist(spot, place) >= gap for place in taken):
                bases.append(spot)
        if len(bases) >= count:
            break
    last = count - 1
    return tuple((*base, i == last) for i, base in enumerate(bases[:count]))


def _is_free(design: Design, spot: Spot) -> bool:
    """Returns whether a block at a place is in nobody's way."""
    x0, y0, x1, y1 = design.exit
    bases = [design.main, design.natural, *(base[:2] for base in design.others)]
    places = [place for base in bases for place in _both(design, base)]
    return all(math.dist(spot, place) >= _BLOCK_GAP for place in places) and all(
        _to_segment(place, (x0, y0), (x1, y1)) >= _WAY_GAP
        and _to_segment(place, design.apron, design.natural) >= _BLOCK_GAP
        for place in _both(design, spot)
    )


def _walls(design: Design) -> tuple[tuple[int, int, int, int], ...]:
    """Returns blocks on the lines between the middle of the map and its edges."""
    x, y = design.width // 2, design.height // 2
    spots = ((x, y + 18), (x + 24, y - 6), (x - 10, y - 34), (x + 36, y + 24))
    return tuple(
        (*spot, 3 + i % 2, 4 - i % 2)
        for i, spot in enumerate(spots)
        if _is_free(design, spot)
    )


def _rocks(design: Design) -> tuple[tuple[int, int], ...]:
    """Returns a place for rocks near the way out of the natural."""
    x, y = design.width // 2, design.height // 2
    spots = ((x + 14, y - 20), (x - 20, y - 16), (x + 30, y + 6), (x, y - 30))
    return tuple(spot for spot in spots if _is_free(design, spot))[:1]


def _read() -> dict[str, Any]:
    folder = resources.files("starmill.engines.skirmish.simulation.maps")
    entries: dict[str, Any] = json.loads(
        folder.joinpath("designs.json").read_text("utf-8")
    )
    return entries


DESIGNS = {entry["name"]: _designed(entry) for entry in _read()["designs"]}
STAND_INS = {entry["name"]: _stand_in(entry) for entry in _read()["stand_ins"]}
