"""How fast Skirmish's game plays, without observations and without a server."""

import time

from perf import skirmish_server
from perf.row import Row
from starmill.engines.skirmish.players import bots, match
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import Game, PlayerSetup

FLOOR_LOOPS = 5000.0  # game loops a second on one core, mid-game
_MID_GAME = 8000
_LOOPS = 4000


def _mid_game() -> Game:
    """Returns a game in its middle: two bases each and armies on the way."""
    setups = (
        PlayerSetup(race_requested=1, race=1, start=0),
        PlayerSetup(race_requested=2, race=2, start=1),
    )
    players = [bots.human(6500, 1, 1, "macro"), bots.human(6500, 2, 2, "macro")]
    played = match.play_match(
        maps.MAPS["Frost Hollow"], setups, players, 3, max_loops=_MID_GAME
    )
    return match.replay_match(played, until=_MID_GAME)


def measure() -> list[Row]:
    """Returns loops a second mid-game, and of whole games with both bots thinking."""
    game = _mid_game()
    began = time.process_time()
    played = game.advance(_LOOPS)
    rate = played / (time.process_time() - began)
    rows = [
        Row(
            name="skirmish: game loops mid-game",
            unit="loops/s",
            ours=rate,
            floor=FLOOR_LOOPS,
            ok=rate >= FLOOR_LOOPS,
        )
    ]
    setups = (
        PlayerSetup(race_requested=3, race=3, start=0),
        PlayerSetup(race_requested=2, race=2, start=1),
    )
    began = time.process_time()
    whole = match.play_match(
        maps.MAPS["Amber Basin"],
        setups,
        [bots.human(5000, 3, 1), bots.human(5000, 2, 2)],
        5,
    )
    seconds = time.process_time() - began
    rows.append(
        Row(
            name="skirmish: a whole game of two bots",
            unit="loops/s",
            ours=whole.loops / seconds,
        )
    )
    return rows + skirmish_server.measure()
