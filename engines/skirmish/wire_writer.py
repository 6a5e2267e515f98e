"""The few pieces of protobuf's wire format that answers are put together from.

Knows varints and length-delimited fields, no message.
"""

from collections.abc import Sequence

_LENGTH = 2
_SHORT = tuple(bytes([value]) for value in range(0x80))


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


def pieces(number: int, payload: Sequence[bytes]) -> list[bytes]:
    """Returns a length-delimited field in pieces: large ones are joined once, at the end."""
    size = sum(len(piece) for piece in payload)
    return [varint(number << 3 | _LENGTH), varint(size), *payload]
