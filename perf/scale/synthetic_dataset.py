"""A dataset's manifest and tables at the true size, without shards.

In: how many episodes. Out: a folder that `open_dataset` opens; its records cannot be read. Ratings,
lengths and record sizes are drawn at random, ids and hashes look like hashes, and there are 128
episodes in a shard, so the table compresses as a real one does.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starmill.schema import assembly, codec, manifest, shards, specs, table
from starmill.schema.settings import UNPLUGGED
from starmill.version import __version__

EPISODES = 2_800_000
_PER_SHARD = 128
_MAPS = ("Acropolis", "Thunderbird", "Triton", "Winter's Gate", "Year Zero")
_VERSIONS = ("4.8.2", "4.8.4", "4.9.0", "4.9.1", "4.9.2")
_RACES = ("terran", "zerg", "protoss")


def cached(folder: Path, episodes: int) -> Path:
    """Returns the folder of a dataset of so many episodes, made once."""
    path = folder / f"dataset-{episodes}"
    if not (path / manifest.NAME).exists():
        path.mkdir(parents=True, exist_ok=True)
        write(path, episodes)
    return path


def write(folder: Path, episodes: int) -> None:
    """Writes manifest and tables."""
    rng = np.random.default_rng(1)
    steps = rng.integers(200, 2300, episodes)
    shard = np.arange(episodes) // _PER_SHARD
    records = -(-steps // codec.STEPS_PER_CHUNK) + 2
    offsets = _offsets(rng, shard, records)
    ends = np.cumsum(records) - 1
    last = np.append(np.flatnonzero(np.diff(shard)), episodes - 1)
    names = [
        shards.shard_name("train", n, int(shard[-1]) + 1) for n in range(len(last))
    ]
    content = _table(rng, steps, records, offsets, pa.array(names).take(shard))
    files = []
    for name, rows in (
        (table.EPISODES, content),
        (table.QUARANTINE, table.quarantine_table([])),
        (table.UNSELECTED, table.unselected_table([])),
    ):
        written = table.write_table(str(folder / name), rows)
        files.append(manifest.FileEntry(name=name, **written._asdict()))
    firsts = np.append(0, last[:-1] + 1)
    entries = tuple(
        shards.ShardEntry(
            name=name,
            split="train",
            episodes=int(end - first + 1),
            steps=int(steps[first : end + 1].sum()),
            size_bytes=int(offsets[ends[end]]),
            sha256="0" * 64,
        )
        for name, first, end in zip(names, firsts, last, strict=True)
    )
    manifest.write(
        str(folder),
        manifest.Manifest(
            name="synthetic",
            version="1.0.0",
            engine="synthetic",
            settings=UNPLUGGED,
            schema=specs.fingerprint(UNPLUGGED),
            selection={},
            replay_set="0" * 64,
            starmill=__version__,
            codec=codec.VERSION,
            libraries=assembly.libraries(),
            statistics=table.statistics(content),
            replays=-(-episodes // 2),
            episodes=episodes,
            quarantined=0,
            steps=int(steps.sum()),
            size_bytes=sum(entry.size_bytes for entry in entries),
            shards=entries,
            files=tuple(sorted(files, key=lambda entry: entry.name)),
        ),
    )


def _offsets(
    rng: np.random.Generator, shard: NDArray[np.int64], records: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns where the records of all episodes begin and end, each shard from 0."""
    sizes = rng.integers(10_000, 70_000, int(records.sum()))
    begins = np.cumsum(records) - records
    sizes[begins] = 0
    ends = np.cumsum(sizes)
    firsts = np.flatnonzero(np.diff(shard, prepend=-1))
    return np.asarray(ends - np.repeat(ends[begins[firsts]][shard], records), np.int64)


def _table(
    rng: np.random.Generator,
    steps: NDArray[np.int64],
    records: NDArray[np.int64],
    offsets: NDArray[np.int64],
    shard: pa.Array,
) -> pa.Table:
    count = len(steps)
    replay_ids = _hashes(rng, -(-count // 2)).take(pa.array(np.arange(count) // 2))
    players = pa.array(np.arange(count) % 2 + 1, pa.int32())
    ratings = np.clip(rng.normal(4800, 700, count), 3000, 7500).astype(np.int32)

    def pick(values: tuple[Any, ...]) -> pa.Array:
        return pa.array(values).take(pa.array(rng.integers(0, len(values), count)))

    begins = np.append(0, np.cumsum(records))
    columns = {
        "episode_id": pa.compute.binary_join_element_wise(
            replay_ids, players.cast(pa.string()), "-"
        ),
        "replay_id": replay_ids,
        "player_id": players,
        "game_version": pick(_VERSIONS),
        "base_build": pick((74741, 75025, 75689)),
        "data_version": pick(("70E774E722A58287EF37D487605CD384",)),
        "map_name": pick(_MAPS),
        "race": pick(_RACES),
        "opponent_race": pick(_RACES),
        "mmr": pa.array(ratings),
        "opponent_mmr": pa.array(ratings[::-1].copy()),
        "apm": pa.array(rng.integers(50, 300, count).astype(np.float64)),
        "outcome": pick((-1, 1)),
        "steps": pa.array(steps),
        "game_loops": pa.array(steps * 12),
        "duration_loops": pa.array(steps * 12),
        "split": pick(("train",)),
        "shard": shard,
        "offsets": pa.ListArray.from_arrays(pa.array(begins, pa.int32()), offsets),
        "sha256": _hashes(rng, count),
    }
    return pa.table(
        [columns[field.name].cast(field.type) for field in table.EPISODE_SCHEMA],
        schema=table.EPISODE_SCHEMA,
    )


def _hashes(rng: np.random.Generator, count: int) -> pa.Array:
    """Returns random texts of 64 hex digits."""
    data = rng.bytes(32 * count).hex().encode()
    ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * 64)
    return pa.Array.from_buffers(pa.string(), count, [None, ends, pa.py_buffer(data)])
