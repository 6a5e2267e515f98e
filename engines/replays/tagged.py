"""The tagged encoding, read and written: a replay's header, details and tracker events.

In: bytes, or values with the type that s2protocol's table gives them. Out: the other of the
two. The encoding describes itself, so it can be read without a table; `named` then adds the
names. A value is one byte for its kind and then:

    0 array     length, that many values       5 struct   count, that many (tag, value)
    1 bits      number of bits, bytes          6 byte     one byte
    2 blob      length, bytes                  7 letters  four bytes
    3 choice    tag, value                     8 double   eight bytes
    4 optional  a byte: 0, or 1 and a value    9 number   itself

Lengths, tags and numbers are one or more bytes. The first holds the sign in its lowest bit,
then six bits, the following ones seven bits each, lowest first; a byte's highest bit says that
another follows. Damaged bytes raise FormatError, and too much work raises ReplayError.
"""

from collections.abc import Mapping
from typing import Any

from starmill.engines.replays import type_table
from starmill.engines.replays.limits import Meter
from starmill.engines.replays.type_table import Bounds, TypeTable
from starmill.schema import errors

_ARRAY, _BITS, _BLOB, _CHOICE, _OPTIONAL, _STRUCT, _BYTE, _LETTERS, _DOUBLE, _NUMBER = (
    range(10)
)
_MAX_DEPTH = 32  # real values are nested seven deep at most
_MAX_NUMBER_BITS = 70
_ENDS_EARLY = "the data ends in the middle of a value (byte {})"


class TaggedReader:
    """Reads values one after the other.

    A struct becomes a dict from tag to value, and a choice a pair (tag, value).

    Attributes:
        meter: bounds the work. It may be replaced between values.
        position: of the next byte.
    """

    def __init__(self, data: bytes, meter: Meter) -> None:
        self._data = data
        self.meter = meter
        self.position = 0

    @property
    def done(self) -> bool:
        """Returns whether all bytes have been read."""
        return self.position >= len(self._data)

    def value(self) -> Any:
        """Returns the next value."""
        try:
            return self._value(0)
        except IndexError as error:
            # Single bytes are read without checking that they are there: this is the
            # inner loop of the index.
            raise errors.FormatError(_ENDS_EARLY.format(self.position)) from error

    def _value(self, depth: int) -> Any:
        self.meter.tick()
        kind = self._data[self.position]
        self.position += 1
        if kind == _NUMBER:
            return self._number()
        if kind == _BLOB:
            return self._bytes(self._length())
        if depth > _MAX_DEPTH:
            raise errors.FormatError(f"nested too deeply (byte {self.position})")
        if kind == _STRUCT:
            fields = {}
            for _ in range(self._length()):
                tag = self._number()
                fields[tag] = self._value(depth + 1)
            return fields
        if kind in (_OPTIONAL, _BYTE):
            byte = self._data[self.position]
            self.position += 1
            if kind == _BYTE:
                return byte
            return self._value(depth + 1) if byte else None
        return self._rare_value(kind, depth)

    def _rare_value(self, kind: int, depth: int) -> Any:
        if kind == _ARRAY:
            return [self._value(depth + 1) for _ in range(self._length())]
        if kind == _BITS:
            bits = self._number()
            return bits, self._bytes((bits + 7) // 8)
        if kind == _CHOICE:
            return self._number(), self._value(depth + 1)
        if kind in (_LETTERS, _DOUBLE):
            return self._bytes(4 if kind == _LETTERS else 8)
        raise errors.FormatError(
            f"expected a value, found kind {kind} (byte {self.position - 1})"
        )

    def _bytes(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self._data):
            raise errors.FormatError(_ENDS_EARLY.format(self.position))
        value = self._data[self.position : end]
        self.position = end
        return value

    def _number(self) -> int:
        data, position = self._data, self.position
        byte = data[position]
        position += 1
        negative = byte & 1
        value, bits = byte >> 1 & 0x3F, 6
        while byte & 0x80:
            if bits > _MAX_NUMBER_BITS:
                raise errors.FormatError(f"number too long (byte {position})")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << bits
            bits += 7
        self.position = position
        return -value if negative else value

    def _length(self) -> int:
        """Returns a number of items, each of which takes at least a byte."""
        count = self._number()
        if not 0 <= count <= len(self._data) - self.position:
            raise errors.FormatError(
                f"expected at most {len(self._data) - self.position} items, "
                f"found {count} (byte {self.position})"
            )
        return count


def named(value: Any, types: TypeTable, number: int) -> Any:
    """Returns a value with its type's names in place of tags; omits unknown tags."""
    kind, arguments = types[number]
    if kind == "_struct" and isinstance(value, dict):
        return _named_struct(value, types, arguments[0])
    if kind == "_array" and isinstance(value, list):
        return [named(item, types, arguments[1]) for item in value]
    if kind == "_optional" and value is not None:
        return named(value, types, arguments[0])
    if kind == "_choice" and isinstance(value, tuple):
        field = arguments[1].get(value[0])
        return {field[0]: named(value[1], types, field[1])} if field else {}
    return bool(value) if kind == "_bool" else value


def _named_struct(
    value: dict[int, Any], types: TypeTable, fields: list[tuple[str, int, int]]
) -> dict[str, Any]:
    struct: dict[str, Any] = {}
    for name, number, tag in fields:
        if tag not in value:
            continue
        content = named(value[tag], types, number)
        if name == type_table.PARENT and isinstance(content, dict):
            struct.update(content)
        else:
            struct[name] = content
    return struct


class TaggedWriter:
    """Writes values, given as s2protocol's decoders return them, one after the other."""

    def __init__(self, types: TypeTable) -> None:
        self._types = types
        self._bytes = bytearray()

    def write(self, number: int, value: Any) -> None:
        """Appends a value of the type with this number."""
        kind, arguments = self._types[number]
        getattr(self, kind)(value, *arguments)

    def getvalue(self) -> bytes:
        """Returns everything written so far."""
        return bytes(self._bytes)

    # One method for each kind of type that the game writes, named as in the table.

    def _int(self, value: int, bounds: Bounds) -> None:
        self._bytes.append(_NUMBER)
        self._number(value)

    def _bool(self, value: bool) -> None:
        self._bytes += bytes((_BYTE, int(value)))

    def _null(self, value: None) -> None:
        pass

    def _array(self, values: list[Any], bounds: Bounds, number: int) -> None:
        self._bytes.append(_ARRAY)
        self._number(len(values))
        for value in values:
            self.write(number, value)

    def _blob(self, value: bytes, bounds: Bounds) -> None:
        self._bytes.append(_BLOB)
        self._number(len(value))
        self._bytes += value

    def _fourcc(self, value: bytes) -> None:
        self._bytes.append(_LETTERS)
        self._bytes += value

    def _optional(self, value: Any, number: int) -> None:
        self._bytes += bytes((_OPTIONAL, int(value is not None)))
        if value is not None:
            self.write(number, value)

    def _choice(
        self,
        value: Mapping[str, Any],
        bounds: Bounds,
        choices: Mapping[int, tuple[str, int]],
    ) -> None:
        tag, number, content = type_table.tagged_choice(value, choices)
        self._bytes.append(_CHOICE)
        self._number(tag)
        self.write(number, content)

    def _struct(
        self, value: Mapping[str, Any], fields: list[tuple[str, int, int]]
    ) -> None:
        present = [field for field in fields if field[0] in value]
        present.sort(key=lambda field: field[2])  # the game orders them by tag
        self._bytes.append(_STRUCT)
        self._number(len(present))
        for name, number, tag in present:
            self._number(tag)
            self.write(number, value[name])

    def _number(self, value: int) -> None:
        rest = abs(value)
        byte = int(value < 0) | ((rest & 0x3F) << 1)
        rest >>= 6
        while rest:
            self._bytes.append(byte | 0x80)
            byte = rest & 0x7F
            rest >>= 7
        self._bytes.append(byte)
