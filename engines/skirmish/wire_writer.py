"""Protobuf wire bytes of many messages of one type, written from columns at once.

In: one array per field, a row per message. Out: the bytes of a repeated field. Setting the
fields of 300 units one by one on message objects takes 8 ms, this 0.5 ms; the result parses to
the same messages (a test compares the two). Knows wire types only, no message.
"""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_VARINT, _LENGTH, _FIXED32 = 0, 2, 5
_SHORT = tuple(bytes([value]) for value in range(0x80))
_SHIFTS = np.arange(10, dtype=np.uint64) * np.uint64(7)
_FIRST_WIDTH = 256


def varint(value: int) -> bytes:
    """Returns one unsigned number as a varint; negative ones as their 64-bit complement."""
    if 0 <= value < 0x80:
        return _SHORT[value]
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    """Returns a length-delimited field: a string, bytes or a message."""
    return varint(number << 3 | _LENGTH) + varint(len(payload)) + payload


@functools.cache
def _tag(number: int, wire_type: int, size: int | None = None) -> NDArray[np.uint8]:
    """Returns a field's tag, and the length behind it where that is the same for all."""
    tag = varint(number << 3 | wire_type) + (b"" if size is None else varint(size))
    return np.frombuffer(tag, np.uint8)


def _varint_matrix(
    values: NDArray[np.generic],
) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
    """Returns the varint bytes of each value, and which of them belong to it. [n, k] each.

    None for the second where all do, which is the usual case: flags and small numbers.
    """
    if values.dtype == np.bool_:
        return values.view(np.uint8)[:, None], None
    wide = values.astype(np.int64).view(np.uint64)
    largest = int(wide.max()) if len(wide) else 0
    if largest < 0x80:
        return wide.astype(np.uint8)[:, None], None
    width = -(-largest.bit_length() // 7)
    parts = wide[:, None] >> _SHIFTS[:width]
    used = parts != 0
    used[:, 0] = True
    out = (parts & np.uint64(0x7F)).astype(np.uint8)
    out[:, :-1] |= used[:, 1:].view(np.uint8) << 7
    return out, used


class MessageColumns:
    """Fields of n messages, collected column by column in ascending field order.

    present: where the field is set, shape [n]; None means in every message.
    The bytes of all messages lie in one matrix, with a mask of those that are used.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._width = 0
        self._bytes = np.empty((count, _FIRST_WIDTH), np.uint8)
        self._used = np.empty((count, _FIRST_WIDTH), bool)

    def _room(self, width: int) -> int:
        """Makes room for more columns; returns where they begin."""
        begin = self._width
        self._width += width
        while self._width > self._bytes.shape[1]:
            self._bytes = np.concatenate([self._bytes, self._bytes], axis=1)
            self._used = np.concatenate([self._used, self._used], axis=1)
        return begin

    def _add(
        self,
        tag: NDArray[np.uint8],
        content: NDArray[np.uint8],
        used: NDArray[np.bool_] | None,
        present: NDArray[np.bool_] | None,
    ) -> None:
        begin = self._room(len(tag) + content.shape[1])
        middle, end = begin + len(tag), self._width
        self._bytes[:, begin:middle] = tag
        self._bytes[:, middle:end] = content
        self._used[:, begin:end] = True if present is None else present[:, None]
        if used is not None:
            self._used[:, middle:end] &= used

    def varints(
        self, number: int, values: ArrayLike, present: NDArray[np.bool_] | None = None
    ) -> None:
        """Adds an integer, boolean or enum field. Shape [n]."""
        content, used = _varint_matrix(np.asarray(values))
        self._add(_tag(number, _VARINT), content, used, present)

    def floats(
        self, number: int, values: ArrayLike, present: NDArray[np.bool_] | None = None
    ) -> None:
        """Adds a float field. Shape [n]."""
        content = np.asarray(values).astype("<f4").view(np.uint8).reshape(-1, 4)
        self._add(_tag(number, _FIXED32), content, None, present)

    def points(
        self,
        number: int,
        coordinates: Sequence[ArrayLike],
        present: NDArray[np.bool_] | None = None,
    ) -> None:
        """Adds a message of two or three floats, numbered from 1. Each of shape [n]."""
        size = 5 * len(coordinates)
        content = np.empty((self.count, size), np.uint8)
        for axis, values in enumerate(coordinates):
            content[:, 5 * axis] = (axis + 1) << 3 | _FIXED32
            as_bytes = np.asarray(values).astype("<f4").view(np.uint8).reshape(-1, 4)
            content[:, 5 * axis + 1 : 5 * axis + 5] = as_bytes
        self._add(_tag(number, _LENGTH, size), content, None, present)

    def repeated(
        self,
        number: int,
        rows: NDArray[np.intp],
        slots: NDArray[np.intp],
        children: "MessageColumns",
    ) -> None:
        """Adds a repeated message field.

        Args:
            number: of the field.
            rows: which message each child belongs to. Shape [m].
            slots: its place among that message's children, from 0. Shape [m].
            children: the m children.
        """
        if not children.count:
            return
        content, used = children.framed(number)
        places, width = int(slots.max()) + 1, content.shape[1]
        wide = np.zeros((self.count, places, width), np.uint8)
        wide_used = np.zeros((self.count, places, width), bool)
        wide[rows, slots] = content
        wide_used[rows, slots] = used
        begin = self._room(places * width)
        self._bytes[:, begin : self._width] = wide.reshape(self.count, -1)
        self._used[:, begin : self._width] = wide_used.reshape(self.count, -1)

    def repeated_varints(
        self, number: int, values: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> None:
        """Adds a repeated integer field: the first counts[i] of values[i]. Shapes [n, k], [n]."""
        for slot in range(int(counts.max()) if len(counts) else 0):
            self.varints(number, values[:, slot], counts > slot)

    def framed(self, number: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Returns each message as field `number` with its length: bytes and which are used."""
        content = self._bytes[:, : self._width]
        used = self._used[:, : self._width]
        sizes, sizes_used = _varint_matrix(used.sum(axis=1))
        head = MessageColumns(self.count)
        head._add(_tag(number, _LENGTH), sizes, sizes_used, None)
        return (
            np.concatenate([head._bytes[:, : head._width], content], axis=1),
            np.concatenate([head._used[:, : head._width], used], axis=1),
        )

    def serialized(self, number: int) -> bytes:
        """Returns the n messages as the repeated field `number` of their parent."""
        if not self.count:
            return b""
        content, used = self.framed(number)
        return content[used].tobytes()
