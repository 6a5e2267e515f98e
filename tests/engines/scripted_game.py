"""A game server for tests that answers as it is told, on a thread of the test's process."""

import base64
import hashlib
import socket
import struct
import threading
from collections.abc import Callable

from starmill.converters.protos import sc2api_pb2

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# Gets the request, sends what it likes.
Answer = Callable[["ScriptedGame", sc2api_pb2.Request], None]


def observation(loop: int, actions: int = 0, **fields: object) -> sc2api_pb2.Response:
    """A Response with an observation at this loop."""
    response = sc2api_pb2.Response()
    response.observation.observation.game_loop = loop
    for _ in range(actions):
        response.observation.actions.add().action_raw.camera_move.SetInParent()
    for name, value in fields.items():
        setattr(response, name, value)
    return response


class ScriptedGame:
    """Listens on a free port; every request goes to `answer`, which may misbehave."""

    def __init__(self, answer: Answer, handshake: bytes | None = None) -> None:
        self._answer = answer
        self._handshake = handshake
        self.requests: list[sc2api_pb2.Request] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> "ScriptedGame":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # ends a waiting accept
        self._server.close()
        self._thread.join(5)

    def _serve(self) -> None:
        try:
            self.connection, _ = self._server.accept()
            with self.connection:
                self._greet()
                while True:
                    self.requests.append(
                        sc2api_pb2.Request.FromString(self._read_message())
                    )
                    self._answer(self, self.requests[-1])
        except (OSError, EOFError):
            return

    def _greet(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.connection.recv(4096)
        if self._handshake is not None:
            self.connection.sendall(self._handshake)
            return
        lines = dict(
            line.split(b": ", 1) for line in head.split(b"\r\n") if b": " in line
        )
        key = base64.b64encode(
            hashlib.sha1(lines[b"Sec-WebSocket-Key"] + _GUID).digest()
        )
        self.connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + key + b"\r\n\r\n"
        )

    def _exactly(self, size: int) -> bytes:
        out = b""
        while len(out) < size:
            part = self.connection.recv(size - len(out))
            if not part:
                raise EOFError
            out += part
        return out

    def _read_message(self) -> bytes:
        first, second = self._exactly(2)
        size = second & 127
        if size == 126:
            (size,) = struct.unpack(">H", self._exactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._exactly(8))
        mask = self._exactly(4)
        data = self._exactly(size)
        if first & 15 == 10:
            return self._read_message()  # a pong
        return bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))

    def send_frame(self, data: bytes, opcode: int = 2, final: bool = True) -> None:
        """Sends one frame, of any kind."""
        size = len(data)
        head = bytes([(0x80 if final else 0) | opcode])
        if size < 126:
            head += bytes([size])
        elif size < 1 << 16:
            head += bytes([126]) + struct.pack(">H", size)
        else:
            head += bytes([127]) + struct.pack(">Q", size)
        self.connection.sendall(head + data)

    def reply(self, response: sc2api_pb2.Response, request: sc2api_pb2.Request) -> None:
        """Answers properly, with id and status."""
        response.id = request.id
        if not response.HasField("status"):
            response.status = sc2api_pb2.in_replay
        self.send_frame(response.SerializeToString())

    def hang_up(self) -> None:
        """Closes the connection."""
        self.connection.shutdown(socket.SHUT_RDWR)
