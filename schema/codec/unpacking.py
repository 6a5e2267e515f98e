"""Compiled loops that read a chunk: bytes into the buffers of the caller.

In: a chunk's inflated payload. Out: the wanted steps, written where the caller says.
Nothing here knows specs, files or zstd; `docs/format.md` describes the bytes. GIL-free; a payload
that contradicts itself raises ValueError instead of reading beyond its end.
Self-contained on purpose: numba's cache on disk notices changes of this file only, so a
compiled function called from another file could stay an old one.

Streams of integers are stored byte plane by byte plane (all lowest bytes first), in the
fewest of 0, 1, 2 or 4 bytes that hold the largest: width codes 0, 1, 2, 3.
"""

import numpy as np

from starmill.schema.compilation import checked

# Modes of a column's changes.
_STILL, _SPARSE, _DENSE = 0, 1, 2
# How a step's row order follows from the step before.
_SAME, _INSERTED, _LISTED = 0, 1, 2
# How the first step of a plane is given.
_AS_REFERENCE, _PATCHED, _WHOLE = 0, 1, 2


@checked
def _width(code):
    return 4 if code == 3 else code


@checked
def _varint(buf, pos):
    value = np.int64(0)
    shift = 0
    while True:
        if pos >= buf.size or shift > 35:
            raise ValueError("payload ends inside a number")
        byte = np.int64(buf[pos])
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7


@checked
def _check(buf, pos, size):
    if size < 0 or pos + size > buf.size:
        raise ValueError("payload is shorter than its streams")


@checked
def _int_at(buf, pos, index, count, code):
    """One value of a stream of `count` that starts at pos."""
    if code == 0:
        return np.int64(0)
    value = np.int64(buf[pos + index])
    if code >= 2:
        value |= np.int64(buf[pos + count + index]) << 8
    if code == 3:
        value |= np.int64(buf[pos + 2 * count + index]) << 16
        value |= np.int64(buf[pos + 3 * count + index]) << 24
    return value


@checked
def _wrap32(value):
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


@checked
def _unzigzag(value):
    return (value >> 1) ^ -(value & 1)


@checked
def _copy(target, source):
    # A loop compiles to memcpy; numba's slice assignment is twenty times slower.
    for i in range(target.size):
        target[i] = source[i]


@checked
def get_series(
    buf, pos, count, steps, start, stop, state, stride, column, events, used
):
    """Reads one column: sets state to step `start`, appends events of steps before `stop`.

    state: int32, series s at s * stride + column.
    events: int64 [3, capacity] of (step, index into state, new value); `used` are taken.
    Returns (new position, events used).
    """
    _check(buf, pos, 1)
    packed = np.int64(buf[pos])
    pos += 1
    mode, base_code = packed & 3, packed >> 2 & 3
    what_code, gap_code = packed >> 4 & 3, packed >> 6 & 3
    _check(buf, pos, count * _width(base_code))
    if base_code == 1:
        for s in range(count):
            state[s * stride + column] = buf[pos + s]
    elif base_code:
        for s in range(count):
            value = _int_at(buf, pos, s, count, base_code)
            state[s * stride + column] = _wrap32(value)
    pos += count * _width(base_code)
    if mode == _STILL:
        return pos, used
    changed, pos = _varint(buf, pos)
    at_gaps = pos
    pos += changed * _width(gap_code)
    total = changed * (steps - 1)
    mask_code = np.int64(0)
    at_masks = pos
    if mode == _SPARSE:
        total, pos = _varint(buf, pos)
        _check(buf, pos, 1)
        mask_code = np.int64(buf[pos]) & 3
        at_masks = pos + 1
        pos = at_masks + changed * _width(mask_code)
    at_what = pos
    end = at_what + total * _width(what_code)
    _check(buf, at_gaps, end - at_gaps)
    s = np.int64(-1)
    i = 0
    for c in range(changed):
        s += _int_at(buf, at_gaps, c, changed, gap_code) + 1
        if s >= count:
            raise ValueError("payload names a series beyond the last")
        index = s * stride + column
        value = np.int64(state[index])
        mask = np.int64(-1)
        if mode == _SPARSE:
            mask = _int_at(buf, at_masks, c, changed, mask_code)
        for time in range(1, steps):
            if not mask >> (time - 1) & 1:
                continue
            if i >= total:
                raise ValueError("payload names more changes than it holds")
            delta = _int_at(buf, at_what, i, total, what_code)
            i += 1
            if delta == 0:
                continue
            value = _wrap32(value + _unzigzag(delta))
            if time <= start:
                state[index] = value
            elif time < stop:
                if used >= events.shape[1]:
                    raise ValueError("payload holds more events than it says")
                events[0, used] = time
                events[1, used] = index
                events[2, used] = value
                used += 1
    return end, used


@checked
def _by_step(events, used, start, stop):
    """Returns where each step's events begin, and the events' numbers in order of step."""
    begins = np.zeros(stop - start + 1, np.int64)
    for i in range(used):
        begins[events[0, i] - start + 1] += 1
    for k in range(1, stop - start + 1):
        begins[k] += begins[k - 1]
    fill = begins.copy()
    numbers = np.empty(used, np.int64)
    for i in range(used):
        k = events[0, i] - start
        numbers[fill[k]] = i
        fill[k] += 1
    return begins, numbers


@checked
def get_table(buf, pos, steps, start, stop, groups, out):
    """Reads steps start:stop of a table into out, int32 [stop - start, F]."""
    _check(buf, pos, 4)
    capacity = _int_at(buf, pos, 0, 1, 3)
    pos += 4
    _check(buf, 0, capacity // 64)  # an event takes bits, so a huge count is damage
    state = np.zeros(out.shape[1], np.int32)
    events = np.empty((3, capacity), np.int64)
    used = 0
    for g in range(groups.size - 1):
        count = groups[g + 1] - groups[g]
        pos, used = get_series(
            buf, pos, count, steps, start, stop, state, 1, groups[g], events, used
        )
    begins, numbers = _by_step(events, used, start, stop)
    for k in range(stop - start):
        for j in range(begins[k], begins[k + 1]):
            i = numbers[j]
            state[events[1, i]] = events[2, i]
        _copy(out[k], state)
    return pos


@checked
def _next_order(buf, t, flag, absent, order, rows, cursors, sizes, at):
    """Turns the order of step t - 1 into that of step t, in place; returns the row count."""
    count = absent.size
    kept = 0
    if flag == _LISTED:
        size = 0
        for i in range(count):
            size += 1 - (absent[i] >> t & 1)
        before = -1
        for r in range(size):
            if cursors[0] >= sizes[0]:
                raise ValueError("payload lists fewer rows than it has")
            step = _int_at(buf, at[0], cursors[0], sizes[0], at[3])
            cursors[0] += 1
            before += _unzigzag(step) + 1
            if before < 0 or before >= count:
                raise ValueError("payload names a row beyond the last")
            order[r] = before
        return size
    for r in range(rows):
        i = order[r]
        if not absent[i] >> t & 1:
            order[kept] = i
            kept += 1
    if flag == _SAME:
        for i in range(count):
            if absent[i] >> (t - 1) & 1 and not absent[i] >> t & 1:
                if kept >= count:
                    raise ValueError("payload has a row twice")
                order[kept] = i
                kept += 1
        return kept
    new = 0
    for i in range(count):
        if absent[i] >> (t - 1) & 1 and not absent[i] >> t & 1:
            new += 1
    survivors = order[:kept].copy()
    size = kept + new
    if size > count:
        raise ValueError("payload has a row twice")
    taken = 0
    r = 0
    for _ in range(new):
        if cursors[1] >= sizes[1]:
            raise ValueError("payload inserts fewer rows than it has")
        i = _int_at(buf, at[1], cursors[1], sizes[1], at[4])
        gap = _int_at(buf, at[2], cursors[1], sizes[1], at[5])
        cursors[1] += 1
        if i >= count or taken + gap > kept:
            raise ValueError("payload inserts a row beyond the last")
        for _ in range(gap):
            order[r] = survivors[taken]
            taken += 1
            r += 1
        order[r] = i
        r += 1
    while taken < kept:
        order[r] = survivors[taken]
        taken += 1
        r += 1
    return size


@checked
def get_units(buf, pos, steps, start, stop, out, begin, stride, counts):
    """Reads the unit rows of steps start:stop into out, int32 [rows, C].

    With a stride, step start + k begins at row begin + k * stride and is zero filled to the
    next; with stride 0 the steps' rows follow each other and nothing is filled.
    counts: int64 [stop - start], the used rows of each step.
    Returns the row after the last one written.
    """
    columns = out.shape[1]
    _check(buf, pos, 4)
    capacity = _int_at(buf, pos, 0, 1, 3)
    _check(buf, 0, capacity // 64)
    count, pos = _varint(buf, pos + 4)
    _check(buf, pos, 1)
    code = np.int64(buf[pos]) & 3
    pos += 1
    _check(buf, pos, count * _width(code))
    absent = np.empty(count, np.int64)
    moves = np.int64(0)
    for i in range(count):
        absent[i] = _int_at(buf, pos, i, count, code)
        moves |= absent[i] ^ absent[i] << 1
    pos += count * _width(code)
    # Where the order's streams are, and how far they have been read.
    _check(buf, pos, 1)
    codes = np.int64(buf[pos])
    at = np.empty(6, np.int64)
    at[3], at[4], at[5] = codes & 3, codes >> 2 & 3, codes >> 4 & 3
    sizes = np.empty(2, np.int64)
    cursors = np.zeros(2, np.int64)
    sizes[0], pos = _varint(buf, pos + 1)
    sizes[1], pos = _varint(buf, pos)
    flags = pos
    at[0] = flags + steps
    at[1] = at[0] + sizes[0] * _width(at[3])
    at[2] = at[1] + sizes[1] * _width(at[4])
    pos = at[2] + sizes[1] * _width(at[5])
    _check(buf, flags, pos - flags)
    state = np.zeros(count * columns, np.int32)
    events = np.empty((3, capacity), np.int64)
    used = 0
    for c in range(columns):
        pos, used = get_series(
            buf, pos, count, steps, start, stop, state, columns, c, events, used
        )
    begins, numbers = _by_step(events, used, start, stop)
    order = np.empty(count, np.int64)
    rows = 0
    row = begin
    for t in range(stop):
        flag = buf[flags + t]
        if t == 0 or flag != _SAME or moves >> t & 1:
            rows = _next_order(buf, t, flag, absent, order, rows, cursors, sizes, at)
        if t < start:
            continue
        k = t - start
        for j in range(begins[k], begins[k + 1]):
            i = numbers[j]
            state[events[1, i]] = events[2, i]
        if stride:
            row = begin + k * stride
        if (stride and rows > stride) or row + rows > out.shape[0]:
            raise ValueError("payload has more rows than the spec allows")
        for r in range(rows):
            source = order[r] * columns
            for c in range(columns):
                out[row + r, c] = state[source + c]
        counts[k] = rows
        row += rows
        if stride:
            out[row : begin + (k + 1) * stride, :] = 0
            row = begin + (k + 1) * stride
    return row


@checked
def get_plane(buf, pos, reference, steps, start, stop, out):
    """Reads steps start:stop of a plane into out, uint8 [stop - start, P]."""
    size = reference.size
    _check(buf, pos, 1)
    flag = np.int64(buf[pos])
    pos += 1
    state = np.empty(size, np.uint8)
    if flag & 3 == _WHOLE:
        _check(buf, pos, size)
        _copy(state, buf[pos : pos + size])
        pos += size
    else:
        _copy(state, reference)
    if flag & 3 == _PATCHED:
        patches, pos = _varint(buf, pos)
        code = flag >> 2 & 3
        marks = pos + patches * _width(code)
        _check(buf, pos, marks + patches - pos)
        cell = np.int64(-1)
        for i in range(patches):
            cell += _int_at(buf, pos, i, patches, code) + 1
            if cell >= size:
                raise ValueError("payload names a cell beyond the last")
            state[cell] ^= buf[marks + i]
        pos = marks + patches
    changed, pos = _varint(buf, pos)
    total = np.int64(0)
    codes = np.int64(0)
    if changed:
        total, pos = _varint(buf, pos)
        _check(buf, pos, 1)
        codes = np.int64(buf[pos])
        pos += 1
    code, mask_code = codes & 3, codes >> 2 & 3
    at_masks = pos + changed * _width(code)
    at_marks = at_masks + changed * _width(mask_code)
    _check(buf, pos, at_marks + total - pos)
    events = np.empty((3, total), np.int64)
    used = 0
    cell = np.int64(-1)
    i = 0
    for c in range(changed):
        cell += _int_at(buf, pos, c, changed, code) + 1
        if cell >= size:
            raise ValueError("payload names a cell beyond the last")
        mask = _int_at(buf, at_masks, c, changed, mask_code)
        time = 1
        while mask:
            if mask & 1:
                if i >= total:
                    raise ValueError("payload names more changes than it holds")
                if time <= start:
                    state[cell] ^= buf[at_marks + i]
                elif time < stop:
                    events[0, used] = time
                    events[1, used] = cell
                    events[2, used] = buf[at_marks + i]
                    used += 1
                i += 1
            mask >>= 1
            time += 1
    begins, numbers = _by_step(events, used, start, stop)
    for k in range(stop - start):
        for j in range(begins[k], begins[k + 1]):
            i = numbers[j]
            state[events[1, i]] ^= events[2, i]
        _copy(out[k], state)
    return at_marks + total


@checked
def fill_rectangle(plane, corners):
    """Writes zeros and one rectangle of ones into int32 [H, W]."""
    plane[:, :] = 0
    for y in range(corners[0], corners[1]):
        plane[y, corners[2] : corners[3]] = 1


@checked
def get_lists(buf, pos, steps, start, stop, pad, out):
    """Reads rows start:stop into out, int32 [stop - start, S], padded at their ends."""
    _check(buf, pos, 1)
    codes = np.int64(buf[pos])
    total, pos = _varint(buf, pos + 1)
    values = pos + steps * _width(codes & 3)
    _check(buf, pos, values - pos + total * _width(codes >> 2 & 3))
    i = 0
    for t in range(stop):
        length = _int_at(buf, pos, t, steps, codes & 3)
        if t < start:
            i += length
            continue
        if length > out.shape[1] or i + length > total:
            raise ValueError("payload has a list longer than the spec allows")
        before = np.int64(0)
        for j in range(length):
            step = _int_at(buf, values, i, total, codes >> 2 & 3)
            before = _wrap32(before + _unzigzag(step))
            out[t - start, j] = before
            i += 1
        out[t - start, length:] = pad
    return values + total * _width(codes >> 2 & 3)
