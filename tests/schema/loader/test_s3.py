"""The dataset over the S3 protocol: a real server on loopback, and a proxy that misbehaves."""

import fsspec
import numpy as np
import pytest

import starmill
from starmill.schema import errors, shards, storage
from starmill.schema.loader import ranges
from tests import s3_server
from tests.factories import records

pytestmark = [
    pytest.mark.slow,
    # The clients' own: unclosed sockets of requests that we made fail.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def s3():
    """A bucket's address and the faults of the way to it."""
    with s3_server.running() as result:
        yield result


def test_a_dataset_is_written_and_read(s3, tmp_path):
    url, faults = s3
    content = records.dataset(f"{url}/data")
    assert records.dataset(str(tmp_path)) == content
    remote = starmill.open_dataset(f"{url}/data#{content.digest()}")
    local = starmill.open_dataset(str(tmp_path))
    for one, two in zip(remote, local, strict=True):
        assert one.meta == two.meta
        for key in remote.specs:
            np.testing.assert_array_equal(one[key], two[key])
    before = faults.requests
    remote = starmill.open_dataset(f"{url}/data")
    remote[0][3:4]
    # Manifest, table, header, chunk; a busy machine may make the client ask again.
    assert faults.requests - before <= 12


def test_passing_faults_are_ridden_out(s3):
    url, faults = s3
    content = records.dataset(f"{url}/faults")
    options = starmill.BatchOptions(batch_size=2, rollout=16, seed=1)
    for name in ("errors", "delays", "cuts"):
        setattr(faults, name, 2)
        opened = starmill.open_dataset(f"{url}/faults")
        assert opened.reference == content.reference()
        setattr(faults, name, 2)
        batch = next(opened.batches(options))
        assert batch["valid"].all()
        setattr(faults, name, 2)
        storage.write(f"{url}/faults/extra-{name}", b"x" * 1000)
        assert storage.read(f"{url}/faults/extra-{name}") == b"x" * 1000
        assert getattr(faults, name) == 0


def test_lasting_faults_are_reported(s3):
    url, faults = s3
    records.dataset(f"{url}/lasting")
    opened = starmill.open_dataset(f"{url}/lasting")
    faults.errors = 1000
    try:
        with pytest.raises(errors.ShardCorrupt, match="cannot be read"):
            opened[0].load()
    finally:
        faults.errors = 0
    assert len(opened[0]["mmr"]) == opened.metas[0].steps


def test_missing_and_damaged_shards_are_named(s3):
    url, _ = s3
    content = records.dataset(f"{url}/damaged")
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
                opened[shard_number].load()
    storage.write(f"{url}/damaged/{name}", data[:20])
    with pytest.raises(errors.ShardCorrupt, match=name):
        starmill.open_dataset(f"{url}/damaged")[number].load()
    fsspec.filesystem("s3").rm(f"bucket/damaged/{name}")
    with pytest.raises(errors.ShardCorrupt, match="missing"):
        starmill.open_dataset(f"{url}/damaged")[number].load()


def test_parts_and_listings(s3):
    url, _ = s3
    shards.write_part(f"{url}/parts/a.part", [])
    assert shards.read_part(f"{url}/parts/a.part") == []
    assert storage.names(f"{url}/parts") == ["a.part"]
    assert storage.names(f"{url}/nothing") == []


def test_a_batch_is_one_round_of_requests(s3, monkeypatch):
    monkeypatch.setattr(ranges, "_MOST_GAP_BYTES", 0)
    url, faults = s3
    items = [records.episode(seed, steps=40) for seed in range(24)]
    records.dataset(f"{url}/rounds", items)
    opened = starmill.open_dataset(f"{url}/rounds")
    options = starmill.BatchOptions(
        batch_size=24, rollout=4, sampler="consecutive", seed=1, keys=["player"]
    )
    batches = opened.batches(options)
    before = faults.requests
    faults.gather = True
    try:
        batch = next(batches)
    finally:
        faults.gather = False
    assert len(np.unique(batch["episode"])) == 24
    assert faults.requests - before == 24
    # S3's client would have fewer connections by default. On a busy machine, the requests of one
    # round may be counted as two.
    assert 1 <= faults.rounds <= 2
