"""Decides what a build will do, before any replay is played: the work list.

In: an index and a selection. Out: a Parquet file with one row for each replay to play, in
row groups that workers read on their own, and the counts of what was left out and why. The
list depends on the replays and the selection alone, not on the order of the index.
"""

import collections
import dataclasses
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starmill.schema import errors, replay_index, selection, shards, storage
from starmill.schema.reasons import RejectReason
from starmill.schema.replay_row import COLUMNS, ReplayRow, row_from_columns

_NAME = re.compile(r"plan-([0-9a-f]{16})\.parquet")
# Replays in a row group. Each row group is one Beam element until they are reshuffled.
GROUP_REPLAYS = 64
# Columns that the work list has beyond those of the index.
_WORK_COLUMNS = [
    pa.field("sides", pa.string()),
    pa.field("side_reasons", pa.string()),
    pa.field("split", pa.string()),
    pa.field("shard", pa.string()),
    pa.field("reuse", pa.string()),
]
SCHEMA = pa.schema([*replay_index.SCHEMA, *_WORK_COLUMNS])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reused:
    """An episode that the extended dataset already has.

    Attributes:
        folder: path or URL of that dataset.
        shard: name of the shard that has the episode.
        offsets: where each of its records begins in the shard, and where the last one ends.
        meta: the fields of its `EpisodeMeta`.
        sha256: over the data of its records, in order.
    """

    folder: str
    shard: str
    offsets: tuple[int, ...]
    meta: Mapping[str, Any]
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkItem:
    """One replay to play.

    Attributes:
        row: the replay's row of the index.
        sides: the players whose sides become episodes.
        unselected: (player, reason) of the sides that the selection leaves out.
        split: of both sides.
        shard: name of the shard that its episodes go to.
        reused: its episodes, if the extended dataset has all of them. Nothing is played then.
    """

    row: ReplayRow
    sides: tuple[int, ...]
    unselected: tuple[tuple[int, str], ...]
    split: str
    shard: str
    reused: tuple[Reused, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """What a build will do. Always `read == selected + sum(rejected.values())`.

    Attributes:
        read: rows of the index.
        selected: replays with at least one side to make.
        rejected: reason -> replays that the selection leaves out.
        sides: episodes to make, or to take over from the extended dataset.
        unselected: reason -> sides of selected replays that the selection leaves out.
        loops: game loops of the selected games, by their headers.
        replay_ids: of all replays read; those that could not be read have no id.
        shard_counts: split -> shards.
        replays_by_shard: shard's name -> replays.
        engine: the game that recorded the replays: "sc2" or "skirmish".
        reused: replays whose episodes the extended dataset already has.
        groups: row groups of the work list.
        digest: of the work list, 16 hex digits. Its file is named by it, and so are the
            results of its shards: those of other lists are never taken for them.
    """

    read: int
    selected: int
    rejected: Mapping[str, int]
    sides: int
    unselected: Mapping[str, int]
    loops: int
    replay_ids: frozenset[str]
    shard_counts: Mapping[str, int]
    replays_by_shard: Mapping[str, int]
    engine: str
    reused: int
    groups: int
    digest: str


def name(digest: str) -> str:
    """Returns the file name of a work list with this digest."""
    return f"plan-{digest}.parquet"


def is_name(name: str) -> bool:
    """Returns whether a work list can have this file name."""
    return _NAME.fullmatch(name) is not None


def make(
    index_url: str,
    rules: selection.Selection,
    folder: str,
    *,
    replays_per_shard: int,
    reusable: Mapping[str, Mapping[int, Reused]] | None = None,
) -> BuildPlan:
    """Writes the work list to a folder and returns the plan.

    Args:
        index_url: of the index.
        rules: the selection.
        folder: where the work list goes.
        replays_per_shard: on average; this decides how many shards there are.
        reusable: replay id -> player -> episode of the dataset that is extended.

    Raises ConfigError if the selection keeps no replay.
    """
    if replays_per_shard < 1:
        raise errors.ConfigError(
            f"replays per shard: expected at least 1, found {replays_per_shard}"
        )
    rejected: collections.Counter[str] = collections.Counter()
    unselected: collections.Counter[str] = collections.Counter()
    replay_ids: set[str] = set()
    selected: list[pa.Table] = []
    read = 0
    for batch in replay_index.read_batches(index_url, list(COLUMNS)):
        read += batch.num_rows
        places, judgements = [], []
        for place, values in enumerate(batch.to_pylist()):
            row = row_from_columns(values)
            if row.replay_id:
                replay_ids.add(row.replay_id)
            judgement = selection.judge(row, rules)
            if judgement.reason is None:
                places.append(place)
                judgements.append(judgement)
            else:
                rejected[judgement.reason.value] += 1
        selected.append(_selected(batch, places, judgements))
    table, duplicates = _without_duplicates(selected)
    if duplicates:
        rejected[RejectReason.DUPLICATE.value] += duplicates
    for text in table.column("side_reasons").to_pylist():
        unselected.update(json.loads(text).values())
    counts = _shard_counts(table, replays_per_shard)
    table, reused = _placed(table, counts, reusable or {})
    digest, groups = _write(table, folder)
    return BuildPlan(
        read=read,
        selected=table.num_rows,
        rejected=dict(sorted(rejected.items())),
        sides=sum(len(sides) for sides in table.column("sides").to_pylist()),
        unselected=dict(sorted(unselected.items())),
        loops=int(pc.sum(table.column("duration_loops")).as_py() or 0),
        replay_ids=frozenset(replay_ids),
        shard_counts=counts,
        replays_by_shard=dict(
            sorted(collections.Counter(table.column("shard").to_pylist()).items())
        ),
        engine=_engine(table),
        reused=reused,
        groups=groups,
        digest=digest,
    )


def _selected(
    batch: pa.RecordBatch, places: list[int], judgements: list[selection.Judgement]
) -> pa.Table:
    """Returns the rows at these places, with what the selection says of each."""
    table = pa.Table.from_batches([batch]).take(pa.array(places, pa.int64()))
    table = table.select(list(COLUMNS))
    columns = {
        "sides": ["".join(map(str, item.sides)) for item in judgements],
        "side_reasons": [
            json.dumps({str(side): item.unselected[side] for side in item.unselected})
            for item in judgements
        ],
        "split": [item.split for item in judgements],
    }
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, pa.string()))
    return table


def _without_duplicates(tables: list[pa.Table]) -> tuple[pa.Table, int]:
    """Returns each replay once, sorted by version, and how many rows were left out."""
    table = pa.concat_tables(tables) if tables else None
    if table is None or table.num_rows == 0:
        raise errors.ConfigError(
            "the selection keeps none of the replays; `starmill select` shows why"
        )
    # By version, so that a worker can reuse its games. Of duplicates, the first name stays.
    keys = ("base_build", "data_version", "replay_id", "file_stem", "source")
    table = table.sort_by([(key, "ascending") for key in keys])
    first, seen = [], set()
    for place, replay_id in enumerate(table.column("replay_id").to_pylist()):
        if replay_id not in seen:
            seen.add(replay_id)
            first.append(place)
    return table.take(pa.array(first, pa.int64())), table.num_rows - len(first)


def _shard_counts(table: pa.Table, replays_per_shard: int) -> dict[str, int]:
    replays = collections.Counter(table.column("split").to_pylist())
    return {
        split: -(-replays[split] // replays_per_shard)
        for split in selection.SPLITS
        if replays[split]
    }


def _placed(
    table: pa.Table,
    counts: Mapping[str, int],
    reusable: Mapping[str, Mapping[int, Reused]],
) -> tuple[pa.Table, int]:
    """Adds each replay's shard and reused episodes; returns how many replays are reused."""
    names, reuse = [], []
    columns = (
        table.column(name).to_pylist() for name in ("replay_id", "split", "sides")
    )
    for replay_id, split, sides in zip(*columns, strict=True):
        number = shards.shard_of(replay_id, counts[split])
        names.append(shards.shard_name(split, number, counts[split]))
        have = reusable.get(replay_id, {})
        is_whole = all(int(side) in have for side in sides)
        reuse.append(
            json.dumps([dataclasses.asdict(have[int(side)]) for side in sides])
            if is_whole
            else None
        )
    table = table.append_column("shard", pa.array(names, pa.string()))
    table = table.append_column("reuse", pa.array(reuse, pa.string()))
    return table, sum(item is not None for item in reuse)


def _engine(table: pa.Table) -> str:
    engines = sorted(set(table.column("engine").to_pylist()) - {None})
    if len(engines) != 1:
        raise errors.ConfigError(
            f"expected replays of one engine, but the selected ones are of {engines}; "
            'add "engine" to the selection'
        )
    return str(engines[0])


def _write(table: pa.Table, folder: str) -> tuple[str, int]:
    """Writes the work list; returns its digest and the number of its row groups."""
    body = io.BytesIO()
    pq.write_table(
        table.cast(SCHEMA), body, compression="zstd", row_group_size=GROUP_REPLAYS
    )
    digest = hashlib.sha256(body.getvalue()).hexdigest()[:16]
    storage.write(storage.join(folder, name(digest)), body.getvalue())
    return digest, -(-table.num_rows // GROUP_REPLAYS)


class Sides(NamedTuple):
    """The sides of all selected replays, as (replay id, player).

    Attributes:
        selected: those that become episodes, unless they fail.
        unselected: those that the selection leaves out.
    """

    selected: frozenset[tuple[str, int]]
    unselected: frozenset[tuple[str, int]]


def sides(url: str) -> Sides:
    """Returns the sides that a work list names."""
    columns = ["replay_id", "sides", "side_reasons"]
    rows = pq.read_table(io.BytesIO(storage.read(url)), columns=columns).to_pylist()
    return Sides(
        frozenset((row["replay_id"], int(s)) for row in rows for s in row["sides"]),
        frozenset(
            (row["replay_id"], int(side))
            for row in rows
            for side in json.loads(row["side_reasons"])
        ),
    )


def items(url: str, group: int) -> Iterator[WorkItem]:
    """Yields the replays of one row group of the work list."""
    source = storage.local_path(url) if storage.is_local(url) else None
    with pq.ParquetFile(source or io.BytesIO(storage.read(url))) as file:
        rows = file.read_row_group(group).to_pylist()
    for values in rows:
        reasons = json.loads(values["side_reasons"])
        yield WorkItem(
            row=row_from_columns(values),
            sides=tuple(int(side) for side in values["sides"]),
            unselected=tuple((int(side), reasons[side]) for side in sorted(reasons)),
            split=values["split"],
            shard=values["shard"],
            reused=tuple(
                Reused(**{**item, "offsets": tuple(item["offsets"])})
                for item in json.loads(values["reuse"] or "[]")
            ),
        )
