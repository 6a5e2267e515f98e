"""Reads replays inside zip packs, including Blizzard's password-protected ones.

In: the address of a zip file, and which of its members to read. Out: their bytes, or a
ReplayError for a member that cannot be read. Python's zipfile lists the members. The packs'
old cipher is compiled here, because zipfile decrypts about a megabyte a second. Only the
members' own bytes are read, so a pack can be larger than memory.
"""

import contextlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors, storage
from starmill.schema.compilation import checked
from starmill.schema.reasons import RejectReason

SUFFIX = ".zip"
REPLAY_SUFFIX = ".sc2replay"
# Holds a password that the user typed; local workers inherit it.
_VARIABLE = "STARMILL_PACK_PASSWORD"
_ENCRYPTED = 0x1
# Where this flag is set, the password is checked against the time, not the checksum.
_SIZES_FOLLOW = 0x8
_CIPHER_HEADER_BYTES = 12
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_MAGIC = b"PK\x03\x04"


class PasswordSource(NamedTuple):
    """Where workers find the password of packs. It is never part of a job's description.

    Attributes:
        kind: "env" or "file".
        name: of the environment variable, or the path of the file.
    """

    kind: str
    name: str


Password = str | PasswordSource | None


def password_source(text: str | None, *, is_local: bool) -> PasswordSource | None:
    """Returns where workers find a password that a user gave.

    Args:
        text: "env:NAME", "file:PATH", or the password itself; None if there is none.
        is_local: whether all workers are processes that this one starts. Those inherit a
            password from its environment; others would have to be told, and job
            descriptions are stored in many places.

    Raises ConfigError for a password itself if workers are elsewhere.
    """
    if text is None:
        return None
    kind, _, name = text.partition(":")
    if kind in ("env", "file") and name:
        source = PasswordSource(kind, name)
        if is_local:
            _read_password(source)
        return source
    if not is_local:
        raise errors.ConfigError(
            "--pack-password: on a cluster, expected env:NAME or file:PATH, which workers "
            "read themselves; a password itself would be stored with the job"
        )
    os.environ[_VARIABLE] = text
    return PasswordSource("env", _VARIABLE)


def _read_password(source: Password) -> str | None:
    if source is None or isinstance(source, str):
        return source
    if source.kind == "env":
        if source.name not in os.environ:
            raise errors.ConfigError(
                f"--pack-password: the environment has no variable {source.name}"
            )
        return os.environ[source.name]
    try:
        return Path(source.name).read_text("utf-8").rstrip("\n")
    except (OSError, ValueError) as error:
        raise errors.ConfigError(f"--pack-password: {source.name}: {error}") from error


class Member(NamedTuple):
    """A replay of a pack.

    Attributes:
        name: of the member.
        data: its bytes, or what is wrong with it.
        offset: where it begins in the pack, with its header.
        size: bytes in the pack, with its header; 0 if it cannot be read.
    """

    name: str
    data: bytes | errors.ReplayError
    offset: int
    size: int


class PackContents(NamedTuple):
    """What a pack contains.

    Attributes:
        replays: how many there are.
        encrypted: whether any of them needs a password.
    """

    replays: int
    encrypted: bool


def _crc_table() -> NDArray[np.uint32]:
    table = np.zeros(256, np.uint32)
    for i in range(256):
        value = i
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        table[i] = value
    return table


_CRC_TABLE = _crc_table()


@checked
def _decrypt(data, password, table):  # type: ignore[no-untyped-def]  # numba infers
    """Returns the bytes decrypted with PKZIP's stream cipher, including its 12-byte header."""
    out = np.empty_like(data)
    key0 = np.uint32(0x12345678)
    key1 = np.uint32(0x23456789)
    key2 = np.uint32(0x34567890)
    for i in range(-password.size, data.size):
        if i < 0:
            plain = np.uint32(password[i + password.size])
        else:
            mixed = np.uint32(key2 | np.uint32(2))
            stream = np.uint32(mixed * (mixed ^ np.uint32(1))) >> np.uint32(8)
            plain = np.uint32(data[i]) ^ (stream & np.uint32(0xFF))
            out[i] = plain
        key0 = table[(key0 ^ plain) & np.uint32(0xFF)] ^ (key0 >> np.uint32(8))
        key1 = np.uint32(
            np.uint32(key1 + (key0 & np.uint32(0xFF))) * np.uint32(134775813)
            + np.uint32(1)
        )
        key2 = table[(key2 ^ (key1 >> np.uint32(24))) & np.uint32(0xFF)] ^ (
            key2 >> np.uint32(8)
        )
    return out


@contextlib.contextmanager
def _opened(address: str) -> Iterator[tuple[IO[bytes], list[zipfile.ZipInfo]]]:
    """Yields the pack's file and its replays, sorted by name; ReplayError if unreadable."""
    try:
        if storage.is_special(address):
            raise OSError("expected a regular file")
        filesystem, path = storage.filesystem_of(address)
        with filesystem.open(path, "rb") as file, zipfile.ZipFile(file) as pack:
            members = [
                member
                for member in pack.infolist()
                if member.filename.lower().endswith(REPLAY_SUFFIX)
            ]
            yield file, sorted(members, key=lambda member: member.filename)
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise errors.ReplayError(
            RejectReason.UNREADABLE, f"cannot be read as a zip pack: {error}"
        ) from error


def contents(address: str) -> PackContents:
    """Returns what a pack contains; ReplayError if it cannot be read."""
    with _opened(address) as (_, members):
        encrypted = any(member.flag_bits & _ENCRYPTED for member in members)
        return PackContents(len(members), encrypted)


def members(
    address: str, begin: int, end: int, *, password: Password, max_bytes: int
) -> Iterator[Member]:
    """Yields the replays begin:end of a pack, sorted by name."""
    word = _read_password(password)
    with _opened(address) as (file, replays):
        for member in replays[begin:end]:
            size = 0
            try:
                data: bytes | errors.ReplayError = _read(
                    file, member, password=word, max_bytes=max_bytes
                )
                size = file.tell() - member.header_offset
            except errors.ReplayError as error:
                data = error
            yield Member(member.filename, data, member.header_offset, size)


def member(address: str, name: str, *, password: Password, max_bytes: int) -> bytes:
    """Returns one replay of a pack; ReplayError if it is missing or unreadable."""
    word = _read_password(password)
    with _opened(address) as (file, replays):
        for item in replays:
            if item.filename == name:
                return _read(file, item, password=word, max_bytes=max_bytes)
    raise _unreadable(f"{name} is missing")


def member_at(
    address: str, offset: int, size: int, *, password: Password, max_bytes: int
) -> bytes:
    """Returns the replay in a range of a pack, with one request and without the directory.

    Only the caller can know whether it is the right one: by its hash. ReplayError if there is no
    member in this range.
    """
    folder, _, name = address.rpartition("/")
    reader = storage.RangeReader(folder or (address[:1] == "/" and "/") or ".")
    try:
        data = reader.read(name, offset, offset + size)
        header = _LOCAL_HEADER.unpack_from(data)
    except (errors.FormatError, struct.error) as error:
        raise _unreadable(str(error)) from error
    finally:
        reader.close()
    if header[0] != _LOCAL_MAGIC:
        raise _unreadable(f"expected a member at {offset}, found none")
    flags, method, clock = header[2:5]
    stored = data[_LOCAL_HEADER.size + header[-2] + header[-1] :]
    if flags & _ENCRYPTED:
        # Of the checksum, the cipher needs the last byte alone.
        check = clock >> 8 if flags & _SIZES_FOLLOW else header[6] >> 24
        stored = _plain(stored, check, _read_password(password))
    try:
        return _inflated(stored, method, max_bytes)
    except zlib.error as error:
        raise _unreadable(str(error)) from error


def _read(
    file: Any, member: zipfile.ZipInfo, *, password: str | None, max_bytes: int
) -> bytes:
    # Badly compressed data can be larger than its content, but not twice as large.
    if member.file_size > max_bytes or member.compress_size > 2 * max_bytes + 4096:
        raise errors.ReplayError(
            RejectReason.TOO_LARGE,
            f"expected at most {max_bytes} bytes, found {member.file_size} "
            f"in {member.compress_size}",
        )
    try:
        stored = _stored_bytes(file, member)
        if member.flag_bits & _ENCRYPTED:
            stored = _decrypted(stored, member, password)
        data = _inflated(stored, member.compress_type, member.file_size)
    except (OSError, zlib.error, struct.error, EOFError) as error:
        raise _unreadable(str(error)) from error
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise _unreadable(
            f"expected {member.file_size} bytes with checksum {member.CRC:#x}, found "
            f"{len(data)} with {zlib.crc32(data):#x}"
        )
    return data


def _unreadable(detail: str) -> errors.ReplayError:
    return errors.ReplayError(RejectReason.UNREADABLE, f"in the pack: {detail}")


def _stored_bytes(file: Any, member: zipfile.ZipInfo) -> bytes:
    file.seek(member.header_offset)
    header = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if header[0] != _LOCAL_MAGIC:
        raise _unreadable(f"expected a member at {member.header_offset}, found none")
    file.seek(header[-2] + header[-1], 1)
    stored: bytes = file.read(member.compress_size)
    return stored


def _decrypted(stored: bytes, member: zipfile.ZipInfo, password: str | None) -> bytes:
    if member.flag_bits & _SIZES_FOLLOW:
        hour, minute = member.date_time[3:5]
        check = hour << 3 | minute >> 3
    else:
        check = member.CRC >> 24
    return _plain(stored, check, password)


def _plain(stored: bytes, check: int, password: str | None) -> bytes:
    """Returns decrypted bytes; `check` is what the last byte of the cipher's header must be."""
    if password is None:
        raise _unreadable("it is encrypted and no password was given")
    plain = _decrypt(
        np.frombuffer(stored, np.uint8),
        np.frombuffer(password.encode(), np.uint8),
        _CRC_TABLE,
    ).tobytes()
    if len(plain) < _CIPHER_HEADER_BYTES or plain[_CIPHER_HEADER_BYTES - 1] != check:
        raise _unreadable("the password does not fit")
    return plain[_CIPHER_HEADER_BYTES:]


def _inflated(stored: bytes, method: int, most_bytes: int) -> bytes:
    if method == zipfile.ZIP_STORED:
        return stored
    if method != zipfile.ZIP_DEFLATED:
        raise _unreadable(
            f"expected a stored or deflated member, found method {method}"
        )
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(stored, most_bytes + 1)
