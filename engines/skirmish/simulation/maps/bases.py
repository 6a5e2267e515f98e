"""Bases: the mineral fields and geysers around a place for a town hall.

In: where the town hall goes, and on which side the map's centre is. Out: a `Base`, and its mirror
image under half a turn. Knows unit types, but no rules.
"""

import dataclasses
from collections.abc import Sequence

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.maps.game_map import Base, Resource

# Resources around a town hall at (0, 0), for a base with its back to the west and north. Bots
# look for a town hall's place by themselves: the place that is nearest to all resources and at
# least 6 cells from minerals and 7 from geysers. With these offsets, that is (0, 0).
MINERAL_OFFSETS = (
    (-6.5, -3),
    (-7.5, -1),
    (-7.5, 1),
    (-6.5, 2),
    (-6.5, 4),
    (-3.5, 6),
    (-1.5, 6),
    (0.5, 6),
)
GEYSER_OFFSETS = ((5, 7), (-7, -6))
MINERALS, MINERALS_SMALL, VESPENE = 1800, 900, 2250  # in a field, a small one, a geyser


def pair(
    x: float,
    y: float,
    size: tuple[int, int],
    *,
    rich: bool = False,
    geysers: Sequence[tuple[int, int]] = GEYSER_OFFSETS,
) -> tuple[Base, Base]:
    """Returns a base and its mirror image. Resources are on the side away from the map's centre.

    Args:
        x: of the town hall's centre.
        y: likewise.
        size: of the map: width and height in cells.
        rich: whether its minerals and gas are rich.
        geysers: offsets from the town hall, for a base with its back to the west and north.
    """
    flip_x = 1 if x < size[0] / 2 else -1
    flip_y = 1 if y >= size[1] / 2 else -1
    resources = _resources(x, y, flip_x, flip_y, rich=rich, geysers=geysers)
    base = Base(x=x, y=y, resources=resources)
    return base, _mirrored(base, size)


def _resources(
    x: float,
    y: float,
    flip_x: int,
    flip_y: int,
    *,
    rich: bool,
    geysers: Sequence[tuple[int, int]],
) -> tuple[Resource, ...]:
    """Returns a base's mineral fields and geysers."""
    resources = []
    for index, (dx, dy) in enumerate(MINERAL_OFFSETS):
        small = index % 2 == 1
        kind = ids.UNIT_MINERAL_FIELD_750 if small else ids.UNIT_MINERAL_FIELD
        resources.append(
            Resource(
                unit_type=ids.UNIT_RICH_MINERAL_FIELD if rich else kind,
                x=x + dx * flip_x,
                y=y + dy * flip_y,
                minerals=MINERALS_SMALL if small else MINERALS,
            )
        )
    for dx, dy in geysers:
        resources.append(
            Resource(
                unit_type=ids.UNIT_RICH_GEYSER if rich else ids.UNIT_GEYSER,
                x=x + dx * flip_x,
                y=y + dy * flip_y,
                vespene=VESPENE,
            )
        )
    return tuple(resources)


def _mirrored(base: Base, size: tuple[int, int]) -> Base:
    return Base(
        x=size[0] - base.x,
        y=size[1] - base.y,
        resources=tuple(
            dataclasses.replace(r, x=size[0] - r.x, y=size[1] - r.y)
            for r in base.resources
        ),
    )
