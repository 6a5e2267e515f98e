"""Shards: the files of records, and parts, the pieces that shards are joined from.

Both are TFRecord files (length, its masked crc32c, data, its masked crc32c), so TensorFlow,
Beam and friends can iterate over them. In a **shard** an episode's records are contiguous
(header, then chunks: `codec`) and episodes are sorted by id; the episode table says where
each record begins. A **part** holds the episodes of one replay: its first record is JSON,
`{"part": 1, "episodes": [{meta fields..., "record_bytes": [..]}, ..]}`, and the episodes' records
follow in the same order. Parts have deterministic names and bytes, so a part that exists
need not be made again, and joining is copying.

Split and shard of an episode follow from its replay's id alone.
"""

import dataclasses
import hashlib
import json
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import google_crc32c

from starmill.schema import episode, errors, storage

PART_VERSION = 1
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
# Bytes that framing adds: length and its check before the data, the data's check after.
BEFORE, AFTER = _LENGTH.size + _CRC.size, _CRC.size
# The framing and the first bytes of a record, without any content.
LEAST_RECORD_BYTES = BEFORE + AFTER + 12
_NAME = re.compile(r"^([a-z]+)-(\d{5})-of-(\d{5})(?:\.(\d{4}))?\.tfrecord$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpisodeRecords:
    """An encoded episode.

    Attributes:
        meta: its metadata.
        records: its records, header first.
    """

    meta: episode.EpisodeMeta
    records: Sequence[bytes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """One shard, as the manifest describes it.

    Attributes:
        name: file name beside the manifest.
        split: the split that its episodes belong to.
        episodes: number of episodes; never 0, because empty shards are not written.
        steps: of all its episodes.
        size_bytes: of the whole file.
        sha256: of the whole file, hex.
    """

    name: str
    split: str
    episodes: int
    steps: int
    size_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placed:
    """Where an episode's records are.

    Attributes:
        meta: the episode's metadata.
        split: the split of its shard.
        shard: file name of its shard.
        offsets: byte offsets in the shard: of each record, header first, and of their
            end.
        sha256: of the records' bytes in order, unframed: the episode's content, hex.
    """

    meta: episode.EpisodeMeta
    split: str
    shard: str
    offsets: tuple[int, ...]
    sha256: str


def shard_name(split: str, index: int, count: int, increment: int = 0) -> str:
    """Returns a shard's file name, e.g. "train-00003-of-00064.tfrecord".

    That of an increment has its number too: "train-00000-of-00002.0001.tfrecord".
    """
    mark = f".{increment:04d}" if increment else ""
    return f"{split}-{index:05d}-of-{count:05d}{mark}.tfrecord"


def is_shard_name(name: str) -> bool:
    """Returns whether a shard can have this file name."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match[2]) < int(match[3]) and match[4] != "0000"


def split_of_name(name: str) -> str:
    """Returns the split that a shard's name begins with."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise errors.FormatError(
            f"{name!r}: expected a shard name like train-00000-of-00064.tfrecord"
        )
    return match.group(1)


def numbers_of_name(name: str) -> tuple[int, int]:
    """Returns a shard's number in its split, and how many shards the split has, from its name."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise errors.FormatError(f"{name!r}: expected a shard's name")
    return int(match[2]), int(match[3])


def increment_of_name(name: str) -> int:
    """Returns the number of the increment that a shard belongs to; 0 for the base."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise errors.FormatError(f"{name!r}: expected a shard's name")
    return int(match[4] or 0)


def shard_of(replay_id: str, count: int) -> int:
    """Returns which of `count` shards of its split an episode of this replay goes to.

    By ranges of a hash, not by remainder: with twice the shards the global order stays.
    """
    if count < 1:
        raise errors.ConfigError(f"shards: expected at least 1, found {count}")
    digest = hashlib.sha256(f"starmill shard {replay_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * count >> 64


def frame_record(data: bytes) -> bytes:
    """Returns a record as it stands in the file."""
    length = _LENGTH.pack(len(data))
    return b"".join(
        [length, _CRC.pack(_masked_crc(length)), data, _CRC.pack(_masked_crc(data))]
    )


def unframe_record(framed: bytes, where: str) -> bytes:
    """Returns the data of exactly one framed record; ShardCorrupt, naming where, if damaged."""
    if len(framed) < BEFORE + AFTER:
        raise errors.ShardCorrupt(f"{where}: only {len(framed)} bytes of a record")
    length = framed[: _LENGTH.size]
    if _CRC.unpack_from(framed, _LENGTH.size)[0] != _masked_crc(length):
        raise errors.ShardCorrupt(f"{where}: the record's length is damaged (crc32c)")
    size = _LENGTH.unpack(length)[0]
    if size + BEFORE + AFTER != len(framed):
        raise errors.ShardCorrupt(
            f"{where}: expected a record of {len(framed) - BEFORE - AFTER} bytes, "
            f"found one of {size}"
        )
    data = framed[BEFORE:-AFTER]
    if _CRC.unpack_from(framed, len(framed) - AFTER)[0] != _masked_crc(data):
        raise errors.ShardCorrupt(f"{where}: the record's data is damaged (crc32c)")
    return data


def records_of(data: bytes, where: str) -> Iterator[bytes]:
    """Yields the records of a whole file's bytes."""
    begin = 0
    number = 0
    while begin < len(data):
        place = f"{where}: record {number} at byte {begin}"
        if begin + BEFORE > len(data):
            raise errors.ShardCorrupt(f"{place}: the file ends inside it")
        length = data[begin : begin + _LENGTH.size]
        if _CRC.unpack_from(data, begin + _LENGTH.size)[0] != _masked_crc(length):
            raise errors.ShardCorrupt(f"{place}: its length is damaged (crc32c)")
        end = begin + BEFORE + _LENGTH.unpack(length)[0] + AFTER
        if end > len(data):
            raise errors.ShardCorrupt(f"{place}: the file ends inside it")
        yield unframe_record(data[begin:end], place)
        begin = end
        number += 1


def write_shard(
    folder: str, name: str, episodes: Iterable[EpisodeRecords]
) -> tuple[ShardEntry, list[Placed]]:
    """Writes a shard atomically; episodes must come sorted by id, and at least one.

    Returns its entry for the manifest and, per episode, where it is, for the table.
    """
    split = split_of_name(name)
    placed: list[Placed] = []

    def pieces() -> Iterator[bytes]:
        at = 0
        for item in episodes:
            if placed and item.meta.episode_id <= placed[-1].meta.episode_id:
                raise errors.SpecError(
                    f"{name}: episodes must ascend by id, found {item.meta.episode_id} "
                    f"after {placed[-1].meta.episode_id}"
                )
            offsets = [at]
            content = hashlib.sha256()
            for record in item.records:
                content.update(record)
                yield frame_record(record)
                at += BEFORE + len(record) + AFTER
                offsets.append(at)
            placed.append(
                Placed(
                    meta=item.meta,
                    split=split,
                    shard=name,
                    offsets=tuple(offsets),
                    sha256=content.hexdigest(),
                )
            )
        if not placed:
            raise errors.SpecError(f"{name}: a shard has at least one episode")

    written = storage.write(storage.join(folder, name), pieces())
    entry = ShardEntry(
        name=name,
        split=split,
        episodes=len(placed),
        steps=sum(row.meta.steps for row in placed),
        size_bytes=written.size_bytes,
        sha256=written.sha256,
    )
    return entry, placed


def write_part(url: str, episodes: Sequence[EpisodeRecords]) -> None:
    """Writes the episodes of one replay (none, one or two) as a part, atomically."""
    head = {
        "part": PART_VERSION,
        "episodes": [
            {
                **dataclasses.asdict(item.meta),
                "record_bytes": [len(record) for record in item.records],
            }
            for item in episodes
        ],
    }
    text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    records = [record for item in episodes for record in item.records]
    storage.write(url, (frame_record(record) for record in [text, *records]))


def read_part(url: str) -> list[EpisodeRecords]:
    """Returns the episodes of a part; ShardCorrupt if it is damaged."""
    records = list(records_of(storage.read(url), url))
    heads = _part_head(records, url)
    begin = 1
    out = []
    for head in heads:
        sizes = head.pop("record_bytes")
        mine = records[begin : begin + len(sizes)]
        if [len(record) for record in mine] != sizes:
            raise errors.ShardCorrupt(f"{url}: records do not match the part's list")
        try:
            meta = episode.EpisodeMeta(**head)
        except (errors.SpecError, TypeError) as error:
            raise errors.ShardCorrupt(f"{url}: {error}") from error
        out.append(EpisodeRecords(meta=meta, records=tuple(mine)))
        begin += len(sizes)
    if begin != len(records):
        raise errors.ShardCorrupt(f"{url}: {len(records) - begin} records too many")
    return out


def _part_head(records: Sequence[bytes], url: str) -> list[dict[str, Any]]:
    if not records:
        raise errors.ShardCorrupt(f"{url}: an empty file is not a part")
    try:
        head = json.loads(records[0])
    except (ValueError, RecursionError) as error:
        raise errors.ShardCorrupt(f"{url}: not a part: {error}") from error
    if not isinstance(head, dict) or head.get("part") != PART_VERSION:
        raise errors.FormatError(
            f"{url}: expected a part of version {PART_VERSION}; delete it to make it anew"
        )
    heads = head.get("episodes")
    if not isinstance(heads, list) or not all(map(_is_head, heads)):
        raise errors.ShardCorrupt(f"{url}: the part does not list its episodes")
    return heads


def _is_head(head: Any) -> bool:
    names = {field.name for field in dataclasses.fields(episode.EpisodeMeta)}
    return (
        isinstance(head, dict)
        and set(head) == names | {"record_bytes"}
        and isinstance(head["record_bytes"], list)
    )


def _masked_crc(data: bytes) -> int:
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
