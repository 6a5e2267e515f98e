"""A game in progress: this process's player against the computer or against another process.

In: the player's inputs and numbers of loops to play. Out: the game, what happened since it was
last asked, and the replay. Inputs are recorded before they are played, player 1's before player
2's. Must not know: the protocol.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from starmill.engines.skirmish import versions
from starmill.engines.skirmish.players import bots
from starmill.engines.skirmish.replays import members, recorder
from starmill.engines.skirmish.server import faults, lockstep, played_inputs
from starmill.engines.skirmish.server.played_inputs import PlayedInput
from starmill.engines.skirmish.simulation import game, maps, records
from starmill.schema import errors
from starmill.schema.game_constants import BUILDS, RANDOM

_DIED = records.EVENT_DIED
_WATCH_LOOPS = 160
# Between two processes, an input is known to both one loop later, as in the real game.
_PEER_DELAY_LOOPS = 1
# The real game centres each camera on its player's start on this loop, and reports it.
_CENTRING_LOOP = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Entry:
    """An input that waits for its loop.

    Attributes:
        item: the player's input.
        origin: what the client asked for; None if it is not this process's client's.
        implied: whether it only accompanies what the client asked for.
    """

    item: game.Input
    origin: object | None = None
    implied: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seat:
    """One player before the game starts.

    Attributes:
        race: the requested race id; may be RANDOM.
        name: the player's name; may be empty.
        difficulty: a computer's Difficulty; 0 for a participant.
        build: a computer's AIBuild; meaningless for a participant.
        absent: whether nobody takes this seat, so that one player plays alone.
    """

    race: int
    name: str
    difficulty: int = 0
    build: int = BUILDS["random"]
    absent: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class GameSetup:
    """What both processes of a game must agree on before its first loop.

    Attributes:
        map_name: the map's name, as `maps.map_named` takes it.
        seed: the game's seed.
        disable_fog: whether both players see the whole map.
        seats: players 1 and 2.
    """

    map_name: str
    seed: int
    disable_fog: bool
    seats: tuple[Seat, Seat]

    def setups(self) -> tuple[game.PlayerSetup, game.PlayerSetup]:
        """Returns each player's start and race. The seed decides what is random."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        first_start = int(rng.integers(2))
        mini_game = maps.map_named(self.map_name).mini_game
        no_fog = self.disable_fog or (mini_game is not None and not mini_game.fog)
        setups = []
        for index, seat in enumerate(self.seats):
            race = int(rng.integers(1, 4))
            level = bots.computer_setup(seat.difficulty)
            setups.append(
                game.PlayerSetup(
                    race_requested=seat.race,
                    race=race if seat.race == RANDOM else seat.race,
                    start=first_start if index == 0 else 1 - first_start,
                    income=level.income,
                    all_visible=level.all_visible or no_fog,
                    absent=seat.absent,
                    prompt=not seat.difficulty and not seat.absent,
                )
            )
        return setups[0], setups[1]


class LiveGame:
    """A game in progress, as this process's client plays it.

    Attributes:
        setup: what the game began with.
        player: this process's player, 1 or 2; for an observer, the one it watches, or WATCHER.
        peer: the connection to the other process; None against the computer.
        participants: players 1 and 2, as the replay names them.
        game: the game at its present loop.
    """

    def __init__(
        self,
        setup: GameSetup,
        player: int,
        version: versions.Version,
        *,
        peer: lockstep.Peer | None = None,
        injector: faults.FaultInjector | None = None,
    ) -> None:
        self.setup = setup
        self.player = player
        self.peer = peer
        self._version = version
        self._injector = injector or faults.FaultInjector()
        self._starts = 0
        self.participants = tuple(
            members.Participant(
                name=seat.name or f"Player {number}",
                computer=seat.difficulty > 0,
                difficulty=seat.difficulty,
                build=seat.build,
            )
            for number, seat in enumerate(setup.seats, start=1)
        )
        self.start()

    def start(self) -> None:
        """Starts the game, or starts it over. Mini-games put units elsewhere each time."""
        game_map = maps.map_named(self.setup.map_name)
        seed = self.setup.seed + (self._starts if game_map.mini_game else 0)
        self._starts += 1
        self.game = game.Game(game_map, self.setup.setups(), seed)
        first, second = self.participants
        self._recorder = recorder.Recorder(self.game, (first, second), self._version)
        self._bots = {
            number: bots.computer(
                seat.difficulty,
                self.game.players[number - 1].race,
                self.setup.seed,
                seat.build,
            )
            for number, seat in enumerate(self.setup.seats, start=1)
            if seat.difficulty
            and game_map.melee  # without units there is nothing to do
        }
        self._pending: list[_Entry] = []
        # Inputs by the loop on which they are played. The game centres the cameras itself.
        self._due: dict[int, list[_Entry]] = {_CENTRING_LOOP: self._centring()}
        self._played: list[PlayedInput] = []
        self._dead: list[int] = []
        self._refused: list[game.CommandError] = []

    def _centring(self) -> "list[_Entry]":
        """Returns the camera moves to the starts of all players but computers."""
        moves = []
        for number, seat in enumerate(self.setup.seats, start=1):
            camera = self.game.world.players[number]
            if not seat.difficulty and not seat.absent:
                x, y = float(camera["camera_x"]), float(camera["camera_y"])
                moves.append(_Entry(item=game.CameraMove(number, x, y)))
        return moves

    @property
    def plays(self) -> bool:
        """Whether this process's client is a player, and not an observer."""
        return self.player != records.WATCHER and (
            not self.setup.seats[self.player - 1].difficulty
        )

    @property
    def ended(self) -> bool:
        """Whether the game has a result."""
        return self.game.result is not None

    @property
    def results(self) -> dict[int, str] | None:
        """Results by player who takes part, None while the game goes on."""
        return results(self.game)

    def give(
        self,
        inputs: Sequence[game.Input],
        origin: object | None = None,
        *,
        implied: bool = False,
    ) -> None:
        """Queues inputs of this process's player.

        They are played on the next loop, or between two processes on the one after that, since the
        other process must know them by then.
        origin: what the client asked for; `take_played` returns it with the inputs.
        implied: whether the client did not ask for them itself.
        """
        self._pending += [
            _Entry(item=item, origin=origin, implied=implied) for item in inputs
        ]

    def step(self, loops: int, chat: Sequence[str] = ()) -> None:
        """Plays this many loops, or fewer if the game ends. chat: lines for the other process."""
        target = self.game.loop + loops
        if loops > 0:
            self._schedule(target, chat)
        while self.game.loop < target and self.game.result is None:
            stop = self._injector.stop_at()
            if stop is not None and self.game.loop >= stop:
                self._injector.crash()
            quiet = self._quiet_until(target if stop is None else min(target, stop))
            if quiet > self.game.loop:
                self.game.advance(quiet - self.game.loop)
            else:
                self._play_one()
            if self.game.loop % _WATCH_LOOPS == 0:
                self._drain()
        self._injector.at_loop(self.game.loop)
        self._drain()

    def _schedule(self, target: int, chat: Sequence[str]) -> None:
        """Fixes the loop on which pending inputs are played, and tells the other process."""
        loop = self.game.loop + (_PEER_DELAY_LOOPS if self.peer is not None else 0)
        if self.peer is not None:
            items = [entry.item for entry in self._pending]
            self.peer.announce(loop, target, items, chat)
        if self._pending:
            self._due.setdefault(loop, []).extend(self._pending)
            self._pending = []

    def _quiet_until(self, target: int) -> int:
        """Returns the loop before which no player gives inputs, at most `target`."""
        if self.peer is not None:
            return self.game.loop
        watch = (self.game.loop // _WATCH_LOOPS + 1) * _WATCH_LOOPS
        bots_next = (bot.next_loop for bot in self._bots.values())
        return min(target, watch, *bots_next, *self._due)

    def _play_one(self) -> None:
        loop = self.game.loop
        entries = self._due.pop(loop, [])
        for number, bot in self._bots.items():
            entries += [_Entry(item=item) for item in bot.act(self.game, number)]
        if self.peer is not None:
            other = 3 - self.player
            here = self.peer.wait_for(loop)
            items = self.peer.take(loop) if here else [game.Leave(other)]
            entries += [_Entry(item=item) for item in items]
        self._play(entries)

    def _play(self, entries: "list[_Entry]") -> None:
        """Records inputs, player 1's first, and plays one loop with them."""
        admitted: list[tuple[game.Input, object | None, bool]] = []
        for entry in sorted(entries, key=lambda entry: entry.item.player):
            *implied, item = self._recorder.admit([entry.item])
            admitted += [(one, entry.origin, True) for one in implied]
            admitted.append((item, entry.origin, entry.implied))
        own = [one for one in admitted if one[0].player == self.player]
        self._played += played_inputs.note(self.game, own)
        self.game.step([item for item, _, _ in admitted])

    def _drain(self) -> None:
        events = self._recorder.watch()
        self._dead += [int(tag) for tag in events["tag"][events["kind"] == _DIED]]
        self._refused += self.game.take_errors()

    def leave(self, loser: int | None = None) -> None:
        """Surrenders, and tells the other process.

        loser: the player who surrenders, for debugging; None for this process's player.
        """
        if self.game.result is not None or not (loser or self.plays):
            return
        surrender = game.Leave(loser or self.player)
        loop = self.game.loop
        entries = self._due.pop(loop, [])
        if self.peer is not None:
            self.peer.announce(loop, loop + 1, [surrender], ())
        else:
            entries += self._pending
        self._pending = []
        self._play([*entries, _Entry(item=surrender)])

    def take_played(self) -> Sequence[PlayedInput]:
        """Returns the inputs of this process's player since the last call."""
        played, self._played = self._played, []
        return played

    def take_errors(self) -> list[game.CommandError]:
        """Returns the commands refused since the last call."""
        refused, self._refused = self._refused, []
        return refused

    def take_dead(self) -> list[int]:
        """Returns the tags of units that died since the last call."""
        dead, self._dead = self._dead, []
        return dead

    def replay(self) -> bytes:
        """Returns the replay of the game so far."""
        self._drain()
        return self._recorder.replay()

    def close(self) -> None:
        """Closes the connection to the other process."""
        if self.peer is not None:
            self.peer.close()


def results(finished: game.Game) -> dict[int, str] | None:
    """Returns the results of the players who take part, None while a game goes on."""
    if finished.result is None:
        return None
    return {
        player: result
        for player, result in finished.result.items()
        if not finished.players[player - 1].absent
    }


def setup_to_json(setup: GameSetup) -> dict[str, Any]:
    """Returns the setup as the JSON values that a host sends to the process that joins."""
    return dataclasses.asdict(setup)


def setup_from_json(values: dict[str, Any] | None) -> GameSetup:
    """Returns the setup that a host sent; EngineError if it sent none."""
    if values is None:
        raise errors.EngineError("the host closed the connection before the game began")
    first, second = (Seat(**seat) for seat in values["seats"])
    return GameSetup(**{**values, "seats": (first, second)})
