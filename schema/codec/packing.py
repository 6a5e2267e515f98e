"""Compiled loops that write a chunk: integer series, unit rows, planes into bytes.

In: arrays of one chunk and a buffer. Out: the buffer filled, and how far.
Nothing here knows specs, files or zstd; `docs/format.md` describes the bytes. GIL-free.
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
def _width_code(largest):
    if largest == 0:
        return 0
    if largest < 1 << 8:
        return 1
    if largest < 1 << 16:
        return 2
    return 3


@checked
def _width(code):
    return 4 if code == 3 else code


@checked
def _put_varint(buf, pos, value):
    while value >= 0x80:
        buf[pos] = (value & 0x7F) | 0x80
        value >>= 7
        pos += 1
    buf[pos] = value
    return pos + 1


@checked
def _put_ints(buf, pos, values, count, code):
    for plane in range(_width(code)):
        shift = 8 * plane
        for i in range(count):
            buf[pos + i] = (values[i] >> shift) & 0xFF
        pos += count
    return pos


@checked
def _wrap32(value):
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


@checked
def _zigzag(delta):
    """Int32 differences (modulo 2**32) as unsigned: 0, -1, 1, -2, ... -> 0, 1, 2, 3, ..."""
    delta = _wrap32(delta)
    return ((delta << 1) ^ (delta >> 31)) & 0xFFFFFFFF


@checked
def put_series(buf, pos, values, times, offsets, steps, scratch):
    """Writes one column: series s has values[offsets[s]:offsets[s + 1]] at those times.

    A series holds its first value before its first time, and its last one where it has no
    entry. scratch: uint32 [3, at least len(values) + number of series + 1].
    Returns (new position, number of events that a reader will meet).
    """
    count = offsets.size - 1
    gaps, masks, what = scratch[0], scratch[1], scratch[2]
    changed = 0
    total = 0
    largest_base = np.int64(0)
    largest_gap = np.int64(0)
    largest_mask = np.int64(0)
    largest_what = np.int64(0)
    last_changed = -1
    for s in range(count):
        first = offsets[s]
        before = np.int64(values[first])
        largest_base = max(largest_base, before & 0xFFFFFFFF)
        mask = np.int64(0)
        for i in range(first + 1, offsets[s + 1]):
            now = np.int64(values[i])
            if now != before:
                delta = _zigzag(now - before)
                largest_what = max(largest_what, delta)
                what[total] = delta
                mask |= np.int64(1) << (times[i] - 1)
                total += 1
                before = now
        if mask:
            gaps[changed] = s - last_changed - 1
            largest_gap = max(largest_gap, np.int64(gaps[changed]))
            last_changed = s
            masks[changed] = mask
            largest_mask = max(largest_mask, mask)
            changed += 1
    # A dense stream has one entry per step; a sparse one per change, and a mask.
    dense = changed * (steps - 1)
    mode = _STILL if changed == 0 else (_DENSE if 2 * total > dense else _SPARSE)
    base_code = _width_code(largest_base)
    what_code = _width_code(largest_what)
    gap_code = _width_code(largest_gap)
    buf[pos] = mode | base_code << 2 | what_code << 4 | gap_code << 6
    pos += 1
    for plane in range(_width(base_code)):
        for s in range(count):
            buf[pos + s] = (np.int64(values[offsets[s]]) >> (8 * plane)) & 0xFF
        pos += count
    if mode == _STILL:
        return pos, 0
    pos = _put_varint(buf, pos, changed)
    pos = _put_ints(buf, pos, gaps, changed, gap_code)
    if mode == _SPARSE:
        pos = _put_varint(buf, pos, total)
        mask_code = _width_code(largest_mask)
        buf[pos] = mask_code
        pos = _put_ints(buf, pos + 1, masks, changed, mask_code)
        return _put_ints(buf, pos, what, total, what_code), total
    width = _width(what_code)
    buf[pos : pos + dense * width] = 0
    at = 0
    i = 0
    for c in range(changed):
        for t in range(steps - 1):
            if masks[c] >> t & 1:
                for plane in range(width):
                    buf[pos + plane * dense + at + t] = (what[i] >> (8 * plane)) & 0xFF
                i += 1
        at += steps - 1
    return pos + dense * width, total


@checked
def put_table(buf, pos, values, groups):
    """Writes int32 values [F, steps], one column per group of rows groups[g]:groups[g + 1].

    First come four bytes: how many events a reader will meet.
    """
    count, steps = values.shape
    flat = values.reshape(-1)
    times = np.empty(flat.size, np.int64)
    for i in range(flat.size):
        times[i] = i % steps
    scratch = np.empty((3, flat.size + count + 1), np.uint32)
    begin = pos
    pos += 4
    events = 0
    for g in range(groups.size - 1):
        offsets = np.arange(groups[g], groups[g + 1] + 1) * steps
        pos, met = put_series(buf, pos, flat, times, offsets, steps, scratch)
        events += met
    for plane in range(4):
        buf[begin + plane] = (events >> (8 * plane)) & 0xFF
    return pos


@checked
def _instances(units, rows, tag_column):
    """Gives every used row of every step a number by identity.

    Identity is the tag and, among equal tags of a step, which of them in row order; numbers
    ascend by (tag, which). Returns (numbers by row, steps concatenated; how many).
    """
    total = 0
    for t in range(rows.size):
        total += rows[t]
    keys = np.empty(total, np.int64)
    at = 0
    for t in range(rows.size):
        local = np.empty(rows[t], np.int64)
        for r in range(rows[t]):
            tag = np.int64(units[t, r, tag_column]) if tag_column >= 0 else 0
            local[r] = (tag + (1 << 31)) << 20 | r
        local.sort()
        which = 0
        for i in range(rows[t]):
            same = i > 0 and local[i] >> 20 == local[i - 1] >> 20
            which = which + 1 if same else 0
            keys[at + (local[i] & 0xFFFFF)] = (local[i] >> 20) << 20 | which
        at += rows[t]
    ordered = np.sort(keys)
    unique = 0
    for i in range(total):
        if i == 0 or ordered[i] != ordered[i - 1]:
            ordered[unique] = ordered[i]
            unique += 1
    return np.searchsorted(ordered[:unique], keys), unique


@checked
def _put_order(buf, pos, numbers, rows, absent, count):
    steps = rows.size
    flags = np.empty(steps, np.uint8)
    lists = np.empty(numbers.size, np.uint32)
    ids = np.empty(numbers.size, np.uint32)
    places = np.empty(numbers.size, np.uint32)
    listed = 0
    inserted = 0
    largest_list = np.int64(0)
    largest_id = np.int64(0)
    largest_place = np.int64(0)
    position = np.empty(count, np.int64)
    begin = 0
    for t in range(steps):
        flag = _LISTED
        if t > 0:
            flag = _SAME
            # Survivors must keep their relative order; newcomers may stand anywhere.
            last = -1
            tail_began = False
            last_new = -1
            for r in range(rows[t]):
                i = numbers[begin + r]
                if absent[i] >> (t - 1) & 1:
                    tail_began = True
                    if i < last_new:
                        flag = max(flag, _INSERTED)
                    last_new = i
                else:
                    if position[i] < last:
                        flag = _LISTED
                        break
                    last = position[i]
                    if tail_began:
                        flag = max(flag, _INSERTED)
        if flag == _LISTED:
            before = -1
            for r in range(rows[t]):
                i = numbers[begin + r]
                lists[listed] = _zigzag(i - before - 1)
                largest_list = max(largest_list, np.int64(lists[listed]))
                listed += 1
                before = i
        elif flag == _INSERTED:
            before = -1
            for r in range(rows[t]):
                i = numbers[begin + r]
                if absent[i] >> (t - 1) & 1:
                    ids[inserted] = i
                    places[inserted] = r - before - 1
                    largest_id = max(largest_id, np.int64(i))
                    largest_place = max(largest_place, np.int64(places[inserted]))
                    before = r
                    inserted += 1
        flags[t] = flag
        for r in range(rows[t]):
            position[numbers[begin + r]] = r
        begin += rows[t]
    codes = (
        _width_code(largest_list),
        _width_code(largest_id),
        _width_code(largest_place),
    )
    buf[pos] = codes[0] | codes[1] << 2 | codes[2] << 4
    pos = _put_varint(buf, pos + 1, listed)
    pos = _put_varint(buf, pos, inserted)
    for t in range(steps):
        buf[pos + t] = flags[t]
    pos = _put_ints(buf, pos + steps, lists, listed, codes[0])
    pos = _put_ints(buf, pos, ids, inserted, codes[1])
    return _put_ints(buf, pos, places, inserted, codes[2])


@checked
def units_bound(units):
    """Returns the used rows of each step of units [steps, U, C], and a bound on their bytes."""
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
    # Per column and row at most: base 4, gap 4, count 1, time 1, value 4; a dense stream is
    # chosen only where it has at most twice the entries of a sparse one.
    return rows, 64 + 16 * total + steps + columns * (16 + 20 * total)


@checked
def put_units(buf, pos, units, rows, tag_column):
    """Writes the unit rows of a chunk, int32 [steps, U, C]; rows as from `units_bound`."""
    steps, capacity, columns = units.shape
    numbers, count = _instances(units, rows, tag_column)
    full = (np.int64(1) << steps) - 1
    absent = np.full(count, full, np.int64)
    offsets = np.zeros(count + 1, np.int64)
    at = 0
    for t in range(steps):
        for _ in range(rows[t]):
            offsets[numbers[at] + 1] += 1
            absent[numbers[at]] &= ~(np.int64(1) << t)
            at += 1
    for i in range(count):
        offsets[i + 1] += offsets[i]
    fill = offsets[:-1].copy()
    times = np.empty(numbers.size, np.int64)
    places = np.empty(numbers.size, np.int64)
    at = 0
    for t in range(steps):
        for r in range(rows[t]):
            where = fill[numbers[at]]
            times[where] = t
            places[where] = t * capacity + r
            fill[numbers[at]] += 1
            at += 1
    begin = pos
    pos = _put_varint(buf, pos + 4, count)
    largest = np.int64(0)
    for i in range(count):
        largest = max(largest, absent[i])
    code = _width_code(largest)
    buf[pos] = code
    pos = _put_ints(buf, pos + 1, absent, count, code)
    pos = _put_order(buf, pos, numbers, rows, absent, count)
    flat = units.reshape(steps * capacity, columns)
    values = np.empty(numbers.size, np.int32)
    scratch = np.empty((3, numbers.size + count + 1), np.uint32)
    events = 0
    for c in range(columns):
        for i in range(numbers.size):
            values[i] = flat[places[i], c]
        pos, met = put_series(buf, pos, values, times, offsets, steps, scratch)
        events += met
    for plane in range(4):
        buf[begin + plane] = (events >> (8 * plane)) & 0xFF
    return pos


@checked
def _copy(target, source):
    # A loop compiles to memcpy; numba's slice assignment is twenty times slower.
    for i in range(target.size):
        target[i] = source[i]


@checked
def put_plane(buf, pos, frames, reference):
    """Writes uint8 frames [steps, P] of a plane whose reference is uint8 [P]."""
    steps, size = frames.shape
    gaps = np.empty(size, np.uint32)
    marks = np.empty(size, np.uint8)
    patches = 0
    largest = np.int64(0)
    last = -1
    for cell in range(size):
        if frames[0, cell] != reference[cell]:
            gaps[patches] = cell - last - 1
            largest = max(largest, np.int64(gaps[patches]))
            marks[patches] = frames[0, cell] ^ reference[cell]
            last = cell
            patches += 1
    # Beyond a 32nd of the cells the whole plane compresses better than a list of them.
    if patches == 0:
        buf[pos] = _AS_REFERENCE
        pos += 1
    elif patches > size // 32:
        buf[pos] = _WHOLE
        _copy(buf[pos + 1 : pos + 1 + size], frames[0])
        pos += 1 + size
    else:
        code = _width_code(largest)
        buf[pos] = _PATCHED | code << 2
        pos = _put_varint(buf, pos + 1, patches)
        pos = _put_ints(buf, pos, gaps, patches, code)
        _copy(buf[pos : pos + patches], marks)
        pos += patches
    return _put_transitions(buf, pos, frames)


@checked
def _put_transitions(buf, pos, frames):
    steps, size = frames.shape
    cells = np.empty(1024, np.int64)
    total = 0
    per_cell = np.zeros(size + 1, np.int64)
    ends = np.zeros(steps, np.int64)
    for t in range(1, steps):
        for block in range(0, size, 64):
            stop = min(block + 64, size)
            differs = np.uint8(0)
            for cell in range(block, stop):
                differs |= frames[t, cell] ^ frames[t - 1, cell]
            if differs == 0:
                continue
            if total + 64 > cells.size:
                grown = np.empty(2 * cells.size, np.int64)
                grown[:total] = cells[:total]
                cells = grown
            for cell in range(block, stop):
                if frames[t, cell] != frames[t - 1, cell]:
                    cells[total] = cell
                    per_cell[cell + 1] += 1
                    total += 1
        ends[t] = total
    gaps = np.empty(min(size, total), np.uint32)
    masks = np.zeros(min(size, total), np.int64)
    slot = np.empty(size, np.int64)
    changed = 0
    largest = np.int64(0)
    last = -1
    for cell in range(size):
        if per_cell[cell + 1]:
            gaps[changed] = cell - last - 1
            largest = max(largest, np.int64(gaps[changed]))
            slot[cell] = changed
            last = cell
            changed += 1
        per_cell[cell + 1] += per_cell[cell]
    pos = _put_varint(buf, pos, changed)
    if changed == 0:
        return pos
    pos = _put_varint(buf, pos, total)
    marks = np.empty(total, np.uint8)
    largest_mask = np.int64(0)
    t = 1
    for i in range(total):
        while i >= ends[t]:
            t += 1
        cell = cells[i]
        marks[per_cell[cell]] = frames[t, cell] ^ frames[t - 1, cell]
        per_cell[cell] += 1
        masks[slot[cell]] |= np.int64(1) << (t - 1)
        largest_mask = max(largest_mask, masks[slot[cell]])
    code, mask_code = _width_code(largest), _width_code(largest_mask)
    buf[pos] = code | mask_code << 2
    pos = _put_ints(buf, pos + 1, gaps, changed, code)
    pos = _put_ints(buf, pos, masks, changed, mask_code)
    _copy(buf[pos : pos + total], marks)
    return pos + total


@checked
def plane_bound(size, steps):
    """Returns the most bytes that `put_plane` writes."""
    return 64 + size * 6 + size * (steps - 1) + size * 8


@checked
def rectangle(plane, corners):
    """Sets corners (top, bottom, left, right; ends excluded) of the ones in int32 [H, W].

    Returns False unless the plane is zero but for one full rectangle of ones.
    """
    height, width = plane.shape
    top, left, bottom, right = -1, 0, 0, 0
    for y in range(height):
        row = plane[y]
        total = np.int64(0)
        seen = np.int32(0)
        for x in range(width):
            seen |= row[x]
            total += row[x]
        if seen == 0:
            continue
        if seen != 1:
            return False
        if top < 0:
            top = y
            while row[left] == 0:
                left += 1
            right = left + total
        elif y != bottom:
            return False
        bottom = y + 1
        if total != right - left:
            return False
        for x in range(left, right):
            if row[x] != 1:
                return False
    corners[0], corners[1], corners[2], corners[3] = max(top, 0), bottom, left, right
    return True


@checked
def put_lists(buf, pos, lists, pad):
    """Writes int32 rows [steps, S], each without the run of `pad` it ends with."""
    steps, size = lists.shape
    lengths = np.empty(steps, np.uint32)
    values = np.empty(steps * size, np.uint32)
    total = 0
    largest = np.int64(0)
    longest = np.int64(0)
    for t in range(steps):
        length = size
        while length > 0 and lists[t, length - 1] == pad:
            length -= 1
        lengths[t] = length
        longest = max(longest, length)
        before = np.int64(0)
        for j in range(length):
            now = np.int64(lists[t, j])
            values[total] = _zigzag(now - before)
            largest = max(largest, np.int64(values[total]))
            before = now
            total += 1
    codes = (_width_code(longest), _width_code(largest))
    buf[pos] = codes[0] | codes[1] << 2
    pos = _put_varint(buf, pos + 1, total)
    pos = _put_ints(buf, pos, lengths, steps, codes[0])
    return _put_ints(buf, pos, values, total, codes[1])
