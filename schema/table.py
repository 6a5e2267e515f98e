"""The tables of a dataset: episodes, failures, and sides that the selection leaves out.

In: placed episodes, or reasons. Out: `episodes.parquet`, `quarantine.parquet` and
`unselected.parquet`, the same bytes for the same rows and pyarrow release. Everything that filters need is here, so nothing
is decoded to choose episodes.
"""

import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow
import pyarrow.parquet

from starmill.schema import episode, errors, shards, storage

EPISODES, QUARANTINE = "episodes.parquet", "quarantine.parquet"
UNSELECTED = "unselected.parquet"
# Datasets without `unselected.parquet` have these sides in the quarantine, with this detail.
UNSELECTED_DETAIL = "the selection leaves this side out"

_TYPES: dict[str, pyarrow.DataType] = {
    "replay_id": pyarrow.string(),
    "player_id": pyarrow.int32(),
    "game_version": pyarrow.string(),
    "base_build": pyarrow.int32(),
    "data_version": pyarrow.string(),
    "map_name": pyarrow.string(),
    "race": pyarrow.string(),
    "opponent_race": pyarrow.string(),
    "mmr": pyarrow.int32(),
    "opponent_mmr": pyarrow.int32(),
    "apm": pyarrow.float64(),
    "outcome": pyarrow.int32(),
    "steps": pyarrow.int32(),
    "game_loops": pyarrow.int32(),
    "duration_loops": pyarrow.int32(),
}
EPISODE_SCHEMA = pyarrow.schema(
    [
        ("episode_id", pyarrow.string()),
        *_TYPES.items(),
        ("split", pyarrow.string()),
        ("shard", pyarrow.string()),
        ("offsets", pyarrow.list_(pyarrow.int64())),
        ("sha256", pyarrow.string()),
    ]
)
QUARANTINE_SCHEMA = pyarrow.schema(
    [
        ("replay_id", pyarrow.string()),
        ("player_id", pyarrow.int32()),
        ("source", pyarrow.string()),
        ("reason", pyarrow.string()),
        ("detail", pyarrow.string()),
    ]
)
UNSELECTED_SCHEMA = pyarrow.schema(
    [
        ("replay_id", pyarrow.string()),
        ("player_id", pyarrow.int32()),
        ("source", pyarrow.string()),
        ("reason", pyarrow.string()),
    ]
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnselectedRow:
    """A side of a selected replay that the selection leaves out.

    Attributes:
        replay_id: of the replay.
        player_id: 1 or 2.
        source: name of the replay's file, without folder and suffix.
        reason: the first rule that the side fails, as the value of a `RejectReason`.
    """

    replay_id: str
    player_id: int
    source: str
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuarantineRow:
    """A replay or episode that was selected and failed.

    Attributes:
        replay_id: sha256 of the replay's bytes, hex.
        player_id: 1 or 2; None if the whole replay failed.
        source: where its file was found.
        reason: the value of a `RejectReason`.
        detail: the reason as a sentence for people.
    """

    replay_id: str
    player_id: int | None
    source: str
    reason: str
    detail: str


def episode_table(placed: Iterable[shards.Placed]) -> pyarrow.Table:
    """Returns the table, sorted by split, shard and position in it."""
    rows = sorted(placed, key=lambda row: (row.shard, row.offsets[0]))
    names = [row.meta.episode_id for row in rows]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise errors.SpecError(f"episodes appear twice: {twice[:3]}")
    columns: dict[str, list[Any]] = {"episode_id": names}
    for field in dataclasses.fields(episode.EpisodeMeta):
        columns[field.name] = [getattr(row.meta, field.name) for row in rows]
    for name in ("split", "shard", "sha256"):
        columns[name] = [getattr(row, name) for row in rows]
    columns["offsets"] = [list(row.offsets) for row in rows]
    return pyarrow.table(
        {name: columns[name] for name in EPISODE_SCHEMA.names}, schema=EPISODE_SCHEMA
    )


def quarantine_table(rows: Iterable[QuarantineRow]) -> pyarrow.Table:
    """Returns the quarantine, sorted by replay, player and reason."""
    ordered = sorted(
        rows, key=lambda row: (row.replay_id, row.player_id or 0, row.reason)
    )
    return pyarrow.Table.from_pylist(
        [dataclasses.asdict(row) for row in ordered], schema=QUARANTINE_SCHEMA
    )


def unselected_table(rows: Iterable[UnselectedRow]) -> pyarrow.Table:
    """Returns the sides that the selection leaves out, sorted by replay and player."""
    ordered = sorted(rows, key=lambda row: (row.replay_id, row.player_id))
    return pyarrow.Table.from_pylist(
        [dataclasses.asdict(row) for row in ordered], schema=UNSELECTED_SCHEMA
    )


def write_table(url: str, content: pyarrow.Table) -> storage.Written:
    """Writes a table as Parquet, atomically."""
    sink = io.BytesIO()
    pyarrow.parquet.write_table(
        content, sink, compression="zstd", write_page_checksum=True
    )
    return storage.write(url, sink.getvalue())


def parse_table(data: bytes, schema: pyarrow.Schema, where: str) -> pyarrow.Table:
    """Returns a table from Parquet bytes; FormatError unless it has this schema."""
    try:
        content = pyarrow.parquet.read_table(
            io.BytesIO(data), page_checksum_verification=True
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise errors.FormatError(f"{where}: not readable Parquet: {error}") from error
    if not content.schema.equals(schema):
        raise errors.FormatError(
            f"{where}: expected columns {schema.names}, found {content.schema.names}"
        )
    return content


def metas(content: pyarrow.Table) -> list[episode.EpisodeMeta]:
    """Returns the rows' metadata."""
    names = [field.name for field in dataclasses.fields(episode.EpisodeMeta)]
    return [episode.EpisodeMeta(**row) for row in content.select(names).to_pylist()]


def statistics(content: pyarrow.Table) -> dict[str, Any]:
    """Returns counts and ranges of an episode table, for manifests and cards."""

    def counts(name: str) -> dict[str, int]:
        values = content.column(name).value_counts().to_pylist()
        return {
            str(item["values"]): int(item["counts"])
            for item in sorted(values, key=lambda item: str(item["values"]))
        }

    rated = [value for value in content.column("mmr").to_pylist() if value is not None]
    lengths: Sequence[int] = content.column("steps").to_pylist()
    found: Mapping[str, Any] = {
        "by_split": counts("split"),
        "by_race": counts("race"),
        "by_map": counts("map_name"),
        "by_outcome": counts("outcome"),
        "by_game_version": counts("game_version"),
        "mmr": {
            "known": len(rated),
            "min": min(rated, default=None),
            "max": max(rated, default=None),
        },
        "steps": {"min": min(lengths, default=None), "max": max(lengths, default=None)},
        "game_loops": int(sum(content.column("game_loops").to_pylist())),
    }
    return dict(found)
