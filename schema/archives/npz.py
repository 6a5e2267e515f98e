"""Reads zip files of numpy arrays without trusting them.

In: a file. Out: its members, and arrays from their bytes. The sizes that the file states are
bounded by its own size before anything is unpacked, and an array's header is read by its
exact form: numpy's own reader evaluates it as Python and raises whatever that raises.
"""

import lzma
import math
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors

# Arrays of zeros shrink to a thousandth, but files with content do not.
_MOST_RATIO, _MOST_EXTRA = 200, 16 << 20
_MOST_MEMBERS = 65_536
_METHODS = {
    zipfile.ZIP_STORED,
    zipfile.ZIP_DEFLATED,
    zipfile.ZIP_BZIP2,
    zipfile.ZIP_LZMA,
}
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    KeyError,
    EOFError,
    OSError,
    RuntimeError,  # encrypted, and not implemented
    OverflowError,
    IndexError,
)
_MAGIC = b"\x93NUMPY"
_HEADER = re.compile(
    rb"\{'descr': '([<>|=][biufSU]\d{1,4})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), ?\} *\n?"
)
_MOST_DIMENSIONS = 32


def read_members(path: Path) -> dict[str, bytes]:
    """Returns the content of all members by name; FormatError if it is not a zip file."""
    try:
        limit = path.stat().st_size * _MOST_RATIO + _MOST_EXTRA
        with zipfile.ZipFile(path) as file:
            infos = file.infolist()
            total = sum(info.file_size for info in infos)
            if total > limit or len(infos) > _MOST_MEMBERS:
                raise errors.FormatError(
                    f"{path}: expected at most {limit:,} bytes in it, found {total:,} in "
                    f"{len(infos):,} members"
                )
            return {info.filename: _content(file, info) for info in infos}
    except _DAMAGE as error:
        raise errors.FormatError(
            f"{path}: expected a zip file of arrays: {str(error) or type(error).__name__}"
        ) from error


def _content(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in _METHODS:
        raise ValueError(f"{info.filename!r:.100}: compressed by an unknown method")
    with file.open(info) as member:
        # One byte beyond the stated size shows whether the member is longer.
        data = member.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise ValueError(f"{info.filename!r:.100}: not as long as the file says")
    return data


def array(data: bytes, where: str) -> NDArray[Any]:
    """Returns the array of an `.npy` member; FormatError if it is not one of numbers or texts."""
    begin = 10 if data[6:7] == b"\x01" else 12
    length = int.from_bytes(data[8:begin], "little")
    match = _HEADER.fullmatch(data[begin : begin + length]) if length < 65536 else None
    if data[:6] != _MAGIC or match is None:
        raise errors.FormatError(f"{where}: expected an array as numpy stores it")
    try:
        dtype = np.dtype(match[1].decode())
        shape = tuple(int(size) for size in match[3].split(b",") if size.strip())
    except (TypeError, ValueError) as error:
        raise errors.FormatError(f"{where}: {error}") from error
    content = memoryview(data)[begin + length :]
    if len(shape) > _MOST_DIMENSIONS or not dtype.itemsize:
        raise errors.FormatError(f"{where}: expected an array of numbers or texts")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise errors.FormatError(
            f"{where}: expected {shape} of {dtype}, found {len(content):,} bytes"
        )
    values: NDArray[Any] = np.frombuffer(content, dtype)
    if match[2] == b"True":
        return values.reshape(shape[::-1]).T
    return values.reshape(shape)
