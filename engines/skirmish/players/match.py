"""One game between two players in this process, from setup to result.

In: a map, two setups, two players, a seed. Out: a finished game, or a `Match`: the inputs by loop
and how it ended. Setups, seed and inputs determine the whole game. Between inputs, the compiled
code plays many loops at once. Must not know: what kind of player it asks, or replay files.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import (
    Game,
    Input,
    Leave,
    PlayerSetup,
)

MAX_LOOPS = 40_000  # half an hour; then the game is a draw
WATCH_LOOPS = 160


class Player(Protocol):
    """A source of one player's inputs.

    Attributes:
        next_loop: the loop before which it gives no inputs.
    """

    next_loop: int

    def act(self, game: Game, player: int) -> list[Input]:
        """Returns the player's inputs for the coming loop."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """A finished game.

    Attributes:
        map_name: the map's name, a key of `maps.MAPS`.
        setups: the setups of players 1 and 2.
        seed: the game's seed.
        inputs: (loop, input) in the order in which they were applied.
        result: "win", "loss" or "tie" by player number.
        loops: the loop on which it ended.
    """

    map_name: str
    setups: tuple[PlayerSetup, PlayerSetup]
    seed: int
    inputs: tuple[tuple[int, Input], ...]
    result: dict[int, str]
    loops: int


def play_out(
    game: Game,
    players: Sequence[Player],
    *,
    max_loops: int = MAX_LOOPS,
    admit: Callable[[list[Input]], list[Input]] = list,
    watch: Callable[[], None] | None = None,
) -> None:
    """Plays a game to its end.

    Args:
        game: the game.
        players: players 1 and 2.
        max_loops: the loop on which both players leave, which makes the game a draw.
        admit: called with each loop's inputs; returns them in the form to be played.
        watch: called every WATCH_LOOPS loops, so that a recorder can collect the game's events
            before their buffer is full.
    """
    while game.result is None:
        loop = game.loop
        until = min(max_loops, *(player.next_loop for player in players))
        if watch is not None:
            until = min(until, (loop // WATCH_LOOPS + 1) * WATCH_LOOPS)
        inputs: list[Input] = []
        if loop >= max_loops:
            inputs = [Leave(1), Leave(2)]
        elif until <= loop:
            for number, player in enumerate(players, start=1):
                inputs += player.act(game, number)
        if until > loop:
            game.advance(until - loop)
        else:
            game.step(admit(inputs))
        if watch is not None and game.loop % WATCH_LOOPS == 0:
            watch()


def play_match(
    game_map: maps.GameMap,
    setups: tuple[PlayerSetup, PlayerSetup],
    players: Sequence[Player],
    seed: int,
    *,
    max_loops: int = MAX_LOOPS,
) -> Match:
    """Plays a game to its end and returns what happened."""
    game = Game(game_map, setups, seed)
    inputs: list[tuple[int, Input]] = []

    def record(loop_inputs: list[Input]) -> list[Input]:
        inputs.extend((game.loop, item) for item in loop_inputs)
        return loop_inputs

    play_out(game, players, max_loops=max_loops, admit=record)
    if game.result is None:
        raise AssertionError("play_out stops at a result")
    return Match(
        map_name=game_map.name,
        setups=setups,
        seed=seed,
        inputs=tuple(inputs),
        result=game.result,
        loops=game.loop,
    )


def replay_match(match: Match, until: int | None = None) -> Game:
    """Plays a match again up to its end, or up to loop `until` if that is earlier.

    Inputs on the loop at which it stops, such as the surrender that ended the match, are not
    applied.
    """
    end = match.loops if until is None else min(until, match.loops)
    game = Game(maps.MAPS[match.map_name], match.setups, match.seed)
    queue = list(match.inputs)
    index = 0
    while game.result is None and game.loop < end:
        upcoming = min(queue[index][0], end) if index < len(queue) else end
        if upcoming > game.loop:
            game.advance(upcoming - game.loop)
            continue
        inputs = []
        while index < len(queue) and queue[index][0] == game.loop:
            inputs.append(queue[index][1])
            index += 1
        game.step(inputs)
    return game
