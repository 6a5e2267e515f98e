"""Protobuf's wire format, for messages that are read or written without message classes.

Enters: bytes of a message, or numbers and payloads. Leaves: the places of its fields, or bytes.
Must not know: any message. `converters/wire` reads whole messages by tables, compiled.

    field    = tag content
    tag      = varint of (number << 3 | wire type)
    content  = VARINT: a varint      FIXED64: 8 bytes      FIXED32: 4 bytes
               DELIMITED: a varint with the size, then that many bytes
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
# A varint holds seven bits per byte, and 64 bits in all.
_MAX_SHIFT = 70
_ONE_BYTE = tuple(bytes([value]) for value in range(0x80))


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: by which the message's definition knows the field.
        value: the integer of a varint; -1 for the other wire types.
        tag_start: offset of the tag.
        start: offset of the content, behind the tag and, if it has one, the size.
        end: offset of the first byte after the content.
    """

    number: int
    value: int
    tag_start: int
    start: int
    end: int


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """Yields the top-level fields of the message in data[start:end].

    Raises DecodeError if these bytes are not a message.
    """
    at, stop = start, len(data) if end is None else end
    while at < stop:
        tag_start = at
        tag_value, at = _read_varint(data, at, stop)
        wire_type, value, begin = tag_value & 7, -1, at
        if wire_type == VARINT:
            value, at = _read_varint(data, at, stop)
        elif wire_type == DELIMITED:
            size, begin = _read_varint(data, at, stop)
            at = begin + size
        elif wire_type == FIXED64:
            at += 8
        elif wire_type == FIXED32:
            at += 4
        else:
            raise DecodeError(f"unexpected wire type {wire_type} at byte {tag_start}")
        if at > stop:
            raise DecodeError(
                f"field {tag_value >> 3} extends beyond the message's end at byte {stop}"
            )
        yield Field(tag_value >> 3, value, tag_start, begin, at)


def _read_varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    value = shift = 0
    while at < stop and shift < _MAX_SHIFT:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise DecodeError(f"a number does not end at byte {at}")


def varint(value: int) -> bytes:
    """Returns a number as a varint; a negative one as its 64-bit complement."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    """Returns the tag of a field: what stands before its content."""
    return varint(number << 3 | wire_type)


def varint_field(number: int, value: int) -> bytes:
    """Returns a field that holds an integer, a boolean or an enum."""
    return tag(number, VARINT) + varint(value)


def double_field(number: int, value: float) -> bytes:
    """Returns a field that holds a float of 64 bits."""
    return tag(number, FIXED64) + struct.pack("<d", value)


def float_field(number: int, value: float) -> bytes:
    """Returns a field that holds a float of 32 bits."""
    return tag(number, FIXED32) + struct.pack("<f", value)


def bytes_field(number: int, content: bytes) -> bytes:
    """Returns a field that holds a string, bytes or a message."""
    return tag(number, DELIMITED) + varint(len(content)) + content


def bytes_field_parts(number: int, content: Sequence[bytes]) -> list[bytes]:
    """Returns `bytes_field` of the joined content in parts, to be joined once at the end."""
    size = sum(len(part) for part in content)
    return [tag(number, DELIMITED), varint(size), *content]
