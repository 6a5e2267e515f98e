"""Verifies a dataset: hashes every byte, decodes every record, checks every row.

In: a dataset's folder. Out: the problems, as sentences that name the file and the episode.
Damaged data never raises here; only a manifest that cannot be read does. Must not know: the
game or Beam, so that whoever reads a dataset can verify it; `replaying` plays replays again.
"""

import collections
import dataclasses
import functools
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from starmill.pipelines import dataset_files
from starmill.pipelines.dataset_files import TABLES, Problem
from starmill.pipelines.jobs import processes
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

__all__ = ["CheckShard", "Checked", "Problem", "chunks", "verify"]

# Arrays whose bounds are nominal, as in the reference: unit columns exceed them (tags, counts),
# and delays are stored as they are.
_UNBOUNDED = ("raw_units", "action/delay")
# Rows of a table that are Python objects at a time.
_ROWS_PER_BATCH = 1 << 16
_SIDE = re.compile(r"[0-9a-f]{64}")


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
    run: processes.Run = processes.run,
    is_job: bool = False,
) -> Checked:
    """Checks files, tables and records against each other and against the manifest.

    Args:
        folder: path or URL of the dataset.
        content: its manifest.
        run: applies the check of one shard to all of them.
        is_job: whether `run` sends the check elsewhere, where workers read the manifest again.
            It would make a job too large.
    """
    problems = list(dataset_files.check_files(folder, content))
    rows = _read_table(folder, table.EPISODES, content, problems)
    failures = _read_table(folder, table.QUARANTINE, content, problems)
    unselected = _read_table(folder, table.UNSELECTED, content, problems)
    if rows is not None:
        problems += _check_table(rows, content)
    problems += _check_left_out(
        rows, {table.QUARANTINE: failures, table.UNSELECTED: unselected}
    )
    work = CheckShard(
        folder=folder, digest=content.digest(), content=None if is_job else content
    )
    steps = 0
    for shard_problems, shard_steps in run(work, len(content.shards)):
        problems += [Problem(*problem) for problem in shard_problems]
        steps += shard_steps
    return Checked(
        problems=problems,
        files=len(content.shards) + len(content.files) + 1,
        episodes=rows.num_rows if rows is not None else 0,
        steps=steps,
        size_bytes=content.size_bytes,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckShard:
    """Checks one shard of a dataset, in whatever process it is called.

    Attributes:
        folder: path or URL of the dataset.
        digest: of its manifest.
        content: the manifest; None: it is read from the folder.
    """

    folder: str
    digest: str
    content: manifest.Manifest | None = None

    def __call__(self, number: int) -> tuple[list[Problem], int]:
        """Returns the problems of a shard, and how many steps could be decoded."""
        entry = self._manifest.shards[number]
        rows: list[dict[str, Any]] = []
        if self._table is not None:
            own = pa.compute.equal(self._table["shard"], entry.name)
            rows = self._table.filter(own).to_pylist()
        return _check_shard(self.folder, entry, rows, self._manifest)

    @functools.cached_property
    def _manifest(self) -> manifest.Manifest:
        if self.content is not None:
            return self.content
        content = manifest.read(self.folder)
        if content.digest() != self.digest:
            raise errors.ManifestMismatch(
                f"{self.folder}: expected {self.digest}, found {content.digest()}: it "
                "changed while it was verified"
            )
        return content

    @functools.cached_property
    def _table(self) -> pa.Table | None:
        # `verify` has listed the problems of the table.
        return _read_table(self.folder, table.EPISODES, self._manifest, [])


def _read_table(
    folder: str, name: str, content: manifest.Manifest, problems: list[Problem]
) -> pa.Table | None:
    """Returns a table with the rows of all increments.

    None, with a problem, if it is not one that a dataset can have.
    """
    if name == table.UNSELECTED and not content.lists(name):
        return None  # an earlier release made the dataset
    field = {table.EPISODES: "episodes", table.QUARANTINE: "quarantined"}.get(name)
    counts = content.counts(field) if field else [None] * (len(content.increments) + 1)
    parts = [
        _read_part(folder, name, number, rows, content, problems)
        for number, rows in enumerate(counts)
    ]
    tables = [part for part in parts if part is not None]
    return pa.concat_tables(tables) if len(tables) == len(parts) else None


def _read_part(
    folder: str,
    table_name: str,
    number: int,
    rows: int | None,
    content: manifest.Manifest,
    problems: list[Problem],
) -> pa.Table | None:
    """Returns the rows of one increment of a table, or of the base; None with a problem."""
    name = manifest.numbered(table_name, number)
    try:
        size = content.file(name).size_bytes
        data = storage.read(storage.join(folder, name), size)
        parsed = table.parse_table(data, TABLES[table_name], name, rows)
    except (errors.FormatError, OSError) as error:
        problems.append(Problem(name, str(error)))
        return None
    if table_name == table.EPISODES:
        own = [
            entry
            for entry in content.shards
            if shards.increment_of_name(entry.name) == number
        ]
        wrong = list(table.episode_problems(parsed, own))
        problems += [Problem(name, text) for text in wrong]
        return None if wrong else parsed
    return parsed


def _check_table(rows: pa.Table, content: manifest.Manifest) -> Iterator[Problem]:
    where = table.EPISODES
    statistics = table.statistics(rows)
    for key in sorted({*statistics, *content.statistics}):
        if statistics.get(key) != content.statistics.get(key):
            yield Problem(
                where,
                f"{key}: the table gives {statistics.get(key)}, "
                f"the manifest says {content.statistics.get(key)}",
            )
    if pa.compute.count_distinct(rows["replay_id"]).as_py() != content.replays:
        yield Problem(where, f"the manifest says {content.replays:,} replays")
    for name in _repeated(rows["episode_id"]):
        yield Problem(name, "is in the table twice")
    names = rows.select(["episode_id", "replay_id", "player_id", "split", "shard"])
    splits = {entry.name: entry.split for entry in content.shards}
    for batch in names.to_batches(_ROWS_PER_BATCH):
        for row in batch.to_pylist():
            yield from _check_row(row, splits)
    yield from _check_splits(rows, content)


def _check_row(row: Mapping[str, Any], splits: Mapping[str, str]) -> Iterator[Problem]:
    name = row["episode_id"]
    if name != f"{row['replay_id']}-{row['player_id']}":
        yield Problem(name, "is not replay_id and player_id joined")
    split = splits[row["shard"]]
    if split != row["split"]:
        yield Problem(name, f"split {row['split']}, but its shard is {split}")
    number, count = shards.numbers_of_name(row["shard"])
    own = shards.shard_of(row["replay_id"], count)
    if own != number:
        yield Problem(
            name, f"is in shard {number} of {count}, but belongs in shard {own}"
        )


def _repeated(names: pa.ChunkedArray) -> list[str]:
    """Returns the values that occur more than once, sorted."""
    counts = pa.compute.value_counts(names)
    often = pa.compute.greater(counts.field("counts"), 1)
    return sorted(counts.field("values").filter(often).to_pylist())


def _check_splits(rows: pa.Table, content: manifest.Manifest) -> Iterator[Problem]:
    """Checks that each replay is in one split, and each split has one number of shards.

    Each increment has its own number of shards.
    """
    pairs = rows.group_by(["replay_id", "split"]).aggregate([])
    for replay_id in _repeated(pairs["replay_id"]):
        own = pairs.filter(pa.compute.equal(pairs["replay_id"], replay_id))
        names = sorted(own["split"].to_pylist())
        yield Problem(replay_id, f"is in several splits: {names}")
    counts: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
    for entry in content.shards:
        key = entry.split, shards.increment_of_name(entry.name)
        counts[key].add(shards.numbers_of_name(entry.name)[1])
    for (split, _), numbers in counts.items():
        if len(numbers) > 1:
            yield Problem(
                split, f"its shards are named as of several numbers: {sorted(numbers)}"
            )


def _check_left_out(
    rows: pa.Table | None, tables: Mapping[str, pa.Table | None]
) -> Iterator[Problem]:
    """Checks reasons, and that no side has a row in two of the dataset's tables."""
    reasons = {reason.value for reason in RejectReason}
    sides = [] if rows is None else [rows["episode_id"]]
    sides += [_sides(content) for content in tables.values() if content is not None]
    chunks = [chunk for column in sides for chunk in column.chunks]
    twice = set(_repeated(pa.chunked_array(chunks, pa.string())))
    place_of: dict[str, str] = {}
    if rows is not None and twice:
        own = pa.compute.is_in(rows["episode_id"], pa.array(sorted(twice)))
        names = rows["episode_id"].filter(own).to_pylist()
        place_of = dict.fromkeys(names, "the episodes")
    for where, content in tables.items():
        for batch in content.to_batches(_ROWS_PER_BATCH) if content is not None else ():
            for row in batch.to_pylist():
                name = f"{row['replay_id']}-{row['player_id']}"
                yield from _check_side(row, where, name, reasons)
                if name in place_of:
                    yield Problem(where, f"{name}: is among {place_of[name]} too")
                if name in twice:
                    place_of[name] = f"the rows of {where}"


def _sides(content: pa.Table) -> pa.ChunkedArray:
    """Returns the ids that the rows' episodes would have."""
    return pa.compute.binary_join_element_wise(
        pa.compute.fill_null(content["replay_id"], "None"),
        pa.compute.fill_null(content["player_id"].cast(pa.string()), "None"),
        "-",
    )


def _check_side(
    row: Mapping[str, Any], where: str, name: str, reasons: Collection[str]
) -> Iterator[Problem]:
    if not _SIDE.fullmatch(row["replay_id"] or ""):
        yield Problem(where, f"{name[:100]}: expected the id of a replay")
    if row["player_id"] not in (1, 2):
        yield Problem(where, f"{name[:100]}: expected player 1 or 2")
    if row["reason"] not in reasons:
        yield Problem(where, f"{name}: {row['reason']!r} is not a reason")


def _check_shard(
    folder: str,
    entry: shards.ShardEntry,
    rows: list[dict[str, Any]],
    content: manifest.Manifest,
) -> tuple[list[Problem], int]:
    problems = list(
        dataset_files.check_file(folder, entry.name, entry.size_bytes, entry.sha256)
    )
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
        except (errors.FormatError, OSError) as error:
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
