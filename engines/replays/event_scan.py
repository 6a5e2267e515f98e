"""The bit-packed encoding of `replay.initData` and the event streams, by a build's types.

In: bytes and a protocol's type table (`s2protocol` describes every build as data). Out:
either a few named fields, or (loop, user, event id) of every event, at compiled speed and
without building what nobody asked for (`values` builds whole objects, slowly).
The input is untrusted: positions are checked before every read, and work is bounded by the
input's length, so that damaged bytes end as an error.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors
from starmill.schema.compilation import checked
from starmill.schema.reasons import RejectReason

TypeTable = Sequence[tuple[str, Any]]

_INT, _BLOB, _BITS, _ARRAY, _OPTIONAL, _CHOICE, _STRUCT, _NULL = range(8)
# What the compiled walker reports.
OK, TRUNCATED, UNKNOWN_CHOICE, UNKNOWN_EVENT, TOO_MANY, TOO_DEEP = range(6)
PROBLEMS = {
    TRUNCATED: "the data ends in the middle of a value",
    UNKNOWN_CHOICE: "a value is of none of the types it may have",
    UNKNOWN_EVENT: "an event has an id that the build does not know",
    TOO_MANY: "more values than their bytes can mean",
    TOO_DEEP: "values nested too deeply",
}
ABSENT = np.iinfo(np.int64).min  # a captured optional field without a value
_STACK = 1024
_MAX_CAPTURES = 4096
# Values take bits, or are one of a few children of what does; an array of nothings takes
# none. Types visited per bit of input, over ten times what any real replay needs.
_WORK_PER_BIT, _WORK_AT_LEAST = 2, 4096


class Program(NamedTuple):
    """A type table as arrays, one entry per type.

    op: what the type is.  low, bits: bounds of its number or length.
    first, fields: its children, as a range of `child`: where it begins, how many.
    fixed: size in bits if always the same and nothing in it is captured, else -1.
    child: type of each child, -1 for a choice that does not exist.
    capture: number under which each child's value is reported, or -1.
    """

    op: NDArray[np.int64]
    low: NDArray[np.int64]
    bits: NDArray[np.int64]
    first: NDArray[np.int64]
    fields: NDArray[np.int64]
    fixed: NDArray[np.int64]
    child: NDArray[np.int64]
    capture: NDArray[np.int64]


def _children(kind: str, arguments: Any) -> list[tuple[str, int]]:
    """Returns (field name, type) of a type's children; -1 where a choice has a gap."""
    if kind == "_struct":
        return [(field[0], field[1]) for field in arguments[0]]
    if kind == "_choice":
        fields = arguments[1]
        return [fields.get(tag, ("", -1)) for tag in range(max(fields) + 1)]
    if kind == "_array":
        return [("", arguments[1])]
    return [("", arguments[0])] if kind == "_optional" else []


_OPS = {
    "_int": _INT,
    "_bool": _INT,
    "_fourcc": _INT,
    "_real32": _INT,
    "_real64": _INT,
    "_blob": _BLOB,
    "_bitarray": _BITS,
    "_array": _ARRAY,
    "_optional": _OPTIONAL,
    "_choice": _CHOICE,
    "_struct": _STRUCT,
    "_null": _NULL,
}
_WIDTHS = {"_bool": 1, "_fourcc": 32, "_real32": 32, "_real64": 64}


def compile_types(types: TypeTable, captures: Sequence[tuple[str, str]]) -> Program:
    """Returns the program of a type table.

    Args:
        types: the protocol's.
        captures: (field, sibling) pairs: capture number i reports `field` of every struct
            that also has `sibling`; the sibling tells apart structs that share a name.
    """
    rows = np.zeros((6, len(types)), np.int64)
    op, low, bits, first, amount, fixed = rows
    child: list[int] = []
    capture: list[int] = []
    for number, (kind, arguments) in enumerate(types):
        op[number] = _OPS[kind]
        if kind in ("_int", "_blob", "_bitarray", "_array", "_choice"):
            low[number], bits[number] = arguments[0]
        bits[number] = _WIDTHS.get(kind, bits[number])
        fields = _children(kind, arguments)
        names = {name for name, _ in fields}
        first[number], amount[number] = len(child), len(fields)
        for name, type_number in fields:
            child.append(type_number)
            found = [
                i
                for i, (field, sibling) in enumerate(captures)
                if kind == "_struct" and field == name and sibling in names
            ]
            capture.append(found[0] if found else -1)
    program = Program(
        op, low, bits, first, amount, fixed, np.array(child), np.array(capture)
    )
    _fill_fixed(program)
    return program


def _fill_fixed(program: Program) -> None:
    known: dict[int, int] = {}

    def size(number: int) -> int:
        if number not in known:
            known[number] = -1  # a type within itself has no fixed size
            known[number] = _fixed_size(number)
        return known[number]

    def _fixed_size(number: int) -> int:
        if program.op[number] == _INT:
            return int(program.bits[number])
        if program.op[number] == _NULL:
            return 0
        if program.op[number] != _STRUCT:
            return -1
        begin, end = (
            program.first[number],
            program.first[number] + program.fields[number],
        )
        if (program.capture[begin:end] >= 0).any():
            return -1
        sizes = [size(int(child)) for child in program.child[begin:end]]
        return -1 if -1 in sizes else sum(sizes)

    program.fixed[:] = [size(number) for number in range(len(program.op))]


@checked
def _read(data, position, bits):  # type: ignore[no-untyped-def]  # numba infers
    """Returns `bits` bits at a bit position: low bits of each byte first, big end first.

    The caller has checked that they are there, and that there are at most 63.
    """
    value = np.int64(0)
    left = bits
    while left > 0:
        offset = position & 7
        take = min(left, 8 - offset)
        value = (value << take) | (
            (np.int64(data[position >> 3]) >> offset) & ((1 << take) - 1)
        )
        position += take
        left -= take
    return value


@checked
def _push(stack, top, number, repeat, capture):  # type: ignore[no-untyped-def]  # numba infers
    """Puts a type on the stack; returns the new top, or -1 if the stack is full."""
    if top + 1 >= stack.shape[0]:
        return -1
    stack[top + 1, 0] = number
    stack[top + 1, 1] = repeat
    stack[top + 1, 2] = capture
    return top + 1


@checked
def _note(found, capture, value):  # type: ignore[no-untyped-def]  # numba infers
    """Reports a captured value; returns whether there was room."""
    if capture < 0:
        return True
    used = found[0, 0] + 1
    if used >= found.shape[0]:
        return False
    found[0, 0] = used
    found[used, 0] = capture
    found[used, 1] = value
    return True


@checked
def _skip(data, position, root, root_capture, program, stack, found):  # type: ignore[no-untyped-def]  # noqa: C901  # numba infers; one branch per kind of type
    """Walks over one value; returns (position after it, problem or OK).

    stack: scratch, [n, 3]: type, how many in a row, capture number.
    found: [n, 2] of (capture number, value). Row 0 is (how many rows are used, how many
        more types may be visited).
    """
    op, low, width, first, fields, fixed, child, capture = program
    total = np.int64(data.size) * 8
    top = _push(stack, -1, root, 1, root_capture)
    while top >= 0:
        found[0, 1] -= 1
        if found[0, 1] < 0:
            return position, TOO_MANY
        number, cap = stack[top, 0], stack[top, 2]
        stack[top, 1] -= 1
        if stack[top, 1] <= 0:
            top -= 1
        kind = op[number]
        if fixed[number] >= 0 and cap < 0:
            position += fixed[number]
        elif kind == _STRUCT:
            for i in range(first[number] + fields[number] - 1, first[number] - 1, -1):
                top = _push(stack, top, child[i], 1, cap if cap >= 0 else capture[i])
                if top < 0:
                    return position, TOO_DEEP
        elif kind != _NULL:
            bits = 1 if kind == _OPTIONAL else width[number]
            if position + bits > total:
                return position, TRUNCATED
            value = low[number] + _read(data, position, min(bits, 63))
            position += bits
            below, repeat = np.int64(-1), np.int64(1)
            if kind == _INT:
                if not _note(found, cap, value):
                    return position, TOO_MANY
            elif kind == _OPTIONAL:
                if value:
                    below = child[first[number]]
                elif not _note(found, cap, ABSENT):
                    return position, TOO_MANY
            elif kind == _BLOB:
                position = ((position + 7) >> 3 << 3) + 8 * value
            elif kind == _BITS:
                position += value
            elif kind == _ARRAY:
                if value > 0:
                    below, repeat = child[first[number]], value
            else:
                if 0 <= value < fields[number]:
                    below = child[first[number] + value]
                if below < 0:
                    return position, UNKNOWN_CHOICE
            if below >= 0:
                top = _push(stack, top, below, repeat, cap)
                if top < 0:
                    return position, TOO_DEEP
        if position > total:
            return position, TRUNCATED
    return position, OK


@checked
def _events(data, program, delta_type, user_type, id_type, event_types, out):  # type: ignore[no-untyped-def]  # numba infers
    """Fills `out` [n, 3] with (loop, user, event id); returns (events, position, problem)."""
    stack = np.zeros((_STACK, 3), np.int64)
    found = np.zeros((8, 2), np.int64)
    total = np.int64(data.size) * 8
    found[0, 1] = _WORK_PER_BIT * total + _WORK_AT_LEAST
    position = np.int64(0)
    loop = np.int64(0)
    events = 0
    while position < total:
        if events >= out.shape[0]:
            return events, position, TOO_MANY
        found[0, 0] = 0
        position, problem = _skip(data, position, delta_type, 0, program, stack, found)
        if problem == OK:
            position, problem = _skip(
                data, position, user_type, 1, program, stack, found
            )
        if problem == OK:
            position, problem = _skip(data, position, id_type, 2, program, stack, found)
        if problem != OK:
            return events, position, problem
        if found[0, 0] != 3:
            return events, position, UNKNOWN_CHOICE
        loop += found[1, 1]
        event = found[3, 1]
        if event < 0 or event >= event_types.size or event_types[event] < 0:
            return events, position, UNKNOWN_EVENT
        position, problem = _skip(
            data, position, event_types[event], -1, program, stack, found
        )
        if problem != OK:
            return events, position, problem
        out[events, 0], out[events, 1], out[events, 2] = loop, found[2, 1], event
        events += 1
        position = (position + 7) >> 3 << 3
    return events, position, OK


def _error(problem: int, position: int) -> errors.FormatError:
    return errors.FormatError(f"{PROBLEMS[problem]} (near byte {int(position) >> 3})")


def captured_fields(
    data: bytes, program: Program, root: int
) -> dict[int, list[int | None]]:
    """Returns, per capture number, the values met while walking one value, in order.

    Raises FormatError where the bytes are not what the types say.
    """
    buffer = np.frombuffer(data, np.uint8)
    stack = np.zeros((_STACK, 3), np.int64)
    found = np.zeros((_MAX_CAPTURES, 2), np.int64)
    found[0, 1] = _WORK_PER_BIT * 8 * len(data) + _WORK_AT_LEAST
    position, problem = _skip(buffer, np.int64(0), root, -1, program, stack, found)
    if problem != OK:
        raise _error(problem, position)
    values: dict[int, list[int | None]] = {}
    for number, value in found[1 : found[0, 0] + 1].tolist():
        values.setdefault(number, []).append(None if value == ABSENT else value)
    return values


def event_columns(
    data: bytes,
    program: Program,
    *,
    delta_type: int,
    user_type: int,
    id_type: int,
    event_types: NDArray[np.int64],
    max_events: int,
) -> NDArray[np.int64]:
    """Returns (game loop, user id, event id) of every event, shape [events, 3].

    Raises FormatError where the stream is damaged, ReplayError where it has more than
    max_events events.
    """
    buffer = np.frombuffer(data, np.uint8)
    # No event is shorter than two bytes: loop delta, user and event id do not fit in one.
    out = np.empty((min(max_events, len(data) // 2 + 1), 3), np.int64)
    events, position, problem = _events(
        buffer, program, delta_type, user_type, id_type, event_types, out
    )
    if problem == TOO_MANY and events == max_events:
        raise errors.ReplayError(
            RejectReason.EVENTS_TOO_LARGE, f"more than {max_events} game events"
        )
    if problem != OK:
        raise _error(problem, position)
    return out[:events]
