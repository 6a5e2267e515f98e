"""From shards to a finished dataset: tables, card, metadata, and the manifest last.

In: what `shards.write_shard` returned for every shard, and the facts of the build.
Out: the files beside the shards. The order of the arguments does not matter to the bytes.
"""

import dataclasses
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
) -> Tables:
    """Writes the tables of a dataset, with some hundred thousand rows in memory.

    Args:
        folder: path or URL of the dataset.
        episodes: pieces of the episode table, in order; the episodes of a replay are in one.
        quarantine: returns the quarantine; called after the last episode.
        unselected: returns the sides that the selection leaves out; likewise.

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

    written = {
        table.EPISODES: write_pieces(
            storage.join(folder, table.EPISODES), table.EPISODE_SCHEMA, counted()
        )
    }
    failures = quarantine()
    for name, content in (
        (table.QUARANTINE, failures),
        (table.UNSELECTED, unselected()),
    ):
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
    files = list(tables.files)
    for name, data in (
        (card.README, card.readme(draft)),
        (card.CROISSANT, card.croissant(draft)),
    ):
        written = storage.write(storage.join(folder, name), data)
        files.append(manifest.FileEntry(name=name, **written._asdict()))
    final = dataclasses.replace(
        draft, files=tuple(sorted(files, key=lambda entry: entry.name))
    )
    manifest.write(folder, final)
    return final


class LeftOut(NamedTuple):
    """The sides of a dataset's selected replays that are not episodes.

    Attributes:
        quarantine: the sides that failed.
        unselected: the sides that the selection leaves out.
    """

    quarantine: tuple[table.QuarantineRow, ...]
    unselected: tuple[table.UnselectedRow, ...]


def read_left_out(folder: str, content: manifest.Manifest) -> LeftOut:
    """Returns the rows of the quarantine and of the sides that the selection leaves out.

    Datasets of earlier releases have both in the quarantine; here they are apart.
    """
    rows = [
        table.QuarantineRow(**row)
        for row in _read(folder, table.QUARANTINE, table.QUARANTINE_SCHEMA)
    ]
    if any(entry.name == table.UNSELECTED for entry in content.files):
        unselected = _read(folder, table.UNSELECTED, table.UNSELECTED_SCHEMA)
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
