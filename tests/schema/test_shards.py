import struct

import google_crc32c
import pytest

from starmill.schema import codec, errors, shards, storage
from tests.factories import records as factories


def encoded(seed, **overrides):
    item = factories.episode(seed, steps=3, **overrides)
    return shards.EpisodeRecords(
        meta=item.meta, records=codec.encode(item.arrays, factories.SMALL)
    )


def test_frames_are_tfrecords():
    # Worked out by hand from the format's description: mask(crc) = ror(crc, 15) + constant.
    data = b"abc"
    crc = google_crc32c.value(data)
    masked = (((crc >> 15) | (crc << 17) & 0xFFFFFFFF) + 0xA282EAD8) % 2**32
    framed = shards.frame_record(data)
    assert framed[:8] == struct.pack("<Q", 3)
    assert framed[12:15] == data
    assert framed[15:] == struct.pack("<I", masked)
    assert shards.unframe_record(framed, "here") == data


def test_shards_of_known_ids_are_literal_numbers():
    names = [factories.replay_id(seed) for seed in range(6)]
    assert [shards.shard_of(name, 64) for name in names] == EXPECTED_SHARDS
    # By ranges: with twice the shards everybody stays in order.
    assert [shards.shard_of(name, 128) // 2 for name in names] == EXPECTED_SHARDS
    with pytest.raises(errors.ConfigError, match="at least 1"):
        shards.shard_of(names[0], 0)


EXPECTED_SHARDS = [37, 43, 3, 27, 2, 3]


def test_names():
    assert shards.shard_name("train", 3, 64) == "train-00003-of-00064.tfrecord"
    assert shards.split_of_name("valid-00000-of-00001.tfrecord") == "valid"
    with pytest.raises(errors.FormatError, match="expected a shard name"):
        shards.split_of_name("train.tfrecord")


def test_a_shard_says_where_its_episodes_are(tmp_path):
    items = sorted([encoded(1), encoded(2)], key=lambda item: item.meta.episode_id)
    name = shards.shard_name("train", 0, 1)
    entry, placed = shards.write_shard(str(tmp_path), name, items)
    data = (tmp_path / name).read_bytes()
    assert entry.size_bytes == len(data)
    assert entry.episodes == 2
    assert entry.steps == 6
    for item, row in zip(items, placed, strict=True):
        assert row.meta == item.meta
        for number, record in enumerate(item.records):
            framed = data[row.offsets[number] : row.offsets[number + 1]]
            assert shards.unframe_record(framed, "") == record
    assert list(shards.records_of(data, name)) == [
        record for item in items for record in item.records
    ]


def test_unsorted_or_no_episodes_leave_no_shard(tmp_path):
    items = sorted([encoded(1), encoded(2)], key=lambda item: item.meta.episode_id)
    name = shards.shard_name("train", 0, 1)
    with pytest.raises(errors.SpecError, match="ascend by id"):
        shards.write_shard(str(tmp_path), name, items[::-1])
    with pytest.raises(errors.SpecError, match="at least one episode"):
        shards.write_shard(str(tmp_path), name, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, 1, 2])
def test_parts_come_back(tmp_path, count):
    items = [encoded(5, player_id=player) for player in (1, 2)][:count]
    url = str(tmp_path / "a.part")
    shards.write_part(url, items)
    again = shards.read_part(url)
    assert [item.meta for item in again] == [item.meta for item in items]
    assert [list(item.records) for item in again] == [
        list(item.records) for item in items
    ]
    first = (tmp_path / "a.part").read_bytes()
    shards.write_part(url, items)
    assert (tmp_path / "a.part").read_bytes() == first


def test_damaged_parts_are_refused(tmp_path):
    url = str(tmp_path / "a.part")
    shards.write_part(url, [encoded(5)])
    data = (tmp_path / "a.part").read_bytes()
    for cut in (0, 5, 20, len(data) - 1):
        (tmp_path / "a.part").write_bytes(data[:cut])
        with pytest.raises(errors.ShardCorrupt, match="a.part"):
            shards.read_part(url)
    records = list(shards.records_of(data, url))
    for wrong, match in (
        (records[:-1], "do not match"),
        ([*records, b"more"], "too many"),
        ([b"{", *records[1:]], "not a part"),
        ([b'{"part": 0}', *records[1:]], "expected a part of version"),
    ):
        storage.write(url, b"".join(shards.frame_record(r) for r in wrong))
        with pytest.raises(errors.FormatError, match=match):
            shards.read_part(url)


def test_tensorflow_and_beam_read_a_shard(tmp_path):
    """The same records through two readers that are not ours."""
    beam_tfrecord = pytest.importorskip("apache_beam.io.tfrecordio")
    item = encoded(1)
    name = shards.shard_name("train", 0, 1)
    shards.write_shard(str(tmp_path), name, [item])
    collected = []
    with (tmp_path / name).open("rb") as file:
        while (record := beam_tfrecord._TFRecordUtil.read_record(file)) is not None:
            collected.append(record)
    assert collected == list(item.records)
