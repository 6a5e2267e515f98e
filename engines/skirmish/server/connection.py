"""The client's connection: who may open it, and how much may arrive on it.

In: a listening socket. Out: a `Client`, whose messages the server answers. Before a client is
accepted, everything is bounded: the time and the size of a request, and the number of connections
that wait. A web page cannot connect, because browsers tell the page's origin. Must not know: what
messages mean.
"""

import contextlib
import ipaddress
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as HttpRequest
from websockets.http11 import Response as HttpResponse
from websockets.protocol import State
from websockets.server import ServerProtocol

# The largest requests carry a replay and its map, together a few megabytes.
MAX_MESSAGE_BYTES = 64 << 20
# From the connection to the whole request: a client that sends byte by byte must not
# hold a place for longer.
HANDSHAKE_SECONDS = 5.0
_PATH = "/sc2api"
_RECEIVE_BYTES = 1 << 20
_REQUEST_BYTES = 1 << 14
_MOST_WAITING = 32
_POLL_SECONDS = 1.0
_LOCAL_NAMES = frozenset(["localhost", "localhost.localdomain"])
_DATA_OPCODES = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


class Client:
    """One websocket connection, which joins the frames of a message."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._protocol = ServerProtocol(max_size=MAX_MESSAGE_BYTES)
        self._events: Iterator[object] = iter(())

    def read_handshake(self, *, is_local: bool) -> bool | None:
        """Reads what has arrived, and answers the request once it is complete.

        Returns whether the client opened a websocket; None while the request is incomplete.
        is_local: whether the game listens on an address of this machine alone.
        """
        self._socket.setblocking(False)
        try:
            data = self._socket.recv(_REQUEST_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return False
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        events = iter(self._protocol.events_received())
        request = next(events, None)
        self._events = events
        if isinstance(request, HttpRequest):
            response = self._response(request, is_local=is_local)
            self._protocol.send_response(response)
            is_open = response.status_code == HTTPStatus.SWITCHING_PROTOCOLS
        elif data and self._protocol.handshake_exc is None:
            return None
        else:
            is_open = False
        return self._is_flushed() and is_open

    def _response(self, request: HttpRequest, *, is_local: bool) -> HttpResponse:
        refusal = _refusal(request, is_local=is_local)
        if refusal is not None:
            return self._protocol.reject(HTTPStatus.FORBIDDEN, f"{refusal}\n")
        if request.path.split("?")[0] != _PATH:
            return self._protocol.reject(
                HTTPStatus.NOT_FOUND, f"expected the path {_PATH}\n"
            )
        return self._protocol.accept(request)

    def messages(self) -> Iterator[bytes]:
        """Yields the bytes of each message, text or binary, until the client is gone.

        A message over MAX_MESSAGE_BYTES ends the connection.
        """
        self._socket.setblocking(True)
        message = bytearray()
        while (event := self._next_event()) is not None:
            # Do not decode text frames: some clients send requests in them, which are not UTF-8.
            if not isinstance(event, Frame) or event.opcode not in _DATA_OPCODES:
                continue
            if event.fin and not message:
                yield bytes(event.data)
                continue
            message += event.data
            if event.fin:
                yield bytes(message)
                message = bytearray()

    def send(self, payload: bytes) -> None:
        """Sends one binary message; OSError if the connection is closing or closed."""
        try:
            self._protocol.send_binary(payload)
        except InvalidState as error:
            raise ConnectionResetError(str(error)) from error
        self._flush()

    def send_half(self, payload: bytes) -> None:
        """Sends the first half of a message's frame and closes the connection, as a fault does."""
        self._protocol.send_binary(payload)
        data = b"".join(self._protocol.data_to_send())
        self._socket.sendall(data[: len(data) // 2])
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._socket.sendall(data)
            else:
                self._socket.shutdown(socket.SHUT_WR)

    def _is_flushed(self) -> bool:
        """Sends what is due; returns False if the client is gone."""
        try:
            self._flush()
        except OSError:
            return False
        return True

    def _next_event(self) -> object | None:
        while True:
            for event in self._events:
                return event
            if self._protocol.state is not State.OPEN:
                return None  # either side has closed; nothing valid follows
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except OSError:
                return None
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            received = self._protocol.events_received()
            if not self._is_flushed():
                return None
            self._events = iter(received)
            if not data and not received:
                return None


class _Visitors:
    """Connections that have not yet completed the handshake, read side by side."""

    def __init__(self, listener: socket.socket, *, is_local: bool) -> None:
        self._listener = listener
        self._is_local = is_local
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        # By connection, oldest first: the client, and when it must be done.
        self._waiting: dict[socket.socket, tuple[Client, float]] = {}

    def first(self, is_awaited: Callable[[], bool]) -> Client | None:
        """Waits until one of them completes the handshake, and returns it.

        Returns None once no client is awaited any more.
        """
        while is_awaited():
            self._drop_late()
            for key, _ in self._selector.select(_POLL_SECONDS):
                if key.fileobj is self._listener:
                    self._admit()
                elif isinstance(key.fileobj, socket.socket):
                    client = self._read(key.fileobj)
                    if client is not None:
                        return client
        return None

    def _admit(self) -> None:
        # A client that has gone already makes these calls fail.
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            client = Client(connection)
            self._selector.register(connection, selectors.EVENT_READ)
            self._waiting[connection] = client, time.monotonic() + HANDSHAKE_SECONDS

    def _read(self, connection: socket.socket) -> Client | None:
        client, _ = self._waiting[connection]
        is_open = client.read_handshake(is_local=self._is_local)
        if is_open:
            del self._waiting[connection]
            return client
        if is_open is False:
            self._drop(connection)
        return None

    def _drop_late(self) -> None:
        now = time.monotonic()
        late = [one for one, (_, deadline) in self._waiting.items() if deadline <= now]
        surplus = list(self._waiting)[: max(0, len(self._waiting) - _MOST_WAITING)]
        for connection in dict.fromkeys(late + surplus):
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        self._waiting.pop(connection)[0].close()

    def close(self) -> None:
        """Closes all connections that still wait."""
        for connection in list(self._waiting):
            self._drop(connection)
        self._selector.close()


def accept(
    listener: socket.socket,
    *,
    is_local: bool,
    is_awaited: Callable[[], bool] = lambda: True,
) -> Client | None:
    """Returns the first client that completes the handshake, and closes all other connections.

    A connection that is silent or slow delays no other.
    is_local: whether the game listens on an address of this machine alone.
    is_awaited: is asked every second; None is returned once it says no.
    """
    listener.setblocking(False)
    with contextlib.closing(_Visitors(listener, is_local=is_local)) as visitors:
        return visitors.first(is_awaited)


def is_loopback(host: str) -> bool:
    """Returns whether a name or address is one of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOCAL_NAMES


def _refusal(request: HttpRequest, *, is_local: bool) -> str | None:
    """Returns why a request is refused: a web page may have sent it; None if it is not.

    A page of another site has a foreign Origin. Where a site's own name leads to this machine,
    Origin and Host agree, but Host is not an address of this machine.
    """
    host = request.headers.get_all("Host")
    origin = request.headers.get_all("Origin")
    if len(host) > 1 or len(origin) > 1:
        return "expected one Host and one Origin"
    name = _host_name(host[0]) if host else "localhost"
    if is_local and not is_loopback(name):
        return "expected a Host of this machine"
    if origin and (not host or _place(origin[0]) != host[0].strip().lower()):
        return "expected an Origin that agrees with Host"
    return None


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host.strip()}").hostname or ""
    except ValueError:
        return ""


def _place(origin: str) -> str:
    try:
        return urlsplit(origin.strip()).netloc.lower()
    except ValueError:
        return ""
