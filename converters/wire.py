"""Protobuf wire bytes to columns, without making message objects.

In: the bytes of one message, and tables made from its descriptor. Out: numbers in arrays.
Two passes: `check` walks the whole message by its grammar and refuses what protobuf's own
parser refuses; `scan` then reads what it is told to, and can trust every length it meets.
The rules are protobuf's: unknown fields and wrong wire types are skipped, the last value of
a scalar wins, parts of a singular message merge, repeated numbers come packed or not, and a
number that a closed enum does not have leaves the field as it was.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from numpy.typing import NDArray

from starmill.schema.compilation import bare_inlined, bare_kernel, compiled

_VARINT, _FIXED64, _DELIMITED, _GROUP, _GROUP_END, _FIXED32 = range(6)
# What `scan` does with a tag: step over a value of the wire type of the same number; put a
# number into its column; or hand the caller the bytes that a field spans, which are a
# sub-message, a string of bytes, or repeated varints (one, if they are not packed).
_NUMBER, _TRACKED, _BOOL, _ENUM, _FLOAT, _SPAN, _SINGLE = range(8, 15)
# `check` may read some bytes beyond the end of a message, so it reads the last ones from a
# copy with zeros behind. A tag and a number are 20 bytes at most.
_TAIL, _PADDING = 32, 32
# A position that is beyond every end.
_NOWHERE = 1 << 62
# Messages and groups may nest this deep; protobuf's parsers stop here too.
MAX_DEPTH = 100

# Types that are cut to some bits: (bits kept, sign bit).
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (2**32 - 1, 2**31),
    FieldDescriptor.TYPE_UINT32: (2**32 - 1, 0),
    FieldDescriptor.TYPE_UINT64: (-1, 0),
}
_FIXED_SIZES = {
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
}


def _packing(field: FieldDescriptor) -> int:
    if not field.is_repeated or field.type in (
        FieldDescriptor.TYPE_STRING,
        FieldDescriptor.TYPE_BYTES,
    ):
        return 0
    return -_FIXED_SIZES.get(field.type, 1)


def grammar(descriptor: Descriptor) -> NDArray[np.int16]:
    """Returns what `check` must know of a message type and all that it can hold.

    [message, field], row 0 being the type itself: the row of a sub-message's type plus 1; -1
    for packable varints; -4 and -8 for packable numbers of that size; 0 for all others.
    """
    rows: dict[str, int] = {descriptor.full_name: 0}
    order = [descriptor]
    entries: list[tuple[int, int, int]] = []
    for row, message in enumerate(order):  # grows while it runs
        for field in message.fields:
            inner = field.message_type
            if inner is None:
                entries.append((row, field.number, _packing(field)))
                continue
            if inner.full_name not in rows:
                rows[inner.full_name] = len(order)
                order.append(inner)
            entries.append((row, field.number, rows[inner.full_name] + 1))
    numbers = np.zeros((len(order), max(e[1] for e in entries) + 1), np.int16)
    for row, number, value in entries:
        numbers[row, number] = value
    numbers.setflags(write=False)
    return numbers


def reading(
    descriptor: Descriptor,
    columns: Mapping[str, int],
    spans: tuple[str, ...] = (),
    presence: Mapping[str, int] = MappingProxyType({}),
) -> NDArray[np.int64]:
    """Returns the table by which `scan` reads a message, a row per tag (field and wire type).

    Row: what to do, the column, the bits to keep (of an enum, the set of its values), the
    sign bit, and the column that notes the field's presence.

    Args:
        descriptor: of the message.
        columns: field name -> column, for scalars. The column is in the float array
            for float fields, in the integer array for all others.
        spans: names of the fields handed to the caller.
        presence: integer field -> integer column that becomes 1 where the message has it.
    """
    rows = 8 * (max(field.number for field in descriptor.fields) + 1)
    table = np.zeros((rows, 5), np.int64)
    table[:, 0] = np.arange(rows) & 7
    for name, column in columns.items():
        field = descriptor.fields_by_name[name]
        tag = field.number << 3
        if field.type == FieldDescriptor.TYPE_FLOAT:
            table[tag | _FIXED32, :2] = _FLOAT, column
        elif field.type == FieldDescriptor.TYPE_BOOL:
            table[tag, :2] = _BOOL, column
        elif field.enum_type is not None:
            values = sum(1 << value.number for value in field.enum_type.values)
            table[tag, :3] = _ENUM, column, values
        else:
            kind = _TRACKED if name in presence else _NUMBER
            bits = _INTEGERS[field.type]
            table[tag] = kind, column, *bits, presence.get(name, 0)
    for name in spans:
        field = descriptor.fields_by_name[name]
        table[field.number << 3 | _DELIMITED, 0] = _SPAN
        if field.type in _INTEGERS:
            table[field.number << 3, 0] = _SINGLE
    table.setflags(write=False)
    return table


def tail_of(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns a message's last bytes with zeros behind, as `check` needs them."""
    tail = np.zeros(_TAIL + _PADDING, np.uint8)
    last = data[-_TAIL:]
    tail[: len(last)] = last
    return tail


def make_stack() -> NDArray[np.int64]:
    """Returns room for what `check` must remember of the messages around the present one."""
    return np.empty((MAX_DEPTH, 3), np.int64)


@bare_kernel
def _long_varint(data, pos):  # type: ignore[no-untyped-def]
    value, shift = np.uint64(0), np.uint64(0)
    for i in range(10):
        byte = np.uint64(data[pos + i])
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            # The tenth byte has room for one bit; like protobuf, others are lost.
            return value, pos + i + 1
        shift += np.uint64(7)
    return value, _NOWHERE


@bare_inlined
def varint(data, pos):  # type: ignore[no-untyped-def]
    """Returns the number at pos and the position after it; _NOWHERE if it is too long.

    Reads at most ten bytes, and does not look where the message ends.
    """
    # Nearly all have one or two bytes; written so that this compiles to very little.
    one = data[np.uint64(pos)]
    if one < 0x80:
        return np.uint64(one), pos + 1
    two = data[np.uint64(pos + 1)]
    if two < 0x80:
        return np.uint64(one & 0x7F) | np.uint64(two) << np.uint64(7), pos + 2
    return _long_varint(data, pos)


@bare_kernel
def _is_packed(data, pos, end, size):  # type: ignore[no-untyped-def]
    if size > 1:
        return (end - pos) % size == 0
    # With this, no number inside reaches beyond the end.
    if pos < end and data[end - 1] >= 0x80:
        return False
    while pos < end:
        _, pos = varint(data, pos)
    return pos == end


@bare_inlined
def _kind(numbers, message, field):  # type: ignore[no-untyped-def]
    if message < 0 or field >= numbers.shape[1]:
        return np.int64(0)
    return np.int64(numbers[message, field])


# One loop over all fields, whatever their depth: calls would cost more than the work.
@bare_kernel
def check(data, tail, numbers, stack):  # type: ignore[no-untyped-def]  # noqa: C901
    """Returns -1 if the bytes are a message of the grammar, else where they stop being one.

    Args:
        data: uint8, the message.
        tail: from `tail_of`.
        numbers: from `grammar`.
        stack: from `make_stack`.
    """
    # What is open around the present message or group: where it ends, its row in the
    # grammar (-1 in a group, of which nothing is known), a group's field number (else 0).
    depth, pos, end = 0, 0, len(data)
    message, group = np.int64(0), np.int64(0)
    # Positions count from `base`: once the last bytes are reached, from their beginning.
    base, last = 0, max(0, len(data) - _TAIL)
    while True:
        while pos == end and group == 0:
            if depth == 0:
                return -1
            depth -= 1
            end, message, group = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if pos >= last:
            data, base = tail, last
            pos -= base
            end -= base
            for k in range(depth):
                stack[k, 0] -= base
            last = _NOWHERE
        start = base + pos
        tag, pos = varint(data, pos)
        field, wire = np.int64(tag >> np.uint64(3)), np.int64(tag & np.uint64(7))
        if field == 0 or base + pos - start > 5 or tag > np.uint64(0xFFFFFFFF):
            return start
        inner_end, inner, inner_group = end, np.int64(-1), np.int64(0)
        opens = False
        if wire == _VARINT:
            _, pos = varint(data, pos)
        elif wire == _FIXED32:
            pos += 4
        elif wire == _DELIMITED:
            length, pos = varint(data, pos)
            if pos > end or length > np.uint64(end - pos):
                return start
            kind = _kind(numbers, message, field)
            inner_end, inner = pos + np.int64(length), kind - 1
            opens = kind > 0
            if not opens:
                if kind < 0 and not _is_packed(data, pos, inner_end, -kind):
                    return start
                pos = inner_end
        elif wire == _FIXED64:
            pos += 8
        elif wire == _GROUP:
            opens, inner_group = True, field
        elif wire == _GROUP_END and group == field:
            depth -= 1
            # A group ends with the message around it at the latest.
            if pos > end:
                return start
            end, message, group = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        else:
            return start
        if pos > end:
            return start
        if opens:
            if depth == MAX_DEPTH:
                return start
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = end, message, group
            depth += 1
            end, message, group = inner_end, inner, inner_group


@bare_kernel
def _after(data, pos, wire):  # type: ignore[no-untyped-def]
    """Returns the position after a value that is no group, in bytes that were checked."""
    if wire == _VARINT:
        return varint(data, pos)[1]
    if wire == _DELIMITED:
        length, pos = varint(data, pos)
        return pos + np.int64(length)
    return pos + (4 if wire == _FIXED32 else 8)


@bare_kernel
def _after_group(data, pos):  # type: ignore[no-untyped-def]
    depth = 1
    while depth > 0:
        tag, pos = varint(data, pos)
        wire = np.int64(tag & np.uint64(7))
        if wire == _GROUP:
            depth += 1
        elif wire == _GROUP_END:
            depth -= 1
        else:
            pos = _after(data, pos, wire)
    return pos


@bare_inlined
def _uint32(data, pos):  # type: ignore[no-untyped-def]
    return (
        np.uint32(data[np.uint64(pos)])
        | np.uint32(data[np.uint64(pos + 1)]) << np.uint32(8)
        | np.uint32(data[np.uint64(pos + 2)]) << np.uint32(16)
        | np.uint32(data[np.uint64(pos + 3)]) << np.uint32(24)
    )


@bare_inlined
def _store(value, kind, table, at, integers):  # type: ignore[no-untyped-def]
    """Puts a varint into its column, cut to the field's type."""
    column = np.uint64(table[np.uint64(at), 1])
    if kind == _BOOL:
        integers[column] = value != np.uint64(0)
    elif kind == _NUMBER and value < np.uint64(0x80000000):
        integers[column] = np.int64(value)  # most are small, and the same in every type
    elif kind == _ENUM:
        # Enums are int32; a number that the enum does not have is as if not there.
        number = value & np.uint64(0xFFFFFFFF)
        if number < np.uint64(63) and (table[at, 2] >> np.int64(number)) & 1:
            integers[column] = np.int64(number)
    else:
        sign = table[at, 3]
        integers[column] = ((np.int64(value) & table[at, 2]) ^ sign) - sign
        if kind == _TRACKED:
            integers[table[at, 4]] = 1


@bare_kernel
def scan(data, pos, end, table, integers, floats):  # type: ignore[no-untyped-def]
    """Reads scalars into columns up to the next field that the caller reads itself.

    Returns (position to go on from, field number, start, stop); field number 0 at the end.
    The bytes must have passed `check`.

    Args:
        data: uint8.
        pos: where to begin.
        end: where the message ends.
        table: from `reading`.
        integers: the record's int64 columns.
        floats: the record's float32 columns, seen as uint32: their bits are copied.
    """
    while pos < end:
        tag, pos = varint(data, pos)
        at = np.int64(tag)
        kind = table[np.uint64(at), 0] if at < len(table) else at & 7
        if _NUMBER <= kind <= _ENUM:
            value, pos = varint(data, pos)
            _store(value, kind, table, at, integers)
        elif kind == _FLOAT:
            floats[np.uint64(table[np.uint64(at), 1])] = _uint32(data, pos)
            pos += 4
        elif kind == _SPAN:
            length, pos = varint(data, pos)
            stop = pos + np.int64(length)
            return stop, at >> 3, pos, stop
        elif kind == _SINGLE:
            start = pos
            _, pos = varint(data, pos)
            return pos, at >> 3, start, pos
        elif kind == _GROUP:
            pos = _after_group(data, pos)
        else:
            pos = _after(data, pos, kind)
    return pos, 0, pos, pos


@compiled
def gather(data, tail, numbers, field):  # type: ignore[no-untyped-def]
    """Returns all top-level occurrences of a field, tags included, one after the other.

    The second result is -1, or the offset at which the bytes are no message.

    Args:
        data: uint8, the message.
        tail: from `tail_of`.
        numbers: from `grammar`.
        field: the field's number.
    """
    end = len(data)
    out = np.empty(end, np.uint8)
    size, pos = 0, 0
    bad = check(data, tail, numbers, np.empty((MAX_DEPTH, 3), np.int64))
    while bad < 0 and pos < end:
        start = pos
        tag, pos = varint(data, pos)
        wire = np.int64(tag & np.uint64(7))
        pos = _after_group(data, pos) if wire == _GROUP else _after(data, pos, wire)
        if np.int64(tag >> np.uint64(3)) == field:
            out[size : size + pos - start] = data[start:pos]
            size += pos - start
    return out[:size], bad
