"""Forged indexes of replays, with a digest that fits and without one."""

import functools
import io
import random
from pathlib import Path

import pyarrow.parquet as pq

from starmill.pipelines import plan
from starmill.schema import replay_index, selection
from tests.factories import replay_rows
from tests.hostile import datasets


@functools.cache
def original() -> bytes:
    """The bytes of an index of some replays, without a digest as earlier releases wrote it."""
    body = io.BytesIO()
    rows = [replay_rows.row(number) for number in range(6)]
    pq.write_table(replay_index.table_from_rows(rows), body)
    return body.getvalue()


def forged(rng: random.Random) -> bytes:
    """The bytes of an index with something hostile in it."""
    data = datasets.forged_parquet(original(), rng)
    return sealed(data) if rng.random() < 0.5 else data


def sealed(data: bytes) -> bytes:
    """An index with the digest that its other bytes have, if it is Parquet at all."""
    try:
        content = pq.read_table(io.BytesIO(data))
    except Exception:  # noqa: BLE001  # whatever a forged file raises
        return data
    body = io.BytesIO()
    metadata = replay_index.sealable_schema().metadata
    pq.write_table(content.replace_schema_metadata(metadata), body)
    replay_index.seal(body)
    return body.getvalue()


def consume(path: Path, folder: Path) -> None:
    """Reads an index as `select` does, and plans a build from it."""
    rows = list(replay_index.read_rows(str(path)))
    assert len(rows) < 100
    plan.make(
        str(path), selection.PRESETS["skirmish"], str(folder), replays_per_shard=4
    )
