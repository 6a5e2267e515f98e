"""Compiled loops that read unit rows into the buffers of the caller.

In: the section of the units of an inflated payload, and which steps are wanted. Out: their rows,
written where the caller says. GIL-free. As in `unpacking`, loops return the negative code of a
bound that does not hold, and nothing is read, written or allocated beyond one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema.codec.bounds import (
    CHANGES,
    INSERTED_ROW,
    INSERTED_ROWS,
    INSTANCES,
    LISTED_ROW,
    LISTED_ROWS,
    NEW_ROWS,
    ORDER,
    ROWS,
    STREAM,
)
from starmill.schema.codec.streams import (
    LISTED,
    SAME,
    Stream,
    byte_at,
    end_of,
    is_inside,
    number_at,
    read_varint,
    uint32_at,
    unzigzag,
)
from starmill.schema.codec.unpacking import (
    Column,
    Window,
    apply_changes,
    empty_changes,
    read_series,
    sort_by_step,
)
from starmill.schema.compilation import checked, checked_kernel


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
def read_units(buf, steps, start, stop, target, out, counts):
    """Reads the unit rows of steps start:stop into out, int32 [rows, C].

    target: a UnitRows. counts: int64 [stop - start], set to the used rows of each step. Returns
    0, or a bound that does not hold.
    """
    window = Window(steps, start, stop)
    columns = out.shape[1]
    total = uint32_at(buf, 0)
    if total < 0:
        return total
    absent, pos = _read_presence(buf, 4, steps * target.capacity)
    order = _open_order(buf, pos, steps, absent)
    pos = end_of(order.places)
    if order.flags < 0:
        return order.flags
    if total > absent.size * columns * (steps - 1):
        return np.int64(-CHANGES)
    changes = empty_changes(total)
    state = np.zeros(absent.size * columns, np.int32)
    for c in range(columns):
        column = Column(np.int64(absent.size), np.int64(columns), np.int64(c))
        pos = read_series(buf, pos, column, window, state, changes)
        if pos < 0:
            return pos
    return _write_rows(buf, order, window, changes, state, target, out, counts)


@checked_kernel
def _write_rows(buf, order, window, changes, state, target, out, counts):
    begins, numbers = sort_by_step(changes, window)
    moves = _steps_with_moves(order.absent)
    instances = order.instances
    columns = out.shape[1]
    rows = np.int64(0)
    begin = target.begin
    for t in range(window.stop):
        flag = buf[order.flags + t]
        if t == 0 or flag != SAME or moves >> t & 1:
            rows = _next_rows(buf, order, t, flag, rows)
            if rows < 0:
                return rows
        if t < window.start:
            continue
        k = t - window.start
        apply_changes(state, changes, numbers, begins[k], begins[k + 1])
        end = begin + (target.stride if target.stride else rows)
        if rows > target.capacity or begin + rows > end or end > out.shape[0]:
            return np.int64(-ROWS)
        for r in range(rows):
            source = instances[r] * columns
            for c in range(columns):
                out[begin + r, c] = state[source + c]
        counts[k] = rows
        out[begin + rows : end, :] = 0
        begin = end
    return np.int64(0)


@checked_kernel
def _read_presence(buf, pos, most):
    """Returns (absence masks of the instances, position after them)."""
    count, pos = read_varint(buf, pos)
    code = byte_at(buf, pos)
    masks = Stream(pos + 1, count, code & 3)
    end = end_of(masks)
    if code < 0:
        end = code
    elif count > most:
        end = np.int64(-INSTANCES)
    elif not is_inside(buf, pos, end - pos):
        end = np.int64(-STREAM)
    absent = np.empty(count if end >= 0 else 0, np.int64)
    for i in range(absent.size):
        absent[i] = number_at(buf, masks, i)
    return absent, end


@checked_kernel
def _steps_with_moves(absent):
    """Returns a mask: bit t is set if an instance appears or disappears at step t."""
    moves = np.int64(0)
    for i in range(absent.size):
        moves |= absent[i] ^ absent[i] << 1
    return moves


@checked_kernel
def _open_order(buf, pos, steps, absent):
    """Returns the streams of the order; `flags` is negative if they are not inside."""
    codes = byte_at(buf, pos)
    list_count, pos = read_varint(buf, pos + 1 if codes >= 0 else codes)
    insert_count, flags = read_varint(buf, pos)
    listed = Stream(flags + steps, list_count, codes & 3)
    ids = Stream(end_of(listed), insert_count, codes >> 2 & 3)
    places = Stream(end_of(ids), insert_count, codes >> 4 & 3)
    if flags >= 0 and not is_inside(buf, flags, end_of(places) - flags):
        flags = np.int64(-STREAM)
    cursors = np.zeros(2, np.int64)
    instances = np.empty(absent.size, np.int64)
    return RowOrder(flags, listed, ids, places, cursors, absent, instances)


@checked_kernel
def _next_rows(buf, order, t, flag, rows):
    """Turns the order of step t - 1 into that of step t; returns the row count."""
    if flag == LISTED:
        return _list_rows(buf, order, t)
    if t == 0 or flag > LISTED:
        return np.int64(-ORDER)
    kept = _keep_survivors(order, t, rows)
    if flag == SAME:
        return _append_newcomers(order, t, kept)
    return _insert_newcomers(buf, order, t, kept)


@checked_kernel
def _list_rows(buf, order, t):
    count = order.absent.size
    rows = np.int64(0)
    for i in range(count):
        rows += 1 - (order.absent[i] >> t & 1)
    if order.cursors[0] + rows > order.listed.size:
        return np.int64(-LISTED_ROWS)
    instance = np.int64(-1)
    for r in range(rows):
        difference = number_at(buf, order.listed, order.cursors[0] + r)
        instance += unzigzag(difference) + 1
        if instance < 0 or instance >= count:
            return np.int64(-LISTED_ROW)
        order.instances[r] = instance
    order.cursors[0] += rows
    return rows


@checked_kernel
def _keep_survivors(order, t, rows):
    absent, instances = order.absent, order.instances
    kept = np.int64(0)
    for r in range(rows):
        i = instances[r]
        if not absent[i] >> t & 1:
            instances[kept] = i
            kept += 1
    return kept


@checked_kernel
def _is_new(absent, t):
    return absent >> (t - 1) & 1 and not absent >> t & 1


@checked_kernel
def _append_newcomers(order, t, kept):
    absent, instances = order.absent, order.instances
    for i in range(absent.size):
        if _is_new(absent[i], t):
            if kept >= absent.size:
                return np.int64(-NEW_ROWS)
            instances[kept] = i
            kept += 1
    return kept


@checked_kernel
def _insert_newcomers(buf, order, t, kept):
    absent, instances = order.absent, order.instances
    count = absent.size
    new = np.int64(0)
    for i in range(count):
        if _is_new(absent[i], t):
            new += 1
    rows = kept + new
    if rows > count:
        return np.int64(-NEW_ROWS)
    if order.cursors[1] + new > order.ids.size:
        return np.int64(-INSERTED_ROWS)
    survivors = instances[:kept].copy()
    placed = 0  # survivors that have their row
    row = 0
    for n in range(order.cursors[1], order.cursors[1] + new):
        instance = number_at(buf, order.ids, n)
        gap = number_at(buf, order.places, n)
        if instance >= count or placed + gap > kept:
            return np.int64(-INSERTED_ROW)
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
