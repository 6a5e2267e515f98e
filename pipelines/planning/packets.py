"""The files of a work list: packets of replays, each of which a worker reads on its own.

In: rows of replays to play, as Arrow. Out: files of packets, and packets again as `WorkItem`s.

    plan-90af.../00000.packets   packets: the length in 4 bytes, then a record batch under zstd
    plan-90af.../00000.json      where each packet begins, and its shard

A packet has replays of one shard and one game version. The packets of a shard follow each other in
one file, so one read gives a packet or a whole shard, whatever the length of the list.
"""

import dataclasses
import itertools
import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import zstandard

from starmill.schema import errors, replay_index, storage
from starmill.schema.replay_row import ReplayRow, row_from_columns

_FOLDER = r"plan-[0-9a-f]{16}"
# Lists of earlier releases are single Parquet files.
_NAME = re.compile(rf"{_FOLDER}(/\d{{5}}\.(packets|json)|\.parquet)")
_LENGTH = struct.Struct("<I")
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
        offsets: where its first record begins in the shard, and where its last one ends.
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


class Packet(NamedTuple):
    """Where a packet is. Only this travels through Beam, not the packet itself.

    Attributes:
        file: number of the file.
        begin: first byte in it.
        end: one after its last byte.
        shard: name of the shard that its episodes go to.
        of: how many packets the shard has.
        shard_begin: first byte of the shard's packets.
        shard_end: one after their last byte.
    """

    file: int
    begin: int
    end: int
    shard: str
    of: int
    shard_begin: int
    shard_end: int


def folder_name(digest: str) -> str:
    """Returns the name of the folder of a work list with this digest."""
    return f"plan-{digest}"


def is_name(name: str) -> bool:
    """Returns whether a work list can have this file, relative to the work folder."""
    return _NAME.fullmatch(name) is not None


def _file_name(number: int) -> str:
    return f"{number:05d}.packets"


def _places_name(number: int) -> str:
    return f"{number:05d}.json"


def encode(batch: pa.RecordBatch) -> bytes:
    """Returns the bytes of a packet of these rows, which have the columns of SCHEMA."""
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    body = compressor.compress(batch.serialize().to_pybytes())
    return _LENGTH.pack(len(body)) + body


class ShardPlace(NamedTuple):
    """Where the packets of a shard are, which follow each other.

    Attributes:
        name: of the shard.
        sizes: bytes of each packet.
    """

    name: str
    sizes: list[int]


def write_file(
    folder: str, number: int, data: bytes, places: Sequence[ShardPlace]
) -> None:
    """Writes one file of a work list: its packets, then where they are."""
    name = _file_name(number)
    storage.write(storage.join(folder, name), data)
    text = json.dumps(places, separators=(",", ":"))
    storage.write(storage.join(folder, _places_name(number)), text.encode())


def packets_of(folder: str, number: int) -> Iterator[Packet]:
    """Yields where the packets of one file are, in order."""
    content = storage.read(storage.join(folder, _places_name(number)))
    begin = 0
    for name, sizes in json.loads(content):
        ends = list(itertools.accumulate(sizes, initial=begin))
        for first, last in itertools.pairwise(ends):
            yield Packet(number, first, last, name, len(sizes), begin, ends[-1])
        begin = ends[-1]


def read_shard(folder: str, packet: Packet) -> list[WorkItem]:
    """Returns all replays of a packet's shard, with one read."""
    return read(folder, packet.file, packet.shard_begin, packet.shard_end)


def read(folder: str, file: int, begin: int, end: int) -> list[WorkItem]:
    """Returns the replays of the packets in a range of a file, with one read."""
    reader = storage.RangeReader(folder)
    try:
        data = memoryview(reader.read(_file_name(file), begin, end))
    finally:
        reader.close()
    items: list[WorkItem] = []
    while data:
        size = _LENGTH.unpack_from(data)[0]
        items += _items(bytes(data[_LENGTH.size : _LENGTH.size + size]), folder)
        data = data[_LENGTH.size + size :]
    return items


def _items(body: bytes, where: str) -> Iterator[WorkItem]:
    try:
        content = pa.py_buffer(zstandard.ZstdDecompressor().decompress(body))
        rows = pa.ipc.read_record_batch(content, SCHEMA).to_pylist()
    except (zstandard.ZstdError, pa.ArrowException, OSError) as error:
        raise errors.FormatError(
            f"{where}: the work list is damaged: {error}"
        ) from error
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
