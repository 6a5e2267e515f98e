"""Forged records: valid frames, ties and checksums around hostile payloads.

A forger takes the records of an episode apart into sections, changes what a section states, and
puts them together again. `consume` then reads all there is to read, into arrays between guards.
"""

import functools
import random
from collections.abc import Sequence

import numpy as np

from starmill.schema import codec, errors
from starmill.schema.codec import records
from starmill.schema.codec.layout import layout
from starmill.schema.settings import ConverterSettings
from tests.factories.records import SMALL, episode
from tests.hostile import mutations

GUARD = 0x5A


@functools.cache
def originals() -> list[list[bytes]]:
    """The records of some episodes of few units and small planes."""
    out = []
    for seed, steps, kind in ((0, 40, "game"), (1, 3, "game"), (2, 33, "noise")):
        arrays = episode(seed, steps=steps, kind=kind).arrays
        if seed == 1:
            arrays["camera"][:] = 2
        out.append(codec.encode(arrays, SMALL))
    return out


def sections(payload: bytes, settings: ConverterSettings) -> list[bytes]:
    """The sections of a payload."""
    count = layout(settings).sections
    lengths = np.frombuffer(payload, "<u4", count)
    ends = np.cumsum([4 * count, *lengths.tolist()])
    return [payload[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]


def payload(parts: Sequence[bytes]) -> bytes:
    """A payload of these sections."""
    lengths = np.array([len(part) for part in parts], "<u4")
    return lengths.tobytes() + b"".join(parts)


def forged_payload(
    data: bytes, settings: ConverterSettings, rng: random.Random
) -> bytes:
    """A payload with something changed inside its sections, or in how they are cut."""
    parts = sections(data, settings)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(parts))
        kind = rng.randrange(10)
        if kind == 0:
            parts[at] = parts[rng.randrange(len(parts))]
        elif kind == 1:
            parts[at] = b""
        elif kind == 2:
            # What a section begins with are its counts and codes.
            head = rng.choice([4, 8, 24])
            parts[at] = mutations.damaged(parts[at][:head], rng) + parts[at][head:]
        else:
            parts[at] = mutations.damaged(parts[at], rng)
    out = payload(parts)
    return mutations.damaged(out, rng) if rng.random() < 0.05 else out


def forged(rng: random.Random) -> list[bytes]:
    """The records of an episode, some of them forged; each fits its header."""
    stored = rng.choice(originals())
    settings = SMALL
    header = codec.Header(stored[0], settings)
    chunks = [codec.Chunk(header, record) for record in stored[1:]]
    head = stored[0]
    dictionary = header.payload
    if rng.random() < 0.3:
        dictionary = forged_payload(header.payload, settings, rng)
        head = records.header_record(header.layout.fingerprint, dictionary, 3)
    compressor = records.compressor(3, dictionary)
    tie = records.digest(head)
    out = [head]
    for chunk in chunks:
        data = chunk.payload
        if rng.random() < 0.7:
            data = forged_payload(data, settings, rng)
        position = [chunk.index, chunk.steps, chunk.delay_before]
        if rng.random() < 0.1:
            position[rng.randrange(3)] = rng.choice([0, 1, 2, 31, 32])
        out.append(
            records.chunk_record(tie, records.Position(*position), data, compressor)
        )
    if rng.random() < 0.05:
        out[rng.randrange(len(out))] = bomb()
    return out


@functools.cache
def _large_frame() -> bytes:
    frame: bytes = records.compressor(3, None).compress(bytes(1 << 26))
    return frame


def bomb() -> bytes:
    """A small record of zeros whose payload is far larger than any chunk's."""
    return records._PREFIX.pack(b"SM", 1, 0, layout(SMALL).fingerprint) + _large_frame()


def consume(forged_records: Sequence[bytes], rng: random.Random) -> None:
    """Reads everything in every form; AssertionError if a guard was overwritten."""
    settings = SMALL
    header = codec.Header(forged_records[0], settings)
    want = header.layout
    for record in forged_records[1:]:
        chunk = codec.Chunk(header, record)
        start = rng.randrange(chunk.steps)
        stop = rng.randrange(start, chunk.steps) + 1
        out, guarded = {}, []
        for key, shape in want.shapes.items():
            out[key] = _between_guards(
                (stop - start, *shape), want.dtypes[key], guarded
            )
        failures = 0
        for keys in (list(out), ["raw_units"], ["camera"], [want.table[0]]):
            try:
                chunk.read(start, stop, {key: out[key] for key in keys})
            except errors.ShardCorrupt:
                failures += 1
        rows = _between_guards((64, want.shapes["raw_units"][1]), np.int32, guarded)
        reads = (
            functools.partial(chunk.units, start, stop, rows, 0, 0),
            functools.partial(chunk.corners, start, stop),
            functools.partial(chunk.delay, start),
        )
        for read in reads:
            try:
                read()
            except (errors.ShardCorrupt, errors.ConfigError):
                failures += 1
        for whole, inner in guarded:
            assert (whole[:inner] == GUARD).all(), "written before an array"
            assert (whole[-64:] == GUARD).all(), "written behind an array"
    codec.decode(forged_records, settings)


def _between_guards(shape, dtype, guarded):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.full(64 + size + 64, GUARD, np.uint8)
    guarded.append((whole, 64))
    return whole[64 : 64 + size].view(dtype).reshape(shape)
