"""Extending a dataset of 2.8 million episodes by 2.5%: memory of the launcher, and bytes written.

The steps of `generate --extend` in the process that starts the job are run one after the other. What
workers leave is random, as in `finishing`; shards have the length of those of the dataset.
"""

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perf.row import Row
from perf.scale import (
    bounds,
    counted_store,
    synthetic_dataset,
    synthetic_index,
)
from perf.scale.finishing import shard_result
from starmill.pipelines import extension, output_folder, plan
from starmill.pipelines.joining import finishing
from starmill.pipelines.work_folder import Target
from starmill.schema import (
    assembly,
    manifest,
    replay_index,
    selection,
    settings,
    storage,
    table,
)
from starmill.schema.loader.lazy_table import LazyTable

EPISODES = int(os.environ.get("STARMILL_SCALE_EPISODES", synthetic_dataset.EPISODES))
# Some 28% of the rows are selected, as many as 2.5% of the dataset's replays.
ROWS = EPISODES // 2 // 40 * 100 // 28
_MOST_MB = 1000.0
_MOST_PERCENT = 5.0


def _base() -> Path:
    """Returns a copy of the synthetic dataset, with empty shards of the right length."""
    path = bounds.folder() / f"grown-{EPISODES}"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(synthetic_dataset.cached(bounds.folder(), EPISODES), path)
    for entry in manifest.read(str(path)).shards:
        with (path / entry.name).open("wb") as file:
            file.truncate(entry.size_bytes)
    return path


def _work(target: Target, build_plan: plan.BuildPlan, base: manifest.Manifest) -> None:
    """Writes what workers leave for the shards of an increment: tables and a summary."""
    rng = np.random.default_rng(9)
    length = base.size_bytes // base.episodes
    results = {}
    for name, replays in build_plan.replays_by_shard.items():
        result = shard_result(rng, name, 2 * replays)
        if result.entry is None:
            raise SystemExit(f"perf: {name} has no episodes")
        size = length * result.entry.episodes
        results[name] = result._replace(
            entry=dataclasses.replace(result.entry, size_bytes=size)
        )
        with Path(storage.filesystem_of(target.output)[1], name).open("wb") as file:
            file.truncate(size)
    storage.write(target.tables("all"), table.to_parquet(finishing.merged(results)))
    finishing.finish(target, ["all"])


def grow() -> list[Row]:
    """Measures an increment: planning and finishing in the launcher, and what is written."""
    path = _base()
    output = counted_store.address(path)
    work = str(bounds.folder() / f"grown-{EPISODES}-work")
    index = synthetic_index.write(bounds.folder() / "more.parquet", ROWS, seed=6)
    base = manifest.read(output)
    bounds.reset_peak()
    began = bounds.core_seconds()
    build_plan = plan.make(
        str(index),
        selection.PRESETS["unplugged"],
        work,
        replays_per_shard=64,
        known=extension.known_ids(output, base),
        increment=1,
    )
    planning, seconds = bounds.peak_mb(), bounds.core_seconds() - began
    target = Target(work, output, build_plan.digest, "", 1)
    counted_store.COUNTS.clear()
    _work(target, build_plan, base)
    bounds.reset_peak()
    began = bounds.core_seconds()
    summary = finishing.read_summary(target)
    output_folder.check_and_clean(output, (*base.shards, *summary.entries))
    content = assembly.grow(
        output, base, "1.1.0", build_plan.replay_set, summary.entries, summary.tables
    )
    ending, more_seconds = bounds.peak_mb(), bounds.core_seconds() - began
    added = content.counts("size_bytes")[1]
    written = counted_store.COUNTS["put_bytes"] + added
    before = base.size_bytes + sum(entry.size_bytes for entry in base.files)
    share = 100 * added / base.size_bytes
    name = f"extend {EPISODES:,} episodes by {share:.1f}%"
    return [
        bounds.at_most(f"{name}: memory of the launcher to plan", "MB", planning, _MOST_MB),
        bounds.at_most(f"{name}: memory of the launcher to finish", "MB", ending, _MOST_MB),
        bounds.at_most(f"{name}: bytes written", "% of the dataset", 100 * written / before,
                       _MOST_PERCENT),
        bounds.at_most(f"{name}: bytes beside the shards", "MB",
                       counted_store.COUNTS["put_bytes"] / 1e6, None),
        bounds.at_most(f"{name}: core seconds of the launcher", "s", seconds + more_seconds, None),
    ]  # fmt: skip


def _index_of(folder: str) -> Path:
    """Returns an index of the replays of a dataset."""
    path = bounds.folder() / f"index-of-{EPISODES}.parquet"
    schema = replay_index.sealable_schema()
    number = replay_index.SCHEMA.get_field_index("replay_id")
    with path.open("w+b") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for piece in LazyTable(folder, manifest.read(folder)).pieces(["replay_id"]):
                # Both episodes of a replay follow each other, here in the same piece.
                replay_ids = pc.unique(piece.content.column("replay_id"))
                rows = synthetic_index.batch(3, piece.first, len(replay_ids))
                rows = rows.set_column(number, "replay_id", replay_ids)
                writer.write_table(rows.cast(schema), row_group_size=32_768)
        replay_index.seal(file)
    return path


def compact() -> list[Row]:
    """Measures the plan of a new dataset that takes over all episodes of a large one."""
    folder = str(synthetic_dataset.cached(bounds.folder(), EPISODES))
    index = _index_of(folder)
    work = str(bounds.folder() / f"compact-{EPISODES}-work")
    bounds.reset_peak()
    began = bounds.core_seconds()
    build_plan = plan.make(
        str(index),
        selection.Selection(name="all"),
        work,
        replays_per_shard=64,
        reusable=extension.reusable(folder, settings.UNPLUGGED),
    )
    memory, seconds = bounds.peak_mb(), bounds.core_seconds() - began
    if build_plan.reused != build_plan.selected:
        raise SystemExit(f"perf: {build_plan.reused:,} replays were taken over")
    name = f"plan that takes over {EPISODES:,} episodes"
    return [
        bounds.at_most(f"{name}: memory", "MB", memory, _MOST_MB),
        bounds.at_most(f"{name}: core seconds", "s", seconds, None),
    ]
