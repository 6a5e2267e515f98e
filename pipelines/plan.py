"""What a build will do, decided before anything is played: the work list.

In: an index and a selection. Out: a Parquet file with one row per replay to make, in row
groups that workers read on their own, and the counts of what was left out and why. The list
follows from the replays and the selection alone, whatever the order of the index.
"""

import collections
import dataclasses
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starmill.schema import errors, replay_index, selection, shards, storage
from starmill.schema.reasons import RejectReason
from starmill.schema.replay_row import COLUMNS, ReplayRow, row_from_columns

NAME = "plan.parquet"
# Replays of a row group: what one Beam element before the reshuffle stands for.
GROUP_REPLAYS = 64
_EXTRA = [
    pa.field("sides", pa.string()),
    pa.field("side_reasons", pa.string()),
    pa.field("split", pa.string()),
    pa.field("shard", pa.string()),
    pa.field("reuse", pa.string()),
]
SCHEMA = pa.schema([*replay_index.SCHEMA, *_EXTRA])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reused:
    """An episode that another dataset has already: where its records are."""

    folder: str
    shard: str
    offsets: tuple[int, ...]
    meta: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkItem:
    """One replay to make.

    sides: which of its players are wanted. unwanted: the others, with the rule they fail.
    shard: the file that its episodes go to. reused: its episodes, where a dataset that is
        extended has all of them; nothing is played then.
    """

    row: ReplayRow
    sides: tuple[int, ...]
    unwanted: tuple[tuple[int, str], ...]
    split: str
    shard: str
    reused: tuple[Reused, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """What a build will do.

    read = selected + sum(rejected). replay_ids: of everything read that has one.
    sides: episodes that are wanted. unwanted_sides: by the rule they fail.
    loops: of the selected games, by their headers. shard_counts: by split.
    replays_by_shard: how many replays go to each shard.
    engine: "sc2" or "skirmish", what made the replays.
    reused: replays whose episodes are taken from the dataset that is extended.
    """

    read: int
    selected: int
    rejected: Mapping[str, int]
    sides: int
    unwanted_sides: Mapping[str, int]
    loops: int
    replay_ids: frozenset[str]
    shard_counts: Mapping[str, int]
    replays_by_shard: Mapping[str, int]
    engine: str
    reused: int
    groups: int


def make(
    index_url: str,
    chosen: selection.Selection,
    out: str,
    *,
    replays_per_shard: int,
    reusable: Mapping[str, Mapping[int, Reused]] | None = None,
) -> BuildPlan:
    """Writes the work list to `out` and returns the plan.

    Args:
        index_url: of the index.
        chosen: the rules.
        out: where the work list goes.
        replays_per_shard: on average; it decides how many shards there are.
        reusable: replay id -> side -> episode, of the dataset that is extended.
    """
    if replays_per_shard < 1:
        raise errors.ConfigError(
            f"replays per shard: expected at least 1, found {replays_per_shard}"
        )
    rejected: collections.Counter[str] = collections.Counter()
    unwanted: collections.Counter[str] = collections.Counter()
    replay_ids: set[str] = set()
    kept: list[pa.Table] = []
    read = 0
    for batch in replay_index.read_batches(index_url, list(COLUMNS)):
        read += batch.num_rows
        places, extra = [], []
        for place, values in enumerate(batch.to_pylist()):
            row = row_from_columns(values)
            if row.replay_id:
                replay_ids.add(row.replay_id)
            reason = selection.reject_reason(row, chosen)
            if reason is None:
                places.append(place)
                extra.append(_sides(row, chosen))
            else:
                rejected[reason.value] += 1
        kept.append(_selected(batch, places, extra))
    table, duplicates = _without_doubles(pa.concat_tables(kept) if kept else None)
    if duplicates:
        rejected[RejectReason.DUPLICATE.value] += duplicates
    for text in table.column("side_reasons").to_pylist():
        unwanted.update(json.loads(text).values())
    counts = _shard_counts(table, replays_per_shard)
    table, reused = _placed(table, counts, reusable or {})
    groups = _write(table, out)
    return BuildPlan(
        read=read,
        selected=table.num_rows,
        rejected=dict(sorted(rejected.items())),
        sides=sum(len(sides) for sides in table.column("sides").to_pylist()),
        unwanted_sides=dict(sorted(unwanted.items())),
        loops=int(pc.sum(table.column("duration_loops")).as_py() or 0),
        replay_ids=frozenset(replay_ids),
        shard_counts=counts,
        replays_by_shard=dict(
            sorted(collections.Counter(table.column("shard").to_pylist()).items())
        ),
        engine=_engine(table),
        reused=reused,
        groups=groups,
    )


def _sides(row: ReplayRow, chosen: selection.Selection) -> dict[str, str]:
    sides, reasons = "", {}
    for side in (1, 2):
        reason = selection.episode_reject_reason(row, side, chosen)
        if reason is None:
            sides += str(side)
        else:
            reasons[str(side)] = reason.value
    return {
        "sides": sides,
        "side_reasons": json.dumps(reasons, sort_keys=True),
        "split": selection.split_in(row, chosen),
    }


def _selected(
    batch: pa.RecordBatch, places: list[int], extra: list[dict[str, str]]
) -> pa.Table:
    table = pa.Table.from_batches([batch]).take(pa.array(places, pa.int64()))
    table = table.select(list(COLUMNS))
    for name in ("sides", "side_reasons", "split"):
        values = pa.array([item[name] for item in extra], pa.string())
        table = table.append_column(name, values)
    return table


def _without_doubles(table: pa.Table | None) -> tuple[pa.Table, int]:
    """Returns each replay once, versions together and sorted, and how many were double."""
    if table is None or table.num_rows == 0:
        raise errors.ConfigError(
            "the selection keeps none of the replays; `starmill select` shows why"
        )
    # Versions together, so that a worker's games are reused; of doubles the first name.
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
    names, reuse = [], []
    columns = (
        table.column(name).to_pylist() for name in ("replay_id", "split", "sides")
    )
    for replay_id, split, sides in zip(*columns, strict=True):
        number = shards.shard_of(replay_id, counts[split])
        names.append(shards.shard_name(split, number, counts[split]))
        have = reusable.get(replay_id, {})
        whole = all(int(side) in have for side in sides)
        found = [dataclasses.asdict(have[int(side)]) for side in sides] if whole else []
        reuse.append(json.dumps(found) if found else None)
    table = table.append_column("shard", pa.array(names, pa.string()))
    table = table.append_column("reuse", pa.array(reuse, pa.string()))
    return table, sum(item is not None for item in reuse)


def _engine(table: pa.Table) -> str:
    engines = sorted(set(table.column("engine").to_pylist()) - {None})
    if len(engines) != 1:
        raise errors.ConfigError(
            f"a dataset is of one engine, but the selected replays are of {engines}; "
            'give the selection an "engine"'
        )
    return str(engines[0])


def _write(table: pa.Table, out: str) -> int:
    body = io.BytesIO()
    pq.write_table(
        table.cast(SCHEMA), body, compression="zstd", row_group_size=GROUP_REPLAYS
    )
    storage.write(out, body.getvalue())
    return -(-table.num_rows // GROUP_REPLAYS)


def items(url: str, group: int) -> Iterator[WorkItem]:
    """Yields the work of one row group."""
    source = storage.local_path(url) if storage.is_local(url) else None
    with pq.ParquetFile(source or io.BytesIO(storage.read(url))) as file:
        rows = file.read_row_group(group).to_pylist()
    for values in rows:
        reasons = json.loads(values["side_reasons"])
        yield WorkItem(
            row=row_from_columns(values),
            sides=tuple(int(side) for side in values["sides"]),
            unwanted=tuple((int(side), reasons[side]) for side in sorted(reasons)),
            split=values["split"],
            shard=values["shard"],
            reused=tuple(
                Reused(**{**item, "offsets": tuple(item["offsets"])})
                for item in json.loads(values["reuse"] or "[]")
            ),
        )
