"""Whole values of a replay's members as Python objects, for those who need all of them.

In: bytes in one of the two encodings and a type table of s2protocol. Out: dicts, lists,
numbers and bytes, named as s2protocol names them. The *tagged* encoding (header, details,
tracker events) describes itself, so it can be read without types; the *bit-packed* one
(initData, game events) cannot. Damaged bytes raise FormatError; too much work raises ReplayError.
"""

import dataclasses
import struct
import time
from typing import Any

from starmill.engines.replays import event_scan
from starmill.schema import errors
from starmill.schema.reasons import RejectReason

_MAX_DEPTH = 32  # real values are nested seven deep at most
_MAX_VARINT_BITS = 70
_CLOCK_EVERY = 4096  # values between looks at the clock
_ENDS = "the data ends in the middle of a value (byte {})"


@dataclasses.dataclass
class Meter:
    """Bounds the work of decoding.

    left: values that may still be decoded.
    deadline: `time.thread_time()` after which decoding stops: CPU time, so that a busy
        machine gives no other rows.
    """

    left: int
    deadline: float

    def tick(self) -> None:
        """Counts one value; raises ReplayError past a bound."""
        self.left -= 1
        if self.left < 0:
            raise errors.ReplayError(
                RejectReason.TOO_LARGE, "more values to decode than the limit"
            )
        if self.left % _CLOCK_EVERY == 0 and time.thread_time() > self.deadline:
            raise errors.ReplayError(
                RejectReason.TOO_SLOW, "decoding took longer than the limit"
            )


class TaggedReader:
    """Reads self-describing values one after the other.

    A struct becomes a dict from field tag to value, a choice a pair (tag, value).
    meter: may be renewed between values.
    """

    def __init__(self, data: bytes, meter: Meter) -> None:
        self._data = data
        self.meter = meter
        self.position = 0

    @property
    def done(self) -> bool:
        """Returns whether all bytes are used."""
        return self.position >= len(self._data)

    def value(self) -> Any:
        """Returns the next value."""
        try:
            return self._value(0)
        except IndexError as error:
            # Single bytes are read without looking whether they are there: this is the
            # inner loop of the index.
            raise errors.FormatError(_ENDS.format(self.position)) from error

    def _value(self, depth: int) -> Any:
        self.meter.tick()
        kind = self._data[self.position]
        self.position += 1
        if kind == 9:
            return self._varint()
        if kind == 2:
            return self._bytes(self._length())
        if depth > _MAX_DEPTH:
            raise errors.FormatError(f"nested too deeply (byte {self.position})")
        if kind == 5:
            fields = {}
            for _ in range(self._length()):
                tag = self._varint()
                fields[tag] = self._value(depth + 1)
            return fields
        if kind in (4, 6):
            byte = self._data[self.position]
            self.position += 1
            if kind == 6:
                return byte
            return self._value(depth + 1) if byte else None
        return self._rare(kind, depth)

    def _rare(self, kind: int, depth: int) -> Any:
        if kind == 0:
            return [self._value(depth + 1) for _ in range(self._length())]
        if kind == 1:
            bits = self._varint()
            return bits, self._bytes((bits + 7) // 8)
        if kind == 3:
            return self._varint(), self._value(depth + 1)
        if kind in (7, 8):
            return self._bytes(4 if kind == 7 else 8)
        raise errors.FormatError(
            f"expected a value, found kind {kind} (byte {self.position - 1})"
        )

    def _bytes(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self._data):
            raise errors.FormatError(_ENDS.format(self.position))
        value = self._data[self.position : end]
        self.position = end
        return value

    def _varint(self) -> int:
        data, position = self._data, self.position
        byte = data[position]
        position += 1
        negative = byte & 1
        value, bits = byte >> 1 & 0x3F, 6
        while byte & 0x80:
            if bits > _MAX_VARINT_BITS:
                raise errors.FormatError(f"number too long (byte {position})")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << bits
            bits += 7
        self.position = position
        return -value if negative else value

    def _length(self) -> int:
        """Returns a count of items, each of which takes at least a byte."""
        count = self._varint()
        if not 0 <= count <= len(self._data) - self.position:
            raise errors.FormatError(
                f"expected at most {len(self._data) - self.position} items, "
                f"found {count} (byte {self.position})"
            )
        return count


def named(value: Any, types: event_scan.TypeTable, number: int) -> Any:
    """Returns a tagged value with the field names of its type; unknown tags are left out."""
    kind, arguments = types[number]
    if kind == "_struct" and isinstance(value, dict):
        out: dict[str, Any] = {}
        for name, child, tag in arguments[0]:
            if tag in value:
                inner = named(value[tag], types, child)
                if name == "__parent" and isinstance(inner, dict):
                    out.update(inner)
                else:
                    out[name] = inner
        return out
    if kind == "_array" and isinstance(value, list):
        return [named(item, types, arguments[1]) for item in value]
    if kind == "_optional" and value is not None:
        return named(value, types, arguments[0])
    if kind == "_choice" and isinstance(value, tuple):
        field = arguments[1].get(value[0])
        return {field[0]: named(value[1], types, field[1])} if field else {}
    return bool(value) if kind == "_bool" else value


class BitReader:
    """Reads bit-packed values of given types one after the other.

    meter: may be renewed between values.
    """

    def __init__(self, data: bytes, types: event_scan.TypeTable, meter: Meter) -> None:
        self._data = data
        self._types = types
        self.meter = meter
        self._position = 0  # in bits

    @property
    def done(self) -> bool:
        """Returns whether all bits are used."""
        return self._position >= 8 * len(self._data)

    def align(self) -> None:
        """Moves on to the next whole byte."""
        self._position = -(-self._position // 8) * 8

    def _bits(self, count: int) -> int:
        position, end = self._position, self._position + count
        if end > 8 * len(self._data):
            raise errors.FormatError(_ENDS.format(position // 8))
        self._position = end
        offset = position % 8
        if 0 < count <= 8 - offset:  # most values: within one byte
            return self._data[position // 8] >> offset & (1 << count) - 1
        value = 0
        while position < end:
            offset = position % 8
            take = min(end - position, 8 - offset)
            piece = self._data[position // 8] >> offset & (1 << take) - 1
            value = value << take | piece
            position += take
        return value

    def _integer(self, bounds: tuple[int, int]) -> int:
        return bounds[0] + self._bits(bounds[1])

    def value(self, number: int) -> Any:
        """Returns the next value, which is of the type with this number."""
        self.meter.tick()
        kind, arguments = self._types[number]
        if kind == "_int":
            return self._integer(arguments[0])
        if kind == "_struct":
            return self._struct(arguments[0])
        if kind == "_bool":
            return self._bits(1) != 0
        if kind == "_optional":
            return self.value(arguments[0]) if self._bits(1) else None
        if kind == "_array":
            length = self._integer(arguments[0])
            return [self.value(arguments[1]) for _ in range(length)]
        if kind == "_blob":
            return self._blob(self._integer(arguments[0]))
        return self._rare(kind, arguments)

    def _struct(self, fields: Any) -> Any:
        out: dict[str, Any] = {}
        for name, child, *_ in fields:
            inner = self.value(child)
            if name != "__parent":
                out[name] = inner
            elif isinstance(inner, dict):
                out.update(inner)
            elif len(fields) == 1:
                return inner
            else:
                out[name] = inner
        return out

    def _blob(self, length: int) -> bytes:
        self.align()
        begin = self._position // 8
        if begin + length > len(self._data):
            raise errors.FormatError(f"the data ends in the middle of bytes ({begin})")
        self._position += 8 * length
        return self._data[begin : begin + length]

    def _rare(self, kind: str, arguments: Any) -> Any:
        if kind == "_choice":
            tag = self._integer(arguments[0])
            field = arguments[1].get(tag)
            if field is None:
                raise errors.FormatError(
                    f"expected one of {len(arguments[1])} choices, found {tag} "
                    f"(byte {self._position // 8})"
                )
            return {field[0]: self.value(field[1])}
        if kind == "_bitarray":
            length = self._integer(arguments[0])
            return length, self._bits(length)
        if kind == "_fourcc":
            return "".join(chr(self._bits(8)) for _ in range(4))
        if kind in ("_real32", "_real64"):
            size = 4 if kind == "_real32" else 8
            return struct.unpack(
                ">f" if size == 4 else ">d", self._bits(8 * size).to_bytes(size, "big")
            )
        return None
