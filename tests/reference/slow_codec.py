"""A reader of records written from docs/format.md alone: slow, obvious, no compiled code.

It shares nothing with `schema.codec` but the specs, so that the page and the code check
each other.
"""

import hashlib
import math
import struct

import numpy as np
import zstandard

from starmill.schema import specs


class Bytes:
    """A cursor over a section."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("too short")
        self.at += count
        return self.data[self.at - count : self.at]

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def varint(self):
        value, shift = 0, 0
        while True:
            byte = self.u8()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def stream(self, count, code):
        values = [0] * count
        for plane in range((0, 1, 2, 4)[code]):
            for i, byte in enumerate(self.take(count)):
                values[i] |= byte << (8 * plane)
        return values


def int32(value):
    value %= 2**32
    return value - 2**32 if value >= 2**31 else value


def unzigzag(value):
    return value // 2 if value % 2 == 0 else -(value + 1) // 2


def series(data, count, steps):
    """One column: [steps][count]."""
    first = data.u8()
    mode, base, change, gap = (first >> shift & 3 for shift in (0, 2, 4, 6))
    start = [int32(value) for value in data.stream(count, base)]
    differences = {}
    if mode:
        changed = data.varint()
        gaps = data.stream(changed, gap)
        if mode == 1:
            total = data.varint()
            masks = data.stream(changed, data.u8())
            values = iter(data.stream(total, change))
        else:
            masks = [2 ** (steps - 1) - 1] * changed
            values = iter(data.stream(changed * (steps - 1), change))
        which = -1
        for skipped, mask in zip(gaps, masks, strict=True):
            which += skipped + 1
            for t in range(1, steps):
                if mask >> (t - 1) & 1:
                    differences[t, which] = unzigzag(next(values))
    rows = [start]
    for t in range(1, steps):
        rows.append(
            [int32(v + differences.get((t, i), 0)) for i, v in enumerate(rows[-1])]
        )
    return rows


def lists(data, steps, size, pad):
    first = data.u8()
    total = data.varint()
    lengths = data.stream(steps, first & 3)
    values = iter(data.stream(total, first >> 2 & 3))
    out = np.full((steps, size), pad, np.int32)
    for t, length in enumerate(lengths):
        before = 0
        for j in range(length):
            before = int32(before + unzigzag(next(values)))
            out[t, j] = before
    return out


def units(data, steps, capacity, columns):
    data.u32()
    count = data.varint()
    absent = data.stream(count, data.u8())
    codes = data.u8()
    listed, inserted = data.varint(), data.varint()
    flags = data.take(steps)
    lines = iter(data.stream(listed, codes & 3))
    ids = iter(data.stream(inserted, codes >> 2 & 3))
    places = iter(data.stream(inserted, codes >> 4 & 3))
    values = [series(data, count, steps) for _ in range(columns)]
    out = np.zeros((steps, capacity, columns), np.int32)
    order = []
    for t in range(steps):
        present = [i for i in range(count) if not absent[i] >> t & 1]
        new = [i for i in present if t and absent[i] >> (t - 1) & 1]
        if flags[t] == 2:
            order, before = [], -1
            for _ in present:
                before += unzigzag(next(lines)) + 1
                order.append(before)
        else:
            order = [i for i in order if i in present]
            if flags[t] == 0:
                order += new
            else:
                at = 0
                for _ in new:
                    at += next(places)
                    order.insert(at, next(ids))
                    at += 1
        assert sorted(order) == present
        for row, i in enumerate(order):
            out[t, row] = [values[c][t][i] for c in range(columns)]
    return out


def plane(data, steps, reference):
    first = data.u8()
    now = list(reference)
    if first & 3 == 1:
        count = data.varint()
        gaps = data.stream(count, first >> 2 & 3)
        cell = -1
        for gap, mark in zip(gaps, data.take(count), strict=True):
            cell += gap + 1
            now[cell] ^= mark
    elif first & 3 == 2:
        now = list(data.take(len(reference)))
    changes = {}
    changed = data.varint()
    if changed:
        total = data.varint()
        codes = data.u8()
        gaps = data.stream(changed, codes & 3)
        masks = data.stream(changed, codes >> 2 & 3)
        marks = iter(data.take(total))
        cell = -1
        for gap, mask in zip(gaps, masks, strict=True):
            cell += gap + 1
            for t in range(1, steps):
                if mask >> (t - 1) & 1:
                    changes.setdefault(t, []).append((cell, next(marks)))
    out = []
    for t in range(steps):
        for cell, mark in changes.get(t, ()):
            now[cell] ^= mark
        out.append(list(now))
    return out


def payload(data, steps, references, settings):
    result = specs.episode_specs(settings)
    planes = sorted(key for key, spec in result.items() if spec.dtype == "uint8")
    special = {"action/unit_tags", "raw_units", "camera", *planes}
    table = sorted(set(result) - special)
    count = 4 + len(planes)
    lengths = struct.unpack_from(f"<{count}I", data)
    sections, at = [], 4 * count
    for length in lengths:
        sections.append(Bytes(data[at : at + length]))
        at += length
    assert at == len(data)
    out = {}
    sections[0].u32()
    for key in table:
        size = math.prod(result[key].shape)
        rows = series(sections[0], size, steps)
        out[key] = np.array(rows, np.int32).reshape(steps, *result[key].shape)
    if "camera" in result:
        corners = series(sections[0], 4, steps)
        out["camera"] = np.zeros((steps, *result["camera"].shape), np.int32)
        for t, (top, bottom, left, right) in enumerate(corners):
            out["camera"][t, top:bottom, left:right] = 1
        if lengths[3]:
            raw = np.frombuffer(sections[3].take(lengths[3]), "<i4")
            out["camera"] = raw.reshape(out["camera"].shape)
    capacity, columns = result["raw_units"].shape
    if "action/unit_tags" in result:
        size = result["action/unit_tags"].shape[0]
        out["action/unit_tags"] = lists(sections[1], steps, size, capacity)
    out["raw_units"] = units(sections[2], steps, capacity, columns)
    for key, section in zip(planes, sections[4:], strict=True):
        shape = result[key].shape
        reference = references.get(key, [0] * math.prod(shape))
        frames = plane(section, steps, reference)
        out[key] = np.array(frames, np.uint8).reshape(steps, *shape)
    for section, length in zip(sections, lengths, strict=True):
        assert section.at == length, "every byte has a meaning"
    return out


def decode(records, settings):
    """Returns the arrays of an episode."""
    header = records[0]
    assert header[:4] == b"SM\x01\x00"
    assert header[4:12] == bytes.fromhex(specs.fingerprint(settings))[:8]
    dictionary = zstandard.ZstdDecompressor().decompress(header[12:])
    first = payload(dictionary, 1, {}, settings)
    references = {
        key: array.reshape(-1).tolist()
        for key, array in first.items()
        if array.dtype == np.uint8
    }
    reader = zstandard.ZstdDecompressor(
        dict_data=zstandard.ZstdCompressionDict(
            dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT
        )
    )
    parts = []
    delay = 0
    for number, record in enumerate(records[1:]):
        assert record[:4] == b"SM\x01\x01"
        assert record[4:12] == hashlib.sha256(header).digest()[:8]
        index, steps, before = struct.unpack_from("<IBi", record, 12)
        assert index == number
        data = reader.decompress(record[21:])
        parts.append(payload(data, steps, references, settings))
        if "action/delay" in parts[-1]:
            assert before == delay
            delay = int(parts[-1]["action/delay"][-1])
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
