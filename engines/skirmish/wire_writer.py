"""Protobuf wire bytes of many messages of one type, written from columns at once.

In: one array per field, a row per message. Out: the bytes of a repeated field. Setting the
fields of 300 units one by one on message objects takes 8 ms, this 0.5 ms; the result parses to
the same messages (a test compares the two). Knows wire types only, no message.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_VARINT, _LENGTH, _FIXED32 = 0, 2, 5


def varint(value: int) -> bytes:
    """Returns one unsigned number as a varint; negative ones as their 64-bit complement."""
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


def _varint_matrix(
    values: NDArray[np.uint64],
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Returns the varint bytes of each value, and which of them belong to it. [n, k] each."""
    largest = int(values.max()) if len(values) else 0
    width = max(1, -(-largest.bit_length() // 7))
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    parts = values[:, None] >> shifts
    used = parts != 0
    used[:, 0] = True
    out = (parts & np.uint64(0x7F)).astype(np.uint8)
    out[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
    return out, used


class MessageColumns:
    """Fields of n messages, collected column by column in ascending field order.

    present: where the field is set, shape [n]; None means in every message.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._bytes: list[NDArray[np.uint8]] = []
        self._used: list[NDArray[np.bool_]] = []

    def _add(
        self,
        tag: bytes,
        content: NDArray[np.uint8],
        used: NDArray[np.bool_],
        present: NDArray[np.bool_] | None,
    ) -> None:
        head = np.frombuffer(tag, np.uint8)
        self._bytes += [np.broadcast_to(head, (self.count, len(head))), content]
        everywhere = np.ones((self.count, len(head)), bool)
        if present is not None:
            everywhere &= present[:, None]
            used = used & present[:, None]
        self._used += [everywhere, used]

    def varints(
        self, number: int, values: ArrayLike, present: NDArray[np.bool_] | None = None
    ) -> None:
        """Adds an integer, boolean or enum field. Shape [n]."""
        unsigned = np.asarray(values).astype(np.int64).view(np.uint64)
        self._add(varint(number << 3 | _VARINT), *_varint_matrix(unsigned), present)

    def floats(
        self, number: int, values: ArrayLike, present: NDArray[np.bool_] | None = None
    ) -> None:
        """Adds a float field. Shape [n]."""
        content = np.asarray(values).astype("<f4").view(np.uint8).reshape(-1, 4)
        used = np.ones((self.count, 4), bool)
        self._add(varint(number << 3 | _FIXED32), content, used, present)

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
        tag = varint(number << 3 | _LENGTH) + varint(size)
        self._add(tag, content, np.ones((self.count, size), bool), present)

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
        places = int(slots.max()) + 1
        width = content.shape[1]
        wide = np.zeros((self.count, places, width), np.uint8)
        wide_used = np.zeros((self.count, places, width), bool)
        wide[rows, slots] = content
        wide_used[rows, slots] = used
        self._bytes.append(wide.reshape(self.count, -1))
        self._used.append(wide_used.reshape(self.count, -1))

    def repeated_varints(
        self, number: int, values: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> None:
        """Adds a repeated integer field: the first counts[i] of values[i]. Shapes [n, k], [n]."""
        for slot in range(int(counts.max()) if len(counts) else 0):
            self.varints(number, values[:, slot], counts > slot)

    def framed(self, number: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Returns each message as field `number` with its length: bytes and which are used."""
        content = np.concatenate(self._bytes, axis=1)
        used = np.concatenate(self._used, axis=1)
        sizes, sizes_used = _varint_matrix(used.sum(axis=1).astype(np.uint64))
        tag = np.frombuffer(varint(number << 3 | _LENGTH), np.uint8)
        head = np.broadcast_to(tag, (self.count, len(tag)))
        return (
            np.concatenate([head, sizes, content], axis=1),
            np.concatenate([np.ones(head.shape, bool), sizes_used, used], axis=1),
        )

    def serialized(self, number: int) -> bytes:
        """Returns the n messages as the repeated field `number` of their parent."""
        if not self.count:
            return b""
        content, used = self.framed(number)
        return content[used].tobytes()
