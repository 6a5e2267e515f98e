"""All maps by name.

In: nothing. Out: `MAPS`, the ladder's maps, and `map_named` for these and all others. A map is
drawn once per process.
"""

import functools

from starmill.engines.skirmish.simulation.maps import drawing, flat
from starmill.engines.skirmish.simulation.maps.game_map import GameMap


@functools.cache
def map_named(name: str) -> GameMap:
    """Returns the map of this name. Raises KeyError if there is none."""
    designs = {design.name: design for design in drawing.DESIGNS}
    return drawing.draw(designs[name]) if name in designs else flat.map_named(name)


def all_names() -> tuple[str, ...]:
    """Returns the names of all maps: the ladder's, then those of tests and mini-games."""
    return (*MAPS, *flat.names())


MAPS: dict[str, GameMap] = {
    design.name: map_named(design.name) for design in drawing.DESIGNS
}
