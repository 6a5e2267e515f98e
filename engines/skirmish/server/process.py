"""The process behind `SC2_x64`: command line, socket, websocket.

In: the game's own flags (`-listen -port -dataDir -tempDir -dataVersion`; others are ignored).
Out: protobuf responses at `/sc2api`, to one client at a time. A client may leave and come back,
or another may take over its game. The process exits on `quit`, and when its client is gone and so
is the process that started it. One thread reads a request and writes its response, since the
protocol allows one request at a time. `ping` and
`quit` are answered here, because importing the game takes a second; a thread imports it while the
client connects. Must not know: what requests mean.
"""

import dataclasses
import importlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Protocol

from google.protobuf.message import DecodeError

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.server import connection, faults
from starmill.schema import protobuf

_LOG = logging.getLogger(__name__)
# Flags of the real game that take a value and that this game ignores.
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
    """The command line.

    Attributes:
        port: the port to listen on.
        listen: the address to listen on.
        data_dir: the installation's folder; "" if there is none.
        temp_dir: accepted and ignored.
        data_version: accepted and ignored.
        base_build: the build of the version to be; the launcher passes it.
    """

    port: int
    listen: str = "127.0.0.1"
    data_dir: str = ""
    temp_dir: str = ""
    data_version: str = ""
    base_build: int = versions.LATEST.base_build


class GameSession(Protocol):
    """What answers requests; see `session.Session`.

    Attributes:
        status: the value of sc2api's Status that each response carries.
    """

    status: int

    def answer(self, request: sc2api_pb2.Request) -> bytes:
        """Returns the bytes of the Response without id and status."""

    def close(self) -> None:
        """Ends the game or replay, if there is one."""


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Returns the flags; SystemExit with a message if the port is missing or not a number."""
    names = {
        "listen": "listen",
        "port": "port",
        "dataDir": "data_dir",
        "tempDir": "temp_dir",
        "dataVersion": "data_version",
        "baseBuild": "base_build",
    }
    values: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name = argument.lstrip("-")
        if name in names:
            values[names[name]] = next(rest, "")
        elif name in _VALUE_FLAGS:
            next(rest, None)
    numbers = {}
    for name in ("port", "base_build"):
        text = values.pop(name, "")
        if text and not text.isdigit():
            raise SystemExit(f"SC2_x64: -{name}: expected a number, found {text!r}")
        if text:
            numbers[name] = int(text)
    if "port" not in numbers:
        raise SystemExit("SC2_x64: -port is required")
    return Flags(**values, **numbers)  # type: ignore[arg-type]  # names are checked above


class Server:
    """Answers the messages of one client after another, while a thread imports the game."""

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
                raise SystemExit(
                    "SC2_x64: the game could not be imported; the error is above"
                )
            self._session = self._loaded[0]
        return self._session

    @property
    def status(self) -> int:
        """The value of Status that each response carries."""
        if self._session is None:
            return int(sc2api_pb2.launched)
        return self._session.status

    def serve(self, client: connection.Client) -> bool:
        """Answers requests until the client is gone; returns whether the process ends then."""
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
                return True
        return False

    def close(self) -> None:
        """Ends the game or replay, if there is one."""
        self._injector.at_quit()
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
        except Exception as error:  # noqa: BLE001  # the game survives any request
            _LOG.exception("request %s failed", kind)
            return _error_fields(f"{kind}: {type(error).__name__}: {error}"), False


def _error_fields(*texts: str) -> bytes:
    return sc2api_pb2.Response(error=texts).SerializeToString()


def _terminate(number: int, frame: object) -> None:
    # Exit at once: clients repeat the signal, which would interrupt an orderly exit.
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the game until it is told to quit. Returns the process's exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    signal.signal(signal.SIGTERM, _terminate)
    flags = parse_flags(sys.argv[1:] if arguments is None else arguments)
    injector = faults.FaultInjector.load(flags.data_dir)
    injector.at_start()
    family = socket.AF_INET6 if ":" in flags.listen else socket.AF_INET
    is_local = connection.is_loopback(flags.listen)
    parent = os.getppid()
    with socket.create_server((flags.listen, flags.port), family=family) as listener:
        server = Server(flags, injector)
        client = connection.accept(listener, is_local=is_local)
        while client is not None:
            is_over = server.serve(client)
            client.close()
            # Without the process that started it, nobody is left to end a game without clients.
            client = (
                None
                if is_over
                else connection.accept(
                    listener,
                    is_local=is_local,
                    is_awaited=lambda: os.getppid() == parent,
                )
            )
    server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
