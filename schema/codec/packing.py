"""Compiled loops that write tables, lists and unit rows of a chunk as sections of bytes.

In: arrays of one chunk and a buffer that is large enough (the functions named `..._bound` say
how large). Out: the buffer filled, and how far. Knows no specs, files or zstd;
`docs/format.md` describes the bytes and `unpacking` reads them. GIL-free.

Everything that changes over time is stored as its first value and its changes. A *series* is
one number over the steps of a chunk, and a *column* is series of one kind; `streams` explains
varint, stream and zigzag.

    column   codes | first values | C | gaps | N | code | masks | deltas
             u8      stream of M    │   stream   │  u8     stream  stream of N
                                    │   of C     │         of C
                                    varint       varint: sparse mode only, with code and masks

             series     0   1   2   3   4        C = 2: series 1 and series 3 change
             step 0     7   3   3   5   0        gaps 1, 1: unchanged series before each
             step 1     7   4   3   5   0        masks 01, 10: bit t - 1 is set if the
             step 2     7   4   3   9   0        series changes at step t

             still      no series changes: it ends after the first values
             sparse     a delta per change
             dense      a delta per step after the first, 0 where nothing changes

    table    changes in all, u32 | column | column | ...       one column per array
    lists    codes u8 | values in all, varint | lengths, stream | deltas, stream
    units    changes in all, u32 | I, varint | code u8 | absence masks, stream of I |
             order | column | column | ...                     one per column of `raw_units`
    order    codes u8 | L, varint | J, varint | flag u8 of each step |
             listed, stream of L | ids, stream of J | places, stream of J

Unit rows move when units die, so rows are followed by identity, as *instances*:

    step 0   step 1          instance   absent at     flags: listed, then "inserted", as the
    tag 5    tag 5           0 (tag 5)  -             newcomer stands before a survivor;
    tag 9    tag 8   new     1 (tag 8)  step 0        "same" needs newcomers behind all others
             tag 9           2 (tag 9)  -             in ascending order
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema.codec.streams import (
    DENSE,
    INSERTED,
    LISTED,
    SAME,
    SPARSE,
    STILL,
    largest,
    put_stream,
    put_uint32,
    put_varint,
    width,
    width_code,
    zigzag,
)
from starmill.schema.compilation import checked, checked_kernel

# An instance's key: the tag above these bits, below them its row or its rank.
_RANK_BITS = 20
_RANK_MASK = (1 << _RANK_BITS) - 1


class Series(NamedTuple):
    """The values of a column's series, one series after the other.

    A series holds its first value before its first step, and its last one where it has no
    entry.

    Attributes:
        values: int32 [N].
        steps: the step of each value, int64 [N].
        offsets: where each series begins, and N at last, int64 [M + 1].
    """

    values: NDArray[np.int32]
    steps: NDArray[np.int64]
    offsets: NDArray[np.int64]


class Scratch(NamedTuple):
    """Room for the streams of a column, reused for all columns; each is uint32 [N + M + 1].

    Attributes:
        gaps: of each changing series, how many since the last one do not change.
        masks: of each changing series, bit t - 1 is set if it changes at step t.
        deltas: zigzag differences, series after series.
    """

    gaps: NDArray[np.uint32]
    masks: NDArray[np.uint32]
    deltas: NDArray[np.uint32]


class StreamSizes(NamedTuple):
    """What a column's streams hold: counts, and the largest number of each stream.

    Attributes:
        changing: series that change.
        total: changes of all series.
        first: largest first value, as uint32.
        gap: largest gap.
        mask: largest mask.
        delta: largest zigzag difference.
    """

    changing: int
    total: int
    first: int
    gap: int
    mask: int
    delta: int


# --- series ------------------------------------------------------------------------------


@checked_kernel
def new_scratch(values, series):
    """Returns a Scratch for columns of so many values and series."""
    size = values + series + 1
    return Scratch(
        np.empty(size, np.uint32), np.empty(size, np.uint32), np.empty(size, np.uint32)
    )


@checked_kernel
def put_series(buf, pos, series, steps, scratch):
    """Writes one column; returns (position after it, changes that a reader will find)."""
    sizes = _find_changes(series, scratch)
    # A dense stream has one entry per step; a sparse one per change, and a mask.
    dense = sizes.changing * (steps - 1)
    mode = STILL
    if sizes.changing:
        mode = DENSE if 2 * sizes.total > dense else SPARSE
    first_code, gap_code = width_code(sizes.first), width_code(sizes.gap)
    delta_code = width_code(sizes.delta)
    buf[pos] = mode | first_code << 2 | delta_code << 4 | gap_code << 6
    pos = _put_first_values(buf, pos + 1, series, first_code)
    if mode == STILL:
        return pos, 0
    pos = put_varint(buf, pos, sizes.changing)
    pos = put_stream(buf, pos, scratch.gaps, sizes.changing, gap_code)
    if mode == DENSE:
        return _put_dense(buf, pos, sizes.changing, steps, scratch, delta_code), (
            sizes.total
        )
    pos = put_varint(buf, pos, sizes.total)
    mask_code = width_code(sizes.mask)
    buf[pos] = mask_code
    pos = put_stream(buf, pos + 1, scratch.masks, sizes.changing, mask_code)
    return put_stream(buf, pos, scratch.deltas, sizes.total, delta_code), sizes.total


@checked_kernel
def _find_changes(series, scratch):
    # Locals, because numba counts references whenever a record's array is named.
    values, times, offsets = series
    gaps, masks, deltas = scratch
    changing = 0
    total = 0
    largest_first = np.int64(0)
    largest_gap = np.int64(0)
    largest_mask = np.int64(0)
    largest_delta = np.int64(0)
    last_changing = -1
    for s in range(offsets.size - 1):
        before = np.int64(values[offsets[s]])
        largest_first = max(largest_first, before & 0xFFFFFFFF)
        mask = np.int64(0)
        for i in range(offsets[s] + 1, offsets[s + 1]):
            now = np.int64(values[i])
            if now != before:
                delta = zigzag(now - before)
                largest_delta = max(largest_delta, delta)
                deltas[total] = delta
                mask |= np.int64(1) << (times[i] - 1)
                total += 1
                before = now
        if mask:
            gap = s - last_changing - 1
            gaps[changing] = gap
            masks[changing] = mask
            largest_gap = max(largest_gap, np.int64(gap))
            largest_mask = max(largest_mask, mask)
            last_changing = s
            changing += 1
    return StreamSizes(
        changing, total, largest_first, largest_gap, largest_mask, largest_delta
    )


@checked_kernel
def _put_first_values(buf, pos, series, code):
    values, offsets = series.values, series.offsets
    count = offsets.size - 1
    for plane in range(width(code)):
        for s in range(count):
            value = np.int64(values[offsets[s]])
            buf[pos + s] = (value >> (8 * plane)) & 0xFF
        pos += count
    return pos


@checked_kernel
def _put_dense(buf, pos, changing, steps, scratch, code):
    masks, deltas = scratch.masks, scratch.deltas
    size = changing * (steps - 1)
    buf[pos : pos + size * width(code)] = 0
    i = 0
    for c in range(changing):
        for t in range(steps - 1):
            if masks[c] >> t & 1:
                at = pos + c * (steps - 1) + t
                for plane in range(width(code)):
                    buf[at + plane * size] = (deltas[i] >> (8 * plane)) & 0xFF
                i += 1
    return pos + size * width(code)


# --- table and lists ---------------------------------------------------------------------


@checked
def table_bound(values, groups):
    """Returns the most bytes that `put_table` writes."""
    return 64 + 16 * groups.size + 14 * values.size


@checked
def put_table(buf, pos, values, groups):
    """Writes int32 values [F, steps], one column per group of rows groups[g]:groups[g + 1].

    Returns the position after the section.
    """
    count, steps = values.shape
    flat = values.reshape(-1)
    times = np.empty(flat.size, np.int64)
    for i in range(flat.size):
        times[i] = i % steps
    scratch = new_scratch(flat.size, count)
    begin = pos
    pos += 4
    total = 0
    for g in range(groups.size - 1):
        offsets = np.arange(groups[g], groups[g + 1] + 1) * steps
        pos, changes = put_series(
            buf, pos, Series(flat, times, offsets), steps, scratch
        )
        total += changes
    put_uint32(buf, begin, total)
    return pos


@checked
def lists_bound(lists):
    """Returns the most bytes that `put_lists` writes."""
    return 16 + 4 * lists.size + 4 * lists.shape[0]


@checked
def put_lists(buf, pos, lists, pad):
    """Writes int32 rows [steps, S], each without the run of `pad` at its end.

    Returns the position after the section.
    """
    steps, size = lists.shape
    lengths = np.empty(steps, np.uint32)
    deltas = np.empty(steps * size, np.uint32)
    total = 0
    for t in range(steps):
        length = size
        while length > 0 and lists[t, length - 1] == pad:
            length -= 1
        lengths[t] = length
        before = np.int64(0)
        for j in range(length):
            now = np.int64(lists[t, j])
            deltas[total] = zigzag(now - before)
            before = now
            total += 1
    length_code = width_code(largest(lengths, steps))
    delta_code = width_code(largest(deltas, total))
    buf[pos] = length_code | delta_code << 2
    pos = put_varint(buf, pos + 1, total)
    pos = put_stream(buf, pos, lengths, steps, length_code)
    return put_stream(buf, pos, deltas, total, delta_code)


# --- units -------------------------------------------------------------------------------


@checked
def units_bound(units):
    """Returns the used rows of each step of units [steps, U, C], and a bound on their bytes.

    Used rows are those up to the last one that is not all zero.
    """
    steps, capacity, columns = units.shape
    rows = np.zeros(steps, np.int64)
    total = 0
    for t in range(steps):
        r = capacity
        while r > 0:
            empty = True
            for c in range(columns):
                if units[t, r - 1, c] != 0:
                    empty = False
                    break
            if not empty:
                break
            r -= 1
        rows[t] = r
        total += r
    # Per column and row at most: first value 4, gap 4, count 1, step 1, delta 4. A dense
    # stream is chosen only if it has at most twice the entries of a sparse one.
    return rows, 64 + 16 * total + steps + columns * (16 + 20 * total)


@checked
def put_units(buf, pos, units, rows, tag_column):
    """Writes the unit rows of a chunk, int32 [steps, U, C]; returns the position after them.

    rows: used rows of each step, from `units_bound`. tag_column: -1 if units have no tag.
    """
    steps, capacity, columns = units.shape
    instances, count = _number_instances(units, rows, tag_column)
    absent, offsets = _find_absences(instances, rows, count)
    times, places = _sort_by_instance(instances, rows, offsets, capacity)
    begin = pos
    pos = put_varint(buf, pos + 4, count)
    code = width_code(largest(absent, count))
    buf[pos] = code
    pos = put_stream(buf, pos + 1, absent, count, code)
    pos = _put_order(buf, pos, instances, rows, absent)
    flat = units.reshape(steps * capacity, columns)
    values = np.empty(instances.size, np.int32)
    scratch = new_scratch(instances.size, count)
    total = 0
    for c in range(columns):
        for i in range(instances.size):
            values[i] = flat[places[i], c]
        pos, changes = put_series(
            buf, pos, Series(values, times, offsets), steps, scratch
        )
        total += changes
    put_uint32(buf, begin, total)
    return pos


@checked_kernel
def _number_instances(units, rows, tag_column):
    """Numbers the instances: rows of different steps that are the same unit.

    Identity is the tag and, among equal tags of a step, the rank in row order; numbers
    ascend by (tag, rank). Returns (the instance of each used row, steps one after the other;
    how many instances).
    """
    total = 0
    for t in range(rows.size):
        total += rows[t]
    keys = np.empty(total, np.int64)
    at = 0
    for t in range(rows.size):
        tags = np.empty(rows[t], np.int64)
        for r in range(rows[t]):
            tag = np.int64(units[t, r, tag_column]) if tag_column >= 0 else 0
            tags[r] = (tag + (1 << 31)) << _RANK_BITS | r
        tags.sort()
        rank = 0
        for i in range(rows[t]):
            same = i > 0 and tags[i] >> _RANK_BITS == tags[i - 1] >> _RANK_BITS
            rank = rank + 1 if same else 0
            keys[at + (tags[i] & _RANK_MASK)] = (
                tags[i] >> _RANK_BITS
            ) << _RANK_BITS | rank
        at += rows[t]
    ordered = np.sort(keys)
    unique = 0
    for i in range(total):
        if i == 0 or ordered[i] != ordered[i - 1]:
            ordered[unique] = ordered[i]
            unique += 1
    return np.searchsorted(ordered[:unique], keys), unique


@checked_kernel
def _find_absences(instances, rows, count):
    """Returns (mask of each instance's absences, where its entries begin when sorted)."""
    every_step = (np.int64(1) << rows.size) - 1
    absent = np.full(count, every_step, np.int64)
    offsets = np.zeros(count + 1, np.int64)
    at = 0
    for t in range(rows.size):
        for _ in range(rows[t]):
            offsets[instances[at] + 1] += 1
            absent[instances[at]] &= ~(np.int64(1) << t)
            at += 1
    for i in range(count):
        offsets[i + 1] += offsets[i]
    return absent, offsets


@checked_kernel
def _sort_by_instance(instances, rows, offsets, capacity):
    """Returns (step, row among steps * capacity) of the used rows, in order of instance."""
    next_place = offsets[:-1].copy()
    times = np.empty(instances.size, np.int64)
    places = np.empty(instances.size, np.int64)
    at = 0
    for t in range(rows.size):
        for r in range(rows[t]):
            where = next_place[instances[at]]
            times[where] = t
            places[where] = t * capacity + r
            next_place[instances[at]] += 1
            at += 1
    return times, places


@checked_kernel
def _put_order(buf, pos, instances, rows, absent):
    """Writes which instance each row of each step holds."""
    steps = rows.size
    flags = np.empty(steps, np.uint8)
    listed = np.empty(instances.size, np.uint32)
    ids = np.empty(instances.size, np.uint32)
    places = np.empty(instances.size, np.uint32)
    list_count, insert_count = 0, 0
    positions = np.empty(absent.size, np.int64)  # row of each instance one step before
    begin = 0
    for t in range(steps):
        of_step = instances[begin : begin + rows[t]]
        begin += rows[t]
        flags[t] = _order_flag(of_step, absent, t, positions)
        if flags[t] == LISTED:
            list_count = _list_rows(of_step, listed, list_count)
        elif flags[t] == INSERTED:
            insert_count = _insert_rows(of_step, absent, t, ids, places, insert_count)
        for r in range(of_step.size):
            positions[of_step[r]] = r
    list_code = width_code(largest(listed, list_count))
    id_code = width_code(largest(ids, insert_count))
    place_code = width_code(largest(places, insert_count))
    buf[pos] = list_code | id_code << 2 | place_code << 4
    pos = put_varint(buf, pos + 1, list_count)
    pos = put_varint(buf, pos, insert_count)
    pos = put_stream(buf, pos, flags, steps, 1)
    pos = put_stream(buf, pos, listed, list_count, list_code)
    pos = put_stream(buf, pos, ids, insert_count, id_code)
    return put_stream(buf, pos, places, insert_count, place_code)


@checked_kernel
def _order_flag(of_step, absent, t, positions):
    """Returns how the order of step t follows from that of step t - 1.

    Survivors must keep their relative order; newcomers may stand anywhere.
    """
    if t == 0:
        return LISTED
    flag = SAME
    last_survivor, last_newcomer = -1, -1
    for r in range(of_step.size):
        i = of_step[r]
        if absent[i] >> (t - 1) & 1:
            if i < last_newcomer:
                flag = INSERTED
            last_newcomer = i
        else:
            if positions[i] < last_survivor:
                return LISTED
            last_survivor = positions[i]
            if last_newcomer >= 0:
                flag = INSERTED
    return flag


@checked_kernel
def _list_rows(of_step, listed, count):
    before = -1
    for r in range(of_step.size):
        listed[count + r] = zigzag(of_step[r] - before - 1)
        before = of_step[r]
    return count + of_step.size


@checked_kernel
def _insert_rows(of_step, absent, t, ids, places, count):
    before = -1
    for r in range(of_step.size):
        if absent[of_step[r]] >> (t - 1) & 1:
            ids[count] = of_step[r]
            places[count] = r - before - 1
            before = r
            count += 1
    return count
