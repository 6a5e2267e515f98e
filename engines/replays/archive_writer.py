"""MPQ archives, written: members in, the bytes of one `.SC2Replay` or `.SC2Map` out.

Version 4 of the format (208-byte header with digests), as the game writes it: a block of
user data in front, members as single units, bzip2 where it gains a byte, a list of
names. bzip2 because its output, unlike zlib's, is the same on every Python build.
Knows nothing of replays.
"""

import bz2
import hashlib
import struct
from collections.abc import Mapping

USER_DATA_SIZE = 512
HEADER_OFFSET = 1024
_HEADER_SIZE = 208
_SECTOR_SHIFT = 5
_RAW_CHUNK_SIZE = 0x4000
_FILE_EXISTS = 0x80000000
_FILE_SINGLE_UNIT = 0x01000000
_FILE_COMPRESSED = 0x00000200
_BZIP2 = b"\x10"
_HASH_OFFSET, _HASH_A, _HASH_B, _HASH_KEY = range(4)
_MASK = 0xFFFFFFFF


def _crypt_table() -> tuple[int, ...]:
    table = [0] * 0x500
    seed = 0x00100001
    for i in range(0x100):
        for j in range(5):
            seed = (seed * 125 + 3) % 0x2AAAAB
            high = (seed & 0xFFFF) << 16
            seed = (seed * 125 + 3) % 0x2AAAAB
            table[j * 0x100 + i] = high | (seed & 0xFFFF)
    return tuple(table)


_CRYPT_TABLE = _crypt_table()


def _name_hash(name: str, kind: int) -> int:
    seed1, seed2 = 0x7FED7FED, 0xEEEEEEEE
    for byte in name.upper().encode("ascii"):
        seed1 = _CRYPT_TABLE[(kind << 8) + byte] ^ ((seed1 + seed2) & _MASK)
        seed2 = (byte + seed1 + seed2 + (seed2 << 5) + 3) & _MASK
    return seed1


def _encrypted(words: list[int], key: int) -> bytes:
    seed = 0xEEEEEEEE
    out = []
    for word in words:
        seed = (seed + _CRYPT_TABLE[0x400 + (key & 0xFF)]) & _MASK
        out.append(word ^ ((key + seed) & _MASK))
        key = (((~key << 21) + 0x11111111) | (key >> 11)) & _MASK
        seed = (word + seed + (seed << 5) + 3) & _MASK
    return struct.pack(f"<{len(out)}I", *out)


def _hash_table(names: list[str], entries: int) -> list[int]:
    slots: list[tuple[int, int, int, int] | None] = [None] * entries
    for block, name in enumerate(names):
        slot = _name_hash(name, _HASH_OFFSET) % entries
        while slots[slot] is not None:
            slot = (slot + 1) % entries
        slots[slot] = (_name_hash(name, _HASH_A), _name_hash(name, _HASH_B), 0, block)
    free = (_MASK, _MASK, _MASK, _MASK)
    return [word for entry in slots for word in (free if entry is None else entry)]


def _header(archive_size: int, hash_table: bytes, block_table: bytes) -> bytes:
    blocks_at = archive_size - len(block_table)
    hashes_at = blocks_at - len(hash_table)
    head = struct.pack(
        "<4s2I2H4IQ2H8QI",
        b"MPQ\x1a",
        _HEADER_SIZE,
        archive_size,
        3,  # the fourth version of the format counts from 0
        _SECTOR_SHIFT,
        hashes_at,
        blocks_at,
        len(hash_table) // 16,
        len(block_table) // 16,
        0,
        0,
        0,
        archive_size,
        0,
        0,
        len(hash_table),
        len(block_table),
        0,
        0,
        0,
        _RAW_CHUNK_SIZE,
    )
    absent = bytes(16)
    tables = (block_table, hash_table)
    head += b"".join(hashlib.md5(table).digest() for table in tables) + absent * 3
    return head + hashlib.md5(head).digest()


def archive(members: Mapping[str, bytes], user_data: bytes | None = None) -> bytes:
    """Returns an MPQ archive of these members, in their order, and a list of names.

    user_data: what goes in front of the archive (a replay's header), up to 496 bytes;
        None writes a plain archive that starts with the MPQ header.
    """
    if user_data is not None and len(user_data) > USER_DATA_SIZE - 16:
        raise ValueError(f"user data: at most 496 bytes, found {len(user_data)}")
    names = [*members, "(listfile)"]
    listfile = "".join(f"{name}\r\n" for name in members).encode("ascii")
    blocks: list[int] = []
    body = bytearray()
    for data in [*members.values(), listfile]:
        packed = _BZIP2 + bz2.compress(data)
        stored = packed if len(packed) < len(data) else data
        flags = _FILE_EXISTS | _FILE_SINGLE_UNIT | _FILE_COMPRESSED
        blocks += [_HEADER_SIZE + len(body), len(stored), len(data), flags]
        body += stored
    entries = 16
    while entries < 2 * len(names):
        entries *= 2
    hash_table = _encrypted(
        _hash_table(names, entries), _name_hash("(hash table)", _HASH_KEY)
    )
    block_table = _encrypted(blocks, _name_hash("(block table)", _HASH_KEY))
    size = _HEADER_SIZE + len(body) + len(hash_table) + len(block_table)
    whole = _header(size, hash_table, block_table) + body + hash_table + block_table
    if user_data is None:
        return whole
    front = struct.pack(
        "<4s3I", b"MPQ\x1b", USER_DATA_SIZE, HEADER_OFFSET, len(user_data)
    )
    return (front + user_data).ljust(HEADER_OFFSET, b"\0") + whole
