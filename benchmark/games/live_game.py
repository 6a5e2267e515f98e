"""A live game in the dataset's own arrays: one or two seats, each played by an agent.

In: connected game processes (one per seat) and a setup. Out: per seat the observation when its
time has come, as `converters` makes it of the same bytes for the dataset: same interface
options, same virtual camera, same encoding of actions; and at the end the result and a replay.

Time: a seat acts at loop L with a delay d and is asked again at loop L + d, or later where the
throttle says so. The action is sent before loop L is played, so a replay records it on L and
the dataset's step there is the observation that the agent was given.
"""

import dataclasses
import socket
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from starmill.benchmark.games import throttle
from starmill.converters import episode as converter_episode
from starmill.converters import observation
from starmill.converters.protos import common_pb2, error_pb2, sc2api_pb2
from starmill.engines import game_process, playback
from starmill.engines.client import HOST, Client, Deadlines
from starmill.schema import errors, specs
from starmill.schema.agent import Agent
from starmill.schema.episode import Arrays
from starmill.schema.game_constants import (
    BUILDS,
    DIFFICULTIES,
    LOOPS_PER_MINUTE,
    RACE_IDS,
)
from starmill.schema.settings import ConverterSettings

_SUCCESS = error_pb2.Success


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """The game's own AI. difficulty: of DIFFICULTIES. build: of BUILDS."""

    difficulty: str = "very_hard"
    build: str = "random"

    def __post_init__(self) -> None:
        """Checks the names."""
        for name, value, known in (
            ("difficulty", self.difficulty, DIFFICULTIES),
            ("build", self.build, BUILDS),
        ):
            if value not in known:
                raise errors.ConfigError(
                    f"{name}: expected one of {', '.join(known)}; found {value!r}"
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """What a game follows from, besides the agents.

    map_path: as the game lists it (`available_maps`).
    seed: of the game: start positions and whatever else it draws.
    races: of the seats; with a built-in opponent, of the seat and the opponent.
    opponent: the built-in one; None where two seats play each other.
    max_loops: at this loop the game is stopped and is a draw.
    names: of the seats, for the replay; with a built-in opponent, also of that.
    """

    map_path: str
    seed: int
    races: tuple[str, str]
    opponent: BuiltIn | None = None
    max_loops: int = 60 * LOOPS_PER_MINUTE  # an hour
    limit: throttle.Limit = throttle.Limit()
    names: tuple[str, str] = ("home", "away")

    def __post_init__(self) -> None:
        """Checks races and length."""
        unknown = [race for race in self.races if race not in RACE_IDS]
        if unknown or len(self.races) != 2:
            raise errors.ConfigError(
                f"races: expected two of {', '.join(RACE_IDS)}; found {self.races!r}"
            )
        if self.max_loops < 1:
            raise errors.ConfigError(
                f"max_loops: expected 1 or more, found {self.max_loops}"
            )


class Ending(NamedTuple):
    """How a game ended. outcomes: per seat, 1, 0 or -1. reason: "won", "draw" or "limit"."""

    outcomes: tuple[int, ...]
    reason: str
    game_loops: int


@dataclasses.dataclass
class _Seat:
    """One agent's place: its game, its converter's memory, and when it is next asked."""

    client: Client
    converter: observation.Converter
    player_id: int
    throttle: throttle.Throttle
    due: int = 0
    asked: int = 0  # loop of its latest observation
    refused: int = 0
    arrays: Arrays = dataclasses.field(default_factory=dict)


class LiveGame:
    """A game in progress. Use: while not ended: for each due seat observe and act; advance."""

    def __init__(
        self,
        clients: Sequence[Client],
        setup: Setup,
        settings: Sequence[ConverterSettings],
        deadlines: Deadlines,
    ) -> None:
        """Creates the game on the first client, joins with all, and stands at loop 0.

        `settings` are each seat's; `supervised` is switched off, as nobody has acted yet.
        """
        wanted = 1 if setup.opponent is not None else 2
        if len(clients) != wanted or len(settings) != wanted:
            raise errors.ConfigError(
                f"expected {wanted} game processes and as many settings, found "
                f"{len(clients)} and {len(settings)}"
            )
        self._setup = setup
        self._deadlines = deadlines
        shown = [dataclasses.replace(one, supervised=False) for one in settings]
        self.loop = 0
        self.ending: Ending | None = None
        _create(clients[0], setup, deadlines.load)
        joined = _join(clients, setup, shown, deadlines.load)
        self._seats = [
            self._seat(*seat) for seat in zip(clients, joined, shown, strict=True)
        ]

    def _seat(
        self,
        client: Client,
        player_id: int,
        settings: ConverterSettings,
    ) -> _Seat:
        return _Seat(
            client=client,
            converter=observation.Converter(settings, client.game_info()),
            player_id=player_id,
            throttle=throttle.Throttle(self._setup.limit),
        )

    @property
    def due(self) -> list[int]:
        """Returns the seats that are to act now; all of them once the game has ended."""
        if self.ending is not None:
            return list(range(len(self._seats)))
        return [i for i, seat in enumerate(self._seats) if seat.due <= self.loop]

    @property
    def refused(self) -> tuple[int, ...]:
        """Returns how many actions of each seat the game refused."""
        return tuple(seat.refused for seat in self._seats)

    def observe(self, number: int) -> Arrays:
        """Returns the seat's observation of the present loop, with `prev_delay`."""
        seat = self._seats[number]
        if self.ending is not None:
            return seat.arrays
        self._look(seat)
        return seat.arrays

    def act(self, number: int, action: Arrays) -> None:
        """Sends a seat's action, and sets when the seat is due again."""
        seat = self._seats[number]
        memory = seat.converter.memory
        request, delay = seat.converter.action(action)
        delay = min(max(delay, 1), specs.MAX_DELAY)
        if request.actions:
            seat.throttle.note(self.loop)
            answer = seat.client.call(
                sc2api_pb2.Request(action=request), self._deadlines.play
            )
            results = sc2api_pb2.ResponseAction.FromString(answer).result
            if all(result != _SUCCESS for result in results):
                # Not part of the game, nor of its replay: as if it had not been tried.
                seat.refused += 1
                seat.converter.memory = memory
        seat.due = seat.throttle.earliest(self.loop + delay)

    def advance(self) -> None:
        """Plays until a seat is due, the game ends, or the limit is reached."""
        target = min(seat.due for seat in self._seats)
        target = min(max(target, self.loop + 1), self._setup.max_loops)
        step = sc2api_pb2.Request(step=sc2api_pb2.RequestStep(count=target - self.loop))
        # In a game of two processes neither plays on before the other is asked to.
        for seat in self._seats:
            seat.client.send(_copy(step), self._deadlines.play)
        for seat in self._seats:
            seat.client.receive()
        self.loop = target
        if any(seat.client.status == sc2api_pb2.ended for seat in self._seats):
            self._end()
        elif self.loop >= self._setup.max_loops:
            for seat in self._seats:
                self._look(seat)
            self.ending = Ending((0,) * len(self._seats), "limit", self.loop)

    def save_replay(self) -> bytes:
        """Returns the game's replay file; call before leaving."""
        request = sc2api_pb2.Request(save_replay=sc2api_pb2.RequestSaveReplay())
        answer = self._seats[0].client.call(request, self._deadlines.load)
        data = sc2api_pb2.ResponseSaveReplay.FromString(answer).data
        if not data:
            raise errors.EngineError("the game saved an empty replay")
        return data

    def leave(self) -> None:
        """Leaves the game, so that the processes can play another."""
        leave = sc2api_pb2.Request(leave_game=sc2api_pb2.RequestLeaveGame())
        for seat in self._seats:
            seat.client.send(_copy(leave), self._deadlines.load)
        for seat in self._seats:
            seat.client.receive()

    def _end(self) -> None:
        outcomes = []
        for seat in self._seats:
            answer = self._look(seat)
            outcome = converter_episode.outcome(answer, seat.player_id)
            if outcome is None:
                raise errors.EngineError(
                    f"the game ended at loop {self.loop} without a result for player "
                    f"{seat.player_id}"
                )
            outcomes.append(outcome)
        self.loop = max(int(seat.arrays["game_loop"]) for seat in self._seats)
        reason = "won" if any(outcomes) else "draw"
        self.ending = Ending(tuple(outcomes), reason, self.loop)

    def _look(self, seat: _Seat) -> bytes:
        """Fetches and converts the seat's observation; returns it as the game sent it."""
        seat.client.send_observation()
        answer = seat.client.receive()
        if playback.game_loop(answer) == playback.STUB_LOOP:
            # Only the result is left to tell; the latest arrays stay the last there are.
            if not seat.arrays:
                raise errors.EngineError("the game's first observation is a stub")
            return answer
        made = converter_episode.squeezed(seat.converter.convert(answer))
        loop = int(made["game_loop"])
        made["prev_delay"] = np.asarray(loop - seat.asked, np.int32)
        seat.asked = loop
        seat.arrays = made
        return answer


def _copy(request: sc2api_pb2.Request) -> sc2api_pb2.Request:
    """A client writes its id into the request, so two may not share one."""
    out = sc2api_pb2.Request()
    out.CopyFrom(request)
    return out


def _create(client: Client, setup: Setup, seconds: float) -> None:
    request = sc2api_pb2.RequestCreateGame(
        local_map=sc2api_pb2.LocalMap(map_path=setup.map_path),
        disable_fog=False,
        realtime=False,
        random_seed=setup.seed,
    )
    request.player_setup.add(type=sc2api_pb2.Participant)
    if setup.opponent is None:
        request.player_setup.add(type=sc2api_pb2.Participant)
    else:
        request.player_setup.add(
            type=sc2api_pb2.Computer,
            race=RACE_IDS[setup.races[1]],
            difficulty=DIFFICULTIES[setup.opponent.difficulty],
            ai_build=BUILDS[setup.opponent.build],
            player_name=setup.names[1],
        )
    answer = client.call(sc2api_pb2.Request(create_game=request), seconds)
    created = sc2api_pb2.ResponseCreateGame.FromString(answer)
    if created.HasField("error"):
        name = sc2api_pb2.ResponseCreateGame.Error.Name(created.error)
        raise errors.EngineMissing(
            f"the game cannot create {setup.map_path!r}: {name} {created.error_details}"
        )


def _join(
    clients: Sequence[Client],
    setup: Setup,
    settings: Sequence[ConverterSettings],
    seconds: float,
) -> list[int]:
    """Returns the player ids. All are asked before any is waited for: joining blocks."""
    ports = _free_ports(4) if len(clients) > 1 else []
    # With a built-in opponent there are two races and names, and one client.
    seats = zip(clients, settings, setup.races, setup.names, strict=False)
    for client, shown, race, name in seats:
        request = sc2api_pb2.RequestJoinGame(
            race=common_pb2.Race.Value(race.title()),
            options=playback.interface_options(shown),
            player_name=name,
        )
        if ports:
            # As pysc2 fills them in: the server's pair, the client's pair, no shared one.
            request.shared_port = 0
            request.server_ports.game_port, request.server_ports.base_port = ports[:2]
            request.client_ports.add(game_port=ports[2], base_port=ports[3])
        client.send(sc2api_pb2.Request(join_game=request), seconds)
    found = []
    for client in clients:
        joined = sc2api_pb2.ResponseJoinGame.FromString(client.receive())
        if joined.HasField("error"):
            name = sc2api_pb2.ResponseJoinGame.Error.Name(joined.error)
            raise errors.EngineError(
                f"the game cannot be joined: {name} {joined.error_details}"
            )
        found.append(int(joined.player_id))
    return found


def _free_ports(count: int) -> list[int]:
    """Returns ports that were free a moment ago; all are held until the last is found."""
    held = []
    try:
        for _ in range(count):
            held.append(socket.create_server((HOST, 0)))
        return [int(server.getsockname()[1]) for server in held]
    finally:
        for server in held:
            server.close()


def clients_of(games: Sequence[game_process.GameProcess]) -> list[Client]:
    """Returns the connected clients of leased games."""
    found = [game.client for game in games if game.client is not None]
    if len(found) != len(games):
        raise errors.EngineError("a leased game is not connected")
    return found


def play(
    clients: Sequence[Client],
    setup: Setup,
    agents: Sequence[Agent],
    deadlines: Deadlines,
) -> tuple[Ending, bytes]:
    """Plays one whole game and returns how it ended, with its replay.

    Agents sit in the order of the clients and are reset with seeds that follow from the game's.
    """
    game = LiveGame(clients, setup, [one.settings for one in agents], deadlines)
    for number, agent in enumerate(agents):
        agent.reset(setup.seed + number, setup.races[number])
    while game.ending is None:
        # All that are due look before any acts: simultaneous moves, whatever the order.
        seen = [(seat, game.observe(seat)) for seat in game.due]
        for seat, arrays in seen:
            game.act(seat, agents[seat].act(arrays))
        game.advance()
    replay = game.save_replay()
    game.leave()
    return game.ending, replay
