"""From shards to a finished dataset: tables, card, metadata, and the manifest last.

In: what `shards.write_shard` returned for every shard, and the facts of the build.
Out: the files beside the shards. The order of the arguments does not matter to the bytes.
A dataset that grows keeps all of its files but the manifest and the card, which are replaced.
"""

import dataclasses
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet as pq

from starmill.schema import card, codec, errors, manifest, shards, specs, storage, table
from starmill.schema.settings import ConverterSettings
from starmill.version import __version__

# Rows of a row group of a table that is written piece by piece: some 50 MB.
GROUP_ROWS = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Build:
    """Build metadata that the shards do not contain.

    Attributes:
        name: the dataset's name.
        version: its semantic version, such as "1.2.0".
        engine: what played the replays, such as "skirmish 0.1.0" or "sc2".
        settings: the converter's settings.
        selection: the selection, as JSON.
        replay_ids: all replays that were requested, kept or not.
        replay_set: their `manifest.replay_set_digest`, where they are too many to be listed;
            "" if it follows from `replay_ids`.
        libraries: releases that affect the bytes, beyond those that this package adds.
    """

    name: str
    version: str
    engine: str
    settings: ConverterSettings
    selection: Mapping[str, Any]
    replay_ids: frozenset[str] = frozenset()
    replay_set: str = ""
    libraries: Mapping[str, str] = dataclasses.field(default_factory=dict)


def libraries() -> dict[str, str]:
    """Returns the releases of the libraries whose output is stored."""
    return {
        "numpy": np.__version__,
        "pyarrow": pyarrow.__version__,
        "zstd": codec.ZSTD_VERSION,
    }


def write_pieces(
    url: str, schema: pyarrow.Schema, tables: Iterable[pyarrow.Table]
) -> storage.Written:
    """Writes the rows of many tables as one Parquet file, atomically.

    Memory holds GROUP_ROWS of them. The bytes depend on the rows, not on how they are divided.
    Up to GROUP_ROWS, they are those of `table.write_table`.
    """
    with tempfile.NamedTemporaryFile(prefix="starmill-table-") as file:
        with pq.ParquetWriter(
            file, schema, compression="zstd", write_page_checksum=True
        ) as writer:
            for group in _groups(schema, tables):
                writer.write_table(group)
        file.flush()
        return storage.upload(url, file.name)


def _groups(
    schema: pyarrow.Schema, tables: Iterable[pyarrow.Table]
) -> Iterator[pyarrow.Table]:
    """Yields the rows GROUP_ROWS at a time; at least one table, which may be empty."""
    waiting = schema.empty_table()
    is_first = True
    for content in tables:
        waiting = pyarrow.concat_tables([waiting, content.cast(schema)])
        while waiting.num_rows > GROUP_ROWS:
            yield waiting.slice(0, GROUP_ROWS).combine_chunks()
            # A copy, so that the rows that were written are forgotten.
            waiting = waiting.slice(GROUP_ROWS).combine_chunks()
            is_first = False
    if waiting.num_rows or is_first:
        yield waiting.combine_chunks()


class Tables(NamedTuple):
    """What `write_tables` wrote.

    Attributes:
        files: entries of the tables, for the manifest.
        statistics: of the episode table.
        replays: that have episodes.
        episodes: rows of the episode table.
        quarantined: rows of the quarantine.
    """

    files: tuple[manifest.FileEntry, ...]
    statistics: Mapping[str, Any]
    replays: int
    episodes: int
    quarantined: int


def write_tables(
    folder: str,
    episodes: Iterable[pyarrow.Table],
    quarantine: Callable[[], pyarrow.Table],
    unselected: Callable[[], pyarrow.Table],
    increment: int = 0,
) -> Tables:
    """Writes the tables of a dataset, with some hundred thousand rows in memory.

    Args:
        folder: path or URL of the dataset.
        episodes: pieces of the episode table, in order; the episodes of a replay are in one.
        quarantine: returns the quarantine; called after the last episode.
        unselected: returns the sides that the selection leaves out; likewise.
        increment: number of the increment that the tables are of; 0: they are the base's.

    Raises ConfigError, and writes nothing, if there is no episode.
    """
    statistics = table.Statistics()

    def counted() -> Iterator[pyarrow.Table]:
        for piece in episodes:
            statistics.add(piece)
            yield piece
        if not statistics.episodes:
            raise errors.ConfigError(
                f"{folder}: no episode is left, so there is no dataset to write"
            )

    name = manifest.numbered(table.EPISODES, increment)
    url = storage.join(folder, name)
    written = {name: write_pieces(url, table.EPISODE_SCHEMA, counted())}
    failures = quarantine()
    for plain_name, content in (
        (table.QUARANTINE, failures),
        (table.UNSELECTED, unselected()),
    ):
        name = manifest.numbered(plain_name, increment)
        written[name] = table.write_table(storage.join(folder, name), content)
    return Tables(
        files=tuple(
            manifest.FileEntry(name=name, **entry._asdict())
            for name, entry in written.items()
        ),
        statistics=statistics.to_json(),
        replays=statistics.replays,
        episodes=statistics.episodes,
        quarantined=failures.num_rows,
    )


def finish(
    folder: str,
    build: Build,
    entries: Iterable[shards.ShardEntry],
    placed: Iterable[shards.Placed],
    quarantine: Iterable[table.QuarantineRow] = (),
    unselected: Iterable[table.UnselectedRow] = (),
) -> manifest.Manifest:
    """Writes tables, card, metadata and manifest; returns the manifest."""
    tables = write_tables(
        folder,
        [table.episode_table(placed)],
        lambda: table.quarantine_table(quarantine),
        lambda: table.unselected_table(unselected),
    )
    return complete(folder, build, entries, tables)


def complete(
    folder: str,
    build: Build,
    entries: Iterable[shards.ShardEntry],
    tables: Tables,
) -> manifest.Manifest:
    """Writes card, metadata and manifest beside tables and shards; returns the manifest."""
    sorted_entries = tuple(sorted(entries, key=lambda entry: entry.name))
    draft = manifest.Manifest(
        name=build.name,
        version=build.version,
        engine=build.engine,
        settings=build.settings,
        schema=specs.fingerprint(build.settings),
        selection=build.selection,
        replay_set=build.replay_set
        or manifest.replay_set_digest(set(build.replay_ids)),
        starmill=__version__,
        codec=codec.VERSION,
        libraries={**build.libraries, **libraries()},
        statistics=tables.statistics,
        replays=tables.replays,
        episodes=tables.episodes,
        quarantined=tables.quarantined,
        steps=sum(entry.steps for entry in sorted_entries),
        size_bytes=sum(entry.size_bytes for entry in sorted_entries),
        shards=sorted_entries,
        files=tables.files,
    )
    _write_cards(folder, draft)
    final = _with_cards(draft)
    manifest.write(folder, final)
    return final


def _cards(draft: manifest.Manifest) -> dict[str, bytes]:
    """Returns the card and the metadata of a manifest that does not list them, by name."""
    return {card.README: card.readme(draft), card.CROISSANT: card.croissant(draft)}


def _write_cards(folder: str, draft: manifest.Manifest) -> None:
    for name, data in _cards(draft).items():
        storage.write(storage.join(folder, name), data)


def _with_cards(draft: manifest.Manifest) -> manifest.Manifest:
    """Returns the manifest with card and metadata among its files, which are sorted."""
    files = [*draft.files, *(_entry(*item) for item in _cards(draft).items())]
    return dataclasses.replace(draft, files=_sorted(files))


def _sorted(files: Iterable[manifest.FileEntry]) -> tuple[manifest.FileEntry, ...]:
    return tuple(sorted(files, key=lambda entry: entry.name))


def _entry(name: str, data: bytes) -> manifest.FileEntry:
    digest = hashlib.sha256(data).hexdigest()
    return manifest.FileEntry(name=name, size_bytes=len(data), sha256=digest)


def _without_cards(content: manifest.Manifest) -> manifest.Manifest:
    names = (card.README, card.CROISSANT)
    files = tuple(entry for entry in content.files if entry.name not in names)
    return dataclasses.replace(content, files=files)


def grow(
    folder: str,
    base: manifest.Manifest,
    version: str,
    replay_set: str,
    entries: Iterable[shards.ShardEntry],
    tables: Tables,
) -> manifest.Manifest:
    """Adds an increment, whose shards and tables are written, to a dataset; returns its manifest.

    The manifest of the dataset before stays under another name. Replacing `manifest.json` is a
    single write, after which readers see the increment. The card follows.

    Args:
        folder: path or URL of the dataset.
        base: its manifest before.
        version: of the dataset with the increment.
        replay_set: `manifest.replay_set_digest` of the replays that are added.
        entries: of the increment's shards.
        tables: of the increment.
    """
    added = sorted(entries, key=lambda entry: entry.name)
    increment = manifest.Increment(
        base=base.digest(),
        replay_set=replay_set,
        replays=tables.replays,
        episodes=tables.episodes,
        quarantined=tables.quarantined,
        steps=sum(entry.steps for entry in added),
        size_bytes=sum(entry.size_bytes for entry in added),
    )
    former = _entry(manifest.former_name(len(base.increments)), base.to_bytes())
    draft = dataclasses.replace(
        _without_cards(base),
        version=version,
        statistics=_summed(base.statistics, tables.statistics),
        replays=base.replays + increment.replays,
        episodes=base.episodes + increment.episodes,
        quarantined=base.quarantined + increment.quarantined,
        steps=base.steps + increment.steps,
        size_bytes=base.size_bytes + increment.size_bytes,
        shards=(*base.shards, *added),
        files=_sorted([*_without_cards(base).files, former, *tables.files]),
        increments=(*base.increments, increment),
    )
    final = _with_cards(draft)
    storage.write(storage.join(folder, former.name), base.to_bytes())
    manifest.write(folder, final)
    complete_cards(folder, final)
    return final


def complete_cards(folder: str, content: manifest.Manifest) -> None:
    """Writes the card and the metadata of a dataset that grew, unless they are its own.

    Another release may write another card. It leaves the one that is there.
    """
    for name, data in _cards(_without_cards(content)).items():
        entry = content.file(name)
        if _entry(name, data) == entry and not _is_intact(folder, entry):
            storage.write(storage.join(folder, name), data)


def _is_intact(folder: str, entry: manifest.FileEntry) -> bool:
    try:
        written = storage.digest(folder, entry.name)
    except errors.FormatError:
        return False
    return written == storage.Written(entry.size_bytes, entry.sha256)


def _summed(first: Any, second: Any) -> Any:
    """Returns the statistics of two tables together."""
    if isinstance(first, Mapping):
        keys = sorted({*first, *second})
        return {
            key: _outer(key, first[key], second[key])
            if key in ("min", "max")
            else _summed(first.get(key, 0), second.get(key, 0))
            for key in keys
        }
    return first + second


def _outer(key: str, first: int | None, second: int | None) -> int | None:
    """Returns the smaller or the larger end of two ranges, either of which may be empty."""
    ends = [end for end in (first, second) if end is not None]
    return (min if key == "min" else max)(ends, default=None)


class LeftOut(NamedTuple):
    """The sides of a dataset's selected replays that are not episodes.

    Attributes:
        quarantine: the sides that failed.
        unselected: the sides that the selection leaves out.
    """

    quarantine: tuple[table.QuarantineRow, ...]
    unselected: tuple[table.UnselectedRow, ...]


def read_left_out(
    folder: str, content: manifest.Manifest, *, last: bool = False
) -> LeftOut:
    """Returns the rows of the quarantine and of the sides that the selection leaves out.

    Datasets of earlier releases have both in the quarantine; here they are apart.

    Args:
        folder: path or URL of the dataset.
        content: its manifest.
        last: whether to read those of the last increment alone, if there is one.
    """
    first = -1 if last else 0
    rows = [
        table.QuarantineRow(**row)
        for entry in content.tables(table.QUARANTINE)[first:]
        for row in _read(folder, entry.name, table.QUARANTINE_SCHEMA)
    ]
    if content.lists(table.UNSELECTED):
        unselected = [
            row
            for entry in content.tables(table.UNSELECTED)[first:]
            for row in _read(folder, entry.name, table.UNSELECTED_SCHEMA)
        ]
        return LeftOut(
            tuple(rows), tuple(table.UnselectedRow(**row) for row in unselected)
        )
    return LeftOut(
        tuple(row for row in rows if row.detail != table.UNSELECTED_DETAIL),
        tuple(
            table.UnselectedRow(
                replay_id=row.replay_id,
                player_id=row.player_id or 0,
                source=row.source,
                reason=row.reason,
            )
            for row in rows
            if row.detail == table.UNSELECTED_DETAIL
        ),
    )


def _read(folder: str, name: str, schema: pyarrow.Schema) -> list[dict[str, Any]]:
    url = storage.join(folder, name)
    rows: list[dict[str, Any]] = table.parse_table(
        storage.read(url), schema, url
    ).to_pylist()
    return rows
