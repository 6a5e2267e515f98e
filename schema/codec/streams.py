"""What sections are made of, written and read: codes, varints and streams of integers.

In: integers and a buffer, or a section's bytes. Out: the buffer filled, or integers.
Knows no arrays of an episode. Compiled and GIL-free. A position is negative where a section
contradicts itself (`bounds`); functions that are given such a position return it.

    varint   seven bits a byte, lowest first; the top bit says that more follow

                 1lllllll  0hhhhhhh

    stream   n unsigned integers of w bytes each, byte plane by byte plane. Planes of small or
             slowly changing numbers are runs, which zstd compresses well.

                 n lowest bytes | n second bytes | ...           w = 0, 1, 2 or 4
                 ^begin         ^begin + n       ^begin + 2 n

             w is the fewest bytes that hold the largest number and is stored elsewhere, as a
             width code of two bits: 0, 1, 2, 3. A width of 0 says that all numbers are 0.

    zigzag   a difference of two int32, modulo 2**32, as an unsigned number that is small where
             the difference is: 0, -1, 1, -2, ... are 0, 1, 2, 3, ...
"""

from typing import NamedTuple

import numpy as np

from starmill.schema.codec.bounds import NUMBER, STREAM
from starmill.schema.compilation import checked_kernel, inlined

# How a column of series stores its changes.
STILL, SPARSE, DENSE = 0, 1, 2
# How the order of a step's unit rows follows from the step before.
SAME, INSERTED, LISTED = 0, 1, 2
# How a plane stores its first step.
AS_REFERENCE, PATCHED, WHOLE = 0, 1, 2
# Width code of numbers that need more than two bytes.
WIDEST = 3
# A varint in a section holds at most 42 bits.
_MAX_SHIFT = 35


class Stream(NamedTuple):
    """Where a stream is.

    Attributes:
        begin: offset of its first byte in the section.
        size: how many numbers it has.
        code: width code of its numbers.
    """

    begin: int
    size: int
    code: int


@inlined
def width(code):
    """Returns the bytes of a number with this width code."""
    return 4 if code == WIDEST else code


@checked_kernel
def width_code(largest):
    """Returns the code of the fewest bytes that hold a number."""
    if largest == 0:
        return 0
    if largest < 1 << 8:
        return 1
    if largest < 1 << 16:
        return 2
    return WIDEST


@checked_kernel
def largest(values, count):
    """Returns the largest of the first `count` values, 0 if there are none."""
    result = np.int64(0)
    for i in range(count):
        result = max(result, np.int64(values[i]))
    return result


@inlined
def wrap32(value):
    """Returns the int32 that equals a number modulo 2**32."""
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


@checked_kernel
def zigzag(delta):
    """Returns a difference of two int32 as an unsigned number below 2**32."""
    delta = wrap32(delta)
    return ((delta << 1) ^ (delta >> 31)) & 0xFFFFFFFF


@inlined
def unzigzag(value):
    """Returns the difference that `zigzag` encoded."""
    return (value >> 1) ^ -(value & 1)


@checked_kernel
def copy_bytes(target, source):
    """Copies as many elements as the target has."""
    # A loop compiles to memcpy; numba's slice assignment is twenty times slower.
    for i in range(target.size):
        target[i] = source[i]


@checked_kernel
def put_uint32(buf, pos, value):
    """Writes four bytes; returns the position after them."""
    for plane in range(4):
        buf[pos + plane] = (value >> (8 * plane)) & 0xFF
    return pos + 4


@checked_kernel
def put_varint(buf, pos, value):
    """Writes a varint; returns the position after it."""
    while value >= 0x80:
        buf[pos] = (value & 0x7F) | 0x80
        value >>= 7
        pos += 1
    buf[pos] = value
    return pos + 1


@checked_kernel
def put_stream(buf, pos, values, count, code):
    """Writes the first `count` values as a stream; returns the position after it."""
    for plane in range(width(code)):
        shift = 8 * plane
        for i in range(count):
            buf[pos + i] = (values[i] >> shift) & 0xFF
        pos += count
    return pos


@inlined
def is_inside(buf, pos, size):
    """Returns whether the section has `size` bytes at a position."""
    return size >= 0 and pos >= 0 and pos + size <= buf.size


@checked_kernel
def byte_at(buf, pos):
    """Returns one byte as int64; negative where there is none."""
    if pos < 0:
        return np.int64(pos)
    if pos >= buf.size:
        return np.int64(-STREAM)
    return np.int64(buf[pos])


@checked_kernel
def read_varint(buf, pos):
    """Returns (value of the varint at a position, position after it)."""
    if pos < 0:
        return np.int64(0), np.int64(pos)
    value = np.int64(0)
    shift = 0
    while True:
        if pos >= buf.size or shift > _MAX_SHIFT:
            return np.int64(0), np.int64(-NUMBER)
        byte = np.int64(buf[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, np.int64(pos)
        shift += 7


@checked_kernel
def uint32_at(buf, pos):
    """Returns the number that `put_uint32` wrote; negative where there is none."""
    if not is_inside(buf, pos, 4):
        return np.int64(-STREAM)
    return number_at(buf, Stream(pos, np.int64(1), np.int64(WIDEST)), 0)


@inlined
def number_at(buf, stream, index):
    """Returns one number of a stream; the caller checks that index and stream are inside."""
    if stream.code == 0:
        return np.int64(0)
    at = stream.begin + index
    value = np.int64(buf[at])
    if stream.code >= 2:
        value |= np.int64(buf[at + stream.size]) << 8
    if stream.code == WIDEST:
        value |= np.int64(buf[at + 2 * stream.size]) << 16
        value |= np.int64(buf[at + 3 * stream.size]) << 24
    return value


@inlined
def end_of(stream):
    """Returns the position after a stream."""
    return stream.begin + stream.size * width(stream.code)
