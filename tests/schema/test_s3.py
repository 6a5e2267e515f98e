"""The dataset over the S3 protocol: a real server on loopback, and a proxy that misbehaves."""

import contextlib
import http.client
import http.server
import logging
import threading
import time

import fsspec
import numpy as np
import pytest

import starmill
from starmill.schema import errors, shards, storage
from tests import factories

pytestmark = [
    pytest.mark.slow,
    # The clients' own: unclosed sockets of requests that we made fail.
    pytest.mark.filterwarnings("ignore"),
]


class Faults:
    """What the proxy does to requests: numbers of those still to be spoiled."""

    def __init__(self):
        self.lock = threading.Lock()
        self.errors = 0
        self.delays = 0
        self.cuts = 0
        self.requests = 0

    def next(self):
        with self.lock:
            self.requests += 1
            for name in ("errors", "delays", "cuts"):
                if getattr(self, name):
                    setattr(self, name, getattr(self, name) - 1)
                    return name
        return ""


def proxy_to(port, faults):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self):
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            fault = faults.next()
            if fault == "errors":
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if fault == "delays":
                time.sleep(4)
                self.close_connection = True
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port)
            with contextlib.closing(upstream):
                upstream.request(self.command, self.path, body, dict(self.headers))
                answer = upstream.getresponse()
                data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.end_headers()
            if fault == "cuts":
                data = data[: len(data) // 2]
                self.close_connection = True
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """A bucket's address and the faults of the way to it."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    faults = Faults()
    proxy = proxy_to(port, faults)
    before = dict(fsspec.config.conf)
    fsspec.config.conf["s3"] = {
        "key": "test",
        "secret": "test",
        "endpoint_url": f"http://127.0.0.1:{proxy.server_port}",
        "config_kwargs": {
            "read_timeout": 3,
            "connect_timeout": 3,
            "retries": {"max_attempts": 0},
        },
        "skip_instance_cache": True,
    }
    storage._filesystem.cache_clear()
    filesystem = fsspec.filesystem("s3")
    # s3fs tries again by itself; here ours is to be tried.
    type(filesystem).retries = 1
    filesystem.mkdir("bucket")
    yield "s3://bucket", faults
    fsspec.config.conf.clear()
    fsspec.config.conf.update(before)
    storage._filesystem.cache_clear()
    proxy.shutdown()
    proxy.server_close()
    server.stop()


def test_a_dataset_is_written_and_read(s3, tmp_path):
    url, faults = s3
    content = factories.dataset(f"{url}/data")
    assert factories.dataset(str(tmp_path)) == content
    remote = starmill.open_dataset(f"{url}/data#{content.digest()}")
    local = starmill.open_dataset(str(tmp_path))
    for one, two in zip(remote.episodes(), local.episodes(), strict=True):
        assert one.meta == two.meta
        for key in one.arrays:
            np.testing.assert_array_equal(one.arrays[key], two.arrays[key])
    before = faults.requests
    remote = starmill.open_dataset(f"{url}/data")
    remote.read(0, 3, 4)
    # Manifest, table, header, chunk; a busy machine may make the client ask again.
    assert faults.requests - before <= 12


def test_passing_faults_are_ridden_out(s3):
    url, faults = s3
    content = factories.dataset(f"{url}/faults")
    for name in ("errors", "delays", "cuts"):
        setattr(faults, name, 2)
        opened = starmill.open_dataset(f"{url}/faults")
        assert opened.reference == content.reference()
        setattr(faults, name, 2)
        batch = next(opened.batches(batch_size=2, rollout=16, seed=1))
        assert batch["valid"].all()
        setattr(faults, name, 2)
        storage.write(f"{url}/faults/extra-{name}", b"x" * 1000)
        assert storage.read(f"{url}/faults/extra-{name}") == b"x" * 1000
        assert getattr(faults, name) == 0


def test_lasting_faults_are_reported(s3):
    url, faults = s3
    factories.dataset(f"{url}/lasting")
    opened = starmill.open_dataset(f"{url}/lasting")
    faults.errors = 1000
    try:
        with pytest.raises(errors.ShardCorrupt, match="cannot be read"):
            opened.read(0)
    finally:
        faults.errors = 0
    assert len(opened.read(0)["mmr"]) == opened.metas[0].steps


def test_missing_and_damaged_shards_are_named(s3):
    url, _ = s3
    content = factories.dataset(f"{url}/damaged")
    name = content.shards[0].name
    data = storage.read(f"{url}/damaged/{name}")
    opened = starmill.open_dataset(f"{url}/damaged", where=None)
    number = opened.table.column("shard").to_pylist().index(name)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 4
    storage.write(f"{url}/damaged/{name}", bytes(damaged))
    with pytest.raises(errors.ShardCorrupt, match=name):
        for shard_number, shard in enumerate(opened.table.column("shard").to_pylist()):
            if shard == name:
                opened.read(shard_number)
    storage.write(f"{url}/damaged/{name}", data[:20])
    with pytest.raises(errors.ShardCorrupt, match=name):
        starmill.open_dataset(f"{url}/damaged").read(number)
    fsspec.filesystem("s3").rm(f"bucket/damaged/{name}")
    with pytest.raises(errors.ShardCorrupt, match="missing"):
        starmill.open_dataset(f"{url}/damaged").read(number)


def test_parts_and_listings(s3):
    url, _ = s3
    shards.write_part(f"{url}/parts/a.part", [])
    assert shards.read_part(f"{url}/parts/a.part") == []
    assert storage.names(f"{url}/parts") == ["a.part"]
    assert storage.names(f"{url}/nothing") == []
