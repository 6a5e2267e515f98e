"""A websocket connection to a game process, with a deadline for every wait.

In: a port on this machine, and messages to send. Out: the messages that the game sends, as
bytes. Whatever goes wrong becomes an `EngineError`. Knows nothing of what messages mean.
"""

import base64
import os
import socket
import time

from starmill.schema import errors

HOST = "127.0.0.1"
_PATH = "/sc2api"
_RECEIVE_BYTES = 1 << 18
# A message larger than this is not an observation but a damaged length.
_MAX_MESSAGE_BYTES = 1 << 30
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


class ConnectionLost(errors.EngineCrashed):
    """The connection broke, most often because the process is ending."""


class Connection:
    """A websocket to the game. Deadlines are times on the clock of `time.monotonic`."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()

    @classmethod
    def open(cls, port: int, deadline: float) -> "Connection | None":
        """Returns a connection; None if the game does not listen yet."""
        try:
            sock = socket.create_connection(
                (HOST, port), timeout=seconds_left(deadline)
            )
        except ConnectionRefusedError:
            return None
        except OSError as error:
            raise _engine_error("connect", error) from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = cls(sock)
        try:
            if connection._handshake(port, deadline):
                return connection
        except errors.EngineError:
            connection.close()
            raise
        connection.close()
        return None

    def _handshake(self, port: int, deadline: float) -> bool:
        key = base64.b64encode(os.urandom(16)).decode()
        self._send_all(
            (
                f"GET {_PATH} HTTP/1.1\r\nHost: {HOST}:{port}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                f"Sec-WebSocket-Version: 13\r\nOrigin: http://{HOST}:{port}\r\n\r\n"
            ).encode(),
            deadline,
        )
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._fill(deadline)
        status = bytes(self._buffer[:end]).split(b"\r\n")[0].split(b" ")
        del self._buffer[: end + 4]
        if len(status) > 1 and status[1] == b"404":
            return False  # listening, but the endpoint is not up yet
        if len(status) < 2 or status[1] != b"101":
            raise errors.EngineCrashed("the game refused the websocket")
        return True

    def send(self, message: bytes, deadline: float) -> None:
        """Sends one binary message."""
        size = len(message)
        if size < 126:
            head = bytes([0x80 | _BINARY, 0x80 | size])
        elif size < 1 << 16:
            head = bytes([0x80 | _BINARY, 0x80 | 126]) + size.to_bytes(2, "big")
        else:
            head = bytes([0x80 | _BINARY, 0x80 | 127]) + size.to_bytes(8, "big")
        # A mask of zeros is valid and leaves the bytes as they are. Masks protect proxies
        # between a browser and a server; here there is neither.
        self._send_all(head + bytes(4) + message, deadline)

    def receive(self, deadline: float) -> bytes:
        """Returns the next whole message."""
        parts = []
        while True:
            final, opcode, content = self._frame(deadline)
            if opcode == _CLOSE:
                raise ConnectionLost("the game closed the connection")
            if opcode == _PING:
                self._send_all(
                    bytes([0x80 | _PONG, 0x80 | len(content)]) + bytes(4) + content,
                    deadline,
                )
            elif opcode in (_CONTINUATION, _TEXT, _BINARY):
                parts.append(content)
                if final:
                    return parts[0] if len(parts) == 1 else b"".join(parts)
            elif opcode != _PONG:
                raise errors.EngineCrashed("the game sent a malformed websocket frame")

    def _frame(self, deadline: float) -> tuple[bool, int, bytes]:
        first, second = self._take(2, deadline)
        size = second & 127
        if size > 125:
            size = int.from_bytes(self._take(2 if size == 126 else 8, deadline), "big")
        if second & 128 or size > _MAX_MESSAGE_BYTES:
            raise errors.EngineCrashed("the game sent a malformed websocket frame")
        return bool(first & 128), first & 15, self._take(size, deadline)

    def _take(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            self._fill(deadline)
        content = bytes(self._buffer[:size])
        del self._buffer[:size]
        return content

    def _fill(self, deadline: float) -> None:
        self._socket.settimeout(seconds_left(deadline))
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except OSError as error:
            raise _engine_error("receive", error) from error
        if not data:
            raise ConnectionLost("the game closed the connection")
        self._buffer += data

    def _send_all(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(seconds_left(deadline))
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _engine_error("send", error) from error

    def is_quiet(self) -> bool:
        """Returns whether the connection is open and nothing is unread."""
        if self._buffer:
            return False
        try:
            self._socket.setblocking(False)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Closes the socket; the game notices."""
        self._socket.close()


def seconds_left(deadline: float) -> float:
    """Returns the seconds until a deadline; EngineTimeout once it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise errors.EngineTimeout("the game did not answer before the deadline")
    return left


def _engine_error(doing: str, error: OSError) -> errors.EngineError:
    # One sentence for each cause, without ports, error numbers or loops: the quarantine
    # table stores it, and its bytes must not depend on which side noticed first.
    if isinstance(error, TimeoutError):
        return errors.EngineTimeout("the game did not answer before the deadline")
    if doing == "connect":
        return errors.EngineCrashed("no connection to the game")
    return ConnectionLost("the game closed the connection")
