"""A local HTTP server that behaves like Blizzard's replay API, faults included.

Faults are put on a list per kind of address and used up in order: "500", "429", "401",
"drop" (half the bytes, then the connection is cut), "garble" (a byte is wrong), "garbage"
(not JSON), "hang" (no answer until the client gives up).
"""

import base64
import hashlib
import json
import threading
import time
import urllib.parse
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLIENT_ID, CLIENT_SECRET = "some-id", "very/secret+value"  # noqa: S105 - of this server
PAGE = 2


class PackServer:
    """Serves packs {version: {name: bytes}} on a free loopback port."""

    def __init__(self, packs: dict[str, dict[str, bytes]]) -> None:
        self.packs = packs
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.tokens: set[str] = set()
        self.md5_etags = True
        self.etag_suffix = ""
        self.ranges = True
        self.foreign_href = ""
        self.stop_hanging = threading.Event()
        server = self

        class Handler(_Handler):
            owner = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> "PackServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_hanging.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def asked(self, part: str) -> int:
        return sum(part in path for _, path, _ in self.requests)


class _Handler(BaseHTTPRequestHandler):
    owner: PackServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _json(self, value: object, status: int = 200) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _fault(self, kind: str) -> bool:
        """Plays the next fault of this kind; returns whether the request is done with."""
        faults = self.owner.faults[kind]
        fault = faults.pop(0) if faults else ""
        self.fault = fault
        if fault.isdigit():
            self.send_response(int(fault))
            if fault == "429":
                self.send_header("Retry-After", "0")
            if fault == "302":
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif fault == "garbage":
            self._json(b"<html>try later</html>")
        elif fault == "hang":
            self.owner.stop_hanging.wait(30)
            self.close_connection = True
        else:
            return False
        return True

    def do_POST(self) -> None:  # noqa: N802 - the server calls it
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.owner.requests.append(("POST", self.path, dict(self.headers)))
        if self._fault("token"):
            return
        pair = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        good = self.headers.get("Authorization") == f"Basic {pair}"
        if not good or b"client_credentials" not in body or self.path != "/oauth/token":
            self._json({"error": "unauthorized"}, 401)
            return
        token = f"token-{len(self.owner.tokens)}"
        self.owner.tokens = {token}  # a new one ends the old one
        self._json({"access_token": token, "token_type": "bearer", "expires_in": 86399})

    def do_GET(self) -> None:  # noqa: N802 - the server calls it
        self.owner.requests.append(("GET", self.path, dict(self.headers)))
        parts = urllib.parse.urlsplit(self.path)
        if parts.path.startswith("/packs/"):
            if not self._fault("pack"):
                self._pack(parts.path.removeprefix("/packs/"))
            return
        if self._fault("api"):
            return
        query = dict(urllib.parse.parse_qsl(parts.query))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if (
            token not in self.owner.tokens
            or query.get("namespace") != "s2-client-replays"
        ):
            self._json({"code": 401}, 401)
        elif parts.path == "/data/sc2/archive_url/base_url":
            self._json({"base_url": f"{self.owner.url}/packs/"})
        elif parts.path == "/data/sc2/search/archive":
            self._search(query)
        elif parts.path.startswith("/data/sc2/archive/"):
            name = parts.path.rpartition("/")[2]
            version = parts.path.split("/")[-2]
            self._json({"path": f"{version}/{name}", "archive_type": "replays"})
        else:
            self._json({"status": "nok", "reason": "no such thing"})

    def _search(self, query: dict[str, str]) -> None:
        version, page = query["client_version"], int(query["_page"])
        names = sorted(self.owner.packs.get(version, {}))
        host = self.owner.foreign_href or self.owner.url
        self._json(
            {
                "page": page,
                "pageCount": max(1, -(-len(names) // PAGE)),
                "results": [
                    {
                        "key": {"href": f"{host}/data/sc2/archive/{version}/{name}"},
                        "data": {"client_version": version},
                    }
                    for name in names[PAGE * (page - 1) : PAGE * page]
                ],
            }
        )

    def _pack(self, path: str) -> None:
        version, _, name = path.partition("/")
        data = self.owner.packs[version][name]
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        etag = f'"{digest}{self.owner.etag_suffix}"'
        if not self.owner.md5_etags:
            etag = '"v1"'
        begin = 0
        wanted = self.headers.get("Range", "")
        if wanted and self.owner.ranges and self.headers.get("If-Range") == etag:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if begin else 200)
        self.send_header("ETag", etag)
        if begin:
            span = f"bytes {begin}-{len(data) - 1}/{len(data)}"
            self.send_header("Content-Range", span)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        body = data[begin:]
        if self.fault == "drop":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            time.sleep(0.01)
            self.close_connection = True
            return
        if self.fault == "garble":
            body = body[:99] + bytes([body[99] ^ 0xFF]) + body[100:]
        self.wfile.write(body)
