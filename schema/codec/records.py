"""The frame of a record: what stands before the compressed payload, and the compression.

In: payloads, or the records of an episode. Out: the other. Knows no arrays;
`docs/format.md` describes the bytes.

    header   "SM" | version u8 | kind 0, u8 | schema, 8 bytes | zstd frame
    chunk    "SM" | version u8 | kind 1, u8 | digest, 8 bytes | number u32 | steps u8 |
             delay before i32 | zstd frame

A chunk's digest is that of its episode's header, whose payload is also the dictionary that the
chunk is compressed with.
"""

import hashlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import zstandard

from starmill.schema import errors

VERSION = 1
# More steps compress better and read slower; masks have a bit per step.
STEPS_PER_CHUNK = 32
LEVEL = 15
ZSTD_VERSION = ".".join(str(part) for part in zstandard.ZSTD_VERSION)

_MAGIC = b"SM"
_HEADER, _CHUNK = 0, 1
_KINDS = {_HEADER: "header", _CHUNK: "chunk"}
# Magic, version, kind, and the bytes that tie the record to its spec or its header.
_PREFIX = struct.Struct("<2sBB8s")
_POSITION = struct.Struct("<IBi")
_TIE_BYTES = 8


class Position(NamedTuple):
    """Where a chunk is in its episode.

    Attributes:
        number: of the chunk, from 0.
        steps: how many it holds, 1 to STEPS_PER_CHUNK.
        delay_before: `action/delay` of the step before its first; 0 in the first chunk.
    """

    number: int
    steps: int
    delay_before: int


def header_record(fingerprint: bytes, payload: bytes, level: int) -> bytes:
    """Returns the record of an episode's header. fingerprint: first 8 bytes of the spec's."""
    prefix = _PREFIX.pack(_MAGIC, VERSION, _HEADER, fingerprint)
    return prefix + bytes(compressor(level, None).compress(payload))


def chunk_record(
    digest: bytes, position: Position, payload: bytes, compressor: Any
) -> bytes:
    """Returns the record of a chunk. digest: of the header's record."""
    prefix = _PREFIX.pack(_MAGIC, VERSION, _CHUNK, digest)
    return prefix + _POSITION.pack(*position) + bytes(compressor.compress(payload))


def open_header(record: bytes, fingerprint: bytes, most: int, where: str) -> bytes:
    """Returns the payload of a header; raises unless it was encoded for this spec.

    most: the most bytes that the payload of one step can have.
    """
    tie = _parse(record, _HEADER, where)
    if tie != fingerprint:
        raise errors.ManifestMismatch(
            f"{where}: expected arrays of the spec {fingerprint.hex()}..., which follows from "
            f"these settings; found a record encoded for the spec {tie.hex()}..."
        )
    return _inflate(decompressor(None), record[_PREFIX.size :], most, where)


def open_chunk(
    record: bytes,
    digest: bytes,
    decompressor: Any,
    most: Callable[[int], int],
    where: str,
) -> tuple[Position, bytes]:
    """Returns a chunk's position and payload; raises unless it belongs to this header.

    most: the most bytes that the payload of so many steps can have.
    """
    tie = _parse(record, _CHUNK, where)
    if tie != digest:
        raise errors.ShardCorrupt(
            f"{where}: expected a chunk of the header {digest.hex()}, found a chunk of "
            f"another episode, whose header is {tie.hex()}"
        )
    position = Position(*_POSITION.unpack_from(record, _PREFIX.size))
    if not 1 <= position.steps <= STEPS_PER_CHUNK:
        raise errors.ShardCorrupt(
            f"{where}: expected 1 to {STEPS_PER_CHUNK} steps, found {position.steps}"
        )
    frame = record[_PREFIX.size + _POSITION.size :]
    return position, _inflate(decompressor, frame, most(position.steps), where)


def digest(record: bytes) -> bytes:
    """Returns the digest of a header's record, which its chunks repeat."""
    return hashlib.sha256(record).digest()[:_TIE_BYTES]


def compressor(level: int, dictionary: bytes | None) -> Any:
    """Returns a zstd compressor whose frames have sizes and checksums."""
    return zstandard.ZstdCompressor(
        level=level,
        dict_data=_dictionary(dictionary),
        write_checksum=True,
        write_content_size=True,
    )


def decompressor(dictionary: bytes | None) -> Any:
    """Returns a zstd decompressor."""
    return zstandard.ZstdDecompressor(dict_data=_dictionary(dictionary))


def _dictionary(content: bytes | None) -> Any:
    if content is None:
        return None
    return zstandard.ZstdCompressionDict(
        content, dict_type=zstandard.DICT_TYPE_RAWCONTENT
    )


def _parse(record: bytes, kind: int, where: str) -> bytes:
    """Checks a record's prefix; returns the bytes that tie it to its spec or its header."""
    least = _PREFIX.size + _POSITION.size
    if len(record) < least:
        raise errors.ShardCorrupt(
            f"{where}: expected a record of {least} bytes or more, found {len(record)}"
        )
    magic, version, found_kind, tie = _PREFIX.unpack_from(record)
    if magic != _MAGIC:
        raise errors.ShardCorrupt(f"{where}: not a record of a starmill shard")
    if version != VERSION:
        raise errors.FormatError(
            f"{where}: codec version {version}; this release reads version {VERSION}. "
            f"Read the dataset with the release that its manifest names"
        )
    if found_kind != kind:
        raise errors.ShardCorrupt(
            f"{where}: expected a {_KINDS[kind]}, found "
            f"{_KINDS.get(found_kind, f'kind {found_kind}')}"
        )
    return bytes(tie)


def _inflate(decompressor: Any, frame: bytes, most: int, where: str) -> bytes:
    try:
        # The decompressor allocates the size that the frame states before it reads the content.
        size = zstandard.frame_content_size(frame)
        if not 0 <= size <= most:
            raise errors.ShardCorrupt(
                f"{where}: expected a payload of at most {most:,} bytes, found a frame "
                f"of {'unknown size' if size < 0 else f'{size:,}'}"
            )
        return bytes(decompressor.decompress(frame))
    except zstandard.ZstdError as error:
        raise errors.ShardCorrupt(f"{where}: {error}") from error
