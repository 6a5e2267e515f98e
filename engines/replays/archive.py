"""A reader of MPQ archives for untrusted files.

In: the bytes of a file. Out: the user data in front of the archive, and members by name. Reads
what replays use: members that are stored, zlib- or bzip2-compressed, whole or in sectors.
Before anything is allocated, tables must lie within the file and sizes under the limits; every
failure is a ReplayError. The list of names is not needed.

    [user data][header ... members ... hash table, block table]   [anything]

A name's hashes select an entry of the hash table, which points to one of the block table:
where the member is, its sizes and its flags. Both tables are encrypted with their names.
"""

import bz2
import functools
import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors
from starmill.schema.compilation import checked
from starmill.schema.reasons import RejectReason

USER_DATA_MAGIC = b"MPQ\x1b"
ARCHIVE_MAGIC = b"MPQ\x1a"
# Flags of a block.
COMPRESSED = 0x00000200
_IMPLODED = 0x00000100
_ENCRYPTED = 0x00010000
SINGLE_UNIT = 0x01000000
_SECTOR_CHECKSUMS = 0x04000000
EXISTS = 0x80000000
# First byte of compressed data.
_UNCOMPRESSED, _ZLIB, BZIP2 = 0, 2, 16
HASH_TABLE, BLOCK_TABLE = "(hash table)", "(block table)"
# Magic, reserved size, start of the archive, size of the content.
USER_DATA_HEADER = struct.Struct("<4s3I")
# Magic, size of the header and the archive, version, sector shift, offsets of the hash and
# block table, entries of each. Later versions of the format append more.
ARCHIVE_HEADER = struct.Struct("<4s2I2H4I")
# A sector is 512 << shift bytes; 16 MiB is far beyond any real archive.
_MAX_SECTOR_SHIFT = 15
# Kinds of `name_hash`: a slot of the hash table, the two halves of a name, a table's key.
HASH_SLOT, HASH_A, HASH_B, HASH_TABLE_KEY = range(4)


def _crypt_table() -> NDArray[np.uint32]:
    """Returns the 5 x 256 constants of the format's hash and cipher."""
    table = np.zeros(0x500, np.uint32)
    seed = 0x00100001
    for i in range(256):
        for j in range(5):
            seed = (seed * 125 + 3) % 0x2AAAAB
            high = (seed & 0xFFFF) << 16
            seed = (seed * 125 + 3) % 0x2AAAAB
            table[j * 256 + i] = high | (seed & 0xFFFF)
    return table


_CRYPT_TABLE = _crypt_table()


@functools.cache
def name_hash(name: str, kind: int) -> int:
    """Returns the format's 32-bit hash of a name, which ignores case. kind: 0 to 3."""
    first, second = 0x7FED7FED, 0xEEEEEEEE
    for letter in name.upper().encode():
        first = int(_CRYPT_TABLE[kind * 256 + letter]) ^ (first + second) & 0xFFFFFFFF
        second = (letter + first + second * 33 + 3) & 0xFFFFFFFF
    return first


@checked
def _cipher(words, key, table, decrypt):  # type: ignore[no-untyped-def]  # numba infers
    """Returns the words encrypted or decrypted. Each word depends on the one before it."""
    out = np.empty_like(words)
    first = np.uint32(key)
    second = np.uint32(0xEEEEEEEE)
    for i in range(words.size):
        second = np.uint32(second + table[0x400 + (first & np.uint32(0xFF))])
        out[i] = words[i] ^ np.uint32(first + second)
        plain = out[i] if decrypt else words[i]
        first = np.uint32((~first << np.uint32(21)) + np.uint32(0x11111111)) | (
            first >> np.uint32(11)
        )
        second = np.uint32(plain + second + (second << np.uint32(5)) + np.uint32(3))
    return out


def encrypt_table(table: NDArray[np.uint32], name: str) -> NDArray[np.uint32]:
    """Returns a hash or block table as an archive stores it."""
    return _cipher(table, name_hash(name, HASH_TABLE_KEY), _CRYPT_TABLE, False)


def decrypt_table(table: NDArray[np.uint32], name: str) -> NDArray[np.uint32]:
    """Returns the words of a stored hash or block table."""
    return _cipher(table, name_hash(name, HASH_TABLE_KEY), _CRYPT_TABLE, True)


class Block(NamedTuple):
    """An entry of the block table.

    Attributes:
        offset: of the member's bytes from the archive's start.
        stored_size: bytes in the file.
        size: bytes when unpacked.
        flags: how it is stored; see the constants of this module.
    """

    offset: int
    stored_size: int
    size: int
    flags: int


class Archive:
    """An opened archive.

    Attributes:
        user_data: what stands in front of the archive (a replay's header); empty if nothing.
    """

    def __init__(self, data: bytes, *, max_table_entries: int) -> None:
        self._data = data
        self.user_data = b""
        self._start = 0
        if data[:4] == USER_DATA_MAGIC:
            self.user_data, self._start = _read_user_data(data)
        if data[self._start : self._start + 4] != ARCHIVE_MAGIC:
            raise errors.ReplayError(
                RejectReason.NOT_A_REPLAY,
                f"expected an MPQ archive at byte {self._start}, found "
                f"{data[self._start : self._start + 4]!r}",
            )
        if len(data) < self._start + ARCHIVE_HEADER.size:
            raise errors.ReplayError(
                RejectReason.TRUNCATED,
                f"file ends in the archive's header at {len(data)}",
            )
        header = ARCHIVE_HEADER.unpack_from(data, self._start)
        sector_shift, hash_offset, block_offset, hashes, blocks = header[4:]
        self._sector_shift: int = sector_shift
        hash_table = self._table(hash_offset, hashes, HASH_TABLE, max_table_entries)
        block_table = self._table(block_offset, blocks, BLOCK_TABLE, max_table_entries)
        self._blocks: list[list[int]] = block_table.tolist()
        # If a name has several entries, the first one counts, as in other readers.
        self._index: dict[tuple[int, int], int] = {}
        for hash_a, hash_b, _, block in hash_table.tolist():
            self._index.setdefault((hash_a, hash_b), block)

    def _table(
        self, offset: int, entries: int, name: str, limit: int
    ) -> NDArray[np.uint32]:
        if entries > limit:
            raise errors.ReplayError(
                RejectReason.TOO_LARGE,
                f"{name}: expected at most {limit} entries, found {entries}",
            )
        start = self._start + offset
        stored = self._data[start : start + 16 * entries]
        if len(stored) != 16 * entries:
            raise errors.ReplayError(
                RejectReason.TRUNCATED,
                f"{name}: expected {16 * entries} bytes at {start}, "
                f"file has {len(self._data)}",
            )
        words = np.frombuffer(stored, "<u4")
        return decrypt_table(words, name).reshape(-1, 4)

    def __contains__(self, name: str) -> bool:
        """Returns whether a member with this name exists and is not empty."""
        try:
            return self._block(name) is not None
        except errors.ReplayError:
            return True  # it is listed, and `read` says what is wrong with it

    def _block(self, name: str) -> Block | None:
        index = self._index.get((name_hash(name, HASH_A), name_hash(name, HASH_B)))
        if index is None:
            return None
        if index >= len(self._blocks):
            raise errors.ReplayError(
                RejectReason.CORRUPT,
                f"{name}: expected one of {len(self._blocks)} blocks, found {index}",
            )
        block = Block(*self._blocks[index])
        if not block.flags & EXISTS or block.stored_size == 0:
            return None
        return block

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Returns a member's unpacked bytes; None if there is no such member.

        Raises ReplayError if it is damaged or larger than max_bytes.
        """
        block = self._block(name)
        if block is None:
            return None
        if block.size > max_bytes:
            raise errors.ReplayError(
                RejectReason.TOO_LARGE,
                f"{name}: expected at most {max_bytes} bytes, found {block.size}",
            )
        if block.flags & (_ENCRYPTED | _IMPLODED):
            raise errors.ReplayError(
                RejectReason.CORRUPT,
                f"{name}: expected a stored, zlib or bzip2 member, found flags "
                f"{block.flags:#x} (encrypted or imploded)",
            )
        start = self._start + block.offset
        stored = self._data[start : start + block.stored_size]
        if len(stored) != block.stored_size:
            raise errors.ReplayError(
                RejectReason.TRUNCATED,
                f"{name}: expected {block.stored_size} bytes at {start}, "
                f"file has {len(self._data)}",
            )
        if not block.flags & COMPRESSED:
            return stored[: block.size]
        if block.flags & SINGLE_UNIT:
            # A member that compression would not have made smaller is stored as it is.
            if block.size <= block.stored_size:
                return stored
            return _decompress(stored, block.size, name)
        return self._read_sectors(stored, block, name)

    def _read_sectors(self, stored: bytes, block: Block, name: str) -> bytes:
        if self._sector_shift > _MAX_SECTOR_SHIFT:
            raise errors.ReplayError(
                RejectReason.CORRUPT,
                f"sector size: expected a shift up to {_MAX_SECTOR_SHIFT}, "
                f"found {self._sector_shift}",
            )
        sector_size = 512 << self._sector_shift
        sectors = -(-block.size // sector_size)
        listed = sectors + 1 + bool(block.flags & _SECTOR_CHECKSUMS)
        if len(stored) < 4 * listed:
            raise errors.ReplayError(
                RejectReason.CORRUPT,
                f"{name}: expected {listed} sector offsets, found {len(stored)} bytes",
            )
        offsets = struct.unpack_from(f"<{listed}I", stored)
        parts = []
        left = block.size
        for begin, end in zip(offsets[:sectors], offsets[1 : sectors + 1], strict=True):
            expected = min(sector_size, left)
            sector = stored[begin:end] if begin <= end <= len(stored) else b""
            if len(sector) < expected:
                sector = _decompress(sector, expected, name)
            if len(sector) != expected:
                raise errors.ReplayError(
                    RejectReason.CORRUPT,
                    f"{name}: expected a sector of {expected} bytes, found {len(sector)}",
                )
            parts.append(sector)
            left -= expected
        return b"".join(parts)


def _read_user_data(data: bytes) -> tuple[bytes, int]:
    """Returns the user data in front of the archive, and where the archive begins."""
    if len(data) < USER_DATA_HEADER.size:
        raise errors.ReplayError(
            RejectReason.TRUNCATED, f"file ends in its first header, at {len(data)}"
        )
    _, reserved, start, size = USER_DATA_HEADER.unpack_from(data)
    content = data[USER_DATA_HEADER.size : USER_DATA_HEADER.size + size]
    if len(content) != size or not USER_DATA_HEADER.size <= start < len(data):
        raise errors.ReplayError(
            RejectReason.TRUNCATED,
            f"user data: expected {size} of {reserved} bytes and an archive at {start}, "
            f"file has {len(data)} bytes",
        )
    return content, start


def _decompress(stored: bytes, size: int, name: str) -> bytes:
    """Returns exactly `size` bytes; never unpacks more than one byte beyond them."""
    method = stored[0] if stored else -1
    try:
        if method == _ZLIB:
            plain = zlib.decompressobj().decompress(stored[1:], size + 1)
        elif method == BZIP2:
            plain = bz2.BZ2Decompressor().decompress(stored[1:], size + 1)
        elif method == _UNCOMPRESSED:
            plain = stored[1:]
        else:
            raise errors.ReplayError(
                RejectReason.CORRUPT,
                f"{name}: expected zlib or bzip2 data, found method {method}",
            )
    except (zlib.error, OSError, EOFError) as error:
        raise errors.ReplayError(RejectReason.CORRUPT, f"{name}: {error}") from error
    if len(plain) != size:
        raise errors.ReplayError(
            RejectReason.CORRUPT,
            f"{name}: expected {size} bytes, found "
            + (f"only {len(plain)}" if len(plain) < size else "more"),
        )
    return plain
