"""A player's seat that another program takes: its requests pass through here to the game.

In: a connected game process, and what the player joins with. Out: a port to which the program
connects as to the game itself. The relay joins the game on the program's behalf with the race, name
and ports of the evaluation, refuses requests that would show or change more than a player may, and
gives up a seat whose program leaves, or is silent for too long. Knows nothing of the program.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from google.protobuf.message import DecodeError
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from starmill.converters.protos import common_pb2, sc2api_pb2
from starmill.engines.client import Client
from starmill.engines.websocket import HOST
from starmill.schema import errors

# What a player may ask of a game. Debug commands and the like would be cheats.
_ALLOWED = frozenset(
    (
        *("ping", "available_maps", "game_info", "data", "query", "observation"),
        *("join_game", "action", "step", "leave_game", "save_replay"),
    )
)
_MOST_MESSAGE_BYTES = 64 << 20
_POLL_SECONDS = 0.05
# Connections that open and close normally need no line in the log.
_SILENT = logging.Logger("relay", logging.CRITICAL)
_HANDLER_SECONDS = (
    10.0  # for the last request under way, once nobody waits for its answer
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a program may be silent, in seconds.

    Attributes:
        start: from its start until it joins the game.
        move: between an answer and its next request.
    """

    start: float = 180.0
    move: float = 60.0

    def __post_init__(self) -> None:
        """Checks that both are positive."""
        if min(self.start, self.move) <= 0:
            raise errors.ConfigError(
                f"patience: expected seconds above 0, found {self.start} and {self.move}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seat:
    """What a program joins with, whatever it asks for.

    Attributes:
        race: one of RACES.
        name: the player's name.
        ports: the four ports that both processes of the game agree on.
    """

    race: str
    name: str
    ports: tuple[int, int, int, int]


class Relay:
    """Passes a program's requests on to a game process. A context manager.

    Attributes:
        port: where the program connects, at the path /sc2api.
        failure: why the program lost its seat; "" while it plays, and after a whole game.
        alive: returns whether the program runs; asked until it joins.
    """

    def __init__(
        self, client: Client, seat: Seat, patience: Patience, game_seconds: float
    ) -> None:
        """Listens at once. game_seconds: how long the game may take to answer a request."""
        self._client = client
        self._seat = seat
        self._patience = patience
        self._game_seconds = game_seconds
        self._lock = threading.Lock()
        self._is_taken = False
        self._joined = threading.Event()
        self._is_over = threading.Event()
        self._loop = 0
        self._handler: threading.Thread | None = None
        self.failure = ""
        self.alive: Callable[[], bool] = lambda: True
        self._server: Server = serve(
            self._serve,
            HOST,
            0,
            max_size=_MOST_MESSAGE_BYTES,
            compression=None,
            logger=_SILENT,
        )
        self.port = int(self._server.socket.getsockname()[1])
        self._threads = [
            threading.Thread(target=self._server.serve_forever, daemon=True),
            threading.Thread(target=self._await_start, daemon=True),
        ]

    def __enter__(self) -> Self:
        """Begins to accept the program."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops listening. Leaves the game, so that its process can play another."""
        self._is_over.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        if self._handler is not None:
            self._handler.join(_HANDLER_SECONDS)
        playing = (sc2api_pb2.in_game, sc2api_pb2.ended)
        if kind is None and self._client.status in playing:
            self._leave()

    def give_up(self, failure: str) -> None:
        """Ends the program's game as a loss. The first call tells why; later ones do nothing."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        self.failure = failure
        try:
            # The other player waits for this one to join, so it must join to leave.
            if not self._joined.is_set():
                self._ask(sc2api_pb2.Request(join_game=self._join_request()))
            self._leave()
        except errors.EngineError:
            return  # the other player's own deadline ends the game

    def _await_start(self) -> None:
        deadline = time.monotonic() + self._patience.start
        while not self._joined.wait(_POLL_SECONDS):
            if self._is_over.is_set():
                return
            if not self.alive():
                self.give_up("ended before it joined the game")
                return
            if time.monotonic() > deadline:
                self.give_up(f"did not join within {self._patience.start:g} seconds")
                return

    def _serve(self, connection: ServerConnection) -> None:
        """Plays the program's part until the connection or the game ends."""
        with self._lock:
            if self._is_taken:
                connection.close()
                return
            self._is_taken = True
        self._handler = threading.current_thread()
        try:
            while not self.failure:
                data = connection.recv(self._wait_seconds())
                connection.send(self._answer(data))
                if self._client.status == sc2api_pb2.ended:
                    self._is_over.set()  # the program's later requests do not matter
        except TimeoutError:
            seconds = f"{self._patience.move:g}"
            self.give_up(f"sent no request for {seconds} seconds at loop {self._loop}")
        except ConnectionClosed:
            self.give_up(f"left its connection at loop {self._loop}")
        except errors.EngineError as error:
            self.give_up(f"its game failed at loop {self._loop}: {error}")

    def _wait_seconds(self) -> float:
        patience = self._patience
        return patience.move if self._joined.is_set() else patience.start

    def _answer(self, data: str | bytes) -> bytes:
        """Returns the answer to a request: the game's, or a refusal."""
        request = sc2api_pb2.Request()
        try:
            request.ParseFromString(data if isinstance(data, bytes) else data.encode())
        except DecodeError:
            return self._refusal(request, "the request is not a message")
        kind = request.WhichOneof("request") or "none"
        if kind not in _ALLOWED:
            return self._refusal(request, f"{kind} is not allowed in a rated game")
        if kind == "join_game":
            join = self._join_request()
            join.options.CopyFrom(request.join_game.options)
            request.join_game.CopyFrom(join)
        if kind == "observation":
            request.observation.disable_fog = False
        answer = self._ask(request)
        if kind == "join_game":
            self._joined.set()
        if kind == "step":
            self._loop += request.step.count
        if kind == "leave_game":
            self._is_over.set()
        return answer

    def _refusal(self, request: sc2api_pb2.Request, text: str) -> bytes:
        answer = sc2api_pb2.Response(id=request.id, error=[text])
        answer.status = self._client.status  # type: ignore[assignment]  # the enum's number
        return answer.SerializeToString()

    def _join_request(self) -> sc2api_pb2.RequestJoinGame:
        request = sc2api_pb2.RequestJoinGame(
            race=common_pb2.Race.Value(self._seat.race.title()),
            player_name=self._seat.name,
            shared_port=0,
        )
        request.options.raw = True
        game, base, client_game, client_base = self._seat.ports
        request.server_ports.game_port, request.server_ports.base_port = game, base
        request.client_ports.add(game_port=client_game, base_port=client_base)
        return request

    def _leave(self) -> None:
        self._ask(sc2api_pb2.Request(leave_game=sc2api_pb2.RequestLeaveGame()))

    def _ask(self, request: sc2api_pb2.Request) -> bytes:
        with self._lock:
            return self._client.relay(request.SerializeToString(), self._game_seconds)
