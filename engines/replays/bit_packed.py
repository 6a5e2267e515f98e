"""The bit-packed encoding, read and written: initData, game events and messages.

In: bytes, or values, and the type that s2protocol's table gives them. Out: the other of the
two, with dicts, lists, numbers and bytes named as s2protocol names them. The encoding is
read by its types alone; nothing in it says what it is. Bits fill a byte from its lowest, and
a value's highest bits come first:

    8 bits 0xA7 after 3 others:   byte 0  |1 0 1 0 0|. . .|   the high five: 10100
                                  byte 1  |. . . . .|1 1 1|   the low three:   111

A blob begins at a whole byte. Damaged bytes raise FormatError, and too much work raises
ReplayError. Whole values are slow to build: `event_scan` reads a few fields much faster.
"""

import struct
from collections.abc import Mapping
from typing import Any

from starmill.engines.replays import type_table
from starmill.engines.replays.limits import Meter
from starmill.engines.replays.type_table import Bounds, TypeTable
from starmill.schema import errors

_ENDS_EARLY = "the data ends in the middle of a value (byte {})"


class BitPackedReader:
    """Reads values of given types one after the other.

    Attributes:
        meter: bounds the work. It may be replaced between values.
    """

    def __init__(self, data: bytes, types: TypeTable, meter: Meter) -> None:
        self._data = data
        self._types = types
        self.meter = meter
        self._position = 0  # in bits

    @property
    def done(self) -> bool:
        """Returns whether all bits have been read."""
        return self._position >= 8 * len(self._data)

    @property
    def position_bytes(self) -> int:
        """Returns how many whole bytes have been read."""
        return self._position // 8

    def align(self) -> None:
        """Moves to the next whole byte."""
        self._position = -(-self._position // 8) * 8

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
        return self._rare_value(kind, arguments)

    def _rare_value(self, kind: str, arguments: Any) -> Any:
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

    def _struct(self, fields: Any) -> Any:
        values: dict[str, Any] = {}
        for name, number, *_ in fields:
            content = self.value(number)
            if name != type_table.PARENT:
                values[name] = content
            elif isinstance(content, dict):
                values.update(content)
            elif len(fields) == 1:
                return content
            else:
                values[name] = content
        return values

    def _blob(self, length: int) -> bytes:
        self.align()
        begin = self._position // 8
        if begin + length > len(self._data):
            raise errors.FormatError(f"the data ends in the middle of bytes ({begin})")
        self._position += 8 * length
        return self._data[begin : begin + length]

    def _integer(self, bounds: Bounds) -> int:
        return bounds[0] + self._bits(bounds[1])

    def _bits(self, count: int) -> int:
        position, end = self._position, self._position + count
        if end > 8 * len(self._data):
            raise errors.FormatError(_ENDS_EARLY.format(position // 8))
        self._position = end
        offset = position % 8
        if 0 < count <= 8 - offset:  # most values lie within one byte
            return self._data[position // 8] >> offset & (1 << count) - 1
        value = 0
        while position < end:
            offset = position % 8
            width = min(end - position, 8 - offset)
            piece = self._data[position // 8] >> offset & (1 << width) - 1
            value = value << width | piece
            position += width
        return value


class BitPackedWriter:
    """Writes values, given as s2protocol's decoders return them, one after the other."""

    def __init__(self, types: TypeTable) -> None:
        self._types = types
        self._bytes = bytearray()
        self._free_bits = 0  # unused high bits of the last byte

    def write(self, number: int, value: Any) -> None:
        """Appends a value of the type with this number."""
        kind, arguments = self._types[number]
        getattr(self, kind)(value, *arguments)

    def align(self) -> None:
        """Moves to the next whole byte."""
        self._free_bits = 0

    def getvalue(self) -> bytes:
        """Returns everything written so far."""
        return bytes(self._bytes)

    def bits(self, value: int, count: int) -> None:
        """Appends a number of `count` bits; ValueError if it does not fit in them."""
        if value < 0 or value >> count:
            raise ValueError(f"{value} does not fit in {count} bits")
        while count:
            if not self._free_bits:
                self._bytes.append(0)
                self._free_bits = 8
            width = min(count, self._free_bits)
            count -= width
            piece = (value >> count) & ((1 << width) - 1)
            self._bytes[-1] |= piece << (8 - self._free_bits)
            self._free_bits -= width

    # One method for each kind of type that the game writes, named as in the table.

    def _int(self, value: int, bounds: Bounds) -> None:
        self.bits(value - bounds[0], bounds[1])

    def _bool(self, value: bool) -> None:
        self.bits(int(value), 1)

    def _null(self, value: None) -> None:
        pass

    def _array(self, values: list[Any], bounds: Bounds, number: int) -> None:
        self._int(len(values), bounds)
        for value in values:
            self.write(number, value)

    def _bitarray(self, value: tuple[int, int], bounds: Bounds) -> None:
        length, content = value
        self._int(length, bounds)
        self.bits(content, length)

    def _blob(self, value: bytes, bounds: Bounds) -> None:
        self._int(len(value), bounds)
        self.align()
        self._bytes += value

    def _fourcc(self, value: str) -> None:
        for byte in value.encode("latin1"):
            self.bits(byte, 8)

    def _optional(self, value: Any, number: int) -> None:
        self.bits(int(value is not None), 1)
        if value is not None:
            self.write(number, value)

    def _choice(
        self,
        value: Mapping[str, Any],
        bounds: Bounds,
        choices: Mapping[int, tuple[str, int]],
    ) -> None:
        tag, number, content = type_table.tagged_choice(value, choices)
        self._int(tag, bounds)
        self.write(number, content)

    def _struct(self, value: Any, fields: list[tuple[str, int, int]]) -> None:
        for name, number, _ in fields:
            self.write(number, value if name == type_table.PARENT else value[name])
