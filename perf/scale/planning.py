"""Selecting and planning five million replays: memory and core seconds."""

import os
from pathlib import Path

from perf.row import Row
from perf.scale import bounds, synthetic_index
from starmill.pipelines import plan
from starmill.pipelines.planning import census
from starmill.schema import replay_index, selection

_MOST_MB = 1000.0
# A tenth shows the same faults ten times as fast: STARMILL_SCALE_ROWS=500000.
ROWS = int(os.environ.get("STARMILL_SCALE_ROWS", synthetic_index.ROWS))


def _index() -> Path:
    return synthetic_index.cached(bounds.folder(), ROWS)


def select() -> list[Row]:
    """Measures `starmill select`."""
    index = str(_index())
    bounds.reset_peak()
    began = bounds.core_seconds()
    batches = replay_index.read_batches(index, census.COLUMNS)
    census.take(batches, selection.PRESETS["unplugged"])
    return [
        bounds.at_most(
            f"select {ROWS:,} rows: memory", "MB", bounds.peak_mb(), _MOST_MB
        ),
        bounds.at_most(
            f"select {ROWS:,} rows: core seconds",
            "s",
            bounds.core_seconds() - began,
            None,
        ),
    ]


def make() -> list[Row]:
    """Measures the plan of a build."""
    index = str(_index())
    work = bounds.folder() / f"work-{ROWS}"
    bounds.reset_peak()
    began = bounds.core_seconds()
    made = plan.make(
        index, selection.PRESETS["unplugged"], str(work), replays_per_shard=64
    )
    memory, seconds = bounds.peak_mb(), bounds.core_seconds() - began
    return [
        bounds.at_most(f"plan {ROWS:,} rows: memory", "MB", memory, _MOST_MB),
        bounds.at_most(f"plan {ROWS:,} rows: core seconds", "s", seconds, None),
        bounds.at_most(f"plan {ROWS:,} rows: selected", "replays", made.selected, None),
    ]
