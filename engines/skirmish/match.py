"""One game between two bots, from setup to result, with a record of every input.

In: a map, two setups, two bots, a seed. Out: a `Match`: the inputs by loop (which, with setup
and seed, are the whole game) and how it ended. Plays in the compiled code between decisions.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from starmill.engines.skirmish import game as game_lib
from starmill.engines.skirmish import maps

MAX_LOOPS = 40_000  # half an hour: whoever is still alive then shares the point


class Player(Protocol):
    """Whoever gives inputs. next_loop: the loop at which to ask again."""

    next_loop: int

    def act(self, game: game_lib.Game, player: int) -> list[game_lib.Input]:
        """Returns the player's inputs for the coming loop."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """A finished game.

    inputs: (loop, input) in the order in which they were applied. result: by player id.
    loops: how long it took.
    """

    map_name: str
    setups: tuple[game_lib.PlayerSetup, game_lib.PlayerSetup]
    seed: int
    inputs: tuple[tuple[int, game_lib.Input], ...]
    result: dict[int, str]
    loops: int


def play_match(
    game_map: maps.GameMap,
    setups: tuple[game_lib.PlayerSetup, game_lib.PlayerSetup],
    players: Sequence[Player],
    seed: int,
    *,
    max_loops: int = MAX_LOOPS,
) -> Match:
    """Plays a game to its end and returns its record; a game over max_loops is a tie."""
    game = game_lib.Game(game_map, setups, seed)
    inputs: list[tuple[int, game_lib.Input]] = []
    while game.result is None and game.loop < max_loops:
        wait = min(p.next_loop for p in players) - game.loop
        if wait > 0:
            game.advance(min(wait, max_loops - game.loop))
            continue
        now: list[game_lib.Input] = []
        for number, player in enumerate(players, start=1):
            now += player.act(game, number)
        inputs += [(game.loop, item) for item in now]
        game.step(now)
    return Match(
        map_name=game_map.name,
        setups=setups,
        seed=seed,
        inputs=tuple(inputs),
        result=game.result or {1: "tie", 2: "tie"},
        loops=game.loop,
    )


def replay_match(match: Match) -> game_lib.Game:
    """Plays a record again and returns the game at its end."""
    game = game_lib.Game(maps.MAPS[match.map_name], match.setups, match.seed)
    queue = list(match.inputs)
    index = 0
    while game.result is None and game.loop < match.loops:
        upcoming = queue[index][0] if index < len(queue) else match.loops
        if upcoming > game.loop:
            game.advance(upcoming - game.loop)
            continue
        now = []
        while index < len(queue) and queue[index][0] == game.loop:
            now.append(queue[index][1])
            index += 1
        game.step(now)
    return game
