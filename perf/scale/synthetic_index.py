"""An index of synthetic replays, with as many rows as wanted, in seconds.

In: a number of rows. Out: a Parquet file as `starmill index` writes it. The distributions are
round numbers near those of the ladder: ten maps, sixteen versions of which five are the paper's,
ratings around 3900, games of 2 to 30 minutes, and one row in fifty with a problem.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from starmill.schema import replay_index

ROWS = 5_000_000
_BATCH = 250_000
MEMBERS_OF_A_PACK = 60_000
_VERSIONS = [
    (f"4.{minor}.{patch}.{build}", build)
    for minor, patch, build in (
        (7, 0, 70154), (7, 1, 70326), (8, 0, 71061), (8, 1, 71523), (8, 2, 71663),
        (8, 3, 72282), (8, 4, 73286), (8, 6, 73559), (9, 0, 73620), (9, 1, 74071),
        (9, 2, 74456), (9, 3, 74741), (10, 0, 75689), (10, 1, 75800), (10, 2, 76052),
        (10, 3, 76114),
    )
]  # fmt: skip
_MAPS = [f"Synthetic Map {letter} LE" for letter in "ABCDEFGHIJ"]
_RACES = ["Terr", "Zerg", "Prot"]
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def ids(rng: np.random.Generator, count: int) -> pa.Array:
    """Returns random texts of 64 hex digits."""
    digits = _HEX[rng.integers(0, 16, (count, 64), np.uint8)]
    offsets = np.arange(0, 64 * (count + 1), 64, dtype=np.int32)
    return pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets), pa.py_buffer(digits.tobytes())
    )


def _choice(rng: np.random.Generator, values: list[str], count: int) -> pa.Array:
    places = rng.integers(0, len(values), count).astype(np.int32)
    return pa.DictionaryArray.from_arrays(places, values).cast(pa.string())


def batch(seed: int, begin: int, count: int) -> pa.Table:
    """Returns rows begin:begin+count of the index of a seed."""
    rng = np.random.default_rng([seed, begin])
    version = rng.integers(0, len(_VERSIONS), count).astype(np.int32)
    names = pa.array([name for name, _ in _VERSIONS])
    builds = np.array([build for _, build in _VERSIONS])
    replay_ids = ids(rng, count)
    number = np.arange(begin, begin + count)
    packs = pa.array(number // MEMBERS_OF_A_PACK).cast(pa.string())
    stems = ids(rng, count)
    is_bad = rng.random(count) < 0.02
    won = rng.random(count) < 0.5
    columns: dict[str, object] = {
        "replay_id": replay_ids,
        "file_stem": stems,
        "source": pa.compute.binary_join_element_wise(
            "s3://replays/pack-", packs, ".zip!", stems, ".SC2Replay", ""
        ),
        "size_bytes": rng.integers(30_000, 120_000, count),
        "status": pa.array(np.where(is_bad, "corrupt", "ok")),
        "complete": np.ones(count, bool),
        "engine": pa.array(["sc2"]).take(pa.array(np.zeros(count, np.int32))),
        "game_version": names.take(pa.array(version)),
        "base_build": builds[version],
        "data_version": names.take(pa.array(version)),
        "map_name": _choice(rng, _MAPS, count),
        "map_title": _choice(rng, _MAPS, count),
        "map_handle": _choice(rng, [f"{i:064x}" for i in range(10)], count),
        "duration_loops": rng.integers(2_700, 40_000, count),
        "human_players": np.full(count, 2),
        "ai_players": np.zeros(count, np.int64),
        "observers": np.zeros(count, np.int64),
        "players_listed": np.full(count, 2),
        "region": _choice(rng, ["EU", "US", "KR"], count),
        "layout": _choice(rng, ["full", "pack"], count),
        "game_events": rng.integers(1_000, 60_000, count),
        "cooperative": np.zeros(count, bool),
    }
    columns |= dict.fromkeys(("ladder", "amm", "competitive"), rng.random(count) < 0.97)
    for player, wins in ((1, won), (2, ~won)):
        columns |= {
            f"p{player}_player_id": np.full(count, player),
            f"p{player}_race": _choice(rng, _RACES, count),
            f"p{player}_race_selected": _choice(rng, [*_RACES, "Rand"], count),
            f"p{player}_mmr": pa.array(
                rng.normal(3900, 900, count).astype(np.int64).clip(100),
                mask=rng.random(count) < 0.05,
            ),
            f"p{player}_mmr_source": _choice(rng, ["metadata"], count),
            f"p{player}_apm": rng.normal(150, 40, count),
            f"p{player}_result": pa.array(np.where(wins, "Win", "Loss")),
        }
    arrays = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in replay_index.SCHEMA
    ]
    return pa.table(arrays, schema=replay_index.SCHEMA)


def write(path: Path, rows: int = ROWS, seed: int = 5) -> Path:
    """Writes an index and returns its path."""
    schema = replay_index.sealable_schema()
    with path.open("w+b") as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for begin in range(0, rows, _BATCH):
                part = batch(seed, begin, min(_BATCH, rows - begin))
                writer.write_table(part.cast(schema), row_group_size=32_768)
        replay_index.seal(file)
    return path


def cached(folder: Path, rows: int = ROWS) -> Path:
    """Returns the index in a folder, which is written if it is missing."""
    path = folder / f"index-{rows}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(path, rows)
    return path
