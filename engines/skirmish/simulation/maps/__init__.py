"""The maps: terrain, bases and neutral units, drawn from a few numbers each.

Enters: designs of ladder maps, sizes of flat ones, descriptions of mini-games. Leaves: `MAPS`, the
ladder's maps by name, and `map_named` for all. Must not know: rules, a game in progress.
"""

from starmill.engines.skirmish.simulation.maps.atlas import MAPS, all_names, map_named
from starmill.engines.skirmish.simulation.maps.designs import STAND_INS
from starmill.engines.skirmish.simulation.maps.game_map import (
    LEVEL_HEIGHTS,
    Base,
    GameMap,
    Resource,
)
from starmill.engines.skirmish.simulation.maps.mini_games import MINI_GAMES, MiniGame

__all__ = [
    "LEVEL_HEIGHTS",
    "MAPS",
    "MINI_GAMES",
    "STAND_INS",
    "Base",
    "GameMap",
    "MiniGame",
    "Resource",
    "all_names",
    "map_named",
]
