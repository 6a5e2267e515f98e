"""The tables of a dataset: episodes, failures, and sides that the selection leaves out.

In: placed episodes, or reasons. Out: `episodes.parquet`, `quarantine.parquet` and
`unselected.parquet`, the same bytes for the same rows and pyarrow release. Everything that filters need is here, so nothing
is decoded to choose episodes.
"""

import collections
import dataclasses
import io
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from starmill.schema import codec, episode, errors, shards, storage

UNREADABLE = (pyarrow.ArrowException, OSError, OverflowError, UnicodeDecodeError)
EPISODES, QUARANTINE = "episodes.parquet", "quarantine.parquet"
UNSELECTED = "unselected.parquet"
# Datasets without `unselected.parquet` have these sides in the quarantine, with this detail.
UNSELECTED_DETAIL = "the selection leaves this side out"

# Columns are read in pieces of so many bytes.
_BUFFER_BYTES = 1 << 20
# Longer texts are neither names nor sentences.
MOST_TEXT_BYTES = 1 << 16
# An id or a hash has at most 66 letters; Parquet adds its length, and headers to each page.
_MOST_ID_BYTES, _MOST_PAGE_BYTES = 80, 1 << 16
_MOST_SHOWN = 10
# Columns of the episode table that may lack values.
_NULLABLE = ("data_version", "mmr", "opponent_mmr", "apm")
# Inclusive.
_RANGES = {
    "player_id": (1, 2),
    "outcome": (-1, 1),
    "steps": (1, 2**31 - 1),
    "game_loops": (0, 2**31 - 1),
    "duration_loops": (0, 2**31 - 1),
}

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


def sort_left_out(content: pyarrow.Table) -> pyarrow.Table:
    """Returns a quarantine or the unselected sides in the order of the functions above."""
    keys = content.select(
        [n for n in ("replay_id", "player_id", "reason") if n in content.column_names]
    )
    # A failure of the whole replay has no player, and comes first.
    players = pyarrow.compute.fill_null(keys.column("player_id"), 0)
    keys = keys.set_column(1, "player_id", players)
    order = pyarrow.compute.sort_indices(
        keys, sort_keys=[(name, "ascending") for name in keys.column_names]
    )
    return content.take(order).combine_chunks()


def to_parquet(content: pyarrow.Table) -> bytes:
    """Returns a table as the bytes of a Parquet file."""
    sink = io.BytesIO()
    pyarrow.parquet.write_table(
        content, sink, compression="zstd", write_page_checksum=True
    )
    return sink.getvalue()


def write_table(url: str, content: pyarrow.Table) -> storage.Written:
    """Writes a table as Parquet, atomically."""
    return storage.write(url, to_parquet(content))


def parse_table(
    data: bytes, schema: pyarrow.Schema, where: str, rows: int | None = None
) -> pyarrow.Table:
    """Returns a table from Parquet bytes; FormatError unless it has this schema.

    Args:
        data: the file.
        schema: of the columns.
        where: the file's address, for messages.
        rows: how many the table must have; None if that is not known.
    """
    try:
        source = pyarrow.BufferReader(data)
        with open_parquet(source, schema, where, len(data), rows) as file:
            content = file.read(use_threads=False)
        content.validate(full=True)
        return plain_texts(content, schema, where)
    except UNREADABLE as error:
        raise errors.FormatError(f"{where}: not readable Parquet: {error}") from error


def open_parquet(
    source: Any,
    schema: pyarrow.Schema,
    where: str,
    size_bytes: int,
    rows: int | None = None,
    unique: Collection[str] = (),
) -> pyarrow.parquet.ParquetFile:
    """Returns an open Parquet file; FormatError unless it has this schema.

    Texts are read as dictionaries, so a long text that a small file repeats stays one text;
    `plain_texts` makes them texts again. Read with `use_threads=False`: Arrow's threads can hang.

    Args:
        source: the file: a path, or an object that can seek.
        schema: of the columns.
        where: the file's address, for messages.
        size_bytes: of the file.
        rows: how many the table must have; None if that is not known.
        unique: columns of short texts that differ in each row: a dictionary would be larger.
    """
    metadata = pyarrow.parquet.read_metadata(source)
    names = metadata.schema.to_arrow_schema().names
    if names != schema.names:
        raise errors.FormatError(
            f"{where}: expected columns {schema.names}, found {names!r:.500}"
        )
    texts = [
        field.name
        for field in schema
        if field.type == pyarrow.string() and field.name not in unique
    ]
    file = pyarrow.parquet.ParquetFile(
        source,
        metadata=metadata,
        read_dictionary=texts,
        page_checksum_verification=True,
        pre_buffer=False,
        buffer_size=_BUFFER_BYTES,
    )
    if not file.schema_arrow.equals(_with_dictionaries(schema, texts)):
        raise errors.FormatError(
            f"{where}: expected columns of the types {schema.types}, "
            f"found {file.schema_arrow.types!r:.500}"
        )
    _check_sizes(file.metadata, size_bytes, where, rows)
    _check_unfolded(file.metadata, unique, where)
    return file


def plain_texts(
    content: pyarrow.Table, schema: pyarrow.Schema, where: str
) -> pyarrow.Table:
    """Returns columns that `open_parquet` reads, by the types of the schema.

    Raises FormatError for texts that are too long to be names or sentences.
    """
    _check_texts(content, where)
    fields = [schema.field(name) for name in content.column_names]
    return content.cast(pyarrow.schema(fields))


def _with_dictionaries(
    schema: pyarrow.Schema, texts: Collection[str]
) -> pyarrow.Schema:
    dictionary = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    return pyarrow.schema(
        [
            pyarrow.field(field.name, dictionary) if field.name in texts else field
            for field in schema
        ]
    )


def _check_unfolded(metadata: Any, names: Collection[str], where: str) -> None:
    """Raises FormatError for columns of ids or hashes that unfold to more than these take."""
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        for column in map(rows.column, range(rows.num_columns)):
            most = _MOST_PAGE_BYTES + _MOST_ID_BYTES * column.num_values
            if column.path_in_schema in names and column.total_uncompressed_size > most:
                raise errors.FormatError(
                    f"{where}: {column.path_in_schema}: expected at most {most:,} bytes for "
                    f"{column.num_values:,} values, found {column.total_uncompressed_size:,}"
                )


def _check_sizes(metadata: Any, size_bytes: int, where: str, rows: int | None) -> None:
    """Raises FormatError for counts that the file's size does not explain.

    A few bytes of Parquet can say that a value follows a billion times.
    """
    if rows is not None and metadata.num_rows != rows:
        raise errors.FormatError(
            f"{where}: expected {rows:,} rows, found {metadata.num_rows:,}"
        )
    values = 0
    for group in range(metadata.num_row_groups):
        columns = metadata.row_group(group)
        values += max(
            columns.column(number).num_values for number in range(columns.num_columns)
        )
    # Ids and hashes differ from row to row, and offsets from record to record: neither can be
    # stored in less than a byte each.
    if not 0 <= metadata.num_rows <= values <= max(size_bytes, 4096):
        raise errors.FormatError(
            f"{where}: {size_bytes:,} bytes cannot hold {metadata.num_rows:,} rows with "
            f"{values:,} values"
        )


def _check_texts(content: pyarrow.Table, where: str) -> None:
    for name in content.column_names:
        for chunk in content.column(name).chunks:
            texts = getattr(chunk, "dictionary", chunk)
            if texts.type != pyarrow.string():
                continue
            lengths = pyarrow.compute.binary_length(texts)
            longest = pyarrow.compute.max(lengths).as_py() or 0
            if longest > MOST_TEXT_BYTES:
                raise errors.FormatError(
                    f"{where}: {name}: expected texts of at most {MOST_TEXT_BYTES:,} "
                    f"bytes, found one of {longest:,}"
                )


def check_episodes(
    content: pyarrow.Table, entries: Iterable[shards.ShardEntry]
) -> None:
    """Raises FormatError for rows of an episode table that no dataset can have.

    All that readers use as a length or a place is bounded here: by the shards of the
    manifest, and steps by the number of records.
    """
    problems = list(episode_problems(content, entries))
    if problems:
        raise errors.FormatError(f"{EPISODES}: " + "; ".join(problems[:_MOST_SHOWN]))


def episode_problems(
    content: pyarrow.Table, entries: Iterable[shards.ShardEntry]
) -> Iterator[str]:
    """Yields what no dataset can have in its episode table, a sentence per column.

    The content may be some of the columns and rows. Places are checked if `shard`, `steps` and
    `offsets` are there.
    """
    columns = set(content.column_names)
    missing = [
        name
        for name in content.column_names
        if name not in _NULLABLE and content.column(name).null_count
    ]
    has_places = columns >= {"shard", "steps", "offsets"}
    if (
        has_places
        and pyarrow.compute.list_flatten(content.column("offsets")).null_count
    ):
        missing.append("offsets")
    if missing:
        yield f"expected values, found none in some rows of {missing}"
        return
    for name, (low, high) in _RANGES.items():
        if name not in columns:
            continue
        values = np.asarray(content.column(name).drop_null())
        if len(values) and (values.min() < low or values.max() > high):
            yield (
                f"{name}: expected {low} to {high}, "
                f"found {values.min()} to {values.max()}"
            )
    for name in ("replay_id", "sha256"):
        if name in columns and not _all_match(content.column(name), "^[0-9a-f]{64}$"):
            yield f"{name}: expected 64 hex digits"
    if "episode_id" in columns and not _all_match(
        content.column("episode_id"), "^[0-9a-f]{64}-[12]$"
    ):
        yield "episode_id: expected 64 hex digits, '-' and the player"
    if has_places:
        yield from _place_problems(content, entries)


def _all_match(column: pyarrow.ChunkedArray, pattern: str) -> bool:
    matches = pyarrow.compute.match_substring_regex(column, pattern)
    return bool(pyarrow.compute.all(matches, min_count=0).as_py())


def _place_problems(
    content: pyarrow.Table, entries: Iterable[shards.ShardEntry]
) -> Iterator[str]:
    sizes = {entry.name: entry.size_bytes for entry in entries}
    names = content.column("shard").to_pylist()
    unknown = sorted(set(names) - set(sizes))
    if unknown:
        yield f"shard: the manifest lacks {unknown[0]!r:.100}"
        return
    offsets = content.column("offsets")
    counts = np.asarray(pyarrow.compute.list_value_length(offsets), np.int64)
    steps = np.asarray(content.column("steps"), np.int64)
    chunks = -(-steps // codec.STEPS_PER_CHUNK)
    if (counts != chunks + 2).any():
        row = int(np.flatnonzero(counts != chunks + 2)[0])
        yield (
            f"offsets: expected those of a header, {chunks[row]:,} chunks for "
            f"{steps[row]:,} steps, and the end; found {counts[row]:,}"
        )
        return
    places = np.asarray(pyarrow.compute.list_flatten(offsets), np.int64)
    last = np.cumsum(counts) - 1
    lengths = np.diff(places)
    lengths[last[:-1]] = shards.LEAST_RECORD_BYTES  # from one episode to another
    limits = np.array([sizes[name] for name in names], np.int64)
    is_inside = (places[last - counts + 1] >= 0) & (places[last] <= limits)
    if (lengths < shards.LEAST_RECORD_BYTES).any() or not is_inside.all():
        yield "offsets: expected ascending places inside the shard"


def metas(content: pyarrow.Table) -> list[episode.EpisodeMeta]:
    """Returns the rows' metadata."""
    names = [field.name for field in dataclasses.fields(episode.EpisodeMeta)]
    try:
        return [episode.EpisodeMeta(**row) for row in content.select(names).to_pylist()]
    except errors.SpecError as error:
        raise errors.FormatError(f"{EPISODES}: {error}") from error


# Name in the statistics -> column of which each value is counted.
_COUNTED = {
    "by_split": "split",
    "by_race": "race",
    "by_map": "map_name",
    "by_outcome": "outcome",
    "by_game_version": "game_version",
}


class Statistics:
    """Counts and ranges of an episode table that is seen piece by piece.

    Attributes:
        episodes: rows so far.
        replays: of these rows; both episodes of a replay must be in the same piece.
    """

    def __init__(self) -> None:
        self.episodes = self.replays = 0
        self._counts = {name: collections.Counter[str]() for name in _COUNTED}
        self._rated = self._loops = 0
        self._ranges: dict[str, list[int]] = {"mmr": [], "steps": []}

    def add(self, content: pyarrow.Table) -> None:
        """Counts the rows of one piece."""
        self.episodes += content.num_rows
        self.replays += pyarrow.compute.count_distinct(
            content.column("replay_id")
        ).as_py()
        for name, column in _COUNTED.items():
            for item in content.column(column).value_counts().to_pylist():
                self._counts[name][str(item["values"])] += int(item["counts"])
        self._rated += content.num_rows - content.column("mmr").null_count
        self._loops += pyarrow.compute.sum(content.column("game_loops")).as_py() or 0
        for name, values in self._ranges.items():
            pair = pyarrow.compute.min_max(content.column(name)).as_py()
            ends = [*values, *(v for v in pair.values() if v is not None)]
            self._ranges[name] = [min(ends), max(ends)] if ends else []

    def to_json(self) -> dict[str, Any]:
        """Returns the statistics, for manifests and cards."""

        def ends(name: str) -> dict[str, int | None]:
            low, high = self._ranges[name] or (None, None)
            return {"min": low, "max": high}

        return {
            **{
                name: dict(sorted(counts.items()))
                for name, counts in self._counts.items()
            },
            "mmr": {"known": self._rated, **ends("mmr")},
            "steps": ends("steps"),
            "game_loops": int(self._loops),
        }


def statistics(content: pyarrow.Table) -> dict[str, Any]:
    """Returns counts and ranges of an episode table, for manifests and cards."""
    counted = Statistics()
    counted.add(content)
    return counted.to_json()
