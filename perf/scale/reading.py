"""Reading: opening a dataset of 2.8 million episodes, pickles, and round trips to a store."""

import os
import pickle

from perf.row import Row, beside
from perf.scale import bounds, plain_table, synthetic_dataset
from starmill.schema.loader import dataset, ranges
from starmill.schema.loader.batch_options import BatchOptions
from tests.factories import datasets, records
from tests.factories.round_trips import TripsFileSystem

_MOST_MB = 500.0
_MOST_PICKLED_KB = 100.0
# Opening must take at most this share of the plain way's core seconds.
_MOST_SHARE = 0.1
_FILTERS = {"mmr_above": 6200, "outcome": 1}
# A tenth shows the same faults ten times as fast: STARMILL_SCALE_EPISODES=280000.
EPISODES = int(os.environ.get("STARMILL_SCALE_EPISODES", synthetic_dataset.EPISODES))


def _folder() -> str:
    return str(synthetic_dataset.cached(bounds.folder(), EPISODES))


def _warm_up() -> None:
    """Opens a tiny dataset, so that imports are not part of a measurement."""
    tiny = str(bounds.folder() / "tiny")
    records.dataset(tiny)
    dataset.open_dataset(tiny, mmr_above=0, outcome=[1, 0, -1])


def opening() -> list[Row]:
    """Measures `open_dataset` with filters, and the plain way in the same process after it."""
    folder = _folder()
    _warm_up()
    bounds.reset_peak()
    began = bounds.core_seconds()
    opened = dataset.open_dataset(folder, **_FILTERS)
    ours, megabytes = bounds.core_seconds() - began, bounds.peak_mb()
    bounds.reset_peak()
    began = bounds.core_seconds()
    plain = plain_table.open_table(folder, **_FILTERS)
    plainly, plain_megabytes = bounds.core_seconds() - began, bounds.peak_mb()
    if plain.num_rows != len(opened):
        raise AssertionError(f"{len(opened)} episodes, the plain way {plain.num_rows}")
    name = f"open {EPISODES:,} episodes"
    return [
        Row(
            name=f"{name}: memory",
            unit="MB",
            ours=megabytes,
            peer=plain_megabytes,
            peer_name="whole table",
            ratio=plain_megabytes / megabytes,
            floor=_MOST_MB,
            ok=megabytes <= _MOST_MB,
        ),
        beside(
            f"{name}: core seconds",
            "s",
            ours,
            plainly,
            "whole table",
            floor=1 / _MOST_SHARE,
            less_is_better=True,
        ),
    ]


def windows() -> list[Row]:
    """Measures the windows of all episodes: the index, and its pickle."""
    folder = _folder()
    _warm_up()
    bounds.reset_peak()
    began = bounds.core_seconds()
    source = dataset.open_dataset(folder).windows(rollout=64)
    data = pickle.dumps(source)
    seconds, megabytes = bounds.core_seconds() - began, bounds.peak_mb()
    if len(pickle.loads(data)) != len(source):
        raise AssertionError("the pickled windows are others")
    name = f"windows of {EPISODES:,} episodes"
    return [
        bounds.at_most(f"{name}: pickle", "kB", len(data) / 1000, _MOST_PICKLED_KB),
        bounds.at_most(f"{name}: memory", "MB", megabytes, None),
        bounds.at_most(f"{name}: core seconds", "s", seconds, None),
    ]


def round_trips() -> list[Row]:
    """Measures requests and round trips of a random window and a batch of an object store."""
    local = bounds.folder() / "repeated"
    if not local.exists():
        datasets.repeated(str(local), 600)
    # The episodes are small. In a real shard they lie too far apart to be read together.
    ranges._MOST_GAP_BYTES = 0
    store = TripsFileSystem
    opened = dataset.open_dataset(f"trips://{local}")
    source = opened.windows(rollout=8)
    store.reset()
    source[len(source) // 2]
    window = store.round_trips
    options = BatchOptions(batch_size=512, rollout=8, sampler="consecutive", seed=1)
    batches = opened.batches(options)
    store.reset()
    next(batches)
    return [
        bounds.at_most("a random window: round trips", "", window, 1),
        bounds.at_most("512 lanes: round trips", "", store.round_trips, 9),
        bounds.at_most("512 lanes: requests", "", store.requests, 512),
    ]
