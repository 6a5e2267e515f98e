"""Protobuf wire bytes to columns, without making message objects.

In: the bytes of one message, and tables made from its descriptor. Out: numbers in arrays.
Two passes: `check` walks the whole message by the descriptor and refuses what protobuf's own
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

from starmill.converters.kernel import compiled

# How a field is read. Scalars land in a column; a RANGE is handed to the caller as the
# bytes it spans: a sub-message, a string of bytes, or repeated varints (packed or not).
SKIP, INT32, UINT32, UINT64, BOOL, ENUM, FLOAT, MESSAGE, VARINTS = range(9)
_VARINT, _FIXED64, _DELIMITED, _GROUP, _GROUP_END, _FIXED32 = range(6)
# Messages and groups may nest this deep; protobuf's parsers stop here too.
MAX_DEPTH = 100
# What `check` keeps of an open message or group: where it ends, its row in the grammar (-1
# if it is a group, of which nothing is known), and the group's field number (0 for messages).
_END, _TYPE, _OPEN_GROUP = range(3)

_SCALARS = {
    FieldDescriptor.TYPE_INT32: INT32,
    FieldDescriptor.TYPE_UINT32: UINT32,
    FieldDescriptor.TYPE_UINT64: UINT64,
    FieldDescriptor.TYPE_BOOL: BOOL,
    FieldDescriptor.TYPE_ENUM: ENUM,
    FieldDescriptor.TYPE_FLOAT: FLOAT,
}
_FIXED_SIZES = {
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
}


def reading(
    descriptor: Descriptor,
    columns: Mapping[str, int],
    ranges: tuple[str, ...] = (),
    presence: Mapping[str, int] = MappingProxyType({}),
) -> NDArray[np.int64]:
    """Returns the table by which `scan` reads a message: [field, (kind, column, extra)].

    extra: for an enum the set of its values as bits, otherwise the column that notes the
    field's presence, 0 for none.

    Args:
        descriptor: of the message.
        columns: field name -> column, for scalars. The column is in the float array
            for float fields, in the integer array for all others.
        ranges: names of the fields handed to the caller.
        presence: field name -> integer column above 0 that becomes 1 where a field stored
            as varint, but no enum, is in the message.
    """
    table = np.zeros((max(f.number for f in descriptor.fields) + 1, 3), np.int64)
    for name, column in columns.items():
        field = descriptor.fields_by_name[name]
        extra = presence.get(name, 0)
        if field.enum_type is not None:
            extra = sum(1 << value.number for value in field.enum_type.values)
        table[field.number] = _SCALARS[field.type], column, extra
    for name in ranges:
        field = descriptor.fields_by_name[name]
        delimited = field.type in (
            FieldDescriptor.TYPE_MESSAGE,
            FieldDescriptor.TYPE_BYTES,
        )
        table[field.number] = MESSAGE if delimited else VARINTS, 0, 0
    table.setflags(write=False)
    return table


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
            value = 0
            if field.message_type is not None:
                inner = field.message_type
                if inner.full_name not in rows:
                    rows[inner.full_name] = len(order)
                    order.append(inner)
                value = rows[inner.full_name] + 1
            elif field.is_repeated and field.type in _FIXED_SIZES:
                value = -_FIXED_SIZES[field.type]
            elif field.is_repeated and field.type not in (
                FieldDescriptor.TYPE_STRING,
                FieldDescriptor.TYPE_BYTES,
            ):
                value = -1
            entries.append((row, field.number, value))
    numbers = np.zeros((len(order), max(e[1] for e in entries) + 1), np.int16)
    for row, number, value in entries:
        numbers[row, number] = value
    numbers.setflags(write=False)
    return numbers


@compiled
def varint(data, pos, end):  # type: ignore[no-untyped-def]  # numba infers types
    """Returns the number at pos and the position after it; position -1 if there is none."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for i in range(10):
        if pos + i >= end:
            return value, -1
        byte = np.uint64(data[pos + i])
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            # The tenth byte has room for one bit.
            if i == 9 and byte > np.uint64(1):
                return value, -1
            return value, pos + i + 1
        shift += np.uint64(7)
    return value, -1


@compiled
def _check_packed(data, pos, end, size):  # type: ignore[no-untyped-def]
    if size > 1:
        return (end - pos) % size == 0
    while pos < end:
        _, pos = varint(data, pos, end)
        if pos < 0:
            return False
    return True


@compiled
def _after_scalar(data, pos, end, wire):  # type: ignore[no-untyped-def]
    """Returns the position after a number of the wire type; -1 if it is cut or unknown."""
    if wire == _VARINT:
        return varint(data, pos, end)[1]
    size = 8 if wire == _FIXED64 else 4 if wire == _FIXED32 else 0
    return pos + size if size and pos + size <= end else -1


@compiled
def _push(stack, depth, end, message, group):  # type: ignore[no-untyped-def]
    """Opens a message or group; returns the new depth, -1 if that is too deep."""
    if depth == MAX_DEPTH:
        return -1
    stack[depth + 1, _END] = end
    stack[depth + 1, _TYPE] = message
    stack[depth + 1, _OPEN_GROUP] = group
    return depth + 1


@compiled
def _check_delimited(data, pos, field, stack, depth, numbers):  # type: ignore[no-untyped-def]
    """Enters a sub-message or steps over bytes; returns (pos, depth), -1 if malformed."""
    end, message = stack[depth, _END], stack[depth, _TYPE]
    length, pos = varint(data, pos, end)
    if pos < 0 or length > np.uint64(end - pos):
        return -1, depth
    stop = pos + np.int64(length)
    kind = 0
    if message >= 0 and field < numbers.shape[1]:
        kind = numbers[message, field]
    if kind > 0:
        return pos, _push(stack, depth, stop, kind - 1, 0)
    if kind < 0 and not _check_packed(data, pos, stop, -kind):
        return -1, depth
    return stop, depth


@compiled
def _check_field(data, pos, stack, depth, numbers):  # type: ignore[no-untyped-def]
    """Checks one tag and what it announces; returns (pos, depth), -1 if malformed."""
    start, end = pos, stack[depth, _END]
    tag, pos = varint(data, pos, end)
    if pos < 0 or pos - start > 5 or tag > np.uint64(0xFFFFFFFF):
        return -1, depth
    field, wire = np.int64(tag >> np.uint64(3)), np.int64(tag & np.uint64(7))
    if field == 0:
        return -1, depth
    if wire == _DELIMITED:
        return _check_delimited(data, pos, field, stack, depth, numbers)
    if wire == _GROUP:
        return pos, _push(stack, depth, end, -1, field)
    if wire == _GROUP_END:
        return pos, depth - 1 if stack[depth, _OPEN_GROUP] == field else -1
    return _after_scalar(data, pos, end, wire), depth


@compiled
def check(data, numbers):  # type: ignore[no-untyped-def]
    """Returns -1 if the bytes are a message of the grammar, else where they stop being one.

    Args:
        data: uint8 [N].
        numbers: from `grammar`.
    """
    stack = np.zeros((MAX_DEPTH + 1, 3), np.int64)
    stack[0, _END] = len(data)
    depth, pos = 0, 0
    while True:
        while pos == stack[depth, _END] and stack[depth, _OPEN_GROUP] == 0:
            if depth == 0:
                return -1
            depth -= 1
        start = pos
        pos, depth = _check_field(data, pos, stack, depth, numbers)
        if pos < 0 or depth < 0:
            return start


@compiled
def _skip(data, pos, end, wire):  # type: ignore[no-untyped-def]
    """Returns the position after a field's value; the bytes have been checked."""
    if wire == _DELIMITED:
        length, pos = varint(data, pos, end)
        return pos + np.int64(length)
    if wire != _GROUP:
        return _after_scalar(data, pos, end, wire)
    depth = 1
    while depth > 0:
        tag, pos = varint(data, pos, end)
        wire = np.int64(tag & np.uint64(7))
        if wire == _GROUP:
            depth += 1
        elif wire == _GROUP_END:
            depth -= 1
        elif wire == _DELIMITED:
            length, pos = varint(data, pos, end)
            pos += np.int64(length)
        else:
            pos = _after_scalar(data, pos, end, wire)
    return pos


@compiled
def _store(value, kind, column, extra, integers):  # type: ignore[no-untyped-def]
    """Puts a varint into its column, cut to the field's type."""
    if kind in (INT32, ENUM):
        number = np.int64(np.int32(np.uint32(value & np.uint64(0xFFFFFFFF))))
        if kind == ENUM:
            if 0 <= number <= 62 and (extra >> number) & 1:
                integers[column] = number
            return
        integers[column] = number
    elif kind == UINT32:
        integers[column] = np.int64(value & np.uint64(0xFFFFFFFF))
    elif kind == BOOL:
        integers[column] = 1 if value else 0
    else:
        integers[column] = np.int64(value)
    if extra > 0:
        integers[extra] = 1


@compiled
def scan(data, pos, end, table, integers, floats):  # type: ignore[no-untyped-def]
    """Reads scalars into columns up to the next field that the caller reads itself.

    Returns (position to go on from, field number, start, stop); field number 0 at the end.
    The bytes must have passed `check`.

    Args:
        data: uint8 [N].
        pos: where to begin.
        end: where the message ends.
        table: from `reading`.
        integers: the record's int64 columns.
        floats: the record's float32 columns.
    """
    while pos < end:
        tag, pos = varint(data, pos, end)
        field, wire = np.int64(tag >> np.uint64(3)), np.int64(tag & np.uint64(7))
        kind = table[field, 0] if field < len(table) else SKIP
        if wire == _VARINT and INT32 <= kind <= ENUM:
            value, pos = varint(data, pos, end)
            _store(value, kind, table[field, 1], table[field, 2], integers)
        elif wire == _FIXED32 and kind == FLOAT:
            floats[table[field, 1]] = data[pos : pos + 4].view(np.float32)[0]
            pos += 4
        elif wire == _DELIMITED and kind >= MESSAGE:
            length, pos = varint(data, pos, end)
            stop = pos + np.int64(length)
            return stop, field, pos, stop
        elif wire == _VARINT and kind == VARINTS:
            start = pos
            _, pos = varint(data, pos, end)
            return pos, field, start, pos
        else:
            pos = _skip(data, pos, end, wire)
    return pos, 0, pos, pos


@compiled
def gather(data, numbers, field):  # type: ignore[no-untyped-def]
    """Returns all top-level occurrences of a field, tags included, one after the other.

    The second result is -1, or the offset at which the bytes are no message.

    Args:
        data: uint8 [N].
        numbers: from `grammar`.
        field: its number.
    """
    bad = check(data, numbers)
    out = np.empty(len(data), np.uint8)
    size, pos, end = 0, 0, len(data)
    if bad >= 0:
        return out[:0], bad
    while pos < end:
        start = pos
        tag, pos = varint(data, pos, end)
        found, wire = np.int64(tag >> np.uint64(3)), np.int64(tag & np.uint64(7))
        pos = _skip(data, pos, end, wire)
        if found == field:
            out[size : size + pos - start] = data[start:pos]
            size += pos - start
    return out[:size], -1
