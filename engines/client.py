"""A client of a game process: requests with a deadline, and answers as bytes.

In: the port of a game on this machine, and requests. Out: the message inside each answer, not
parsed: the converter reads wire bytes, so the largest messages are only sliced here. A replay
that the game refuses to load becomes a `ReplayError`, everything else that goes wrong an
`EngineError`. Knows nothing of processes: `game_process` starts and ends the game.

Requests are sent and answers received separately, with at most one request under way. A
caller can thus convert one observation while the game computes the next.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Protocol

from google.protobuf.message import DecodeError

from starmill.converters.protos import sc2api_pb2
from starmill.engines import websocket
from starmill.engines.websocket import Connection
from starmill.schema import errors, protobuf, reasons

_CONNECT_PAUSE_SECONDS = 0.05
_FIELD_BY_KIND = {
    field.name: field.number for field in sc2api_pb2.Response.DESCRIPTOR.fields
}
_ID, _ERROR, _STATUS = (_FIELD_BY_KIND[name] for name in ("id", "error", "status"))

IN_REPLAY = sc2api_pb2.in_replay


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deadlines:
    """How long the game may take, in seconds.

    Attributes:
        start: from the launch to the first answered ping (the reference waits 360).
        load: for `replay_info`, `start_replay` and `game_info`, which read the map.
        play: for one step or observation.
    """

    start: float = 180.0
    load: float = 300.0
    play: float = 120.0

    def __post_init__(self) -> None:
        """Checks that every deadline is positive."""
        for field in dataclasses.fields(self):
            if getattr(self, field.name) <= 0:
                raise errors.ConfigError(
                    f"deadline {field.name}: expected seconds above 0, "
                    f"found {getattr(self, field.name)!r}"
                )


class Watcher(Protocol):
    """Sees every request and every answer before the client looks at it."""

    def sent(self, request: sc2api_pb2.Request) -> None:
        """Takes note of a request, its id included, that is about to be sent."""

    def received(self, data: bytes) -> None:
        """Takes note of the whole answer to the latest request."""


class Client:
    """Sends requests to a game, one at a time, and receives the answers.

    Attributes:
        status: value of the game's Status enum in the latest answer.
        watcher: sees what is sent and received; None for nobody.
    """

    def __init__(self, connection: Connection, deadlines: Deadlines) -> None:
        self._connection = connection
        self._deadlines = deadlines
        self._count = 0
        self._waiting: tuple[str, float] | None = None
        self.status: int = sc2api_pb2.unknown
        self.watcher: Watcher | None = None

    @classmethod
    def connect(
        cls, port: int, deadlines: Deadlines, alive: Callable[[], bool]
    ) -> "Client":
        """Waits for the game to start; returns a client of it once it answers a ping.

        alive: returns whether the process still runs.
        """
        deadline = time.monotonic() + deadlines.start
        try:
            while (connection := Connection.open(port, deadline)) is None:
                if not alive():
                    raise errors.EngineCrashed("the game ended while it was starting")
                time.sleep(_CONNECT_PAUSE_SECONDS)
            client = cls(connection, deadlines)
            try:
                ping = sc2api_pb2.Request(ping=sc2api_pb2.RequestPing())
                client.call(ping, websocket.seconds_left(deadline))
            except errors.EngineError:
                client.close()
                raise
        except errors.EngineTimeout as error:
            raise errors.EngineTimeout(
                "the game did not start before the deadline"
            ) from error
        return client

    def send(self, request: sc2api_pb2.Request, timeout_seconds: float) -> None:
        """Sends a request; its answer must be received before the next is sent."""
        if self._waiting is not None:
            raise errors.EngineError(
                f"{self._waiting[0]} is still under way; receive its answer first"
            )
        kind = request.WhichOneof("request")
        if kind is None:
            raise errors.EngineError("an empty request cannot be sent")
        self._count += 1
        request.id = self._count
        deadline = time.monotonic() + timeout_seconds
        self._waiting = kind, deadline
        if self.watcher is not None:
            self.watcher.sent(request)
        self._connection.send(request.SerializeToString(), deadline)

    def receive(self) -> bytes:
        """Returns the message inside the answer to the request under way, as bytes."""
        if self._waiting is None:
            raise errors.EngineError("no request is under way")
        kind, deadline = self._waiting
        data = self._connection.receive(deadline)
        self._waiting = None
        if self.watcher is not None:
            self.watcher.received(data)
        try:
            return self._content(kind, data)
        except DecodeError as error:
            raise errors.EngineCrashed(
                f"the game's answer to {kind} is not a message"
            ) from error

    def _content(self, kind: str, data: bytes) -> bytes:
        content, status, messages, is_other = None, None, [], False
        for field in protobuf.fields(data):
            if field.number == _FIELD_BY_KIND[kind]:
                content = data[field.start : field.end]
            elif field.number == _STATUS:
                status = field.value
            elif field.number == _ERROR:
                messages.append(data[field.start : field.end].decode(errors="replace"))
            elif field.number == _ID:
                is_other = field.value != self._count
        if is_other:
            raise errors.EngineCrashed(f"the game answered another request than {kind}")
        if status is None:
            raise errors.EngineCrashed(f"the game's answer to {kind} has no status")
        self.status = status
        if messages:
            raise errors.EngineError(
                f"the game answered {kind} with an error: {'; '.join(messages)}"
            )
        if content is None:
            raise errors.EngineCrashed(f"the game's answer is not one to {kind}")
        return content

    def call(self, request: sc2api_pb2.Request, timeout_seconds: float) -> bytes:
        """Sends a request and returns its answer."""
        self.send(request, timeout_seconds)
        return self.receive()

    def relay(self, request: bytes, timeout_seconds: float) -> bytes:
        """Passes on another client's request; returns the whole answer, errors included.

        Raises EngineError if the game fails, not if it answers with an error.
        """
        if self._waiting is not None:
            raise errors.EngineError(
                f"{self._waiting[0]} is still under way; receive its answer first"
            )
        deadline = time.monotonic() + timeout_seconds
        self._connection.send(request, deadline)
        data = self._connection.receive(deadline)
        try:
            for field in protobuf.fields(data):
                if field.number == _STATUS:
                    self.status = field.value
        except DecodeError as error:
            raise errors.EngineCrashed("the game's answer is not a message") from error
        return data

    def replay_info(self, data: bytes) -> bytes:
        """Returns the bytes of ResponseReplayInfo; ReplayError if the game refuses it."""
        answer = self.call(
            sc2api_pb2.Request(
                replay_info=sc2api_pb2.RequestReplayInfo(replay_data=data)
            ),
            self._deadlines.load,
        )
        info = _parsed(sc2api_pb2.ResponseReplayInfo, answer, "replay_info")
        if info.HasField("error"):
            name = sc2api_pb2.ResponseReplayInfo.Error.Name(info.error)
            raise _refused(name, info.error_details)
        return answer

    def start_replay(self, request: sc2api_pb2.RequestStartReplay) -> None:
        """Loads a replay and stops at loop 0; ReplayError if the game refuses it."""
        answer = self.call(
            sc2api_pb2.Request(start_replay=request), self._deadlines.load
        )
        started = _parsed(sc2api_pb2.ResponseStartReplay, answer, "start_replay")
        if started.HasField("error"):
            name = sc2api_pb2.ResponseStartReplay.Error.Name(started.error)
            raise _refused(name, started.error_details)
        if self.status != IN_REPLAY:
            raise errors.EngineCrashed("the game is not in the replay it has started")

    def game_info(self) -> bytes:
        """Returns the bytes of ResponseGameInfo."""
        return self.call(
            sc2api_pb2.Request(game_info=sc2api_pb2.RequestGameInfo()),
            self._deadlines.load,
        )

    def send_step(self, count: int) -> None:
        """Asks for `count` game loops to pass."""
        self.send(
            sc2api_pb2.Request(step=sc2api_pb2.RequestStep(count=count)),
            self._deadlines.play,
        )

    def send_observation(self) -> None:
        """Asks for the current observation, with both fields set as the reference does."""
        request = sc2api_pb2.Request(
            observation=sc2api_pb2.RequestObservation(disable_fog=False, game_loop=0)
        )
        self.send(request, self._deadlines.play)

    def is_idle(self) -> bool:
        """Returns whether a request can be sent: none is under way, and nothing is unread."""
        return self._waiting is None and self._connection.is_quiet()

    def close(self) -> None:
        """Asks the game to quit, without waiting, and closes the connection."""
        if self._waiting is None:
            try:
                self.send(sc2api_pb2.Request(quit=sc2api_pb2.RequestQuit()), 1.0)
            except errors.EngineError:
                self._waiting = None  # the game has ended already
        self._connection.close()


def _parsed(kind: type, data: bytes, name: str):  # type: ignore[no-untyped-def]  # the message's own type
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise errors.EngineCrashed(
            f"the game's answer to {name} is not a message"
        ) from error
    return message


def _refused(name: str, details: str) -> errors.ReplayError:
    return errors.ReplayError(
        reasons.RejectReason.ENGINE_REFUSED,
        f"the game cannot load this replay: {name}"
        + (f" ({details})" if details else ""),
    )
