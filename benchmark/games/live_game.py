"""One game in progress, in the dataset's own arrays: one or two seats, an agent in each.

In: connected game processes (one per seat) and a `GameSetup`. Out: each seat's observation when
it is that seat's turn, and at the end the result and a replay. Observations come from the
converter that makes the dataset, with the same interface options, virtual camera and encoding
of actions. Must not know which agents play, or how they were loaded.

Time: a seat that acts at loop L with delay d acts again at loop L + d, or later if the throttle
says so. The game gets the action before it plays loop L, so the replay records it at L, and the
dataset's step at L is the observation that the agent saw.
"""

import dataclasses
import socket
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from starmill.benchmark.games import throttle
from starmill.benchmark.games.built_in import BuiltIn
from starmill.benchmark.statistics import material
from starmill.benchmark.statistics.decisions import DecisionLog
from starmill.benchmark.statistics.play_record import PlayRecord, Recorder
from starmill.benchmark.statistics.refusals import CommandLog, Refusal
from starmill.converters import episode
from starmill.converters.observation import Converter
from starmill.converters.protos import common_pb2, sc2api_pb2
from starmill.engines import playback
from starmill.engines.client import Client, Deadlines
from starmill.engines.game_process import GameProcess
from starmill.engines.websocket import HOST
from starmill.schema import errors, specs
from starmill.schema.agent import Agent, JudgingAgent, PredictingAgent
from starmill.schema.episode import Arrays
from starmill.schema.game_constants import (
    BUILDS,
    DIFFICULTIES,
    LOOPS_PER_MINUTE,
    RACE_IDS,
)
from starmill.schema.settings import ConverterSettings

MAX_MINUTES = 60.0
# Longer than for replays: the embedded game compiles itself on the first loop that it plays on
# a machine, and a game that misses a deadline starts again from its first loop.
DEADLINES = Deadlines(start=300.0, load=600.0, play=600.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GameSetup:
    """What determines a game, apart from the agents.

    Attributes:
        map_path: the map, as the game lists it (`map_pool.available`).
        seed: seeds the game: start positions and every other random choice.
        races: one per seat; with a built-in opponent, the seat's and the opponent's.
        opponent: the built-in opponent; None if two seats play each other.
        relay_ports: the four ports of a game whose second player joins by itself (`relay`); None
            of other games.
        max_loops: the game stops at this loop and is a draw.
        limit: how often each seat may act.
        names: players' names in the replay, in the order of `races`.
    """

    map_path: str
    seed: int
    races: tuple[str, str]
    opponent: BuiltIn | None = None
    relay_ports: tuple[int, int, int, int] | None = None
    max_loops: int = round(MAX_MINUTES * LOOPS_PER_MINUTE)
    limit: throttle.Limit = throttle.Limit()
    names: tuple[str, str] = ("home", "away")

    def __post_init__(self) -> None:
        """Checks the races and the length."""
        check_races(self.races)
        if self.max_loops < 1:
            raise errors.ConfigError(
                f"max_loops: expected 1 or more, found {self.max_loops}"
            )


def check_races(races: tuple[str, str]) -> None:
    """Raises ConfigError unless these are two races that a player can ask for."""
    if len(races) != 2 or any(race not in RACE_IDS for race in races):
        raise errors.ConfigError(
            f"races: expected two of {', '.join(RACE_IDS)}; found {races!r}"
        )


class Ending(NamedTuple):
    """How a game ended.

    Attributes:
        outcomes: per seat, 1 won, 0 drew, -1 lost.
        reason: "won", "draw" or "limit" (the game reached its last allowed loop).
        game_loops: the game's length.
    """

    outcomes: tuple[int, ...]
    reason: str
    game_loops: int


@dataclasses.dataclass
class _Seat:
    """One agent's place in the game.

    Attributes:
        client: the connection to the seat's game process.
        converter: turns the game's messages into arrays; remembers what the player saw.
        player_id: 1 or 2.
        throttle: counts the seat's actions.
        due: the loop at which the seat acts next.
        observed_loop: the loop of its latest observation.
        commands: the seat's commands, and which of them the game refused.
        arrays: its latest observation; empty before the first.
    """

    client: Client
    converter: Converter
    player_id: int
    throttle: throttle.Throttle
    due: int = 0
    observed_loop: int = 0
    commands: CommandLog = dataclasses.field(default_factory=CommandLog)
    arrays: Arrays = dataclasses.field(default_factory=dict)


class LiveGame:
    """A game in progress.

    Until `ending` is set: observe and act for each seat that is due, then advance.

    Attributes:
        loop: the present game loop.
        ending: how the game ended; None while it is in progress.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        setup: GameSetup,
        settings: Sequence[ConverterSettings],
        deadlines: Deadlines,
    ) -> None:
        """Creates the game on the first client and joins it with every client.

        The game then stands at loop 0. `settings` holds one entry per seat; `supervised` is
        switched off, because observations of a live game carry no recorded action.
        """
        alone = setup.opponent is not None or setup.relay_ports is not None
        seat_count = 1 if alone else 2
        if len(clients) != seat_count or len(settings) != seat_count:
            raise errors.ConfigError(
                f"expected {seat_count} game processes and as many settings, found "
                f"{len(clients)} and {len(settings)}"
            )
        self._setup = setup
        self._deadlines = deadlines
        live_settings = [dataclasses.replace(one, supervised=False) for one in settings]
        self.loop = 0
        self.ending: Ending | None = None
        _create(clients[0], setup, deadlines.load)
        player_ids = _join(clients, setup, live_settings, deadlines.load)
        self._seats = [
            self._seat(*seat)
            for seat in zip(clients, player_ids, live_settings, strict=True)
        ]

    def _seat(
        self,
        client: Client,
        player_id: int,
        settings: ConverterSettings,
    ) -> _Seat:
        return _Seat(
            client=client,
            converter=Converter(settings, client.game_info()),
            player_id=player_id,
            throttle=throttle.Throttle(self._setup.limit),
        )

    @property
    def due(self) -> list[int]:
        """Returns the seats that act now; every seat once the game has ended."""
        if self.ending is not None:
            return list(range(len(self._seats)))
        return [i for i, seat in enumerate(self._seats) if seat.due <= self.loop]

    @property
    def refused(self) -> tuple[tuple[Refusal, ...], ...]:
        """Returns the commands of each seat that the game refused, so far as it has said so."""
        return tuple(tuple(seat.commands.refused) for seat in self._seats)

    def observe(self, number: int) -> Arrays:
        """Returns the seat's observation of the present loop, `prev_delay` included."""
        seat = self._seats[number]
        if self.ending is not None:
            return seat.arrays
        self._look(seat)
        return seat.arrays

    def act(self, number: int, action: Arrays) -> None:
        """Sends a seat's action and schedules the seat's next turn."""
        seat = self._seats[number]
        memory = seat.converter.memory
        request, delay = seat.converter.action(action)
        delay = min(max(delay, 1), specs.MAX_DELAY)
        if request.actions:
            seat.throttle.note(self.loop)
            answer = seat.client.call(
                sc2api_pb2.Request(action=request), self._deadlines.play
            )
            function = int(action["function"])
            if seat.commands.note_request(self.loop, function, request, answer):
                # A refused action is not in the replay, so the converter must forget it.
                seat.converter.memory = memory
        seat.due = seat.throttle.earliest(self.loop + delay)

    def advance(self) -> None:
        """Plays until a seat is due, the game ends, or it reaches its last allowed loop."""
        target = min(seat.due for seat in self._seats)
        target = min(max(target, self.loop + 1), self._setup.max_loops)
        step = sc2api_pb2.Request(step=sc2api_pb2.RequestStep(count=target - self.loop))
        # Two processes play in lockstep: ask both before waiting for either.
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

    def material(self) -> material.Sides:
        """Returns what the first seat and its opponent have now, whatever the seat can see.

        It takes the seat's news of refused commands with it, so nobody may act afterwards.
        """
        client = self._seats[0].client
        data = client.call(
            sc2api_pb2.Request(data=sc2api_pb2.RequestData(unit_type_id=True)),
            self._deadlines.load,
        )
        request = sc2api_pb2.RequestObservation(disable_fog=True)
        answer = client.call(
            sc2api_pb2.Request(observation=request), self._deadlines.play
        )
        return material.sides(answer, data)

    def leave(self) -> None:
        """Leaves the game; its processes can then play another."""
        leave = sc2api_pb2.Request(leave_game=sc2api_pb2.RequestLeaveGame())
        for seat in self._seats:
            seat.client.send(_copy(leave), self._deadlines.load)
        for seat in self._seats:
            seat.client.receive()

    def _end(self) -> None:
        outcomes = []
        for seat in self._seats:
            answer = self._look(seat)
            outcome = episode.outcome(answer, seat.player_id)
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
        """Fetches and converts the seat's observation; returns the game's own message."""
        seat.client.send_observation()
        answer = seat.client.receive()
        seat.commands.note_observation(answer)
        if playback.game_loop(answer) == playback.STUB_LOOP:
            # The game has only its result left to report, so the latest arrays stay.
            if not seat.arrays:
                raise errors.EngineError("the game's first observation is a stub")
            return answer
        arrays = episode.squeezed(seat.converter.convert(answer))
        loop = int(arrays["game_loop"])
        arrays["prev_delay"] = np.asarray(loop - seat.observed_loop, np.int32)
        seat.observed_loop = loop
        seat.arrays = arrays
        return answer


def _copy(request: sc2api_pb2.Request) -> sc2api_pb2.Request:
    """Returns a copy: each client writes its own id into the request it sends."""
    copy = sc2api_pb2.Request()
    copy.CopyFrom(request)
    return copy


def _create(client: Client, setup: GameSetup, seconds: float) -> None:
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
    setup: GameSetup,
    settings: Sequence[ConverterSettings],
    seconds: float,
) -> list[int]:
    """Returns the player ids. Joining blocks, so all clients ask before any waits."""
    ports = free_ports() if len(clients) > 1 else setup.relay_ports
    # A game with a built-in opponent has two races and names, but one client.
    seats = zip(clients, settings, setup.races, setup.names, strict=False)
    for client, seat_settings, race, name in seats:
        request = sc2api_pb2.RequestJoinGame(
            race=common_pb2.Race.Value(race.title()),
            options=playback.interface_options(seat_settings),
            player_name=name,
        )
        if ports:
            # The same ports as pysc2 sets: the server's pair and the client's, none shared.
            request.shared_port = 0
            request.server_ports.game_port, request.server_ports.base_port = ports[:2]
            request.client_ports.add(game_port=ports[2], base_port=ports[3])
        client.send(sc2api_pb2.Request(join_game=request), seconds)
    player_ids = []
    for client in clients:
        joined = sc2api_pb2.ResponseJoinGame.FromString(client.receive())
        if joined.HasField("error"):
            name = sc2api_pb2.ResponseJoinGame.Error.Name(joined.error)
            raise errors.EngineError(
                f"the game cannot be joined: {name} {joined.error_details}"
            )
        player_ids.append(int(joined.player_id))
    return player_ids


def free_ports() -> tuple[int, int, int, int]:
    """Returns four ports that were free a moment ago; holds each until the last is found."""
    servers: list[socket.socket] = []
    try:
        for _ in range(4):
            servers.append(socket.create_server((HOST, 0)))
        first, second, third, fourth = (
            int(server.getsockname()[1]) for server in servers
        )
        return first, second, third, fourth
    finally:
        for server in servers:
            server.close()


def clients_of(games: Sequence[GameProcess]) -> list[Client]:
    """Returns the connected clients of leased games."""
    clients = [game.client for game in games if game.client is not None]
    if len(clients) != len(games):
        raise errors.EngineError("a leased game is not connected")
    return clients


class PlayedGame(NamedTuple):
    """A whole game.

    Attributes:
        ending: how it ended.
        replay: its replay file.
        records: how each seat played.
        decisions: what each seat's agent chose between at each of its steps.
        material: what the first seat and its opponent had at the end; None unless the game
            reached its last allowed loop.
    """

    ending: Ending
    replay: bytes
    records: tuple[PlayRecord, ...]
    decisions: tuple[DecisionLog, ...]
    material: material.Sides | None


def play(
    clients: Sequence[Client],
    setup: GameSetup,
    agents: Sequence[Agent],
    deadlines: Deadlines,
) -> PlayedGame:
    """Plays one whole game and returns it.

    Agents are in the order of the clients. Each is reset with a seed derived from the game's.
    """
    game = LiveGame(clients, setup, [agent.settings for agent in agents], deadlines)
    recorders = [Recorder(agent.settings) for agent in agents]
    logs = tuple(DecisionLog() for _ in agents)
    for number, agent in enumerate(agents):
        agent.reset(setup.seed + number, setup.races[number])
    while game.ending is None:
        # Every due seat observes before any acts: moves are simultaneous.
        observations = [(seat, game.observe(seat)) for seat in game.due]
        for seat, observation in observations:
            agent = agents[seat]
            action = agent.act(observation)
            value = agent.value if isinstance(agent, JudgingAgent) else None
            likely = agent.likely if isinstance(agent, PredictingAgent) else ()
            recorders[seat].note(observation, action, value)
            logs[seat].note(observation, action, value, likely)
            game.act(seat, action)
        game.advance()
    records = tuple(
        recorder.finish(game.ending.game_loops, refused)
        for recorder, refused in zip(recorders, game.refused, strict=True)
    )
    at_limit = game.ending.reason == "limit"
    sides = game.material() if at_limit else None
    replay = game.save_replay()
    game.leave()
    return PlayedGame(game.ending, replay, records, logs, sides)
