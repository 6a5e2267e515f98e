"""All maps by name.

In: nothing. Out: `MAPS`, the ladder's maps, and `map_named` for these and all others. A map is
drawn once per process.
"""

import functools

from starmill.engines.skirmish.simulation.maps import drawing, flat
from starmill.engines.skirmish.simulation.maps.designs import DESIGNS, STAND_INS
from starmill.engines.skirmish.simulation.maps.game_map import GameMap


@functools.cache
def map_named(name: str) -> GameMap:
    """Returns the map of this name. Raises KeyError if there is none."""
    design = DESIGNS.get(name) or STAND_INS.get(name)
    return drawing.draw(design) if design else flat.map_named(name)


def all_names() -> tuple[str, ...]:
    """Returns the names of all maps: the ladder's, the stand-ins, then the flat ones."""
    return (*DESIGNS, *STAND_INS, *flat.names())


MAPS: dict[str, GameMap] = {name: map_named(name) for name in DESIGNS}
