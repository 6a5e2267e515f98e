"""Compiled loops that read tables, lists and unit rows into the buffers of the caller.

In: one section of an inflated payload, and which steps are wanted. Out: those steps, written
where the caller says. Knows no specs, files or zstd; `packing` draws the sections and
`docs/format.md` describes them. GIL-free; a section that contradicts itself raises ValueError
instead of being read, or written, out of bounds.

A section stores its first step whole and the later ones as changes, series after series. A
reader keeps `state`, the values at one step, and works in three passes (start = 3, stop = 6):

    step        0     1     2     3     4     5     6     7
    1. series   state ── apply ──►│     ├ collect ┤     skip
    2. sort                             changes of step 4, then those of step 5
    3. write                      state ├ apply, write each step
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema.codec.streams import (
    DENSE,
    LISTED,
    SAME,
    SPARSE,
    STILL,
    Stream,
    byte_at,
    copy_bytes,
    end_of,
    number_at,
    read_varint,
    require,
    uint32_at,
    unzigzag,
    wrap32,
)
from starmill.schema.compilation import checked, inlined

# Rows of `Changes`.
STEP, INDEX, VALUE = 0, 1, 2
# The mask of a series with a difference for each step.
_ALL_STEPS = -1
# A stored change takes at least one bit, so a count of more than these per byte is damage.
_CHANGES_PER_BYTE = 64


class Window(NamedTuple):
    """Which steps of a chunk to read.

    Attributes:
        steps: how many the chunk has, 1 to 32.
        start: the first one wanted.
        stop: the first one not wanted; above start, at most steps.
    """

    steps: int
    start: int
    stop: int


class UnitRows(NamedTuple):
    """Where the unit rows of a window go in an array [rows, C].

    Attributes:
        begin: the row at which the first step begins.
        stride: rows from one step to the next, zero filled behind the used ones; with 0 the
            steps' used rows follow each other and nothing is filled.
        capacity: the most rows that the spec allows a step.
    """

    begin: int
    stride: int
    capacity: int


class Column(NamedTuple):
    """Where a column's series are in the state: series s is state[offset + s * stride].

    Attributes:
        size: how many series.
        stride: distance of two series.
        offset: place of series 0.
    """

    size: int
    stride: int
    offset: int


class Changes(NamedTuple):
    """Changes of the steps after a window's first one, in the order in which they are stored.

    Attributes:
        rows: STEP, INDEX and VALUE of each change: the step of the chunk, the place in the
            state, and the new value (of planes the bits to flip). int64 [3, capacity].
        used: how many are filled, int64 [1].
    """

    rows: NDArray[np.int64]
    used: NDArray[np.int64]


class SeriesStreams(NamedTuple):
    """The streams of a column that changes.

    Attributes:
        dense: whether every changing series has a difference for each step; then `masks` is
            empty.
        gaps: of each changing series, how many series since the last one do not change.
        masks: of each changing series, bit t - 1 is set if it changes at step t.
        deltas: zigzag differences, series after series.
    """

    dense: bool
    gaps: Stream
    masks: Stream
    deltas: Stream


class RowOrder(NamedTuple):
    """Which instance each unit row holds, followed from step to step.

    Attributes:
        flags: offset of one byte per step: SAME, INSERTED or LISTED.
        listed: zigzag steps from one row's instance to the next, for LISTED steps.
        ids: instances that are new, for INSERTED steps.
        places: rows between each new instance and the one before it.
        cursors: how much of `listed` is read, and of `ids` and `places`, int64 [2].
        absent: of each instance, bit t is set if it is absent at step t, int64 [I].
        instances: the instance of each row at the present step, int64 [I].
    """

    flags: int
    listed: Stream
    ids: Stream
    places: Stream
    cursors: NDArray[np.int64]
    absent: NDArray[np.int64]
    instances: NDArray[np.int64]


@checked
def empty_changes(buf, capacity):
    """Returns Changes with room for a number that the section states."""
    require(buf, 0, capacity // _CHANGES_PER_BYTE)
    return Changes(np.empty((3, capacity), np.int64), np.zeros(1, np.int64))


@checked
def sort_by_step(changes, window):
    """Returns (where the changes of each step begin, the changes in order of step).

    Shapes: int64 [stop - start + 1], int64 [used].
    """
    rows, used = changes.rows, changes.used[0]
    steps = window.stop - window.start
    begins = np.zeros(steps + 1, np.int64)
    for i in range(used):
        begins[rows[STEP, i] - window.start + 1] += 1
    for k in range(1, steps + 1):
        begins[k] += begins[k - 1]
    next_place = begins.copy()
    numbers = np.empty(used, np.int64)
    for i in range(used):
        k = rows[STEP, i] - window.start
        numbers[next_place[k]] = i
        next_place[k] += 1
    return begins, numbers


# --- series ------------------------------------------------------------------------------


@inlined
def read_series(buf, pos, column, window, state, changes):
    """Reads one column: sets state, int32, to step `start` and collects later changes.

    Returns the position after the column.
    """
    codes = byte_at(buf, pos)
    mode = codes & 3
    pos = _read_first_values(buf, pos + 1, column, codes >> 2 & 3, state)
    if mode == STILL:
        return pos
    if mode > DENSE:
        raise ValueError("payload has a column of no known mode")
    streams = _open_series(buf, pos, mode, codes, window.steps)
    _read_changes(buf, streams, column, window, state, changes)
    return end_of(streams.deltas)


@inlined
def _read_first_values(buf, pos, column, code, state):
    first = Stream(pos, column.size, code)
    end = end_of(first)
    require(buf, pos, end - pos)
    if code == 1:
        for s in range(column.size):
            state[s * column.stride + column.offset] = buf[pos + s]
    elif code:
        for s in range(column.size):
            value = number_at(buf, first, s)
            state[s * column.stride + column.offset] = wrap32(value)
    return end


@inlined
def _open_series(buf, pos, mode, codes, steps):
    changing, begin = read_varint(buf, pos)
    gaps = Stream(begin, changing, codes >> 6 & 3)
    pos = end_of(gaps)
    masks = Stream(pos, changing, np.int64(0))
    total = changing * (steps - 1)
    if mode == SPARSE:
        total, pos = read_varint(buf, pos)
        masks = Stream(pos + 1, changing, byte_at(buf, pos) & 3)
        pos = end_of(masks)
    deltas = Stream(pos, total, codes >> 4 & 3)
    require(buf, begin, end_of(deltas) - begin)
    return SeriesStreams(mode == DENSE, gaps, masks, deltas)


@inlined
def _read_changes(buf, streams, column, window, state, changes):
    gaps, deltas = streams.gaps, streams.deltas
    rows = (
        changes.rows
    )  # a local: numba counts references whenever a record's array is named
    used = changes.used[0]
    series = np.int64(-1)
    i = np.int64(0)
    for c in range(gaps.size):
        series += number_at(buf, gaps, c) + 1
        if series >= column.size:
            raise ValueError("payload names a series beyond the last")
        index = series * column.stride + column.offset
        value = np.int64(state[index])
        mask = _mask_at(buf, streams, c)
        for step in range(1, window.steps):
            if not mask >> (step - 1) & 1:
                continue
            if i >= deltas.size:
                raise ValueError("payload names more changes than it holds")
            delta = number_at(buf, deltas, i)
            i += 1
            if delta == 0:
                continue
            value = wrap32(value + unzigzag(delta))
            if step <= window.start:
                state[index] = value
            elif step < window.stop:
                if used >= rows.shape[1]:
                    raise ValueError("payload holds more changes than it says")
                rows[STEP, used] = step
                rows[INDEX, used] = index
                rows[VALUE, used] = value
                used += 1
    changes.used[0] = used


@inlined
def _mask_at(buf, streams, index):
    if streams.dense:
        return np.int64(_ALL_STEPS)
    return number_at(buf, streams.masks, index)


@inlined
def _apply(state, changes, numbers, begin, end):
    rows = changes.rows
    for j in range(begin, end):
        i = numbers[j]
        state[rows[INDEX, i]] = rows[VALUE, i]


# --- table and lists ---------------------------------------------------------------------


@checked
def read_table(buf, steps, start, stop, groups, out):
    """Reads steps start:stop of a table into out, int32 [stop - start, F].

    groups: where each column begins among the F series, and F at last, int64.
    """
    window = Window(steps, start, stop)
    changes = empty_changes(buf, uint32_at(buf, 0))
    pos = np.int64(4)
    state = np.zeros(out.shape[1], np.int32)
    for g in range(groups.size - 1):
        column = Column(groups[g + 1] - groups[g], np.int64(1), groups[g])
        pos = read_series(buf, pos, column, window, state, changes)
    begins, numbers = sort_by_step(changes, window)
    for k in range(window.stop - window.start):
        _apply(state, changes, numbers, begins[k], begins[k + 1])
        copy_bytes(out[k], state)


@checked
def read_lists(buf, steps, start, stop, pad, out):
    """Reads lists of steps start:stop into out, int32 [stop - start, S], padded."""
    codes = byte_at(buf, 0)
    total, pos = read_varint(buf, 1)
    lengths = Stream(pos, steps, codes & 3)
    values = Stream(end_of(lengths), total, codes >> 2 & 3)
    require(buf, pos, end_of(values) - pos)
    i = 0
    for t in range(stop):
        length = number_at(buf, lengths, t)
        if t < start:
            i += length
            continue
        if length > out.shape[1] or i + length > total:
            raise ValueError("payload has a list longer than the spec allows")
        value = np.int64(0)
        for j in range(length):
            value = wrap32(value + unzigzag(number_at(buf, values, i)))
            out[t - start, j] = value
            i += 1
        out[t - start, length:] = pad


# --- units -------------------------------------------------------------------------------


@checked
def read_units(buf, steps, start, stop, target, out, counts):
    """Reads the unit rows of steps start:stop into out, int32 [rows, C].

    target: a UnitRows. counts: int64 [stop - start], set to the used rows of each step.
    """
    window = Window(steps, start, stop)
    columns = out.shape[1]
    changes = empty_changes(buf, uint32_at(buf, 0))
    absent, pos = _read_presence(buf, 4, steps * target.capacity)
    order = _open_order(buf, pos, steps, absent)
    pos = end_of(order.places)
    state = np.zeros(absent.size * columns, np.int32)
    for c in range(columns):
        column = Column(np.int64(absent.size), np.int64(columns), np.int64(c))
        pos = read_series(buf, pos, column, window, state, changes)
    begins, numbers = sort_by_step(changes, window)
    moves = _steps_with_moves(absent)
    instances = order.instances
    rows = 0
    begin = target.begin
    for t in range(stop):
        flag = buf[order.flags + t]
        if t == 0 or flag != SAME or moves >> t & 1:
            rows = _next_rows(buf, order, t, flag, rows)
        if t < start:
            continue
        k = t - start
        _apply(state, changes, numbers, begins[k], begins[k + 1])
        end = begin + (target.stride if target.stride else rows)
        if rows > target.capacity or begin + rows > end or end > out.shape[0]:
            raise ValueError("payload has more rows than the spec allows")
        for r in range(rows):
            source = instances[r] * columns
            for c in range(columns):
                out[begin + r, c] = state[source + c]
        counts[k] = rows
        out[begin + rows : end, :] = 0
        begin = end


@checked
def _read_presence(buf, pos, most):
    """Returns (absence masks of the instances, position after them)."""
    count, pos = read_varint(buf, pos)
    if count > most:
        raise ValueError("payload has more instances than the spec allows")
    masks = Stream(pos + 1, count, byte_at(buf, pos) & 3)
    end = end_of(masks)
    require(buf, pos, end - pos)
    absent = np.empty(count, np.int64)
    for i in range(count):
        absent[i] = number_at(buf, masks, i)
    return absent, end


@checked
def _steps_with_moves(absent):
    """Returns a mask: bit t is set if an instance appears or disappears at step t."""
    moves = np.int64(0)
    for i in range(absent.size):
        moves |= absent[i] ^ absent[i] << 1
    return moves


@checked
def _open_order(buf, pos, steps, absent):
    codes = byte_at(buf, pos)
    list_count, pos = read_varint(buf, pos + 1)
    insert_count, flags = read_varint(buf, pos)
    listed = Stream(flags + steps, list_count, codes & 3)
    ids = Stream(end_of(listed), insert_count, codes >> 2 & 3)
    places = Stream(end_of(ids), insert_count, codes >> 4 & 3)
    require(buf, flags, end_of(places) - flags)
    cursors = np.zeros(2, np.int64)
    instances = np.empty(absent.size, np.int64)
    return RowOrder(flags, listed, ids, places, cursors, absent, instances)


@checked
def _next_rows(buf, order, t, flag, rows):
    """Turns the order of step t - 1 into that of step t; returns the row count."""
    if flag == LISTED:
        return _list_rows(buf, order, t)
    if t == 0:
        raise ValueError("payload does not list the rows of its first step")
    kept = _keep_survivors(order, t, rows)
    if flag == SAME:
        return _append_newcomers(order, t, kept)
    return _insert_newcomers(buf, order, t, kept)


@checked
def _list_rows(buf, order, t):
    count = order.absent.size
    rows = 0
    for i in range(count):
        rows += 1 - (order.absent[i] >> t & 1)
    if order.cursors[0] + rows > order.listed.size:
        raise ValueError("payload lists fewer rows than it has")
    instance = np.int64(-1)
    for r in range(rows):
        difference = number_at(buf, order.listed, order.cursors[0] + r)
        instance += unzigzag(difference) + 1
        if instance < 0 or instance >= count:
            raise ValueError("payload names a row beyond the last")
        order.instances[r] = instance
    order.cursors[0] += rows
    return rows


@checked
def _keep_survivors(order, t, rows):
    absent, instances = order.absent, order.instances
    kept = 0
    for r in range(rows):
        i = instances[r]
        if not absent[i] >> t & 1:
            instances[kept] = i
            kept += 1
    return kept


@checked
def _is_new(absent, t):
    return absent >> (t - 1) & 1 and not absent >> t & 1


@checked
def _append_newcomers(order, t, kept):
    absent, instances = order.absent, order.instances
    for i in range(absent.size):
        if _is_new(absent[i], t):
            if kept >= absent.size:
                raise ValueError("payload has a row twice")
            instances[kept] = i
            kept += 1
    return kept


@checked
def _insert_newcomers(buf, order, t, kept):
    absent, instances = order.absent, order.instances
    count = absent.size
    new = 0
    for i in range(count):
        if _is_new(absent[i], t):
            new += 1
    rows = kept + new
    if rows > count:
        raise ValueError("payload has a row twice")
    if order.cursors[1] + new > order.ids.size:
        raise ValueError("payload inserts fewer rows than it has")
    survivors = instances[:kept].copy()
    placed = 0  # survivors that have their row
    row = 0
    for n in range(order.cursors[1], order.cursors[1] + new):
        instance = number_at(buf, order.ids, n)
        gap = number_at(buf, order.places, n)
        if instance >= count or placed + gap > kept:
            raise ValueError("payload inserts a row beyond the last")
        for _ in range(gap):
            instances[row] = survivors[placed]
            placed += 1
            row += 1
        instances[row] = instance
        row += 1
    order.cursors[1] += new
    while placed < kept:
        instances[row] = survivors[placed]
        placed += 1
        row += 1
    return rows
