"""Compiled loops for planes and the camera: sections of bytes, written and read.

In: the uint8 frames of one chunk and a buffer, or a section and which steps are wanted. Out:
the other. Knows no specs, files or zstd; `docs/format.md` describes the bytes. GIL-free.
Readers return the negative code of a bound that does not hold, as in `unpacking`.

    section    codes u8 | first step | C, varint | N, varint | codes u8 | gaps | masks | flips
                                                 │ absent where C is 0   stream  stream  N bytes
                                                                         of C    of C

    first step, as codes say
        AS_REFERENCE   nothing: it is the episode's reference plane
        PATCHED        P, varint | gaps, stream of P | P bytes to flip in the reference
        WHOLE          all cells

    changes, cell after cell             step       0    1    2    3
        gap    cells skipped since       cell 7     10   10   14   15     mask 110: changes at
               the last changing one     flips                 4    1     steps 2 and 3
        mask   bit t - 1: changes at step t
        flips  bits to flip, one byte per change

The camera's plane is a rectangle of ones almost always. Its four corners are series of the
table then.
"""

from typing import NamedTuple

import numpy as np

from starmill.schema.codec.bounds import CELL, CHANGES, CORNERS, FLIPS, FORM, STREAM
from starmill.schema.codec.streams import (
    AS_REFERENCE,
    PATCHED,
    WHOLE,
    Stream,
    byte_at,
    copy_bytes,
    end_of,
    is_inside,
    largest,
    number_at,
    put_stream,
    put_varint,
    read_varint,
    width_code,
)
from starmill.schema.codec.unpacking import (
    INDEX,
    STEP,
    VALUE,
    Window,
    empty_changes,
    sort_by_step,
)
from starmill.schema.compilation import checked, checked_kernel

# Above one changed cell in so many, the whole plane compresses better than a list of cells.
_CELLS_PER_PATCH = 32
# Cells compared at once when looking for changes; most blocks have none.
_BLOCK = 64


class PlaneStreams(NamedTuple):
    """The streams of a plane's changes.

    Attributes:
        gaps: of each changing cell, how many cells since the last one do not change.
        masks: of each changing cell, bit t - 1 is set if it changes at step t.
        flips: the bits to flip, one byte per change, cell after cell.
    """

    gaps: Stream
    masks: Stream
    flips: Stream


# --- writing -----------------------------------------------------------------------------


@checked
def plane_bound(size, steps):
    """Returns the most bytes that `put_plane` writes for a plane of so many cells."""
    return 64 + size * 6 + size * (steps - 1) + size * 8


@checked
def put_plane(buf, pos, frames, reference):
    """Writes uint8 frames [steps, P] of a plane whose reference is uint8 [P].

    Returns the position after the section.
    """
    pos = _put_first_plane(buf, pos, frames[0], reference)
    return _put_transitions(buf, pos, frames)


@checked_kernel
def _put_first_plane(buf, pos, plane, reference):
    size = plane.size
    gaps = np.empty(size, np.uint32)
    flips = np.empty(size, np.uint8)
    patches = 0
    last = -1
    for cell in range(size):
        if plane[cell] != reference[cell]:
            gaps[patches] = cell - last - 1
            flips[patches] = plane[cell] ^ reference[cell]
            last = cell
            patches += 1
    if patches == 0:
        buf[pos] = AS_REFERENCE
        return pos + 1
    if patches > size // _CELLS_PER_PATCH:
        buf[pos] = WHOLE
        copy_bytes(buf[pos + 1 : pos + 1 + size], plane)
        return pos + 1 + size
    code = width_code(largest(gaps, patches))
    buf[pos] = PATCHED | code << 2
    pos = put_varint(buf, pos + 1, patches)
    pos = put_stream(buf, pos, gaps, patches, code)
    copy_bytes(buf[pos : pos + patches], flips)
    return pos + patches


@checked_kernel
def _put_transitions(buf, pos, frames):
    cells, ends, per_cell = _find_transitions(frames)
    size, total = per_cell.size - 1, cells.size
    gaps = np.empty(min(size, total), np.uint32)
    masks = np.zeros(min(size, total), np.int64)
    slots = np.empty(size, np.int64)
    changing = 0
    last = -1
    for cell in range(size):
        if per_cell[cell + 1]:
            gaps[changing] = cell - last - 1
            slots[cell] = changing
            last = cell
            changing += 1
        per_cell[cell + 1] += per_cell[cell]
    pos = put_varint(buf, pos, changing)
    if changing == 0:
        return pos
    pos = put_varint(buf, pos, total)
    flips = np.empty(total, np.uint8)
    t = 1
    for i in range(total):
        while i >= ends[t]:
            t += 1
        cell = cells[i]
        flips[per_cell[cell]] = frames[t, cell] ^ frames[t - 1, cell]
        per_cell[cell] += 1
        masks[slots[cell]] |= np.int64(1) << (t - 1)
    gap_code = width_code(largest(gaps, changing))
    mask_code = width_code(largest(masks, changing))
    buf[pos] = gap_code | mask_code << 2
    pos = put_stream(buf, pos + 1, gaps, changing, gap_code)
    pos = put_stream(buf, pos, masks, changing, mask_code)
    copy_bytes(buf[pos : pos + total], flips)
    return pos + total


@checked_kernel
def _find_transitions(frames):
    """Returns (cells that change, step after step; where each step ends; how often each).

    The counts are int64 [P + 1]: of cell p at p + 1.
    """
    steps, size = frames.shape
    cells = np.empty(1024, np.int64)
    total = 0
    per_cell = np.zeros(size + 1, np.int64)
    ends = np.zeros(steps, np.int64)
    for t in range(1, steps):
        for block in range(0, size, _BLOCK):
            stop = min(block + _BLOCK, size)
            differs = np.uint8(0)
            for cell in range(block, stop):
                differs |= frames[t, cell] ^ frames[t - 1, cell]
            if differs == 0:
                continue
            if total + _BLOCK > cells.size:
                grown = np.empty(2 * cells.size, np.int64)
                grown[:total] = cells[:total]
                cells = grown
            for cell in range(block, stop):
                if frames[t, cell] != frames[t - 1, cell]:
                    cells[total] = cell
                    per_cell[cell + 1] += 1
                    total += 1
        ends[t] = total
    return cells[:total], ends, per_cell


@checked
def find_rectangle(plane, corners):
    """Sets corners (top, bottom, left, right; ends excluded) of the ones in int32 [H, W].

    Returns False unless the plane is zero but for one full rectangle of ones. Then corners
    are not set.
    """
    top, left, bottom, right = -1, 0, 0, 0
    for y in range(plane.shape[0]):
        row = plane[y]
        total = np.int64(0)
        bits = np.int32(0)
        for x in range(row.size):
            bits |= row[x]
            total += row[x]
        if bits == 0:
            continue
        if top < 0:
            top, bottom = y, y
            while row[left] == 0:
                left += 1
            right = left + total
        if bits != 1 or y != bottom or total != right - left:
            return False
        for x in range(left, right):
            if row[x] != 1:
                return False
        bottom = y + 1
    corners[0], corners[1], corners[2], corners[3] = max(top, 0), bottom, left, right
    return True


# --- reading -----------------------------------------------------------------------------


@checked
def read_plane(buf, steps, start, stop, reference, out):
    """Reads steps start:stop of a plane into out, uint8 [stop - start, P].

    Returns 0, or a bound that does not hold.
    """
    window = Window(steps, start, stop)
    state = np.empty(reference.size, np.uint8)
    pos = _read_first_plane(buf, reference, state)
    streams = _open_plane_changes(buf, pos)
    total = streams.flips.size
    if streams.flips.begin < 0:
        return streams.flips.begin
    if total > state.size * (steps - 1):
        return np.int64(-CHANGES)
    changes = empty_changes(total)
    status = _read_flips(buf, streams, window, state, changes)
    if status < 0:
        return status
    begins, numbers = sort_by_step(changes, window)
    rows = changes.rows
    for k in range(stop - start):
        for j in range(begins[k], begins[k + 1]):
            i = numbers[j]
            state[rows[INDEX, i]] ^= rows[VALUE, i]
        copy_bytes(out[k], state)
    return np.int64(0)


@checked_kernel
def _read_first_plane(buf, reference, state):
    """Sets state to the chunk's first step; returns the position after it."""
    codes = byte_at(buf, 0)
    if codes < 0:
        return codes
    kind = codes & 3
    pos = np.int64(1)
    if kind == WHOLE:
        if not is_inside(buf, pos, state.size):
            return np.int64(-STREAM)
        copy_bytes(state, buf[pos : pos + state.size])
        return np.int64(pos + state.size)
    copy_bytes(state, reference)
    if kind == AS_REFERENCE:
        return pos
    if kind != PATCHED:
        return np.int64(-FORM)
    patches, pos = read_varint(buf, pos)
    gaps = Stream(pos, patches, codes >> 2 & 3)
    flips = end_of(gaps)
    if pos < 0:
        return pos
    if not is_inside(buf, pos, flips + patches - pos):
        return np.int64(-STREAM)
    cell = np.int64(-1)
    for i in range(patches):
        cell += number_at(buf, gaps, i) + 1
        if cell >= state.size:
            return np.int64(-CELL)
        state[cell] ^= buf[flips + i]
    return flips + patches


@checked_kernel
def _open_plane_changes(buf, pos):
    """Returns the streams; the begin of `flips` is negative if they are not inside."""
    changing, begin = read_varint(buf, pos)
    total = np.int64(0)
    codes = np.int64(0)
    if changing:
        total, pos = read_varint(buf, begin)
        codes = byte_at(buf, pos)
        begin = pos + 1 if codes >= 0 else codes
    gaps = Stream(begin, changing, codes & 3)
    masks = Stream(end_of(gaps), changing, codes >> 2 & 3)
    flips = Stream(end_of(masks), total, np.int64(1))
    if begin < 0:
        flips = Stream(begin, np.int64(0), np.int64(1))
    elif not is_inside(buf, begin, end_of(flips) - begin):
        flips = Stream(np.int64(-STREAM), np.int64(0), np.int64(1))
    return PlaneStreams(gaps, masks, flips)


@checked_kernel
def _read_flips(buf, streams, window, state, changes):
    """Returns 0, or a bound that does not hold."""
    rows = changes.rows
    used = 0
    cell = np.int64(-1)
    i = 0
    for c in range(streams.gaps.size):
        cell += number_at(buf, streams.gaps, c) + 1
        if cell >= state.size:
            return np.int64(-CELL)
        mask = number_at(buf, streams.masks, c)
        step = 1
        while mask:
            if mask & 1:
                if i >= streams.flips.size:
                    return np.int64(-FLIPS)
                flip = buf[streams.flips.begin + i]
                i += 1
                if step <= window.start:
                    state[cell] ^= flip
                elif step < window.stop:
                    rows[STEP, used] = step
                    rows[INDEX, used] = cell
                    rows[VALUE, used] = flip
                    used += 1
            mask >>= 1
            step += 1
    changes.used[0] = used
    return np.int64(0)


@checked
def check_corners(corners, height, width):
    """Returns 0 if int32 [steps, 4] are rectangles inside [height, width]."""
    for k in range(corners.shape[0]):
        top, bottom = corners[k, 0], corners[k, 1]
        left, right = corners[k, 2], corners[k, 3]
        if not (0 <= top <= bottom <= height and 0 <= left <= right <= width):
            return np.int64(-CORNERS)
    return np.int64(0)


@checked
def paint_rectangles(corners, planes):
    """Sets planes, int32 [steps, H, W], to ones inside each rectangle and zeros outside.

    corners: int32 [steps, 4]: top, bottom, left, right; ends are excluded. Returns 0, or a
    bound that does not hold.
    """
    status = check_corners(corners, planes.shape[1], planes.shape[2])
    if status < 0:
        return status
    planes[:] = 0
    for k in range(planes.shape[0]):
        for y in range(corners[k, 0], corners[k, 1]):
            planes[k, y, corners[k, 2] : corners[k, 3]] = 1
    return np.int64(0)
