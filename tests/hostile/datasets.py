"""Forged datasets: hostile manifests and tables whose digests and checksums are valid."""

import contextlib
import functools
import hashlib
import io
import json
import os
import random
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import starmill
from starmill.commands import info
from starmill.pipelines import verify
from starmill.schema import card, errors, manifest, storage, table
from tests.factories import records
from tests.hostile import mutations

_TABLES = (table.EPISODES, table.QUARANTINE, table.UNSELECTED)


@functools.cache
def original() -> Path:
    """A small dataset; copies of it are forged."""
    folder = Path(tempfile.mkdtemp(prefix="starmill-hostile-"))
    episodes = [records.episode(seed, steps=33 + seed) for seed in range(4)]
    records.dataset(str(folder), episodes)
    return folder


def copy(folder: Path) -> Path:
    """A copy of the original in a new folder."""
    target = folder / "data"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(original(), target)
    return target


def stored(content: dict[str, Any]) -> bytes:
    """A manifest's bytes with a checksum that fits, whatever is in it."""
    content = {key: value for key, value in content.items() if key != "checksum"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    return (json.dumps(content, sort_keys=True, indent=1) + "\n").encode()


def forge_manifest(folder: Path, rng: random.Random) -> None:
    """Changes values of the manifest, at any depth."""
    path = folder / manifest.NAME
    content = json.loads(path.read_bytes())
    for _ in range(rng.choice([1, 1, 2, 3])):
        content = mutations.changed(content, rng)
        if not isinstance(content, dict):
            break
    if isinstance(content, dict):
        try:
            data = stored(content)
        except (RecursionError, UnicodeEncodeError):
            data = b"[" * 100_000
    else:
        data = b"[" * rng.choice([10, 100_000])
    if rng.random() < 0.1:
        data = mutations.damaged(data, rng)
    path.write_bytes(data)


def replace(folder: Path, name: str, data: bytes, **changes: Any) -> None:
    """Writes a file and makes the manifest's size and hash fit, and other values of it."""
    (folder / name).write_bytes(data)
    path = folder / manifest.NAME
    content = json.loads(path.read_bytes())
    for entry in [*content["files"], *content["shards"]]:
        if entry["name"] == name:
            entry["size_bytes"] = len(data)
            entry["sha256"] = hashlib.sha256(data).hexdigest()
    content |= changes
    path.write_bytes(stored(content))


def _parquet(content: pa.Table, **options: Any) -> bytes:
    body = io.BytesIO()
    pq.write_table(content, body, compression="zstd", **options)
    return body.getvalue()


def forge_table(folder: Path, rng: random.Random) -> None:
    """Changes values, rows, columns or bytes of a table; the manifest then fits it."""
    name = rng.choice([table.EPISODES, table.EPISODES, *_TABLES])
    replace(folder, name, forged_parquet((folder / name).read_bytes(), rng))


def forged_parquet(data: bytes, rng: random.Random) -> bytes:
    """Changes values, rows, columns or bytes of a Parquet file."""
    content = pq.read_table(io.BytesIO(data))
    kind = rng.randrange(8)
    if kind == 0:
        return mutations.damaged(data, rng)
    if kind == 1:
        return _parquet(content.drop_columns([rng.choice(content.column_names)]))
    if kind == 2:
        column = rng.choice(content.column_names)
        place = content.column_names.index(column)
        other = pa.array([b"\xff\xfe"] * content.num_rows, pa.binary())
        return _parquet(content.set_column(place, column, other))
    if kind == 3:
        # Texts, among them names of columns, that are not UTF-8.
        place = data.find(rng.choice(content.column_names).encode(), len(data) // 2)
        return data[:place] + b"\xff" + data[place + 1 :] if place > 0 else data
    rows = content.to_pylist() or [_row(content.schema)]
    for _ in range(rng.choice([1, 1, 2])):
        row = rng.choice(rows)
        column = rng.choice(sorted(row))
        row[column] = _value(content.schema.field(column).type, row[column], rng)
    if rng.random() < 0.15:
        rows = rng.choice([rows[1:], [*rows, rows[0]], [], rows[::-1]])
    try:
        return _parquet(pa.Table.from_pylist(rows, schema=content.schema))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return mutations.damaged(data, rng)


def _row(schema: pa.Schema) -> dict[str, Any]:
    return dict.fromkeys(schema.names)


def _value(kind: pa.DataType, value: Any, rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return None
    if kind == pa.string():
        return rng.choice(
            ["", "x", "\x00", "a" * 100_000, "../../outside/secret.bin", "/etc/passwd",
             "train-00000-of-00001.tfrecord", f"{value}", "é" * 40]
        )  # fmt: skip
    if kind == pa.bool_():
        return not value
    if kind == pa.float64():
        return rng.choice([float("nan"), float("inf"), -1e308, 0.0])
    if pa.types.is_list(kind):
        values = list(value or [])
        edge = rng.choice([*mutations.NUMBERS[:-5], -1, 2**62, None])
        if values and rng.random() < 0.7:
            values[rng.randrange(len(values))] = edge
            return values
        return rng.choice([[], [0], [edge], values[::-1], values * 3])
    bits = kind.bit_width - 1
    return rng.choice([0, 1, 2, 3, 7, 33, 2**bits - 1, -1, -(2**bits)])


def bomb(kind: str) -> bytes:
    """A small episode table that says, or unfolds to, billions of values."""
    schema = table.EPISODE_SCHEMA
    row = pq.read_table(original() / table.EPISODES).slice(0, 1)
    if kind == "rows":
        many = pa.concat_tables([row] * 100).combine_chunks()
        many = pa.concat_tables([many] * 3000)
        return _parquet(many.combine_chunks())
    if kind == "text":
        columns = {name: row.column(name).to_pylist() * 200 for name in schema.names}
        columns["map_name"] = ["a" * (1 << 20)] * 200
        return _parquet(pa.table(columns, schema=schema))
    offsets = [[7] * 20_000_000]
    columns = {name: row.column(name).to_pylist() for name in schema.names}
    columns["offsets"] = offsets
    return _parquet(pa.table(columns, schema=schema))


BOMBS = ("rows", "text", "offsets")


def make_special(path: Path, kind: str) -> None:
    """Puts something at a path that is not a regular file."""
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        # The address of a socket has at most 107 characters.
        here = os.getcwd()  # noqa: PTH109
        try:
            os.chdir(path.parent)
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path.name)
        finally:
            os.chdir(here)


SPECIAL = ("fifo", "device", "folder", "loop", "socket")


def consume(folder: Path) -> None:
    """Opens and reads a dataset, and verifies it: verifying may raise nothing."""
    content = None
    with contextlib.suppress(errors.StarmillError):
        content = manifest.read(str(folder))
    if content is not None:
        verify.verify(str(folder), content)
        assert info._text(content)
        assert card.readme(content)
    opened = starmill.open_dataset(str(folder))
    assert repr(opened)
    assert opened._repr_html_()
    assert opened.metas
    for episode in opened:
        episode[0:1]
        episode.read(keys=["reward", "player"])
    options = starmill.BatchOptions(batch_size=2, rollout=4, seed=1, form="compact")
    with opened.batches(options) as batches:
        next(batches)
    storage.filesystem_of.cache_clear()
