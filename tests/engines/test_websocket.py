"""The websocket against frames written by hand, as RFC 6455 lays them out."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from starmill.engines import websocket
from starmill.schema import errors


@contextlib.contextmanager
def connected() -> Iterator[tuple[websocket.Connection, socket.socket]]:
    """A connection after its handshake, and the game's end of it."""
    ours, theirs = socket.socketpair()
    with theirs:
        connection = websocket.Connection(ours)
        try:
            yield connection, theirs
        finally:
            connection.close()


def _soon() -> float:
    return time.monotonic() + 5


@pytest.mark.parametrize(
    ("size", "head"),
    [
        (0, b"\x82\x80"),
        (125, b"\x82\xfd"),
        (126, b"\x82\xfe\x00\x7e"),
        (65535, b"\x82\xfe\xff\xff"),
        (65536, b"\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00"),
    ],
)
def test_sent_frames_are_final_binary_and_masked_with_zeros(
    size: int, head: bytes
) -> None:
    content = b"x" * size
    frame = head + bytes(4) + content
    parts: list[bytes] = []
    with connected() as (connection, game):

        def read() -> None:
            while sum(map(len, parts)) < len(frame):
                parts.append(game.recv(1 << 17))

        reader = threading.Thread(target=read)
        reader.start()
        connection.send(content, _soon())
        reader.join(5)
    assert b"".join(parts) == frame


def test_a_ping_is_answered_between_the_parts_of_a_message() -> None:
    with connected() as (connection, game):
        game.sendall(b"\x02\x03abc" + b"\x89\x02hi" + b"\x80\x02de")
        assert connection.receive(_soon()) == b"abcde"
        assert game.recv(100) == b"\x8a\x82" + bytes(4) + b"hi"


def test_quiet_means_open_with_nothing_unread() -> None:
    with connected() as (connection, game):
        assert connection.is_quiet()
        game.sendall(b"\x82\x01a\x82")
        assert not connection.is_quiet()
        assert connection.receive(_soon()) == b"a"
        assert not connection.is_quiet()  # half of a frame is left
        game.sendall(b"\x01b")
        assert connection.receive(_soon()) == b"b"
        assert connection.is_quiet()
        game.shutdown(socket.SHUT_RDWR)
        assert not connection.is_quiet()


def test_a_closed_socket_is_a_lost_connection() -> None:
    with connected() as (connection, game):
        game.close()
        with pytest.raises(websocket.ConnectionLost):
            connection.receive(_soon())


def test_a_length_beyond_reason_is_not_waited_for() -> None:
    with connected() as (connection, game):
        game.sendall(b"\x82\x7f" + (1 << 40).to_bytes(8, "big"))
        with pytest.raises(errors.EngineCrashed, match="malformed"):
            connection.receive(_soon())


def test_a_deadline_that_has_passed_is_a_timeout() -> None:
    with connected() as (connection, _):
        with pytest.raises(errors.EngineTimeout):
            connection.receive(time.monotonic() - 1)
        with pytest.raises(errors.EngineTimeout):
            connection.receive(time.monotonic() + 0.05)
