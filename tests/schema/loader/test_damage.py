"""Damaged, truncated and exchanged files of a dataset are noticed and named."""

import numpy as np
import pytest

import starmill
from starmill.schema import (
    codec,
    errors,
    manifest,
    shards,
    storage,
)
from starmill.schema.loader import windows
from starmill.schema.loader.episode_file import checked_file
from starmill.schema.loader.episode_index import EpisodeIndex
from tests.factories import datasets, records


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Two short episodes: small enough to flip every byte."""
    path = tmp_path_factory.mktemp("tiny")
    items = [records.episode(seed, steps=34) for seed in (0, 1)]
    for item in items:
        item.arrays["raw_units"][:, 4:] = 0
        item.arrays["minimap_height_map"][:] = 1
    records.dataset(str(path), items, shards_per_split=1)
    return path


def test_every_flipped_byte_of_a_shard_is_noticed_and_named(tiny, monkeypatch):
    opened = starmill.open_dataset(str(tiny))
    index = EpisodeIndex.from_table(opened.table)
    (name,) = index.shard_names
    data = (tiny / name).read_bytes()
    flipped = -1
    plain = storage.RangeReader._read_local

    def read(self, shard, url, begin, end):
        data = bytearray(plain(self, shard, url, begin, end))
        if begin <= flipped < end:
            data[flipped - begin] ^= 1 << flipped % 8
        return bytes(data)

    monkeypatch.setattr(storage.RangeReader, "_read_local", read)
    offsets = index.offsets
    for flipped in range(len(data)):
        number = int(np.searchsorted(index.offsets, flipped, side="right")) - 1
        owner = int(np.searchsorted(index.begins, number, side="right")) - 1
        record = number - int(index.begins[owner])
        reader = windows.WindowReader(str(tiny), records.SMALL, index)
        with pytest.raises(errors.ShardCorrupt) as caught:
            reader.record(owner, record)
        message = str(caught.value)
        assert name in message
        assert index.ids[owner].decode() in message
        assert ("header" if record == 0 else f"chunk {record - 1}") in message
    assert flipped == len(data) - 1
    assert offsets[-1] == len(data)


def test_every_flipped_byte_beside_the_shards_is_noticed(tiny, monkeypatch):
    plain = storage.read
    flips = {"name": "", "at": 0}

    def read(url, *limits):
        data = plain(url, *limits)
        if url.endswith("/" + flips["name"]):
            changed = bytearray(data)
            changed[flips["at"]] ^= 1 << flips["at"] % 8
            return bytes(changed)
        return data

    content = manifest.read(str(tiny))
    sizes = {entry.name: entry.size_bytes for entry in content.files}
    assert set(sizes) == {
        "episodes.parquet",
        "quarantine.parquet",
        "unselected.parquet",
        "README.md",
        "croissant.json",
    }
    monkeypatch.setattr(storage, "read", read)
    for name, size in sizes.items():
        flips["name"] = name
        for flips["at"] in range(0, size, 1):
            with pytest.raises(errors.ManifestMismatch, match=name):
                checked_file(str(tiny), content.file(name))
    flips["name"] = manifest.NAME
    for flips["at"] in range(len(content.to_bytes())):
        with pytest.raises(errors.FormatError):
            starmill.open_dataset(str(tiny))


def test_truncated_and_missing_shards_are_named(tmp_path):
    content = records.dataset(str(tmp_path))
    for entry in content.shards:
        path = tmp_path / entry.name
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        opened = starmill.open_dataset(str(tmp_path))
        with pytest.raises(errors.ShardCorrupt, match=entry.name):
            [item.load() for item in opened]
        path.unlink()
        opened = starmill.open_dataset(str(tmp_path))
        with pytest.raises(errors.ShardCorrupt, match="missing"):
            [item.load() for item in opened]
        path.write_bytes(data)
    assert len(list(starmill.open_dataset(str(tmp_path)))) == 12


def test_parts_of_another_dataset_are_refused(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    content = records.dataset(str(one))
    others = [records.episode(seed, steps=25) for seed in range(20, 32)]
    records.dataset(str(two), others, version="2.0.0")
    (two / "manifest.json").write_bytes((one / "manifest.json").read_bytes())
    with pytest.raises(errors.ManifestMismatch, match=r"episodes\.parquet"):
        starmill.open_dataset(str(two))
    with pytest.raises(errors.ManifestMismatch, match="expected sha256:000"):
        starmill.open_dataset(f"{one}#sha256:{'0' * 64}")
    assert len(starmill.open_dataset(f"{one}#{content.digest()}")) == 12
    # Another dataset's shards under this one's table.
    names = sorted(path.name for path in one.glob("*.tfrecord"))
    for name in names:
        (one / name).write_bytes((one / names[0]).read_bytes() * 3)
    with pytest.raises(errors.ShardCorrupt):
        [item.load() for item in starmill.open_dataset(str(one))]


@pytest.mark.parametrize(
    ("order", "match"),
    [
        ((0, 2, 1, 3), "expected chunk 0 of 32 steps, found chunk 1"),
        ((0, 1, 1, 3), "expected chunk 1 of 32 steps, found chunk 0"),
        ((0, 1, 2, 2), "expected chunk 2 of 10 steps, found chunk 1 of 32"),
        ((0, 1, 2), "offsets: expected those of a header, 3 chunks"),
        ((1, 1, 2, 3), "expected a header"),
    ],
)
def test_records_that_changed_places_are_noticed(tmp_path, order, match):
    """Whole, undamaged records where the table says, but not those that belong there."""
    item = records.episode(0, steps=74)
    encoded = codec.encode(item.arrays, records.SMALL)
    assert len(encoded) == 4
    wrong = shards.EpisodeRecords(
        meta=item.meta, records=[encoded[number] for number in order]
    )
    datasets.of_records(str(tmp_path), [wrong])
    with pytest.raises(errors.FormatError, match=match):
        starmill.open_dataset(str(tmp_path))[0][:]
