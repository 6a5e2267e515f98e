"""Finishing 22,000 shards with 2.8 million episodes, and deleting the parts of 1.4 million replays.

Measured are memory, and requests of the launcher.

The rows are random, and as long as those of ladder games. Workers merge groups of shards; one group
is merged here, and the others are written as workers leave them.
"""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

from perf.row import Row
from perf.scale import bounds, counted_store, synthetic_index
from starmill.pipelines import output_folder, work_folder
from starmill.pipelines.joining import finishing, joining
from starmill.pipelines.work_folder import Target
from starmill.schema import assembly, manifest, settings, shards, storage, table

SHARDS = int(os.environ.get("STARMILL_SCALE_SHARDS", "22000"))
EPISODES_OF_A_SHARD = 128
PARTS = SHARDS * EPISODES_OF_A_SHARD // 2  # a part has both sides of a replay
_CHUNKS = 45  # of 32 steps: the length of a ladder game
_MOST_MB = 1000.0
_MOST_REQUESTS = 1000.0


def _rows(rng: np.random.Generator, name: str, count: int) -> pa.Table:
    """Returns the rows of one shard: both sides of its replays."""
    replays = synthetic_index.ids(rng, count // 2).take(
        pa.array(np.repeat(np.arange(count // 2), 2))
    )
    player = np.tile([1, 2], count // 2)
    lengths = rng.integers(40, 9000, (count, _CHUNKS + 2)).cumsum()
    places = (np.arange(count + 1) * (_CHUNKS + 2)).astype(np.int32)
    columns = {
        "episode_id": pa.compute.binary_join_element_wise(
            replays, pa.array(player).cast(pa.string()), "-"
        ),
        "replay_id": replays,
        "player_id": player,
        "offsets": pa.ListArray.from_arrays(places, lengths),
        "sha256": synthetic_index.ids(rng, count),
        "mmr": rng.integers(3500, 7000, count),
        "opponent_mmr": rng.integers(3500, 7000, count),
        "apm": rng.normal(150, 40, count),
        "outcome": np.where(player == 1, 1, -1),
        "steps": np.full(count, 32 * _CHUNKS),
        "game_loops": rng.integers(2_700, 40_000, count),
        "duration_loops": rng.integers(2_700, 40_000, count),
        "base_build": np.full(count, 74741),
    }
    texts = {
        "game_version": "4.9.2.74741",
        "data_version": "70E774E722A58287EF37D487605CD384",
        "map_name": "Synthetic Map A LE",
        "race": "zerg",
        "opponent_race": "terran",
        "split": shards.split_of_name(name),
        "shard": name,
    }
    columns |= {key: pa.array([text] * count) for key, text in texts.items()}
    arrays = [pa.array(columns[f.name]).cast(f.type) for f in table.EPISODE_SCHEMA]
    return pa.table(arrays, schema=table.EPISODE_SCHEMA)


def shard_result(
    rng: np.random.Generator, name: str, episodes: int = EPISODES_OF_A_SHARD
) -> joining.ShardResult:
    """Returns what a worker leaves for one shard of so many episodes, an even number."""
    rows = _rows(rng, name, episodes)
    entry = shards.ShardEntry(
        name=name,
        split=shards.split_of_name(name),
        episodes=rows.num_rows,
        steps=32 * _CHUNKS * rows.num_rows,
        size_bytes=rows.num_rows * _CHUNKS * 64,
        sha256="0" * 64,
    )
    # Half of the replays have a side that the selection leaves out; one in fifty failed.
    left_out = [
        table.UnselectedRow(
            replay_id=replay_id, player_id=2, source=replay_id, reason="mmr"
        )
        for replay_id in rows.column("replay_id").to_pylist()[::4]
    ]
    failed = [
        table.QuarantineRow(
            replay_id=row.replay_id, player_id=1, source="", reason="desync", detail="x"
        )
        for row in left_out[:3]
    ]
    return joining.ShardResult(entry, rows, failed, left_out)


def _written(target: Target) -> list[str]:
    """Writes what workers leave for all shards; returns the groups. One group is not merged."""
    rng = np.random.default_rng(7)
    names = [shards.shard_name("train", number, SHARDS) for number in range(SHARDS)]
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(finishing.group_of(name), []).append(name)
    Path(storage.filesystem_of(target.output)[1]).mkdir(parents=True, exist_ok=True)
    for group, members in groups.items():
        results = {name: shard_result(rng, name) for name in members}
        for name, result in results.items():
            if group == "train-00000":
                url = target.shard_result(name)
                storage.write(url, joining.to_bytes(result, "inputs"))
            # Sparse: only the length of a shard counts here.
            with Path(storage.filesystem_of(target.output)[1], name).open("wb") as file:
                file.truncate(result.entry.size_bytes if result.entry else 0)
        if group != "train-00000":
            rows = finishing.merged(results)
            storage.write(target.tables(group), table.to_parquet(rows))
    return list(groups)


def finish() -> list[Row]:
    """Measures the merging of rows in workers, and what is left to the launcher."""
    folder = counted_store.address(bounds.folder() / f"finish-{SHARDS}")
    target = Target(f"{folder}/work", f"{folder}/data", "0" * 16, "")
    groups = _written(target)
    title = f"{SHARDS:,} shards, {SHARDS * EPISODES_OF_A_SHARD:,} episodes"
    members = [n for n in storage.names(target.output) if shards.is_shard_name(n)]
    bounds.reset_peak()
    finishing.merge(target, groups[0], members[: finishing.MERGED_SHARDS])
    merging = bounds.peak_mb()
    began = bounds.core_seconds()
    bounds.reset_peak()
    finishing.finish(target, groups)
    writing, seconds = bounds.peak_mb(), bounds.core_seconds() - began
    counted_store.COUNTS.clear()
    bounds.reset_peak()
    summary = finishing.read_summary(target)
    output_folder.check_and_clean(target.output, summary.entries)
    build = assembly.Build(
        name="scale",
        version="1.0.0",
        engine="sc2",
        settings=settings.UNPLUGGED,
        selection={},
        replay_set="0" * 64,
    )
    content = assembly.complete(target.output, build, summary.entries, summary.tables)
    if content.episodes != SHARDS * EPISODES_OF_A_SHARD:
        raise SystemExit(f"perf: {content.episodes:,} episodes were finished")
    size = len(json.dumps([dataclasses.asdict(e) for e in content.shards]))
    return [
        bounds.at_most(f"finish {title}: requests of the launcher", "requests",
                       counted_store.requests(), _MOST_REQUESTS),
        bounds.at_most(f"finish {title}: memory of the launcher", "MB", bounds.peak_mb(), _MOST_MB),
        bounds.at_most("merge 128 shards: memory of a worker", "MB", merging, _MOST_MB),
        bounds.at_most(f"write tables of {title}: memory of a worker", "MB", writing, _MOST_MB),
        bounds.at_most(f"write tables of {title}: core seconds", "s", seconds, None),
        bounds.at_most(f"list of shards in {manifest.NAME}", "MB", size / 1e6, None),
    ]  # fmt: skip


def remove() -> list[Row]:
    """Measures how the launcher deletes the parts of a finished build."""
    work = bounds.folder() / f"remove-{PARTS}"
    for number in range(256):
        folder = work / f"parts/{number:02x}"
        folder.mkdir(parents=True)
        for part in range(number, PARTS, 256):
            (folder / f"{number:02x}{part:062x}.part").touch()
    counted_store.COUNTS.clear()
    bounds.reset_peak()
    began = bounds.core_seconds()
    work_folder.remove(counted_store.address(work))
    memory, seconds = bounds.peak_mb(), bounds.core_seconds() - began
    left = sum(path.is_file() for path in work.rglob("*"))
    if left:
        raise SystemExit(f"perf: {left:,} parts were not deleted")
    title = f"delete {PARTS:,} parts"
    # A folder's list and its deletion are a request for each thousand names.
    of_a_folder = -(-PARTS // 256_000)
    return [
        bounds.at_most(f"{title}: requests", "requests", counted_store.requests(),
                       2.0 * 256 * of_a_folder + 4),
        bounds.at_most(f"{title}: memory of the launcher", "MB", memory, _MOST_MB),
        bounds.at_most(f"{title}: core seconds", "s", seconds, None),
    ]  # fmt: skip
