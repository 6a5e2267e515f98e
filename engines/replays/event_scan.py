"""A fast scan of bit-packed data: who did what when, without building values.

In: the bytes of initData or game events, and a type table (`type_table`). Out: the values of
a few named fields, or (loop, user, event id) of every event. `compile_types` turns the table
into a `Program` of arrays, which compiled code walks with a stack of the types to come.
The input is untrusted: positions are checked before every read and the input's length bounds
the work, so damaged bytes raise FormatError. `bit_packed` builds whole values, slowly.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.engines.replays.type_table import TypeTable
from starmill.schema import errors
from starmill.schema.compilation import checked, checked_kernel
from starmill.schema.reasons import RejectReason

_INT, _BLOB, _BITS, _ARRAY, _OPTIONAL, _CHOICE, _STRUCT, _NULL = range(8)
_WITH_CHILDREN = (_ARRAY, _OPTIONAL, _CHOICE)
# What the compiled code reports.
OK, TRUNCATED, UNKNOWN_CHOICE, UNKNOWN_EVENT, TOO_MANY, TOO_DEEP = range(6)
PROBLEMS = {
    TRUNCATED: "the data ends in the middle of a value",
    UNKNOWN_CHOICE: "a value is of none of the types it may have",
    UNKNOWN_EVENT: "an event has an id that the build does not know",
    TOO_MANY: "more values than their bytes can mean",
    TOO_DEEP: "values nested too deeply",
}
ABSENT = np.iinfo(np.int64).min  # a captured optional field without a value
_NO_CAPTURE = _NOT_FIXED = -1
_STACK = 1024
_MAX_CAPTURES = 4095
_EVENT_CAPTURES = 7  # loop delta, user and event id need three
# A value takes bits, or is one of the few children of one that does; only an array of
# nothings takes none. This many types may be visited per bit of input: over ten times what
# any real replay needs.
_VISITS_PER_BIT, _VISITS_AT_LEAST = 2, 4096
# Columns of `Program.types` and `Program.children`.
_KIND, _LOW, _WIDTH, _FIRST_CHILD, _CHILDREN, _FIXED_SIZE = range(6)
_CHILD_TYPE, _CHILD_CAPTURE = range(2)
# Columns of `Scratch.stack`.
_TYPE, _REPEAT, _CAPTURE = range(3)
# Columns of the first row of `Scratch.captures`.
_USED, _VISITS_LEFT = range(2)
_MOST_BITS = 63  # that are read of a number; a double has 64, and nobody captures one


class Program(NamedTuple):
    """A type table as two arrays.

    This table, with the capture ("x", "y") (see `compile_types`), becomes:

                                                   types                           children
                                          kind     low bits first children fixed  type capture
        0 ("_int", [(0, 6)])              INT      0   6    0     0        6
        1 ("_optional", [0])              OPTIONAL 0   1    0     1        -1     0    -1
        2 ("_struct", [[("x", 0, 0),      STRUCT   0   0    1     2        -1     0    0
                        ("y", 1, 1)]])                                            1    -1

    Attributes:
        types: a row for each type: its kind; the lowest value and the width of its number,
            length, tag or flag; where its children begin and how many it has; its size in
            bits if that never varies and nothing in it is captured, -1 otherwise,
            [types, 6].
        children: the type of each child, -1 for a tag that does not exist; and the number
            under which it is captured, -1 if it is not, [children, 2].
    """

    types: NDArray[np.int64]
    children: NDArray[np.int64]


class EventTypes(NamedTuple):
    """The types that make up a stream of game events.

    Each event is three values (loop delta, user, event id), then the event's own fields,
    then the rest of the byte.

    Attributes:
        delta: type of the loops since the previous event.
        user: type of the event's user.
        event_id: type of the event's id.
        by_id: type of the fields by event id; -1 for an id that does not exist, [ids].
    """

    delta: int
    user: int
    event_id: int
    by_id: NDArray[np.int64]


class Scratch(NamedTuple):
    """Memory of a walk.

    Attributes:
        stack: types to come, the next one on top: type, how many in a row, capture
            number or -1, [n, 3].
        captures: first how many values are captured and how many more types may be
            visited; then each captured value after its capture number, [1 + n, 2].
    """

    stack: NDArray[np.int64]
    captures: NDArray[np.int64]


_KINDS = {
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
_BOUNDED = ("_int", "_blob", "_bitarray", "_array", "_choice")
# An optional value begins with a bit that says whether it exists.
_WIDTHS = {"_bool": 1, "_fourcc": 32, "_real32": 32, "_real64": 64, "_optional": 1}


def compile_types(types: TypeTable, captures: Sequence[tuple[str, str]]) -> Program:
    """Returns the program of a type table.

    Args:
        types: the protocol's table.
        captures: (field, sibling) pairs. Capture number i reports `field` of every struct
            that also has `sibling`, which tells apart structs whose fields share a name.
    """
    rows = np.zeros((len(types), 6), np.int64)
    children: list[tuple[int, int]] = []
    for row, (kind, arguments) in zip(rows, types, strict=True):
        fields = _children(kind, arguments)
        names = [name for name, _ in fields] if kind == "_struct" else []
        low, bits = arguments[0] if kind in _BOUNDED else (0, _WIDTHS.get(kind, 0))
        row[:] = _KINDS[kind], low, bits, len(children), len(fields), _NOT_FIXED
        children += [
            (number, _capture_number(name, names, captures)) for name, number in fields
        ]
    program = Program(rows, np.array(children, np.int64).reshape(-1, 2))
    _fill_fixed_sizes(program)
    return program


def _children(kind: str, arguments: Any) -> list[tuple[str, int]]:
    """Returns (field name, type) of a type's children; -1 for tags that do not exist."""
    if kind == "_struct":
        return [(field[0], field[1]) for field in arguments[0]]
    if kind == "_choice":
        fields = arguments[1]
        return [fields.get(tag, ("", -1)) for tag in range(max(fields) + 1)]
    if kind == "_array":
        return [("", arguments[1])]
    return [("", arguments[0])] if kind == "_optional" else []


def _capture_number(
    name: str, names: Sequence[str], captures: Sequence[tuple[str, str]]
) -> int:
    """Returns the number under which a field of a struct with these names is captured."""
    for number, (field, sibling) in enumerate(captures):
        if field == name and name in names and sibling in names:
            return number
    return _NO_CAPTURE


def _fill_fixed_sizes(program: Program) -> None:
    sizes: dict[int, int] = {}

    def size(number: int) -> int:
        if number not in sizes:
            sizes[number] = _NOT_FIXED  # a type within itself has no fixed size
            sizes[number] = compute_size(program.types[number])
        return sizes[number]

    def compute_size(row: NDArray[np.int64]) -> int:
        if row[_KIND] == _INT:
            return int(row[_WIDTH])
        if row[_KIND] == _NULL:
            return 0
        if row[_KIND] != _STRUCT:
            return _NOT_FIXED
        begin = row[_FIRST_CHILD]
        children = program.children[begin : begin + row[_CHILDREN]]
        if (children[:, _CHILD_CAPTURE] >= 0).any():
            return _NOT_FIXED
        widths = [size(int(child)) for child in children[:, _CHILD_TYPE]]
        return _NOT_FIXED if _NOT_FIXED in widths else sum(widths)

    for number, row in enumerate(program.types):
        row[_FIXED_SIZE] = size(number)


# The compiled walk. `top` is the row of the stack's top: -1 when the stack is empty, and
# -1 - problem when something is wrong, so that either ends the loop over the stack. Only
# `_skip` takes several arrays: for each array, numba counts a reference per call, and around
# a function as small as these that would take several times as long as its work.


@checked_kernel
def _read(data, position, bits):  # type: ignore[no-untyped-def]  # numba infers
    """Returns `bits` bits at a bit position: low bits of each byte first, big end first.

    The caller has checked that they exist, and that there are at most 63.
    """
    value = np.int64(0)
    left = bits
    while left > 0:
        offset = position & 7
        width = min(left, 8 - offset)
        value = (value << width) | (
            (np.int64(data[position >> 3]) >> offset) & ((1 << width) - 1)
        )
        position += width
        left -= width
    return value


@checked_kernel
def _aligned(position):  # type: ignore[no-untyped-def]  # numba infers
    """Returns the position of the next whole byte."""
    return (position + 7) >> 3 << 3


@checked_kernel
def _content_end(kind, position, length):  # type: ignore[no-untyped-def]  # numba infers
    """Returns the position after the bytes or bits that follow their length, if any do."""
    if kind == _BLOB:
        return _aligned(position) + 8 * length
    if kind == _BITS:
        return position + length
    return position


@checked_kernel
def _content(kind, value, first, children):  # type: ignore[no-untyped-def]  # numba infers
    """Returns (index of the child that follows a length, tag or flag, how many follow).

    The index is -1 for a tag that no choice has. first, children: as in `Program`.
    """
    if kind == _ARRAY:
        return first, value
    if kind == _CHOICE:
        return (first + value if 0 <= value < children else np.int64(-1)), np.int64(1)
    return first, np.int64(1)


@checked_kernel
def _push(stack, top, number, repeat, capture):  # type: ignore[no-untyped-def]  # numba infers
    """Puts `repeat` values of a type on the stack; returns the new top."""
    if number < 0:
        return -1 - UNKNOWN_CHOICE
    if repeat <= 0:
        return top
    if top + 1 >= stack.shape[0]:
        return -1 - TOO_DEEP
    stack[top + 1, _TYPE] = number
    stack[top + 1, _REPEAT] = repeat
    stack[top + 1, _CAPTURE] = capture
    return top + 1


@checked_kernel
def _pop(stack, top):  # type: ignore[no-untyped-def]  # numba infers
    """Takes one value off the stack; returns the new top."""
    stack[top, _REPEAT] -= 1
    return top if stack[top, _REPEAT] > 0 else top - 1


@checked_kernel
def _report(captures, capture, value, top):  # type: ignore[no-untyped-def]  # numba infers
    """Stores a value if it is captured; returns the top of the stack."""
    if capture < 0:
        return top
    row = captures[0, _USED] + 1
    if row >= captures.shape[0]:
        return -1 - TOO_MANY
    captures[0, _USED] = row
    captures[row, 0] = capture
    captures[row, 1] = value
    return top


@checked
def _skip(data, position, root, root_capture, program, scratch):  # type: ignore[no-untyped-def]  # noqa: C901  # numba infers; see above why it is one function
    """Walks over one value; returns (position after it, problem or OK)."""
    types, children = program
    stack, captures = scratch
    end = np.int64(data.size) * 8
    top = _push(stack, -1, root, 1, root_capture)
    while top >= 0:
        captures[0, _VISITS_LEFT] -= 1
        if captures[0, _VISITS_LEFT] < 0:
            return position, TOO_MANY
        number, capture = stack[top, _TYPE], stack[top, _CAPTURE]
        top = _pop(stack, top)
        kind, first = types[number, _KIND], types[number, _FIRST_CHILD]
        if types[number, _FIXED_SIZE] >= 0 and capture < 0:
            position += types[number, _FIXED_SIZE]
        elif kind == _STRUCT:
            # The first field on top. A captured struct is one whose fields are captured.
            for i in range(first + types[number, _CHILDREN] - 1, first - 1, -1):
                inherited = capture if capture >= 0 else children[i, _CHILD_CAPTURE]
                top = _push(stack, top, children[i, _CHILD_TYPE], 1, inherited)
                if top < 0:
                    break
        else:
            bits = types[number, _WIDTH]
            if position + bits > end:
                return position, TRUNCATED
            value = types[number, _LOW] + _read(data, position, min(bits, _MOST_BITS))
            position = _content_end(kind, position + bits, value)
            if kind == _INT:
                top = _report(captures, capture, value, top)
            elif kind == _OPTIONAL and value == 0:
                top = _report(captures, capture, ABSENT, top)
            elif kind in _WITH_CHILDREN:
                index, repeat = _content(kind, value, first, types[number, _CHILDREN])
                child = children[index, _CHILD_TYPE] if index >= 0 else np.int64(-1)
                top = _push(stack, top, child, repeat, capture)
        if position > end:
            return position, TRUNCATED
    return position, -1 - top


@checked
def _scan_events(data, program, types, scratch, columns):  # type: ignore[no-untyped-def]  # numba infers
    """Fills `columns` [n, 3]; returns (events, position, problem)."""
    delta_type, user_type, id_type, types_by_id = types
    _, captures = scratch
    end = np.int64(data.size) * 8
    position, loop = np.int64(0), np.int64(0)
    events = 0
    while position < end:
        if events >= columns.shape[0]:
            return events, position, TOO_MANY
        captures[0, _USED] = 0
        position, problem = _skip(data, position, delta_type, 0, program, scratch)
        if problem == OK:
            position, problem = _skip(data, position, user_type, 1, program, scratch)
        if problem == OK:
            position, problem = _skip(data, position, id_type, 2, program, scratch)
        if problem != OK:
            return events, position, problem
        if captures[0, _USED] != 3:
            return events, position, UNKNOWN_CHOICE
        loop += captures[1, 1]
        user, event = captures[2, 1], captures[3, 1]
        if event < 0 or event >= types_by_id.size or types_by_id[event] < 0:
            return events, position, UNKNOWN_EVENT
        position, problem = _skip(
            data, position, types_by_id[event], _NO_CAPTURE, program, scratch
        )
        if problem != OK:
            return events, position, problem
        columns[events, 0], columns[events, 1], columns[events, 2] = loop, user, event
        events += 1
        position = _aligned(position)
    return events, position, OK


def _scratch(data: bytes, captures: int) -> Scratch:
    scratch = Scratch(
        stack=np.zeros((_STACK, 3), np.int64),
        captures=np.zeros((1 + captures, 2), np.int64),
    )
    visits = _VISITS_PER_BIT * 8 * len(data) + _VISITS_AT_LEAST
    scratch.captures[0, _VISITS_LEFT] = visits
    return scratch


def _error(problem: int, position: int) -> errors.FormatError:
    return errors.FormatError(f"{PROBLEMS[problem]} (near byte {int(position) >> 3})")


def captured_fields(
    data: bytes, program: Program, root: int
) -> dict[int, list[int | None]]:
    """Returns the captured values of one value of type `root`, by capture number, in order.

    None stands for an optional field without a value. Raises FormatError where the bytes
    are not what the types say.
    """
    scratch = _scratch(data, _MAX_CAPTURES)
    buffer = np.frombuffer(data, np.uint8)
    position, problem = _skip(buffer, np.int64(0), root, _NO_CAPTURE, program, scratch)
    if problem != OK:
        raise _error(problem, position)
    values: dict[int, list[int | None]] = {}
    for number, value in scratch.captures[1 : scratch.captures[0, _USED] + 1].tolist():
        values.setdefault(number, []).append(None if value == ABSENT else value)
    return values


def event_columns(
    data: bytes, program: Program, types: EventTypes, *, max_events: int
) -> NDArray[np.int64]:
    """Returns (game loop, user id, event id) of every event, shape [events, 3].

    Raises FormatError where the stream is damaged, and ReplayError if it has more than
    max_events events.
    """
    # No event is shorter than two bytes: loop delta, user and event id do not fit in one.
    columns = np.empty((min(max_events, len(data) // 2 + 1), 3), np.int64)
    events, position, problem = _scan_events(
        np.frombuffer(data, np.uint8),
        program,
        types,
        _scratch(data, _EVENT_CAPTURES),
        columns,
    )
    if problem == TOO_MANY and events == max_events:
        raise errors.ReplayError(
            RejectReason.EVENTS_TOO_LARGE, f"more than {max_events} game events"
        )
    if problem != OK:
        raise _error(problem, position)
    return columns[:events]
