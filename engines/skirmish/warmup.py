"""Compiling the game before anybody waits for it.

The simulation is compiled on first use and kept on disk beside the package, once per machine
and release; that takes a minute or two, longer than a client waits for an answer. `skirmish
install` does it in advance.
"""

import time

from starmill.engines.skirmish import entries, maps, rules
from starmill.engines.skirmish import game as game_lib


def compile_game() -> float:
    """Compiles every function that a game or a query calls; returns the seconds it took."""
    began = time.monotonic()
    players = tuple(
        game_lib.PlayerSetup(race_requested=race, race=race, start=race - 1)
        for race in (game_lib.TERRAN, game_lib.ZERG)
    )
    game = game_lib.Game(next(iter(maps.MAPS.values())), (players[0], players[1]), 1)
    tag = int(game.world.units["tag"][game.world.units["owner"] == 1][0])
    stop = rules.ability_id("Stop_Stop")
    game.step([game_lib.UnitCommand(1, stop, (tag,))])
    game.step([game_lib.Autocast(1, stop, (tag,))])
    game.advance(2)
    row = int(game.rows_of([tag])[0])
    game.available_abilities(row)
    x, y = game.map.starts[0]
    depot = rules.unit_id("SupplyDepot")
    entries.placement_error(game.world.state, 1, depot, x, y)
    marine = rules.unit_id("Marine")
    entries.kill(
        game.world.state, entries.spawn(game.world.state, marine, 1, x, y, 1.0), -1
    )
    return time.monotonic() - began
