"""Indexing, selecting and planning five million replays, and reading a plan and a pack.

Measured are memory, requests and the size of the job's graph.
"""

import dataclasses
import hashlib
import os
import zipfile
from pathlib import Path

import apache_beam as beam
import numpy as np

from perf.row import Row
from perf.scale import bounds, counted_store, synthetic_index
from starmill.pipelines import index, plan, stages
from starmill.pipelines.inputs import sources, unit_list
from starmill.pipelines.planning import census, packets
from starmill.schema import replay_index, selection, storage

_MOST_MB = 1000.0
# A tenth shows the same faults ten times as fast: STARMILL_SCALE_ROWS=500000.
ROWS = int(os.environ.get("STARMILL_SCALE_ROWS", synthetic_index.ROWS))
# Reading every packet and every shard makes an object of each row twice. The
# measurements are ratios, for which a tenth of the rows is enough.
READ_ROWS = ROWS // 10


def _index(rows: int = ROWS) -> Path:
    return synthetic_index.cached(bounds.folder(), rows)


def _hash(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def index_graph() -> list[Row]:
    """Measures the graph of the job that indexes loose files in an object store."""
    folder = counted_store.address(bounds.folder() / f"units-{ROWS}")
    of_a_unit = sources.REPLAYS_PER_UNIT
    units = [
        sources.Unit(
            files=tuple(
                # Named by a hash, as in packs: such names cannot be compressed.
                f"s3://bucket/replays/{_hash(number)}.SC2Replay"
                for number in range(begin, min(begin + of_a_unit, ROWS))
            ),
            digest=_hash(begin),
        )
        for begin in range(0, ROWS, of_a_unit)
    ]
    counted_store.COUNTS.clear()
    began = bounds.core_seconds()
    name = unit_list.write(folder, units)
    seconds = bounds.core_seconds() - began
    counts = dict(counted_store.COUNTS)
    pipeline = beam.Pipeline()
    settings = index.IndexSettings(selection=selection.PRESETS["unplugged"])
    index.build(pipeline, name, "s3://bucket/index.parquet", settings, folder)
    title = f"index {ROWS:,} loose files"
    size = pipeline.to_runner_api().ByteSize()
    return [
        bounds.at_most(f"{title}: the job's graph", "bytes", size, 1e6),
        bounds.at_most(
            f"{title}: list of units", "MB", counts["put_bytes"] / 1e6, None
        ),
        bounds.at_most(f"{title}: core seconds to write the list", "s", seconds, None),
    ]


def select() -> list[Row]:
    """Measures `starmill select`."""
    url = str(_index())
    bounds.reset_peak()
    began = bounds.core_seconds()
    batches = replay_index.read_batches(url, census.COLUMNS)
    census.take(batches, selection.PRESETS["unplugged"])
    return [
        bounds.at_most(
            f"select {ROWS:,} rows: memory", "MB", bounds.peak_mb(), _MOST_MB
        ),
        bounds.at_most(
            f"select {ROWS:,} rows: core seconds",
            "s",
            bounds.core_seconds() - began,
            None,
        ),
    ]


def make() -> list[Row]:
    """Measures the plan of a build."""
    url = str(_index())
    work = bounds.folder() / f"work-{ROWS}"
    bounds.reset_peak()
    began = bounds.core_seconds()
    build_plan = plan.make(
        url, selection.PRESETS["unplugged"], str(work), replays_per_shard=64
    )
    memory, seconds = bounds.peak_mb(), bounds.core_seconds() - began
    return [
        bounds.at_most(f"plan {ROWS:,} rows: memory", "MB", memory, _MOST_MB),
        bounds.at_most(f"plan {ROWS:,} rows: core seconds", "s", seconds, None),
        bounds.at_most(
            f"plan {ROWS:,} rows: selected", "replays", build_plan.selected, None
        ),
    ]


def read() -> list[Row]:
    """Measures what workers read of a plan: its files' places, each packet, and each shard once."""
    url = str(_index(READ_ROWS))
    work = counted_store.address(bounds.folder() / f"read-{READ_ROWS}")
    build_plan = plan.make(
        url, selection.PRESETS["unplugged"], work, replays_per_shard=64
    )
    folder = storage.join(work, packets.folder_name(build_plan.digest))
    size = sum(storage.sizes(folder).values())
    counted_store.COUNTS.clear()
    replays, last = 0, None
    for file in range(build_plan.files):
        for packet in packets.packets_of(folder, file):
            replays += len(packets.read(folder, packet.file, packet.begin, packet.end))
            if packet.shard != last:  # what the worker reads that joins the shard
                packets.read_shard(folder, packet)
                last = packet.shard
    if replays != build_plan.selected:
        raise SystemExit(
            f"perf: {replays:,} of {build_plan.selected:,} replays were read"
        )
    counts = counted_store.COUNTS
    whole = f"plan of {READ_ROWS:,} rows"
    return [
        bounds.at_most(
            f"{whole}: bytes that all workers read, in plans",
            "x",
            counts["get_bytes"] / size,
            2.0,
        ),
        bounds.at_most(
            f"{whole}: requests a packet",
            "requests",
            counts["get"] / build_plan.packets,
            2.0,
        ),
        bounds.at_most(
            f"{whole}: replays a packet", "replays", replays / build_plan.packets, None
        ),
    ]


def pack() -> list[Row]:
    """Measures one replay out of a pack of 60,000 in an object store."""
    path = bounds.folder() / "pack.zip"
    members = synthetic_index.MEMBERS_OF_A_PACK
    rng = np.random.default_rng(3)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(members):
            name = f"{number:064x}.SC2Replay"
            file.writestr(zipfile.ZipInfo(name), rng.bytes(1000), zipfile.ZIP_DEFLATED)
    address = counted_store.address(path)
    unit = sources.Unit(
        pack=address, begin=members // 2, end=members // 2 + 1, digest=""
    )
    (row,) = index.rows_of(unit, index.IndexSettings())
    rows = []
    for name, one, bounded in (
        ("by its range", row, True),
        (
            "by the directory, as earlier indexes have it",
            dataclasses.replace(row, member_offset=None),
            False,
        ),
    ):
        counted_store.COUNTS.clear()
        data = stages.read_replay(one)
        if hashlib.sha256(data).hexdigest() != row.replay_id:
            raise SystemExit("perf: another replay was read")
        excess = counted_store.COUNTS["get_bytes"] - (row.member_bytes or 0)
        title = f"a replay of a pack of {members:,}, {name}"
        rows += [
            bounds.at_most(
                f"{title}: requests",
                "requests",
                counted_store.requests(),
                1.0 if bounded else None,
            ),
            bounds.at_most(
                f"{title}: bytes beyond its own",
                "bytes",
                excess,
                65536.0 if bounded else None,
            ),
        ]
    return rows
