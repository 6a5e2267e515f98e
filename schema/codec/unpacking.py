"""Compiled loops that read series, tables and lists into the buffers of the caller.

In: one section of an inflated payload, and which steps are wanted. Out: those steps, written
where the caller says. Knows no specs, files or zstd; `packing` draws the sections and
`docs/format.md` describes them. GIL-free. Nothing is read, written or allocated out of bounds:
what a section states is compared with its bound first, and loops return the negative code of
the bound that does not hold (`bounds`), otherwise a position or 0.

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

from starmill.schema.codec.bounds import (
    CHANGES,
    COLLECTED,
    DELTAS,
    LIST,
    MODE,
    SERIES,
    STREAM,
)
from starmill.schema.codec.streams import (
    DENSE,
    SPARSE,
    STILL,
    Stream,
    byte_at,
    copy_bytes,
    end_of,
    is_inside,
    number_at,
    read_varint,
    uint32_at,
    unzigzag,
    wrap32,
)
from starmill.schema.compilation import checked, checked_kernel, inlined

# Rows of `Changes`.
STEP, INDEX, VALUE = 0, 1, 2
# The mask of a series with a difference for each step.
_ALL_STEPS = -1


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


@checked_kernel
def empty_changes(capacity):
    """Returns Changes with room for so many."""
    return Changes(np.empty((3, capacity), np.int64), np.zeros(1, np.int64))


@checked_kernel
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
    if codes < 0:
        return codes
    mode = codes & 3
    pos = _read_first_values(buf, pos + 1, column, codes >> 2 & 3, state)
    if mode == STILL or pos < 0:
        return pos
    if mode > DENSE:
        return np.int64(-MODE)
    streams = _open_series(buf, pos, mode, codes, window.steps)
    if streams.deltas.begin < 0:
        return streams.deltas.begin
    status = _read_changes(buf, streams, column, window, state, changes)
    return status if status < 0 else end_of(streams.deltas)


@inlined
def _read_first_values(buf, pos, column, code, state):
    first = Stream(pos, column.size, code)
    end = end_of(first)
    if not is_inside(buf, pos, end - pos):
        return np.int64(-STREAM)
    if code == 1:
        for s in range(column.size):
            state[s * column.stride + column.offset] = buf[pos + s]
    elif code:
        for s in range(column.size):
            value = number_at(buf, first, s)
            state[s * column.stride + column.offset] = wrap32(value)
    return np.int64(end)


@inlined
def _open_series(buf, pos, mode, codes, steps):
    """Returns the streams; the begin of `deltas` is negative if they are not inside."""
    changing, begin = read_varint(buf, pos)
    gaps = Stream(begin, changing, codes >> 6 & 3)
    pos = end_of(gaps)
    masks = Stream(pos, changing, np.int64(0))
    total = changing * (steps - 1)
    status = begin
    if mode == SPARSE and begin >= 0:
        total, pos = read_varint(buf, pos)
        code = byte_at(buf, pos)
        status = min(pos, code)
        masks = Stream(pos + 1, changing, code & 3)
        pos = end_of(masks)
    deltas = Stream(pos, total, codes >> 4 & 3)
    if status >= 0 and not is_inside(buf, begin, end_of(deltas) - begin):
        status = np.int64(-STREAM)
    if status < 0:
        deltas = Stream(status, np.int64(0), np.int64(0))
    return SeriesStreams(mode == DENSE, gaps, masks, deltas)


@inlined
def _read_changes(buf, streams, column, window, state, changes):
    """Returns 0, or a bound that does not hold."""
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
            return np.int64(-SERIES)
        index = series * column.stride + column.offset
        value = np.int64(state[index])
        mask = _mask_at(buf, streams, c)
        for step in range(1, window.steps):
            if not mask >> (step - 1) & 1:
                continue
            if i >= deltas.size:
                return np.int64(-DELTAS)
            delta = number_at(buf, deltas, i)
            i += 1
            if delta == 0:
                continue
            value = wrap32(value + unzigzag(delta))
            if step <= window.start:
                state[index] = value
            elif step < window.stop:
                if used >= rows.shape[1]:
                    return np.int64(-COLLECTED)
                rows[STEP, used] = step
                rows[INDEX, used] = index
                rows[VALUE, used] = value
                used += 1
    changes.used[0] = used
    return np.int64(0)


@inlined
def _mask_at(buf, streams, index):
    if streams.dense:
        return np.int64(_ALL_STEPS)
    return number_at(buf, streams.masks, index)


@inlined
def apply_changes(state, changes, numbers, begin, end):
    """Applies changes begin:end of one step, by their numbers, to the state."""
    rows = changes.rows
    for j in range(begin, end):
        i = numbers[j]
        state[rows[INDEX, i]] = rows[VALUE, i]


# --- table and lists ---------------------------------------------------------------------


@checked
def read_table(buf, steps, start, stop, groups, out):
    """Reads steps start:stop of a table into out, int32 [stop - start, F].

    groups: where each column begins among the F series, and F at last, int64. Returns 0, or a
    bound that does not hold.
    """
    window = Window(steps, start, stop)
    total = uint32_at(buf, 0)
    if total < 0:
        return total
    if total > out.shape[1] * (steps - 1):
        return np.int64(-CHANGES)
    changes = empty_changes(total)
    pos = np.int64(4)
    state = np.zeros(out.shape[1], np.int32)
    for g in range(groups.size - 1):
        column = Column(groups[g + 1] - groups[g], np.int64(1), groups[g])
        pos = read_series(buf, pos, column, window, state, changes)
        if pos < 0:
            return pos
    begins, numbers = sort_by_step(changes, window)
    for k in range(window.stop - window.start):
        apply_changes(state, changes, numbers, begins[k], begins[k + 1])
        copy_bytes(out[k], state)
    return np.int64(0)


@checked
def read_lists(buf, steps, start, stop, pad, out):
    """Reads lists of steps start:stop into out, int32 [stop - start, S], padded.

    Returns 0, or a bound that does not hold.
    """
    codes = byte_at(buf, 0)
    total, pos = read_varint(buf, 1)
    if codes < 0 or pos < 0:
        return min(codes, pos)
    lengths = Stream(pos, steps, codes & 3)
    values = Stream(end_of(lengths), total, codes >> 2 & 3)
    if not is_inside(buf, pos, end_of(values) - pos):
        return np.int64(-STREAM)
    i = np.int64(0)
    for t in range(stop):
        length = number_at(buf, lengths, t)
        if length > out.shape[1] or i + length > total:
            return np.int64(-LIST)
        if t < start:
            i += length
            continue
        value = np.int64(0)
        for j in range(length):
            value = wrap32(value + unzigzag(number_at(buf, values, i)))
            out[t - start, j] = value
            i += 1
        out[t - start, length:] = pad
    return np.int64(0)
