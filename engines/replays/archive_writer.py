"""Writes MPQ archives: the bytes of one `.SC2Replay` or `.SC2Map`.

In: members by name, and the user data in front of the archive. Out: a file in version 4 of
the format, as the game writes it:

    byte 0       user data: a header of 16 bytes, and a replay's own header
    byte 1024    the archive's header, 208 bytes with digests
    then         the members, each whole and bzip2-compressed where that saves a byte;
                 the list of names; the hash table; the block table

A plain archive starts with its own header at byte 0. bzip2 gives the same bytes on every
build of Python, which zlib does not. Knows nothing of replays.
"""

import bz2
import hashlib
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from starmill.engines.replays import archive

_USER_DATA_RESERVED_BYTES = 512
_USER_DATA_BYTES = _USER_DATA_RESERVED_BYTES - archive.USER_DATA_HEADER.size
_ARCHIVE_START = 1024
_HEADER_SIZE = 208
_FORMAT_VERSION_4 = 3  # versions count from 0
_SECTOR_SHIFT = 5
_RAW_CHUNK_SIZE = 0x4000
# What version 4 adds to `archive.ARCHIVE_HEADER`: high bits of offsets, the archive's size,
# offsets of two further tables, sizes of all five tables, and the size of a digest's chunk.
_HEADER_EXTENSION = struct.Struct("<Q2H8QI")
_NO_DIGEST = bytes(16)
_FEWEST_SLOTS = 16
_EMPTY_SLOT = (0xFFFFFFFF,) * 4


def write(members: Mapping[str, bytes], user_data: bytes | None = None) -> bytes:
    """Returns an archive of these members in their order, with a list of their names.

    Args:
        members: content by name.
        user_data: what stands in front of the archive (a replay's header), up to 496
            bytes; None writes a plain archive.
    """
    if user_data is not None and len(user_data) > _USER_DATA_BYTES:
        raise ValueError(
            f"user data: expected at most {_USER_DATA_BYTES} bytes, found {len(user_data)}"
        )
    names = [*members, "(listfile)"]
    listfile = "".join(f"{name}\r\n" for name in members).encode("ascii")
    blocks: list[tuple[int, int, int, int]] = []
    body = bytearray()
    for content in [*members.values(), listfile]:
        packed = bytes([archive.BZIP2]) + bz2.compress(content)
        stored = packed if len(packed) < len(content) else content
        flags = archive.EXISTS | archive.SINGLE_UNIT | archive.COMPRESSED
        blocks.append((_HEADER_SIZE + len(body), len(stored), len(content), flags))
        body += stored
    hash_table = _encrypted(_hash_slots(names), archive.HASH_TABLE)
    block_table = _encrypted(blocks, archive.BLOCK_TABLE)
    size = _HEADER_SIZE + len(body) + len(hash_table) + len(block_table)
    whole = _header(size, hash_table, block_table) + body + hash_table + block_table
    return whole if user_data is None else _front(user_data) + whole


def _hash_slots(names: list[str]) -> list[tuple[int, ...]]:
    """Returns the hash table's entries: each name in its slot, or in the next free one."""
    count = _FEWEST_SLOTS
    while count < 2 * len(names):
        count *= 2
    slots: list[tuple[int, ...] | None] = [None] * count
    for block, name in enumerate(names):
        slot = archive.name_hash(name, archive.HASH_SLOT) % count
        while slots[slot] is not None:
            slot = (slot + 1) % count
        first = archive.name_hash(name, archive.HASH_A)
        second = archive.name_hash(name, archive.HASH_B)
        slots[slot] = (first, second, 0, block)
    return [_EMPTY_SLOT if slot is None else slot for slot in slots]


def _encrypted(entries: Sequence[tuple[int, ...]], name: str) -> bytes:
    words = np.array(entries, "<u4").reshape(-1)
    return archive.encrypt_table(words, name).tobytes()


def _header(archive_size: int, hash_table: bytes, block_table: bytes) -> bytes:
    block_offset = archive_size - len(block_table)
    hash_offset = block_offset - len(hash_table)
    header = archive.ARCHIVE_HEADER.pack(
        archive.ARCHIVE_MAGIC,
        _HEADER_SIZE,
        archive_size,
        _FORMAT_VERSION_4,
        _SECTOR_SHIFT,
        hash_offset,
        block_offset,
        len(hash_table) // 16,
        len(block_table) // 16,
    )
    header += _HEADER_EXTENSION.pack(
        *(0, 0, 0),
        archive_size,
        *(0, 0),
        len(hash_table),
        len(block_table),
        *(0, 0, 0),
        _RAW_CHUNK_SIZE,
    )
    digests = [hashlib.md5(table).digest() for table in (block_table, hash_table)]
    header += b"".join([*digests, *[_NO_DIGEST] * 3])
    return header + hashlib.md5(header).digest()


def _front(user_data: bytes) -> bytes:
    header = archive.USER_DATA_HEADER.pack(
        archive.USER_DATA_MAGIC,
        _USER_DATA_RESERVED_BYTES,
        _ARCHIVE_START,
        len(user_data),
    )
    return (header + user_data).ljust(_ARCHIVE_START, b"\0")
