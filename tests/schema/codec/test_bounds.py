"""Each bound of the table in `codec.bounds` is attacked; and nothing leaks, or is written beside."""

import random
import resource

import numpy as np
import pytest

from starmill.schema import errors
from starmill.schema.codec import bounds, planes, unit_rows, unpacking
from starmill.schema.codec.streams import INSERTED, LISTED, SAME, SPARSE
from tests.hostile import chunks

U32 = b"\0\0\0\0"


def read_table(section, steps=3, series=2):
    out, guarded = guards((steps, series), np.int32)
    groups = np.array([0, series], np.int64)
    status = unpacking.read_table(section, steps, 0, steps, groups, out)
    assert_untouched(guarded)
    return status


def read_lists(section, steps=3, size=4):
    out, guarded = guards((steps, size), np.int32)
    status = unpacking.read_lists(section, steps, 0, steps, 9, out)
    assert_untouched(guarded)
    return status


def read_units(section, steps=3, capacity=4, rows=64):
    out, guarded = guards((rows, 1), np.int32)
    counts, more = guards((steps,), np.int64)
    target = unit_rows.UnitRows(0, capacity, capacity)
    status = unit_rows.read_units(section, steps, 0, steps, target, out, counts)
    assert_untouched([*guarded, *more])
    return status


def read_plane(section, steps=3, cells=4):
    out, guarded = guards((steps, cells), np.uint8)
    reference = np.zeros(cells, np.uint8)
    status = planes.read_plane(section, steps, 0, steps, reference, out)
    assert_untouched(guarded)
    return status


def read_corners(corners):
    out, guarded = guards((1, 4, 4), np.int32)
    status = planes.paint_rectangles(np.array([corners], np.int32), out)
    assert_untouched(guarded)
    return status


def guards(shape, dtype):
    guarded = []
    return chunks._between_guards(shape, dtype, guarded), guarded


def assert_untouched(guarded):
    for whole, inner in guarded:
        assert (whole[:inner] == chunks.GUARD).all()
        assert (whole[-64:] == chunks.GUARD).all()


def units(*, masks, flags, lists=b"", ids=b"", places=b"", counts=None, total=U32):
    """A section of units of one column; every stream has one byte a number."""
    listed, inserted = counts or (len(lists), len(ids))
    order = bytes([0b010101, listed, inserted, *flags]) + lists + ids + places
    presence = bytes([len(masks), 1, *masks])
    return total + presence + order + b"\0"


ATTACKS = [
    (bounds.NUMBER, read_table, U32 + b"\x02"),
    (bounds.NUMBER, read_table, U32 + b"\x02" + b"\x80" * 12),
    (bounds.NUMBER, read_lists, b"\x01" + b"\xff" * 12),
    (bounds.NUMBER, read_units, U32 + b"\xff" * 12),
    (bounds.NUMBER, read_plane, b"\x01"),
    (bounds.STREAM, read_table, U32[:3]),
    (bounds.STREAM, read_table, U32 + b"\x0c"),
    (bounds.STREAM, read_table, U32 + b"\x42" + b"\xff" * 5 + b"\x01"),
    (bounds.STREAM, read_lists, b"\x01\x00"),
    (bounds.STREAM, read_lists, b"\x0c" + b"\xff" * 5 + b"\x01"),
    (bounds.STREAM, read_units, b""),
    (bounds.STREAM, read_units, U32 + b"\x02\x01\x00"),
    (bounds.STREAM, read_units, U32 + b"\x00\x00\x00" + b"\xff" * 5 + b"\x01\x00"),
    (bounds.STREAM, read_plane, b""),
    (bounds.STREAM, read_plane, b"\x02\x01\x01\x01"),
    (bounds.STREAM, read_plane, b"\x00\x01" + b"\xff" * 5 + b"\x01\x00"),
    (bounds.MODE, read_table, U32 + b"\x03"),
    (bounds.SERIES, read_table, U32 + b"\x02\x03"),
    (bounds.SERIES, read_table, U32 + b"\x42\x01\xff"),
    (bounds.DELTAS, read_table, b"\1\0\0\0" + bytes([SPARSE | 0x10, 1, 1, 1, 3, 2])),
    (bounds.CHANGES, read_table, b"\xff\xff\xff\xff\x00"),
    (bounds.CHANGES, read_units, units(masks=[0], flags=[2, 0, 0], lists=b"\0",
                                       total=b"\xff\xff\xff\xff")),
    (bounds.CHANGES, read_plane, b"\x00\x01\x09\x00" + bytes(9)),
    (bounds.COLLECTED, read_table, U32 + b"\x12\x01\x02\x02"),
    (bounds.LIST, read_lists, b"\x01\x05\x05\x00\x00"),
    (bounds.LIST, read_lists, b"\x01\x01\x01\x01\x00"),
    (bounds.INSTANCES, read_units, U32 + b"\x0d\x00"),
    (bounds.LISTED_ROWS, read_units, units(masks=[0, 0], flags=[LISTED, 0, 0], lists=b"\0")),
    (bounds.LISTED_ROW, read_units, units(masks=[0], flags=[LISTED, 0, 0], lists=b"\x04")),
    (bounds.LISTED_ROW, read_units, units(masks=[0], flags=[LISTED, 0, 0], lists=b"\x01")),
    (bounds.ORDER, read_units, units(masks=[0], flags=[SAME, 0, 0])),
    (bounds.ORDER, read_units, units(masks=[0], flags=[INSERTED, 0, 0])),
    (bounds.ORDER, read_units, units(masks=[0], flags=[LISTED, 3, 0], lists=b"\0")),
    # Row 0 twice at step 0; row 1 vanishes and comes again.
    (bounds.NEW_ROWS, read_units, units(masks=[0, 2], flags=[LISTED, SAME, SAME], lists=b"\0\x01")),
    (bounds.NEW_ROWS, read_units, units(masks=[0, 2], flags=[LISTED, SAME, INSERTED],
                                        lists=b"\0\x01", ids=b"\x01", places=b"\0")),
    (bounds.INSERTED_ROWS, read_units, units(masks=[0, 1], flags=[LISTED, INSERTED, 0], lists=b"\0")),
    (bounds.INSERTED_ROW, read_units, units(masks=[0, 1], flags=[LISTED, INSERTED, 0],
                                            lists=b"\0", ids=b"\x09", places=b"\0")),
    (bounds.INSERTED_ROW, read_units, units(masks=[0, 1], flags=[LISTED, INSERTED, 0],
                                            lists=b"\0", ids=b"\x01", places=b"\x09")),
    (bounds.FORM, read_plane, b"\x03"),
    (bounds.CELL, read_plane, b"\x05\x01\xff\x01\x00"),
    (bounds.CELL, read_plane, b"\x00\x01\x01\x05\xff\x01\x01"),
    (bounds.STREAM, read_plane, b"\x01" + b"\xff" * 4 + b"\x01\x00"),
    (bounds.FLIPS, read_plane, b"\x00\x01\x01\x04\x03\x01"),
    (bounds.CORNERS, read_corners, (0, 5, 0, 1)),
    (bounds.CORNERS, read_corners, (-1, 4, 0, 1)),
    (bounds.CORNERS, read_corners, (0, 4, 0, 2**31 - 1)),
    (bounds.CORNERS, read_corners, (3, 2, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "read", "section"),
    ATTACKS,
    ids=[f"{n}-{read.__name__}-{code}" for n, (code, read, _) in enumerate(ATTACKS)],
)
def test_what_a_section_states_beyond_a_bound_is_refused(code, read, section):
    given = np.frombuffer(section, np.uint8) if isinstance(section, bytes) else section
    assert read(given) == -code, bounds.message(-code)


def test_more_rows_than_the_spec_allows_are_refused():
    section = units(masks=[0, 0], flags=[LISTED, SAME, SAME], lists=b"\0\0")
    section = np.frombuffer(section, np.uint8)
    assert read_units(section, capacity=4) == 0
    assert read_units(section, capacity=1) == -bounds.ROWS
    assert read_units(section, capacity=4, rows=8) == -bounds.ROWS


def test_every_bound_of_the_table_is_attacked():
    # The camera that is stored whole has a test in test_codec.
    elsewhere = {bounds.ROWS, bounds.CAMERA}
    codes = [bound.code for bound in bounds.TABLE]
    assert sorted(codes) == list(range(1, len(codes) + 1))
    assert {code for code, _, _ in ATTACKS} | elsewhere == set(codes)
    assert len({bound.message for bound in bounds.TABLE}) == len(codes)


def test_forged_chunks_are_refused_or_harmless_and_leak_nothing():
    rng = random.Random(1)
    refused = 0

    def attack(count):
        nonlocal refused
        for _ in range(count):
            try:
                chunks.consume(chunks.forged(rng), rng)
            except errors.StarmillError:
                refused += 1

    attack(100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    attack(300)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert refused > 200
    assert grown < 8 << 10  # kB


def test_a_frame_that_says_a_gigabyte_is_not_inflated():
    rng = random.Random(2)
    with pytest.raises(errors.ShardCorrupt, match="expected a payload of at most"):
        chunks.consume([chunks.bomb()], rng)
