"""Indexes replay files: a Beam pipeline that writes one Parquet file with a row per replay.

In: units of replays (`inputs.sources`). Out: an index as `schema.replay_index` defines it.
Each unit becomes a part file, which is written atomically and named by a digest of its inputs.
A run that is repeated skips the parts that exist. At the end one worker joins the parts in
order. The units are in a file beside the parts (`inputs.unit_list`), so only places in it and the
names of parts travel through Beam, and the job's graph does not grow with the number of replays.
"""

import dataclasses
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.metrics.metric import Metrics
from apache_beam.options.pipeline_options import PipelineOptions

from starmill.engines.replays import replay_file
from starmill.pipelines import local_runner
from starmill.pipelines.inputs import packs, sources, unit_list
from starmill.schema import errors, replay_index, storage
from starmill.schema.reasons import RejectReason
from starmill.schema.replay_row import ReplayRow
from starmill.schema.selection import Selection

# Goes into the name of every part. Raise it when the rows of the same file change.
FORMAT = 2
_PART_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
# Rows in memory while the index is written.
_ROWS_PER_GROUP = 32768
_COPY_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """How rows are made.

    Attributes:
        limits: what one replay may cost.
        selection: if given, game events are decoded only in replays that it would keep.
        events: whether game events are decoded at all.
        password: where workers find that of encrypted packs.
    """

    limits: replay_file.Limits = replay_file.DEFAULT_LIMITS
    selection: Selection | None = None
    events: bool = True
    password: packs.Password = dataclasses.field(default=None, repr=False)

    def fingerprint(self) -> str:
        """Returns a digest of all settings that affect the rows."""
        rules = self.selection.to_json() if self.selection else None
        text = json.dumps(
            [FORMAT, dataclasses.asdict(self.limits), rules, self.events],
            sort_keys=True,
        )
        return hashlib.sha256(text.encode()).hexdigest()


def parts_folder(out: str) -> str:
    """Returns the folder that holds the parts of an index until it is complete."""
    return f"{out}.parts"


def digest(inputs: sources.Sources, settings: IndexSettings) -> str:
    """Returns 16 hex digits that name the index of these inputs."""
    fingerprint = settings.fingerprint()
    names = [part_name(unit, fingerprint) for unit in inputs.units]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def is_part(name: str) -> bool:
    """Returns whether a folder of parts can have this file: a part, or the list of units."""
    return _PART_NAME.fullmatch(name) is not None or unit_list.is_name(name)


def part_name(unit: sources.Unit, fingerprint: str) -> str:
    """Returns the file name of a unit's part: a digest of its inputs and settings."""
    text = f"{fingerprint} {unit.digest}"
    return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.parquet"


def rows_of(unit: sources.Unit, settings: IndexSettings) -> Iterator[ReplayRow]:
    """Yields the row of each replay of a unit, including those that cannot be read."""
    if not unit.pack:
        for address in unit.files:
            yield _row(address, _file_bytes(address, settings), settings)
        return
    try:
        for member in packs.members(
            unit.pack,
            unit.begin,
            unit.end,
            password=settings.password,
            max_bytes=settings.limits.file_bytes,
        ):
            row = _row(f"{unit.pack}!{member.name}", member.data, settings)
            if member.size:
                row = dataclasses.replace(
                    row, member_offset=member.offset, member_bytes=member.size
                )
            yield row
    except errors.ReplayError as error:
        yield _row(unit.pack, error, settings)


def _file_bytes(address: str, settings: IndexSettings) -> bytes | errors.ReplayError:
    try:
        size = storage.size_bytes(address)
        if size > settings.limits.file_bytes:
            return errors.ReplayError(
                RejectReason.TOO_LARGE,
                f"expected a file of at most {settings.limits.file_bytes} bytes, "
                f"found {size}",
            )
        return storage.read(address)
    except (errors.FormatError, OSError) as error:
        return errors.ReplayError(RejectReason.UNREADABLE, str(error))


def _row(
    source: str, data: bytes | errors.ReplayError, settings: IndexSettings
) -> ReplayRow:
    if isinstance(data, errors.ReplayError):
        return ReplayRow(
            replay_id="",
            file_stem=replay_file.file_stem(source),
            source=source,
            size_bytes=0,
            status=data.reason,
            detail=data.detail,
        )
    return replay_file.replay_row(
        data,
        source,
        limits=settings.limits,
        selection=settings.selection,
        events=settings.events,
    )


class ListUnits(beam.DoFn):
    """Name of the list of units -> where each of them is."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, name: str) -> Iterator[unit_list.Place]:
        """Yields the places of all units."""
        yield from unit_list.places(self._folder, name)


class IndexUnit(beam.DoFn):
    """Place of a unit -> (number, part's name); writes the part."""

    def __init__(self, folder: str, units: str, settings: IndexSettings) -> None:
        self._folder = folder
        self._units = units
        self._settings = settings
        self._fingerprint = settings.fingerprint()

    def process(self, element: unit_list.Place) -> Iterator[tuple[int, str]]:
        """Writes one part, unless it exists."""
        place = unit_list.Place(*element)
        unit = unit_list.read(self._folder, self._units, place)
        name = part_name(unit, self._fingerprint)
        address = storage.join(self._folder, name)
        if storage.exists(address):
            Metrics.counter("index", "parts_reused").inc()
        else:
            table = replay_index.table_from_rows(rows_of(unit, self._settings))
            Metrics.counter("index", "replays").inc(table.num_rows)
            body = io.BytesIO()
            pq.write_table(table, body, compression="zstd")
            storage.write(address, body.getvalue())
        yield place.number, name


class JoinParts(beam.DoFn):
    """All (number, part's name) -> number of rows; writes the index, ordered by number."""

    def __init__(self, folder: str, out: str) -> None:
        self._folder = folder
        self._out = out

    def process(self, element: tuple[None, Iterable[tuple[int, str]]]) -> Iterator[int]:
        """Writes the index and yields its number of rows."""
        names = [name for _, name in sorted(element[1])]
        with tempfile.TemporaryFile() as file:
            rows = _join(self._folder, names, file)
            replay_index.seal(file)
            file.seek(0)
            storage.write(self._out, iter(lambda: file.read(_COPY_BYTES), b""))
        yield rows


def _join(folder: str, names: Sequence[str], file: object) -> int:
    rows = 0
    schema = replay_index.sealable_schema()
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        group: list[pa.Table] = []
        for name in names:
            body = storage.read(storage.join(folder, name))
            group.append(
                pq.read_table(
                    pa.BufferReader(body), schema=replay_index.SCHEMA, use_threads=False
                )
            )
            if sum(table.num_rows for table in group) >= _ROWS_PER_GROUP:
                rows += _write_group(writer, group)
                group = []
        rows += _write_group(writer, group)
    return rows


def _write_group(writer: pq.ParquetWriter, group: list[pa.Table]) -> int:
    if not group:
        return 0
    table = pa.concat_tables(group).combine_chunks().cast(writer.schema)
    writer.write_table(table, row_group_size=max(1, table.num_rows))
    return int(table.num_rows)


def run(
    inputs: sources.Sources,
    out: str,
    settings: IndexSettings,
    options: PipelineOptions | None = None,
    folder: str | None = None,
) -> None:
    """Runs the pipeline and writes the index to `out`.

    Args:
        inputs: the replays.
        out: path or URL of the index.
        settings: how rows are made.
        options: of Beam.
        folder: where the parts go; the one of `parts_folder` if it is None.
    """
    folder = folder or parts_folder(out)
    units = unit_list.write(folder, inputs.units)
    with local_runner.new_pipeline(
        options or PipelineOptions(["--runner=FnApiRunner"])
    ) as pipeline:
        build(pipeline, units, out, settings, folder)


def build(
    pipeline: beam.Pipeline, units: str, out: str, settings: IndexSettings, folder: str
) -> None:
    """Adds the job's stages to a pipeline.

    Args:
        pipeline: of Beam.
        units: name of the list of units, which is in the folder.
        out: path or URL of the index.
        settings: how rows are made.
        folder: where the parts go.
    """
    _ = (
        pipeline
        | "NameList" >> beam.Create([units])  # str
        | "ListUnits" >> beam.ParDo(ListUnits(folder))  # Place
        | "SpreadUnits" >> beam.Reshuffle()
        | "IndexUnits" >> beam.ParDo(IndexUnit(folder, units, settings))  # (int, str)
        | "NameParts" >> beam.WithKeys(None)
        | "GroupNames" >> beam.GroupByKey()
        | "JoinParts" >> beam.ParDo(JoinParts(folder, out))
    )


def remove_parts(out: str) -> None:
    """Deletes the parts of an index, once it is complete."""
    storage.remove(
        parts_folder(out),
        lambda name: is_part(storage.temporary_target(name) or name),
    )
