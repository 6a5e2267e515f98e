"""Turns the rows of all shards into a dataset's tables, and into what its manifest needs.

In: the results of shards, in the work folder. Out: the tables, in the output, and a summary. Workers
merge the rows of some hundred shards each; one of them then writes the tables from these, with the
rows of a few hundred shards in memory. The process that starts the job reads the summary alone.
"""

import collections
import concurrent.futures
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from starmill.pipelines import claims
from starmill.pipelines.joining import joining
from starmill.pipelines.work_folder import Target, reported
from starmill.schema import assembly, errors, manifest, shards, storage, table

# Shards of one merged file: some 16,000 episodes.
MERGED_SHARDS = 128
# Reads that wait for a store at the same time.
_READS = 16
# Failures that are kept to be shown.
EXAMPLES = 100
_KEY = b"starmill.shards"
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Summary(NamedTuple):
    """What is known of all shards.

    Attributes:
        names: of the shards, also of those without episodes.
        entries: of the shards with episodes, for the manifest.
        tables: what was written beside them.
        failed: reason -> sides in the quarantine.
        examples: the first rows of the quarantine.
        unselected: sides that the selection leaves out.
    """

    names: tuple[str, ...]
    entries: tuple[shards.ShardEntry, ...]
    tables: assembly.Tables
    failed: Mapping[str, int]
    examples: tuple[table.QuarantineRow, ...]
    unselected: int


def group_of(name: str) -> str:
    """Returns the name of the merged file that a shard's rows go to."""
    number, _ = shards.numbers_of_name(name)
    return f"{shards.split_of_name(name)}-{number // MERGED_SHARDS:05d}"


def merge(target: Target, group: str, names: Iterable[str]) -> None:
    """Writes the rows of some shards, in the order of their names, as one file."""
    results = {}
    ordered = sorted(set(names))
    for name, result in _ahead(lambda n: joining.read_shard_result(target, n), ordered):
        if result is None:
            raise errors.FormatError(
                f"{target.shard_result(name)}: missing or damaged; run the command again"
            )
        results[name] = result
    with reported(f"{target.work}: cannot be written"):
        storage.write(target.tables(group), table.to_parquet(merged(results)))


def merged(results: Mapping[str, joining.ShardResult]) -> pa.Table:
    """Returns the rows of some shards, with what else is known of them in the metadata."""
    content = [
        {
            "name": name,
            "entry": dataclasses.asdict(result.entry) if result.entry else None,
            "quarantine": [dataclasses.asdict(row) for row in result.quarantine],
            "unselected": [dataclasses.asdict(row) for row in result.unselected],
        }
        for name, result in results.items()
    ]
    rows = pa.concat_tables([result.episodes for result in results.values()])
    return rows.combine_chunks().replace_schema_metadata({_KEY: json.dumps(content)})


def _ahead(
    read: Callable[[_Item], _Result], items: Sequence[_Item], count: int = _READS
) -> Iterator[tuple[_Item, _Result]]:
    """Yields each item with what is read for it, while the next ones are being read."""
    with concurrent.futures.ThreadPoolExecutor(count) as executor:
        waiting = collections.deque(
            (item, executor.submit(read, item)) for item in items[:count]
        )
        for place in range(len(items)):
            item, future = waiting.popleft()
            if place + count < len(items):
                following = items[place + count]
                waiting.append((following, executor.submit(read, following)))
            yield item, future.result()


class _Rows:
    """Collects all rows that are not episodes while the episodes stream past."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.entries: list[shards.ShardEntry] = []
        self._quarantine = [table.QUARANTINE_SCHEMA.empty_table()]
        self._unselected = [table.UNSELECTED_SCHEMA.empty_table()]

    def episodes(self, target: Target, groups: Sequence[str]) -> Iterator[pa.Table]:
        """Yields the rows of the episode table in order, and keeps the others."""
        for _, data in _ahead(lambda g: storage.read(target.tables(g)), groups, 2):
            rows = pq.read_table(
                pa.BufferReader(data),
                page_checksum_verification=True,
                use_threads=False,
            )
            for shard in json.loads(rows.schema.metadata[_KEY]):
                self.names.append(shard["name"])
                if shard["entry"]:
                    self.entries.append(shards.ShardEntry(**shard["entry"]))
                for to, schema, name in (
                    (self._quarantine, table.QUARANTINE_SCHEMA, "quarantine"),
                    (self._unselected, table.UNSELECTED_SCHEMA, "unselected"),
                ):
                    if shard[name]:
                        to.append(pa.Table.from_pylist(shard[name], schema))
            yield rows.replace_schema_metadata(None)

    def quarantine(self) -> pa.Table:
        return table.sort_left_out(pa.concat_tables(self._quarantine))

    def unselected(self) -> pa.Table:
        return table.sort_left_out(pa.concat_tables(self._unselected))


def finish(target: Target, groups: Iterable[str]) -> None:
    """Writes the tables of the dataset, and the summary, from the merged rows."""
    if target.token:
        claims.check(target.output, target.token)
    rows = _Rows()
    episodes = rows.episodes(target, sorted(set(groups)))
    with reported(f"{target.output}: cannot be written"):
        tables = assembly.write_tables(
            target.output,
            episodes,
            rows.quarantine,
            rows.unselected,
            target.increment,
        )
    quarantine = rows.quarantine()
    failed = quarantine.column("reason").value_counts().to_pylist()
    content = {
        "names": rows.names,
        "entries": [dataclasses.asdict(entry) for entry in rows.entries],
        "tables": {
            **tables._asdict(),
            "files": [dataclasses.asdict(entry) for entry in tables.files],
        },
        "failed": {item["values"]: item["counts"] for item in failed},
        "examples": quarantine.slice(0, EXAMPLES).to_pylist(),
        "unselected": rows.unselected().num_rows,
    }
    with reported(f"{target.work}: cannot be written"):
        storage.write(target.summary, json.dumps(content).encode())


def read_summary(target: Target) -> Summary:
    """Returns the summary; FormatError if there is none."""
    url = target.summary
    try:
        content: dict[str, Any] = json.loads(storage.read(url))
        tables = content["tables"]
        files = tuple(manifest.FileEntry(**entry) for entry in tables.pop("files"))
        return Summary(
            names=tuple(content["names"]),
            entries=tuple(shards.ShardEntry(**entry) for entry in content["entries"]),
            tables=assembly.Tables(files=files, **tables),
            failed=content["failed"],
            examples=tuple(table.QuarantineRow(**row) for row in content["examples"]),
            unselected=content["unselected"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise errors.FormatError(
            f"{url}: damaged ({error}); run the command again"
        ) from error
