"""Verifies a dataset: hashes every byte, decodes every record, checks every row.

In: a dataset's folder. Out: the problems, as sentences that name the file and the episode.
Damaged data never raises here; only a manifest that cannot be read does. Must not know: the
game or Beam, so that whoever reads a dataset can verify it; `replaying` plays replays again.
"""

import collections
import concurrent.futures
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from starmill.schema import (
    codec,
    errors,
    manifest,
    shards,
    specs,
    storage,
    table,
)
from starmill.schema.reasons import RejectReason

_READ_BYTES = 1 << 24
# Arrays whose bounds are nominal, as in the reference: unit columns exceed them (tags, counts),
# and delays are stored as they are.
_UNBOUNDED = ("raw_units", "action/delay")
# The work folder of a build that kept it.
_IGNORED_FILES = ("_work",)


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        where: a file, an episode, or a part of one.
        what: the problem, in words that follow the place.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class Checked(NamedTuple):
    """What was checked, and what is wrong with it.

    Attributes:
        problems: all of them, in a fixed order.
        files: of the dataset, manifest included.
        episodes: rows of the episode table.
        steps: that could be decoded.
        size_bytes: of all shards, as the manifest has it.
    """

    problems: list[Problem]
    files: int
    episodes: int
    steps: int
    size_bytes: int


def verify(
    folder: str,
    content: manifest.Manifest,
    *,
    threads: int = 1,
    on_shard: Callable[[], None] = lambda: None,
) -> Checked:
    """Checks files, tables and records against each other and against the manifest.

    Args:
        folder: path or URL of the dataset.
        content: its manifest.
        threads: how many shards are checked at once.
        on_shard: called after each shard, from any thread.
    """
    problems = list(_check_files(folder, content))
    rows = _read_table(folder, table.EPISODES, table.EPISODE_SCHEMA, problems)
    failures = _read_table(folder, table.QUARANTINE, table.QUARANTINE_SCHEMA, problems)
    unselected = None
    if any(entry.name == table.UNSELECTED for entry in content.files):
        unselected = _read_table(
            folder, table.UNSELECTED, table.UNSELECTED_SCHEMA, problems
        )
    if rows is not None:
        problems += _check_table(rows, content)
    if failures is not None and failures.num_rows != content.quarantined:
        problems.append(
            Problem(
                table.QUARANTINE,
                f"has {failures.num_rows:,} rows, "
                f"the manifest says {content.quarantined:,}",
            )
        )
    problems += _check_left_out(
        rows, {table.QUARANTINE: failures, table.UNSELECTED: unselected}
    )
    by_shard: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows.to_pylist() if rows is not None else ():
        by_shard[row["shard"]].append(row)

    def check(entry: shards.ShardEntry) -> tuple[list[Problem], int]:
        outcome = _check_shard(folder, entry, by_shard.get(entry.name, []), content)
        on_shard()
        return outcome

    steps = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, threads)) as pool:
        for shard_problems, shard_steps in pool.map(check, content.shards):
            problems += shard_problems
            steps += shard_steps
    return Checked(
        problems=problems,
        files=len(content.shards) + len(content.files) + 1,
        episodes=rows.num_rows if rows is not None else 0,
        steps=steps,
        size_bytes=content.size_bytes,
    )


def _check_files(folder: str, content: manifest.Manifest) -> Iterator[Problem]:
    listed = {entry.name for entry in content.files}
    listed |= {entry.name for entry in content.shards}
    present = set(storage.names(folder))
    for name in sorted(listed - present):
        yield Problem(name, "is missing, although the manifest lists it")
    for name in sorted(present - listed - {manifest.NAME, *_IGNORED_FILES}):
        if name.endswith(".tfrecord"):
            yield Problem(name, "is a shard that the manifest does not list")
    for entry in content.files:
        if entry.name in present:
            yield from _check_file(folder, entry.name, entry.size_bytes, entry.sha256)


def _check_file(
    folder: str, name: str, size_bytes: int, sha256: str
) -> Iterator[Problem]:
    """Checks a file's size and hash. It reads in pieces, so large shards need little memory."""
    url = storage.join(folder, name)
    try:
        length = storage.size_bytes(url)
        digest = hashlib.sha256()
        reader = storage.RangeReader(folder)
        for begin in range(0, length, _READ_BYTES):
            digest.update(reader.read(name, begin, min(begin + _READ_BYTES, length)))
        reader.close()
    except (errors.FormatError, OSError) as error:
        yield Problem(name, f"cannot be read: {error}")
        return
    if length != size_bytes:
        yield Problem(name, f"expected {size_bytes:,} bytes, found {length:,}")
    if digest.hexdigest() != sha256:
        yield Problem(name, f"expected sha256 {sha256}, found {digest.hexdigest()}")


def _read_table(
    folder: str, name: str, schema: pa.Schema, problems: list[Problem]
) -> pa.Table | None:
    try:
        url = storage.join(folder, name)
        return table.parse_table(storage.read(url), schema, name)
    except errors.FormatError as error:
        problems.append(Problem(name, str(error)))
        return None


def _check_table(rows: pa.Table, content: manifest.Manifest) -> Iterator[Problem]:
    where = table.EPISODES
    if rows.num_rows != content.episodes:
        yield Problem(
            where, f"has {rows.num_rows:,} rows, the manifest says {content.episodes:,}"
        )
    statistics = table.statistics(rows)
    for key in sorted({*statistics, *content.statistics}):
        if statistics.get(key) != content.statistics.get(key):
            yield Problem(
                where,
                f"{key}: the table gives {statistics.get(key)}, "
                f"the manifest says {content.statistics.get(key)}",
            )
    if len(set(rows.column("replay_id").to_pylist())) != content.replays:
        yield Problem(where, f"the manifest says {content.replays:,} replays")
    entries = {entry.name: entry for entry in content.shards}
    seen: set[str] = set()
    for row in rows.to_pylist():
        name = row["episode_id"]
        if name in seen:
            yield Problem(name, "is in the table twice")
        seen.add(name)
        if name != f"{row['replay_id']}-{row['player_id']}":
            yield Problem(name, "is not replay_id and player_id joined")
        entry = entries.get(row["shard"])
        if entry is None:
            yield Problem(name, f"is in {row['shard']}, which the manifest lacks")
        elif entry.split != row["split"]:
            yield Problem(name, f"split {row['split']}, but its shard is {entry.split}")


def _check_left_out(
    rows: pa.Table | None, tables: Mapping[str, pa.Table | None]
) -> Iterator[Problem]:
    """Checks reasons, and that no side has a row in two of the dataset's tables."""
    reasons = {reason.value for reason in RejectReason}
    table_of: dict[str, str] = {}
    if rows is not None:
        table_of = dict.fromkeys(rows.column("episode_id").to_pylist(), "the episodes")
    for where, content in tables.items():
        for row in content.to_pylist() if content is not None else ():
            name = f"{row['replay_id']}-{row['player_id']}"
            if row["reason"] not in reasons:
                yield Problem(where, f"{name}: {row['reason']!r} is no reason")
            if name in table_of:
                yield Problem(where, f"{name}: is among {table_of[name]} too")
            table_of[name] = f"the rows of {where}"


def _check_shard(
    folder: str,
    entry: shards.ShardEntry,
    rows: list[dict[str, Any]],
    content: manifest.Manifest,
) -> tuple[list[Problem], int]:
    problems = list(_check_file(folder, entry.name, entry.size_bytes, entry.sha256))
    if any(problem.what.startswith("cannot be read") for problem in problems):
        return problems, 0
    rows = sorted(rows, key=lambda row: row["offsets"][0] if row["offsets"] else -1)
    if len(rows) != entry.episodes:
        problems.append(
            Problem(
                entry.name,
                f"the manifest says {entry.episodes:,} episodes, the table {len(rows):,}",
            )
        )
    reader = storage.RangeReader(folder)
    expected, previous, steps = 0, "", 0
    for row in rows:
        name = f"{entry.name}: {row['episode_id']}"
        if row["episode_id"] <= previous:
            problems.append(Problem(name, "episodes are not sorted by id"))
        previous = row["episode_id"]
        if not row["offsets"] or row["offsets"][0] != expected:
            problems.append(Problem(name, f"expected to begin at byte {expected:,}"))
        expected = row["offsets"][-1] if row["offsets"] else expected
        try:
            steps += _check_episode(reader, row, content, problems, name)
        except errors.FormatError as error:
            problems.append(Problem(name, str(error)))
    reader.close()
    if expected != entry.size_bytes:
        problems.append(
            Problem(
                entry.name,
                f"its episodes end at byte {expected:,} of {entry.size_bytes:,}",
            )
        )
    if steps != entry.steps:
        problems.append(
            Problem(
                entry.name, f"the manifest says {entry.steps:,} steps, found {steps:,}"
            )
        )
    return problems, steps


def _check_episode(
    reader: storage.RangeReader,
    row: Mapping[str, Any],
    content: manifest.Manifest,
    problems: list[Problem],
    name: str,
) -> int:
    records = []
    offsets = row["offsets"]
    for begin, end in zip(offsets[:-1], offsets[1:], strict=True):
        framed = reader.read(row["shard"], begin, end)
        records.append(shards.unframe_record(framed, f"byte {begin:,}"))
    digest = hashlib.sha256(b"".join(records)).hexdigest()
    if digest != row["sha256"]:
        problems.append(
            Problem(name, f"expected sha256 {row['sha256']}, found {digest}")
        )
    steps, last_loop = 0, -1
    for arrays in chunks(records, content, name):
        texts = _array_problems(arrays, content, last_loop)
        problems += [Problem(name, f"from step {steps}: {text}") for text in texts]
        loops = arrays["game_loop"]
        steps += len(loops)
        last_loop = int(loops[-1])
    for field, decoded in (("steps", steps), ("game_loops", last_loop)):
        if row[field] != decoded:
            problems.append(
                Problem(name, f"{field}: the table says {row[field]}, found {decoded}")
            )
    return steps


def chunks(
    records: list[bytes], content: manifest.Manifest, where: str
) -> Iterator[dict[str, Any]]:
    """Yields an episode's arrays, one chunk at a time; ShardCorrupt if it is damaged."""
    if not records:
        raise errors.ShardCorrupt(f"{where}: has no records")
    header = codec.Header(records[0], content.settings, where)
    array_specs = specs.episode_specs(content.settings)
    for number, record in enumerate(records[1:]):
        chunk = codec.Chunk(header, record, f"{where}, chunk {number}")
        if chunk.index != number:
            raise errors.ShardCorrupt(
                f"{where}: expected chunk {number}, found {chunk.index}"
            )
        out = {
            key: np.empty((chunk.steps, *spec.shape), spec.dtype)
            for key, spec in array_specs.items()
        }
        chunk.read(0, chunk.steps, out)
        yield out


def _array_problems(
    arrays: Mapping[str, Any], content: manifest.Manifest, last_loop: int
) -> Iterator[str]:
    for key, spec in specs.episode_specs(content.settings).items():
        if key in _UNBOUNDED:
            continue
        for bound, beyond in ((spec.minimum, np.less), (spec.maximum, np.greater)):
            if isinstance(bound, int) and beyond(arrays[key], bound).any():
                values = arrays[key][beyond(arrays[key], bound)]
                yield (
                    f"{key}: expected {spec.minimum} to {spec.maximum}, "
                    f"found {int(values[0])}"
                )
    loops = np.concatenate([[last_loop], arrays["game_loop"]])
    if (np.diff(loops) <= 0).any():
        yield "game_loop: expected ascending loops"
    if "action/delay" in arrays:
        gaps = np.diff(arrays["game_loop"])
        delays = arrays["action/delay"][: len(gaps)]
        if not np.array_equal(gaps, delays):
            yield "action/delay: expected the loops until the next step"
