"""The server on loopback answers known addresses, to this machine's browsers alone."""

import http.client
import socket
import struct
import threading

import pytest

from starmill.benchmark.watching import server
from starmill.schema import errors


@pytest.fixture
def opened():
    collected = []

    def page(text):
        collected.append(text)
        return text.encode()

    def fail():
        raise errors.FormatError("the replay is damaged")

    pages = server.Pages(
        {
            "/": lambda: page("list"),
            "/watch/a b.html": lambda: page("a"),
            "/bad": fail,
            "/large": lambda: bytes(1 << 24),
        },
        kept=1,
    )
    with server.open_server(pages) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running.server_address[1], collected
        running.shutdown()
        thread.join()


def get(port, path, host=None):
    connection = http.client.HTTPConnection(server.HOST, port, timeout=30)
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("Host", host or f"localhost:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_pages_are_made_when_they_are_opened_and_kept(opened):
    port, result = opened
    assert result == []
    assert get(port, "/watch/a%20b.html?x=1") == (200, "a")
    assert get(port, "/watch/a%20b.html") == (200, "a")
    assert result == ["a"]
    # Only one page is kept here, so the first is made again.
    assert get(port, "/") == (200, "list")
    assert get(port, "/watch/a%20b.html") == (200, "a")
    assert result == ["a", "list", "a"]


def test_other_addresses_and_hosts_are_refused(opened):
    port, result = opened
    for path in ("/watch/../../etc/passwd", "/results.csv", "/watch/"):
        assert get(port, path)[0] == 404
    assert get(port, "/", host="evil.example:80")[0] == 403
    assert get(port, "/", host=f"127.0.0.1:{port}")[0] == 200
    assert result == ["list"]


def test_what_cannot_be_made_says_why(opened):
    status, text = get(opened[0], "/bad")
    assert status == 500
    assert "the replay is damaged" in text


def test_a_port_in_use_is_named(opened):
    with pytest.raises(errors.ConfigError, match=f"--port {opened[0]}: cannot be"):
        server.open_server(server.Pages({}), opened[0])


def test_what_is_no_address_is_refused(opened):
    port, _ = opened
    assert get(port, "http://[")[0] == 400


def test_a_browser_that_goes_away_leaves_no_traceback(opened, capsys):
    port, _ = opened
    for _ in range(5):
        with socket.create_connection((server.HOST, port)) as client:
            linger = struct.pack("ii", 1, 0)  # closing resets the connection
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.sendall(
                f"GET /large HTTP/1.0\r\nHost: {server.HOST}:1\r\n\r\n".encode()
            )
            client.recv(1)
    assert get(port, "/")[0] == 200
    assert "Traceback" not in capsys.readouterr().err
