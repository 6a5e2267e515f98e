"""Joins parts into shards, and keeps each shard's rows of the tables until the dataset is finished.

In: the parts of a shard's replays, in the work folder. Out: the shard, in the output, and its result:
a Parquet file with its rows of the episode table, and the rest in that file's metadata. A shard that
is finished is not joined again.
"""

import collections
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from starmill.pipelines import claims, work_folder
from starmill.pipelines.planning.packets import WorkItem
from starmill.pipelines.work_folder import Target, reported
from starmill.schema import errors, shards, storage, table
from starmill.schema.episode import EpisodeMeta

_KEY = b"starmill.shard"


class PartRef(NamedTuple):
    """A replay whose episodes are ready.

    Attributes:
        replay_id: of the replay.
        reused: JSON of where the extended dataset has the episodes; "" if they are in a part.
        unselected: JSON of the rows of the sides that the selection leaves out; "" if none.
    """

    replay_id: str
    reused: str
    unselected: str


def ref_from_item(item: WorkItem) -> PartRef:
    """Returns the reference of a work item that is played or reused."""
    unselected = [
        dataclasses.asdict(
            table.UnselectedRow(
                replay_id=item.row.replay_id,
                player_id=side,
                source=item.row.file_stem,
                reason=reason,
            )
        )
        for side, reason in item.unselected
    ]
    reused = [dataclasses.asdict(episode) for episode in item.reused]
    return PartRef(
        item.row.replay_id,
        json.dumps(reused) if reused else "",
        json.dumps(unselected) if unselected else "",
    )


class ShardResult(NamedTuple):
    """A finished shard.

    Attributes:
        entry: for the manifest; None if no episode was left, and so no file was written.
        episodes: its rows of the episode table, in the order of the file.
        quarantine: the sides of its replays that failed.
        unselected: the sides of its replays that the selection leaves out.
    """

    entry: shards.ShardEntry | None
    episodes: pa.Table
    quarantine: list[table.QuarantineRow]
    unselected: list[table.UnselectedRow]


def join_shard(target: Target, name: str, refs: Sequence[PartRef]) -> ShardResult:
    """Joins parts, sorted by replay, into a shard; skips a shard that is finished.

    Raises ConfigError if another build has taken the output over.
    """
    if target.token:
        claims.check(target.output, target.token)
    work = target.work
    ordered = sorted(set(refs))
    quarantine = [
        row
        for ref in ordered
        if not ref.reused
        for row in work_folder.read_quarantine(work, ref.replay_id)
    ]
    inputs = _inputs_digest(work, ordered, quarantine)
    done = read_shard_result(target, name, inputs)
    if done is not None and is_intact(target.output, done.entry):
        return done
    with reported(f"{target.output}: cannot be written"):
        entry, placed = _write_joined(target, name, ordered)
    unselected = [
        table.UnselectedRow(**row)
        for ref in ordered
        for row in json.loads(ref.unselected or "[]")
    ]
    episodes = table.episode_table(placed)
    result = ShardResult(entry, episodes, quarantine, unselected)
    with reported(f"{work}: cannot be written"):
        storage.write(target.shard_result(name), to_bytes(result, inputs))
    return result


def is_intact(output: str, entry: shards.ShardEntry | None) -> bool:
    """Returns whether a shard that is finished is still as it was written."""
    if entry is None:
        return True
    try:
        written = storage.digest(output, entry.name)
    except errors.FormatError:
        return False
    return written == storage.Written(entry.size_bytes, entry.sha256)


def check_sides(items: Iterable[WorkItem], result: ShardResult) -> None:
    """Checks that every side of every replay of a shard is accounted for exactly once.

    It compares replays and players, not counts: sides of other replays may be as many.
    """
    planned = list(items)
    placed = zip(
        result.episodes.column("replay_id").to_pylist(),
        result.episodes.column("player_id").to_pylist(),
        strict=True,
    )
    problems = [
        *_side_problems(
            "episodes and failures",
            [*placed, *((row.replay_id, row.player_id) for row in result.quarantine)],
            {(item.row.replay_id, side) for item in planned for side in item.sides},
        ),
        *_side_problems(
            "sides that the selection leaves out",
            [(row.replay_id, row.player_id) for row in result.unselected],
            {(i.row.replay_id, side) for i in planned for side, _ in i.unselected},
        ),
    ]
    if problems:
        raise errors.SpecError("; ".join(problems))


_Side = tuple[str, int | None]


def _side_problems(
    title: str, actual: Sequence[_Side], expected: Set[_Side]
) -> Iterator[str]:
    counts = collections.Counter(actual)
    twice = {side for side in counts if counts[side] > 1}
    for word, sides in (
        ("missing", expected - set(counts)),
        ("of other replays", set(counts) - expected),
        ("counted twice", twice),
    ):
        if sides:
            first = min(sides, key=str)
            yield f"{title} {word}: {len(sides)}, such as {first[0]}-{first[1]}"


def _write_joined(
    target: Target, name: str, ordered: Sequence[PartRef]
) -> tuple[shards.ShardEntry | None, list[shards.Placed]]:
    episodes = _episodes(target.work, ordered)
    first = next(episodes, None)
    if first is None:
        return None, []
    return shards.write_shard(target.output, name, itertools.chain([first], episodes))


def _episodes(work: str, ordered: Sequence[PartRef]) -> Iterator[shards.EpisodeRecords]:
    readers: dict[str, storage.RangeReader] = {}
    for ref in ordered:
        if not ref.reused:
            yield from shards.read_part(work_folder.part_url(work, ref.replay_id))
            continue
        for reused in json.loads(ref.reused):
            folder = reused["folder"]
            if folder not in readers:
                readers[folder] = storage.RangeReader(folder)
            yield _reused_records(readers[folder], reused)


def _reused_records(
    reader: storage.RangeReader, reused: dict[str, Any]
) -> shards.EpisodeRecords:
    begin, end = reused["offsets"][0], reused["offsets"][-1]
    data = reader.read(reused["shard"], begin, end)
    where = f"{reader.folder}/{reused['shard']}"
    records = list(shards.records_of(data, where))
    digest = hashlib.sha256(b"".join(records)).hexdigest()
    if digest != reused["sha256"]:
        raise errors.ShardCorrupt(
            f"{where}, byte {begin:,}: the episode table says sha256 {reused['sha256']}, "
            f"found {digest}; the dataset that is extended is damaged"
        )
    return shards.EpisodeRecords(meta=EpisodeMeta(**reused["meta"]), records=records)


def _inputs_digest(
    work: str, ordered: Sequence[PartRef], quarantine: Sequence[table.QuarantineRow]
) -> str:
    sizes = [
        0
        if ref.reused
        else storage.size_bytes(work_folder.part_url(work, ref.replay_id))
        for ref in ordered
    ]
    text = json.dumps(
        [ordered, sizes, [dataclasses.astuple(row) for row in quarantine]]
    )
    return hashlib.sha256(text.encode()).hexdigest()


def to_bytes(result: ShardResult, inputs: str) -> bytes:
    """Returns the file of a result; `inputs` is a digest of what it was made from."""
    content = {
        "inputs": inputs,
        "entry": dataclasses.asdict(result.entry) if result.entry else None,
        "quarantine": [dataclasses.asdict(row) for row in result.quarantine],
        "unselected": [dataclasses.asdict(row) for row in result.unselected],
    }
    return table.to_parquet(
        result.episodes.replace_schema_metadata({_KEY: json.dumps(content)})
    )


def read_shard_result(
    target: Target, name: str, inputs: str | None = None
) -> ShardResult | None:
    """Returns the result of a finished shard.

    None if the shard is not finished, if it was made from other inputs than `inputs`, or if
    its result is damaged.
    """
    try:
        data = storage.read(target.shard_result(name))
    except errors.FormatError:
        return None
    try:
        episodes = pq.read_table(
            pa.BufferReader(data), page_checksum_verification=True, use_threads=False
        )
        content = json.loads(episodes.schema.metadata[_KEY])
        if inputs is not None and content["inputs"] != inputs:
            return None
        entry = content["entry"]
        return ShardResult(
            shards.ShardEntry(**entry) if entry else None,
            episodes.cast(table.EPISODE_SCHEMA),
            [table.QuarantineRow(**row) for row in content["quarantine"]],
            [table.UnselectedRow(**row) for row in content["unselected"]],
        )
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException):
        return None
