"""Who may connect to the game, how long it may take, and how much it may send."""

import concurrent.futures
import contextlib
import socket
import struct
import threading

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request as HttpRequest

from starmill.engines.skirmish.server import connection

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
PATIENCE_SECONDS = 30


@contextlib.contextmanager
def listening():
    """Yields the address of a listener and the future of its first client."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        concurrent.futures.ThreadPoolExecutor(1) as threads,
    ):
        address = listener.getsockname()
        future = threads.submit(connection.accept, listener, is_local=True)
        try:
            yield address, future
        finally:
            if not future.done():  # so that the thread ends
                with contextlib.suppress(OSError), visit(address, request(address)):
                    future.result(PATIENCE_SECONDS)
            if future.done() and not future.exception():
                future.result().close()


def request(address, *, first="GET /sc2api HTTP/1.1", host=None, origin=None) -> bytes:
    lines = [
        first,
        f"Host: {host or f'127.0.0.1:{address[1]}'}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY}",
        "Sec-WebSocket-Version: 13",
    ]
    lines += [f"Origin: {origin}"] if origin else []
    return "\r\n".join([*lines, "", ""]).encode()


def visit(address, data: bytes) -> socket.socket:
    visitor = socket.create_connection(address, timeout=PATIENCE_SECONDS)
    visitor.sendall(data)
    return visitor


def status(visitor: socket.socket) -> int:
    """Returns the status of the answer, 0 if the connection closes without one."""
    try:
        line = visitor.recv(4096).split(b"\r\n")[0]
    except ConnectionResetError:
        return 0
    return int(line.split()[1]) if line else 0


def frame(payload: bytes, *, size=None, opcode=2, final=True) -> bytes:
    head = bytes([(0x80 if final else 0) | opcode, 0x80 | 127])
    size = len(payload) if size is None else size
    return head + struct.pack(">Q", size) + bytes(4) + payload


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["/sc2api", "/"])
def test_a_client_that_breaks_off_ends_nothing(method, path):
    with listening() as (address, future):
        for _ in range(20):
            visitor = visit(
                address, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            )
            # Without a farewell: the game's answer then meets a closed connection.
            linger = struct.pack("ii", 1, 0)
            visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            visitor.close()
        with visit(address, request(address)) as visitor:
            assert status(visitor) == 101
            assert isinstance(future.result(PATIENCE_SECONDS), connection.Client)


def test_slow_clients_do_not_delay_the_real_one():
    with listening() as (address, future), contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(visit(address, b"GET /sc2api HTTP/1.1\r\n"))
            for _ in range(8)
        ]
        stop = threading.Event()

        def drip():
            while not stop.wait(0.05):
                for one in slow:
                    with contextlib.suppress(OSError):
                        one.sendall(b"X")

        thread = threading.Thread(target=drip)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stop.set)
        with visit(address, request(address)) as visitor:
            # Their time is far from over when this one is served.
            visitor.settimeout(connection.HANDSHAKE_SECONDS / 2)
            assert status(visitor) == 101
            future.result(PATIENCE_SECONDS)
        # The game serves one client: the others are closed.
        assert {status(one) for one in slow} == {0}


def test_a_request_must_be_complete_before_its_deadline(monkeypatch):
    monkeypatch.setattr(connection, "HANDSHAKE_SECONDS", 0.2)
    with listening() as (address, future):
        with visit(address, b"") as silent, visit(address, b"GET /sc2") as slow:
            assert status(silent) == 0
            assert status(slow) == 0
        assert not future.done()


def test_a_crowd_of_silent_connections_is_bounded():
    with listening() as (address, future), contextlib.ExitStack() as stack:
        most = connection._MOST_WAITING
        crowd = [stack.enter_context(visit(address, b"")) for _ in range(most + 9)]
        with visit(address, request(address)) as visitor:
            assert status(visitor) == 101
            future.result(PATIENCE_SECONDS)
        # The oldest had to go before the real client came.
        assert {status(one) for one in crowd} == {0}


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", 101),
        ("localhost:{port}", "http://localhost:{port}", 101),
        ("[::1]:{port}", "http://[::1]:{port}", 101),
        ("127.0.0.1:{port}", None, 101),
        ("127.0.0.1:{port}", "http://evil.example", 403),
        ("127.0.0.1:{port}", "http://127.0.0.1:8080", 403),
        ("127.0.0.1:{port}", "null", 403),
        ("127.0.0.1:{port}", "http://[", 403),
        # A name of another's that leads to this machine: both agree, and both are foreign.
        ("evil.example:{port}", "http://evil.example:{port}", 403),
        ("evil.example", None, 403),
        ("[", None, 403),
    ],
)
def test_only_clients_of_this_machine_connect(host, origin, expected):
    with listening() as (address, _):
        host = host.format(port=address[1])
        origin = origin and origin.format(port=address[1])
        with visit(address, request(address, host=host, origin=origin)) as visitor:
            assert status(visitor) == expected


def test_a_game_that_listens_to_other_machines_takes_any_host():
    """Its name there is not known here; the origin must still agree."""
    headers = {"Host": "games.example:5000"}

    def refusal(origin=None):
        fields = {**headers, **({"Origin": origin} if origin else {})}
        asked = HttpRequest("/sc2api", Headers(fields))
        return connection._refusal(asked, is_local=False)

    assert refusal() is None
    assert refusal("http://games.example:5000") is None
    assert "agrees with Host" in refusal("http://evil.example")


def test_messages_are_joined_and_bounded(monkeypatch):
    monkeypatch.setattr(connection, "MAX_MESSAGE_BYTES", 1000)
    too_large = [
        frame(b"", size=1 << 40),
        frame(b"x" * 600, final=False) + frame(b"y" * 600, opcode=0),
    ]
    for hostile in too_large:
        with (
            listening() as (address, future),
            visit(address, request(address)) as visitor,
        ):
            assert status(visitor) == 101
            client = future.result(PATIENCE_SECONDS)
            visitor.sendall(frame(b"first"))
            visitor.sendall(frame(b"a" * 500, final=False))
            # Empty pieces cost nothing to send, and must cost nothing to keep.
            visitor.sendall(frame(b"", opcode=0, final=False) * 50)
            visitor.sendall(frame(b"b" * 500, opcode=0))
            visitor.sendall(hostile)
            assert list(client.messages()) == [b"first", b"a" * 500 + b"b" * 500]
