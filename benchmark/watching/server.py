"""Serves the pages of games on loopback; each is made when it is first opened.

In: the pages' addresses and functions that make them. Out: a web server for this machine alone. For
sets of games too large to write at once.

Requests must name this machine: otherwise a web page elsewhere could let its own name point here and
read the games. Only known addresses are answered, so no path can lead to other files.
"""

import contextlib
import http.server
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from starmill.schema import errors

HOST = "127.0.0.1"
Make = Callable[[], bytes]


class Pages:
    """The pages by address. They are made one at a time, and the latest few are kept."""

    def __init__(self, make: Mapping[str, Make], kept: int = 32) -> None:
        self._make = make
        self._kept = kept
        self._made: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, address: str) -> bytes | None:
        """Returns a page; None if there is none at this address."""
        if address not in self._make:
            return None
        with self._lock:
            if address not in self._made:
                content = self._make[address]()
                while len(self._made) >= self._kept:
                    del self._made[next(iter(self._made))]
                self._made[address] = content
            return self._made[address]


def open_server(pages: Pages, port: int = 0) -> http.server.ThreadingHTTPServer:
    """Returns a server on loopback; `serve_forever` answers. Port 0 is any free one."""

    class Handler(http.server.BaseHTTPRequestHandler):
        server_version = "starmill"
        sys_version = ""
        # A client that sends or takes nothing for so long is dropped.
        timeout = 60

        def do_GET(self) -> None:
            _answer(self, pages)

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing: the browser shows all errors."""

    try:
        return http.server.ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise errors.ConfigError(
            f"--port {port}: cannot be opened ({error.strerror}); choose another, or 0 for any "
            "free one"
        ) from error


def _answer(request: http.server.BaseHTTPRequestHandler, pages: Pages) -> None:
    host = request.headers.get("Host", "").rpartition(":")[0]
    if host not in (HOST, "localhost"):
        request.send_error(403, "this server answers requests to 127.0.0.1 only")
        return
    try:
        address = unquote(urlsplit(request.path).path)
    except ValueError:
        request.send_error(400)
        return
    try:
        content = pages.get(address)
    except (errors.StarmillError, OSError) as error:
        request.send_error(500, explain=str(error))
        return
    if content is None:
        request.send_error(404)
        return
    kind = "application/octet-stream" if address.endswith(".SC2Replay") else "text/html"
    request.send_response(200)
    request.send_header("Content-Type", f"{kind}; charset=utf-8")
    request.send_header("Content-Length", str(len(content)))
    request.send_header("X-Content-Type-Options", "nosniff")
    # Browsers go away in the midst of a page; that is nobody's fault.
    with contextlib.suppress(ConnectionError, TimeoutError):
        request.end_headers()
        request.wfile.write(content)
