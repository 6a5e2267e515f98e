"""One game between two bots, from setup to result, with a record of every input.

In: a map, two setups, two bots, a seed. Out: a `Match`: the inputs by loop (which, with setup
and seed, are the whole game) and how it ended. Plays in the compiled code between decisions.
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

MAX_LOOPS = 40_000  # half an hour: whoever is still alive then shares the point
WATCH_LOOPS = 160


class Player(Protocol):
    """Whoever gives inputs. next_loop: the loop at which to ask again."""

    next_loop: int

    def act(self, game: Game, player: int) -> list[Input]:
        """Returns the player's inputs for the coming loop."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """A finished game.

    inputs: (loop, input) in the order in which they were applied. result: by player id.
    loops: how long it took.
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

    At max_loops both players leave at once: a draw, which nobody refuses by then. admit: writes
    down a loop's inputs and returns them as they must be played. watch: called every
    WATCH_LOOPS, for whoever must take note of events before there are too many.
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
    """Plays a game to its end and returns its record."""
    game = Game(game_map, setups, seed)
    inputs: list[tuple[int, Input]] = []

    def note(now: list[Input]) -> list[Input]:
        inputs.extend((game.loop, item) for item in now)
        return now

    play_out(game, players, max_loops=max_loops, admit=note)
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
    """Plays a record again and returns the game at its end, or at loop `until`."""
    end = match.loops if until is None else min(until, match.loops)
    game = Game(maps.MAPS[match.map_name], match.setups, match.seed)
    queue = list(match.inputs)
    index = 0
    while game.result is None and game.loop < end:
        upcoming = min(queue[index][0], end) if index < len(queue) else end
        if upcoming > game.loop:
            game.advance(upcoming - game.loop)
            continue
        now = []
        while index < len(queue) and queue[index][0] == game.loop:
            now.append(queue[index][1])
            index += 1
        game.step(now)
    return game
