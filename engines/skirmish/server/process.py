"""The process behind `SC2_x64`: command line, socket, websocket; one client, then it exits.

In: the game's own flags (`-listen -port -dataDir -tempDir -dataVersion`, others are skipped).
Out: protobuf answers at `/sc2api`. One thread reads a request and writes its answer, as the
protocol has only one request at a time. `ping` and `quit` are answered here: the game itself
takes a second to import, and does so in the background while the client connects.
"""

import dataclasses
import importlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Protocol

from google.protobuf.message import DecodeError
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as HttpRequest
from websockets.server import ServerProtocol

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.server import faults
from starmill.schema import protobuf

_LOG = logging.getLogger(__name__)
_PATH = "/sc2api"
_RECEIVE_BYTES = 1 << 20
_HANDSHAKE_SECONDS = 5.0
# Flags of the real game that take a value, besides ours; they are accepted and unused.
_VALUE_FLAGS = frozenset(
    [
        "displayMode",
        "windowwidth",
        "windowheight",
        "windowx",
        "windowy",
        "eglpath",
        "osmesapath",
    ]
)
_STATUS_TAG = protobuf.tag(99, protobuf.VARINT)
_ID_TAG = protobuf.tag(97, protobuf.VARINT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flags:
    """The command line. base_build: which version to be; the launcher adds it."""

    port: int
    listen: str = "127.0.0.1"
    data_dir: str = ""
    temp_dir: str = ""
    data_version: str = ""
    base_build: int = versions.LATEST.base_build


class GameSession(Protocol):
    """What answers the requests; see `session.Session`."""

    status: int

    def answer(self, request: sc2api_pb2.Request) -> bytes:
        """Returns the fields of the Response, without id and status."""

    def close(self) -> None:
        """Ends whatever is going on."""


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Returns the flags; SystemExit with a message if the port is missing or no number."""
    names = {
        "listen": "listen",
        "port": "port",
        "dataDir": "data_dir",
        "tempDir": "temp_dir",
        "dataVersion": "data_version",
        "baseBuild": "base_build",
    }
    found: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name = argument.lstrip("-")
        if name in names:
            found[names[name]] = next(rest, "")
        elif name in _VALUE_FLAGS:
            next(rest, None)
    numbers = {}
    for name in ("port", "base_build"):
        text = found.pop(name, "")
        if text and not text.isdigit():
            raise SystemExit(f"SC2_x64: -{name}: expected a number, found {text!r}")
        if text:
            numbers[name] = int(text)
    if "port" not in numbers:
        raise SystemExit("SC2_x64: -port is required")
    return Flags(**found, **numbers)  # type: ignore[arg-type]  # names are checked above


class Client:
    """One websocket connection, blocking; frames are assembled, close is answered."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # No limit: a replay with its map is larger than the library's default of 1 MiB.
        self._protocol = ServerProtocol(max_size=None)
        self._events: Iterator[object] = iter(())

    def handshake(self) -> bool:
        """Returns True once the client speaks websocket at our path; False if it does not."""
        # Whoever connects and says nothing must not keep the real client out.
        self._socket.settimeout(_HANDSHAKE_SECONDS)
        request = self._next_event()
        if not isinstance(request, HttpRequest):
            return False
        if request.path.split("?")[0] != _PATH:
            self._protocol.send_response(
                self._protocol.reject(HTTPStatus.NOT_FOUND, f"only {_PATH} is here\n")
            )
            self._flush()
            return False
        response = self._protocol.accept(request)
        self._protocol.send_response(response)
        self._flush()
        self._socket.settimeout(None)
        return response.status_code == HTTPStatus.SWITCHING_PROTOCOLS

    def messages(self) -> Iterator[bytes]:
        """Yields each message's bytes, text or binary, until the client is gone."""
        parts: list[bytes] = []
        while (event := self._next_event()) is not None:
            # Requests come as text frames of bytes that are rarely UTF-8: never decoded.
            if not isinstance(event, Frame) or event.opcode not in (
                Opcode.TEXT,
                Opcode.BINARY,
                Opcode.CONT,
            ):
                continue
            parts.append(bytes(event.data))
            if event.fin:
                yield b"".join(parts)
                parts = []

    def send(self, payload: bytes) -> None:
        """Sends one binary message; OSError if the client is going or gone."""
        try:
            self._protocol.send_binary(payload)
        except InvalidState as error:
            raise ConnectionResetError(str(error)) from error
        self._flush()

    def send_half(self, payload: bytes) -> None:
        """Sends the first half of a message's frame and drops the connection: a fault."""
        self._protocol.send_binary(payload)
        data = b"".join(self._protocol.data_to_send())
        self._socket.sendall(data[: len(data) // 2])
        self.close()

    def close(self) -> None:
        """Drops the connection."""
        self._socket.close()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._socket.sendall(data)
            else:
                self._socket.shutdown(socket.SHUT_WR)

    def _next_event(self) -> object | None:
        while True:
            for event in self._events:
                return event
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except OSError:
                return None
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            received = self._protocol.events_received()
            try:
                self._flush()
            except OSError:
                return None
            self._events = iter(received)
            if not data and not received:
                return None


class Server:
    """Answers one client's messages; the game is imported by a thread meanwhile."""

    def __init__(self, flags: Flags, injector: faults.FaultInjector) -> None:
        self._flags = flags
        self._injector = injector
        self._session: GameSession | None = None
        self._loaded: list[GameSession] = []
        self._loader = threading.Thread(target=self._load, daemon=True)
        self._loader.start()

    def _load(self) -> None:
        module = importlib.import_module("starmill.engines.skirmish.server.session")
        version = versions.by_build(self._flags.base_build)
        self._loaded.append(
            module.Session(
                version=version, maps_dir=self._maps_dir, injector=self._injector
            )
        )

    @property
    def _maps_dir(self) -> str:
        return (
            f"{self._flags.data_dir.rstrip('/')}/Maps" if self._flags.data_dir else ""
        )

    def _game(self) -> GameSession:
        if self._session is None:
            self._loader.join()
            if not self._loaded:
                raise SystemExit("SC2_x64: the game could not be loaded")
            self._session = self._loaded[0]
        return self._session

    @property
    def status(self) -> int:
        """The status that every answer carries."""
        if self._session is None:
            return int(sc2api_pb2.launched)
        return self._session.status

    def serve(self, client: Client) -> None:
        """Answers until the client quits or is gone."""
        for message in client.messages():
            request = sc2api_pb2.Request()
            try:
                request.ParseFromString(message)
                payload, done = self._answer(request)
            except DecodeError as error:
                text = f"the request does not parse: {error}"
                payload, done = _error_fields(text), False
            request_id = request.id
            status = int(sc2api_pb2.quit) if done else self.status
            payload += _STATUS_TAG + protobuf.varint(status)
            if request_id:
                payload += _ID_TAG + protobuf.varint(request_id)
            if not self._injector.send(client, payload, request_id) or done:
                break
        if self._session is not None:
            self._session.close()

    def _answer(self, request: sc2api_pb2.Request) -> tuple[bytes, bool]:
        kind = request.WhichOneof("request")
        if kind == "ping":
            version = versions.by_build(self._flags.base_build)
            ping = sc2api_pb2.ResponsePing(
                game_version=version.game_version,
                data_version=version.data_version,
                data_build=version.base_build,
                base_build=version.base_build,
            )
            return sc2api_pb2.Response(ping=ping).SerializeToString(), False
        if kind == "quit":
            response = sc2api_pb2.Response(quit=sc2api_pb2.ResponseQuit())
            return response.SerializeToString(), True
        try:
            return self._game().answer(request), False
        except Exception as error:  # noqa: BLE001  # the game outlives any request
            _LOG.exception("request %s failed", kind)
            return _error_fields(f"{kind}: {type(error).__name__}: {error}"), False


def _error_fields(*texts: str) -> bytes:
    return sc2api_pb2.Response(error=texts).SerializeToString()


def _accept(listener: socket.socket) -> Client:
    """Returns the first client that completes the handshake; others are turned away."""
    while True:
        connection, _ = listener.accept()
        client = Client(connection)
        if client.handshake():
            return client
        client.close()


def _terminate(number: int, frame: object) -> None:
    # At once: clients repeat the signal, which would interrupt an orderly exit half-way.
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the game until its client has gone; returns the process's exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    signal.signal(signal.SIGTERM, _terminate)
    flags = parse_flags(sys.argv[1:] if arguments is None else arguments)
    injector = faults.FaultInjector.load(flags.data_dir)
    injector.at_start()
    family = socket.AF_INET6 if ":" in flags.listen else socket.AF_INET
    with socket.create_server((flags.listen, flags.port), family=family) as listener:
        server = Server(flags, injector)
        client = _accept(listener)
    server.serve(client)
    client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
