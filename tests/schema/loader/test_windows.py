import concurrent.futures
import pickle
import random

import numpy as np
import pytest

import starmill
from starmill.schema import codec, errors, storage
from starmill.schema.loader import ranges, windows
from starmill.schema.loader.episode_index import EpisodeIndex
from tests.factories import range_reads, records, round_trips

KEYS = ("game_loop", "player", "action/delay", "raw_units")


@pytest.fixture(scope="module")
def originals():
    items = [records.episode(seed, steps=30 + 33 * seed) for seed in range(4)]
    return {item.meta.episode_id: item for item in items}


@pytest.fixture(scope="module")
def opened(tmp_path_factory, originals):
    path = tmp_path_factory.mktemp("windows")
    records.dataset(str(path), list(originals.values()))
    return starmill.open_dataset(path)


@pytest.fixture
def index(opened):
    return EpisodeIndex.from_table(opened.table)


def reader_of(opened, index):
    return windows.WindowReader(opened.url, records.SMALL, index)


def test_any_window_is_a_slice_of_the_original(opened, index, originals):
    """Random windows, in an order that makes the reader drop and load chunks again."""
    rng = np.random.default_rng(0)
    reader = reader_of(opened, index)
    for _ in range(60):
        number = int(rng.integers(4))
        steps = int(index.steps[number])
        start = int(rng.integers(steps))
        stop = int(rng.integers(start, steps)) + 1
        original = originals[index.ids[number].decode()].arrays
        out = {
            key: np.full((steps, *original[key].shape[1:]), -7, original[key].dtype)
            for key in KEYS
        }
        before = reader.read(number, start, stop, out)
        assert before == (original["action/delay"][start - 1] if start else 0)
        for key in KEYS:
            np.testing.assert_array_equal(
                out[key][: stop - start], original[key][start:stop], err_msg=key
            )
            assert (out[key][stop - start :] == -7).all(), "wrote beyond the window"


def test_parts_cover_a_window_step_by_step(opened, index):
    reader = reader_of(opened, index)
    size = codec.STEPS_PER_CHUNK
    number = int(index.steps.argmax())
    for start, stop in ((0, 1), (0, size), (size - 1, size + 1), (5, 3 * size + 2)):
        steps = [
            part.chunk.index * size + step
            for part in reader.chunks(number, start, stop)
            for step in range(part.start, part.stop)
        ]
        assert steps == list(range(start, stop))
    for start, stop in ((3, 3), (-1, 2), (0, int(index.steps[number]) + 1)):
        with pytest.raises(ValueError, match=f"steps {start}:{stop} of"):
            list(reader.chunks(number, start, stop))


def test_a_window_is_one_range_read_and_repeats_are_none(opened, index, monkeypatch):
    reads = range_reads.record(monkeypatch)
    reader = reader_of(opened, index)
    number = int(index.steps.argmax())
    offsets = index.offsets[index.begins[number] : index.begins[number + 1]].tolist()
    out = {"game_loop": np.zeros(200, np.int32)}
    reader.read(number, 33, 90, out)
    # The header, then chunks 1 and 2 together: records 2 and 3.
    ends = [(begin, end) for _, begin, end in reads]
    assert ends == [(offsets[0], offsets[1]), (offsets[2], offsets[4])]
    reader.read(number, 40, 60, out)
    assert len(reads) == 2
    reader.read(number, 0, 10, out)
    ((_, *ends),) = reads[2:]
    assert ends == [offsets[1], offsets[2]]


def test_few_headers_and_chunks_are_kept(opened, index, monkeypatch):
    monkeypatch.setattr(windows, "HEADERS", 2)
    monkeypatch.setattr(windows, "CHUNKS", 3)
    reader = reader_of(opened, index)
    for number in range(4):
        reader.read(number, 0, int(index.steps[number]), {})
        assert len(reader._memory.headers) <= 2
        assert len(reader._memory.chunks) <= 3
    # The episode that was read last is still there.
    assert 3 in reader._memory.headers


def test_threads_may_share_a_reader(opened, index, originals, monkeypatch):
    """Each thread has its own memory, and no file is closed while another reads it."""
    monkeypatch.setattr(storage.RangeReader, "_MOST_OPEN", 1)
    monkeypatch.setattr(windows, "CHUNKS", 1)
    reader = reader_of(opened, index)

    def read(number: int) -> None:
        rng = random.Random(number)
        for _ in range(40):
            episode = rng.randrange(len(index.ids))
            start = rng.randrange(int(index.steps[episode]))
            expected = reader_of(opened, index)
            for one, other in zip(
                reader.chunks(episode, start, start + 1),
                expected.chunks(episode, start, start + 1),
                strict=True,
            ):
                assert one.chunk.delay(one.start) == other.chunk.delay(other.start)
                assert one.chunk.index == other.chunk.index

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(read, number) for number in range(8)]:
            done.result()


def test_a_pickled_reader_reads_the_same(opened, index):
    reader = reader_of(opened, index)
    one, two = np.zeros(20, np.int32), np.zeros(20, np.int32)
    reader.read(2, 5, 25, {"game_loop": one})
    copy = pickle.loads(pickle.dumps(reader))
    assert not copy._memory.headers
    assert not copy._memory.chunks
    copy.read(2, 5, 25, {"game_loop": two})
    np.testing.assert_array_equal(one, two)


def test_records_are_those_that_were_written(opened, index, originals):
    reader = reader_of(opened, index)
    for number in range(4):
        original = originals[index.ids[number].decode()]
        written = codec.encode(original.arrays, records.SMALL)
        assert [reader.record(number, n) for n in range(len(written))] == written
        with pytest.raises(errors.ShardCorrupt, match="the table lists only"):
            reader.record(number, len(written))


@pytest.fixture
def remote(opened):
    """The same episodes in a store that counts round trips."""
    round_trips.TripsFileSystem.reset()
    return windows.WindowReader(
        f"trips://{opened.url}", records.SMALL, EpisodeIndex.from_table(opened.table)
    )


def test_a_window_of_a_store_takes_one_round_trip(opened, index, remote, monkeypatch):
    monkeypatch.setattr(ranges, "_MOST_GAP_BYTES", 0)
    store = round_trips.TripsFileSystem
    number = int(index.steps.argmax())
    out = {"game_loop": np.zeros(50, np.int32)}
    remote.read(number, 70, 90, out)
    # The header and chunk 2, neither of which is known yet.
    assert (store.requests, store.round_trips) == (2, 1)
    expected = {"game_loop": np.zeros(50, np.int32)}
    reader_of(opened, index).read(number, 70, 90, expected)
    np.testing.assert_array_equal(out["game_loop"], expected["game_loop"])
    remote.read(number, 10, 20, out)
    assert (store.requests, store.round_trips) == (3, 2)
    remote.read(number, 75, 80, out)
    assert store.requests == 3


def test_records_close_together_are_one_request(index, remote):
    number = int(index.steps.argmax())
    remote.read(number, 70, 90, {})
    assert round_trips.TripsFileSystem.requests == 1


def test_what_was_fetched_ahead_needs_no_request(index, remote, monkeypatch):
    monkeypatch.setattr(windows, "HEADERS", 1)
    monkeypatch.setattr(windows, "CHUNKS", 1)
    store = round_trips.TripsFileSystem
    wanted = [
        windows.Window(number, start, min(start + 40, int(index.steps[number])))
        for number in range(4)
        for start in (0, 20)
    ] * 2
    # Some of it is in memory before, and must not be dropped before it is used.
    remote.read(3, 20, 60, {})
    store.reset()
    assert remote.fetch_ahead(wanted) == len(wanted)
    requests = store.requests
    assert store.round_trips == 1
    for window in wanted:
        remote.read(*window, {})
    assert store.requests == requests


def test_what_is_fetched_ahead_is_bounded(index, remote, monkeypatch):
    monkeypatch.setattr(windows, "MOST_AHEAD_BYTES", 5000)
    wanted = [windows.Window(number, 0, 30) for number in range(4)]
    counts = []
    while wanted:
        counts.append(remote.fetch_ahead(wanted))
        del wanted[: counts[-1]]
    assert len(counts) > 1
    assert sum(counts) == 4
    assert all(count > 0 for count in counts)


def test_readers_of_lanes_keep_more(opened, index, monkeypatch):
    monkeypatch.setattr(windows, "HEADERS", 1)
    monkeypatch.setattr(windows, "CHUNKS", 1)
    reader = windows.WindowReader(opened.url, records.SMALL, index, lanes=3)
    for number in range(4):
        reader.read(number, 0, 10, {})
    assert len(reader._memory.headers) == len(reader._memory.chunks) == 4
