"""A real S3 server on loopback behind a proxy that can be told to misbehave."""

import contextlib
import http.client
import http.server
import json
import logging
import threading
import time
from collections.abc import Iterator

import fsspec
import pytest

from starmill.schema import storage

READ_TIMEOUT_SECONDS = 3
# After so long without another request, a round is complete.
QUIET_SECONDS = 0.5


class Faults:
    """What the proxy does to requests.

    errors, delays, cuts: how many of the next ones are answered by 503, not at all, or by
    half of the answer.  every: besides, every so many is spoiled, by turns with 503 and half.
    gather: whether requests wait until no more come, and are answered together; rounds counts
    how often that was.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.errors = 0
        self.delays = 0
        self.cuts = 0
        self.every = 0
        self.requests = 0
        self.gather = False
        self.rounds = 0
        self._arrived = threading.Condition()
        self._last = 0.0

    def wait_for_others(self) -> None:
        if not self.gather:
            return
        with self._arrived:
            mine = self.rounds
            self._last = time.monotonic()
            while self.rounds == mine:
                self._arrived.wait(QUIET_SECONDS / 10)
                quiet = time.monotonic() - self._last
                if self.rounds == mine and quiet > QUIET_SECONDS:
                    self.rounds += 1
                    self._arrived.notify_all()

    def next(self) -> str:
        with self.lock:
            self.requests += 1
            for name in ("errors", "delays", "cuts"):
                if getattr(self, name):
                    setattr(self, name, getattr(self, name) - 1)
                    return name
            if self.every and self.requests % self.every == 0:
                return "errors" if self.requests // self.every % 2 else "cuts"
        return ""


def _proxy_to(port: int, faults: Faults) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self):
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            fault = faults.next()
            faults.wait_for_others()
            if fault == "errors":
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if fault == "delays":
                time.sleep(READ_TIMEOUT_SECONDS + 1)
                self.close_connection = True
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port)
            with contextlib.closing(upstream):
                upstream.request(self.command, self.path, body, dict(self.headers))
                answer = upstream.getresponse()
                data = answer.read()
            # A client that gave up waiting is not the server's concern.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.answer(answer, data, fault)

        def answer(self, answer, data, fault):
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.end_headers()
            if fault == "cuts" and data:
                data = data[: len(data) // 2]
                self.close_connection = True
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward

        def log_message(self, *arguments):
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class _Server(http.server.ThreadingHTTPServer):
    # Connections that wait to be accepted; beyond them, clients try again after a second.
    request_queue_size = 512


@contextlib.contextmanager
def running() -> Iterator[tuple[str, Faults]]:
    """A bucket's address and the faults of the way to it; for child processes too."""
    moto = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    faults = Faults()
    proxy = _proxy_to(port, faults)
    options = {
        "key": "test",
        "secret": "test",
        "endpoint_url": f"http://127.0.0.1:{proxy.server_port}",
        "config_kwargs": {
            "read_timeout": READ_TIMEOUT_SECONDS,
            "connect_timeout": READ_TIMEOUT_SECONDS,
            "retries": {"max_attempts": 0},
        },
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fsspec.config.conf, "s3", options)
        # What fsspec reads in the processes that we start.
        patch.setenv("FSSPEC_S3", json.dumps(options))
        # s3fs tries again by itself; here ours is to be tried.
        patch.setattr(s3fs.S3FileSystem, "retries", 1)
        storage.filesystem_of.cache_clear()
        # The server's buckets are the process's: an earlier run may have made it.
        with contextlib.suppress(FileExistsError):
            fsspec.filesystem("s3").mkdir("bucket")
        try:
            yield "s3://bucket", faults
        finally:
            storage.filesystem_of.cache_clear()
            s3fs.S3FileSystem.clear_instance_cache()
            proxy.shutdown()
            proxy.server_close()
            server.stop()
