import gc
import mmap

import numpy as np
import pytest

import starmill
from starmill.schema import episode, specs
from starmill.schema.loader import batch_options, batches, compact, ranges, samplers
from starmill.schema.loader.batch_options import BatchOptions
from starmill.schema.loader.episode_index import EpisodeIndex
from tests.factories import datasets, records, round_trips

KEYS = ("player", "action/delay", "action/unit_tags", "camera", "raw_units")


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("batches")
    # One episode of a single step, one of exactly a rollout, others longer than a chunk.
    items = [
        records.episode(seed, steps=steps, outcome=outcome)
        for seed, (steps, outcome) in enumerate(
            [(1, 1), (8, -1), (45, 0), (70, 1), (9, 1)]
        )
    ]
    records.dataset(str(path), items)
    return starmill.open_dataset(path)


def plan_of(opened, **overrides):
    options = BatchOptions(
        **{
            "batch_size": 3,
            "rollout": 8,
            "seed": 5,
            "sampler": "sequential",
            "keys": KEYS,
            **overrides,
        }
    )
    return batch_options.plan_for_host(options, opened.specs)


def maker_of(opened, plan):
    index = EpisodeIndex.from_table(opened.table)
    return batches.BatchMaker(plan, opened.settings, index, opened.url)


def build(maker, number):
    """Builds a batch in a buffer full of garbage."""
    buffer = np.full(maker.size_bytes, 0xA5, np.uint8)
    arrays = batches.views(maker.layout, buffer)
    return batches.trim(arrays, maker.make(number, arrays))


def slow_batch(opened, plan, number):
    """A dense batch step by step, from whole episodes in memory."""
    wholes = [lazy.load() for lazy in opened]
    lengths = np.array([item.meta.steps for item in wholes])
    lanes = samplers.make(plan.sampling, lengths).lanes(number, 0, plan.lanes)
    shapes = specs.episode_specs(opened.settings)
    out = {}
    for key in plan.keys:
        shape = (plan.lanes, plan.sampling.rollout, *shapes[key].shape)
        out[key] = np.zeros(shape, shapes[key].dtype)
    for key, dtype in batches.EXTRAS.items():
        out[key] = np.zeros((plan.lanes, plan.sampling.rollout), dtype)
    out["step_type"][:] = episode.LAST
    for lane, pieces in enumerate(lanes):
        k = 0
        for piece in pieces:
            item = wholes[piece.episode]
            for t in range(piece.start, piece.start + piece.length):
                for key in plan.keys:
                    out[key][lane, k] = item.arrays[key][t]
                last = t == item.meta.steps - 1
                out["valid"][lane, k] = True
                out["episode"][lane, k] = piece.episode
                out["step"][lane, k] = t
                out["outcome"][lane, k] = item.meta.outcome
                out["reward"][lane, k] = item.meta.outcome if last else 0
                kind = episode.FIRST if t == 0 else episode.MID
                out["step_type"][lane, k] = episode.LAST if last else kind
                if t:
                    out["prev_delay"][lane, k] = item.arrays["action/delay"][t - 1]
                k += 1
    return out


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"stride": 3},
        {"cross_episodes": True},
        {"cross_episodes": True, "stride": 5},
        {"sampler": "consecutive", "cross_episodes": True},
        {"sampler": "consecutive"},
        {"sampler": "episode"},
        {"sampler": "step", "rollout": 1},
        {"keys": ("player",)},
    ],
)
def test_batches_equal_those_made_step_by_step(opened, overrides):
    plan = plan_of(opened, **overrides)
    maker = maker_of(opened, plan)
    for number in (5, 0, 1, 2, 3, 4):
        batch, expected = build(maker, number), slow_batch(opened, plan, number)
        assert batch.keys() == expected.keys()
        for key, array in expected.items():
            assert batch[key].dtype == array.dtype
            np.testing.assert_array_equal(batch[key], array, err_msg=key)


def test_compact_batches_hold_the_rows_in_use_and_the_corners(opened):
    plan = plan_of(opened, form="compact")
    maker = maker_of(opened, plan)
    for number in range(4):
        batch = build(maker, number)
        dense = slow_batch(opened, plan_of(opened), number)
        units = dense["raw_units"].reshape(-1, *dense["raw_units"].shape[2:])
        counts, rows = [], []
        for table in units:
            used = np.flatnonzero(table.any(axis=1))
            counts.append(used[-1] + 1 if len(used) else 0)
            rows.append(table[: counts[-1]])
        rows = np.concatenate(rows)
        assert batch[compact.COUNT].reshape(-1).tolist() == counts
        assert len(batch[compact.UNITS]) % compact.ROWS == 0
        np.testing.assert_array_equal(batch[compact.UNITS][: len(rows)], rows)
        assert not batch[compact.UNITS][len(rows) :].any()
        for corners, plane in zip(
            batch[compact.CORNERS].reshape(-1, 4),
            dense["camera"].reshape(-1, *dense["camera"].shape[2:]),
            strict=True,
        ):
            top, bottom, left, right = corners
            painted = np.zeros_like(plane)
            painted[top:bottom, left:right] = 1
            np.testing.assert_array_equal(painted, plane)


def test_arrays_do_not_overlap_and_are_aligned(opened):
    for form in ("dense", "compact"):
        maker = maker_of(opened, plan_of(opened, form=form))
        end = 0
        for field in sorted(maker.layout, key=lambda field: field.offset):
            assert field.offset % 64 == 0
            assert field.offset >= end
            size = int(np.prod(field.shape)) * field.dtype.itemsize
            end = field.offset + size
        assert end <= maker.size_bytes < end + 64


def test_views_share_the_buffer(opened):
    maker = maker_of(opened, plan_of(opened))
    buffer = np.zeros(maker.size_bytes, np.uint8)
    arrays = batches.views(maker.layout, buffer)
    for number, field in enumerate(maker.layout, 1):
        arrays[field.key][:] = number % 2 if field.dtype == bool else number
    for number, field in enumerate(maker.layout, 1):
        assert arrays[field.key].shape == field.shape
        expected = number % 2 if field.dtype == bool else number
        assert (arrays[field.key] == expected).all()
    assert buffer.any()


def test_lent_memory_returns_with_its_last_view():
    returned = []
    memory = mmap.mmap(-1, 64)
    root = batches.lend(memory, returned.append)
    view = root[8:16].view(np.int32)[1:]
    del root
    gc.collect()
    assert returned == []
    view[0] = 7
    assert memory[12:16] == np.int32(7).tobytes()
    del view
    gc.collect()
    assert returned == [memory]


def test_a_pool_gives_out_no_buffer_twice():
    pool = batches.BufferPool(16)
    one, two = pool.take(), pool.take()
    assert one.ctypes.data != two.ctypes.data
    address = one.ctypes.data
    del one
    gc.collect()
    assert pool.take().ctypes.data == address
    assert len(two) == 16


@pytest.mark.parametrize("sampler", ["step", "consecutive"])
def test_a_batch_of_a_store_takes_one_round_trip(opened, sampler, monkeypatch):
    monkeypatch.setattr(ranges, "_MOST_GAP_BYTES", 0)
    remote = starmill.open_dataset(f"trips://{opened.url}")
    options = BatchOptions(
        batch_size=512, rollout=4, seed=1, sampler=sampler, keys=["player"]
    )
    store = round_trips.TripsFileSystem
    expected = next(opened.batches(options))
    store.reset()
    batch = next(remote.batches(options))
    np.testing.assert_array_equal(batch["player"], expected["player"])
    assert store.round_trips == 1
    # Five headers, and the chunks between them.
    assert store.requests <= 10


def test_512_lanes_of_a_store_take_few_round_trips(tmp_path, monkeypatch):
    """Each of 512 windows is in an episode of its own."""
    monkeypatch.setattr(ranges, "_MOST_GAP_BYTES", 0)
    datasets.repeated(str(tmp_path), 600)
    opened = starmill.open_dataset(f"trips://{tmp_path}")
    options = BatchOptions(
        batch_size=512, rollout=4, sampler="consecutive", seed=0, keys=["player"]
    )
    store = round_trips.TripsFileSystem
    batches_ = opened.batches(options)
    store.reset()
    assert len(np.unique(next(batches_)["episode"])) == 512
    # An episode's header and its first chunk are one range.
    assert store.requests == 512
    # 256 connections serve 512 requests in two round trips.
    assert 2 <= store.round_trips < 10
    # The next rollouts are in the same chunks: nothing is read twice.
    next(batches_)
    assert store.requests == 512
