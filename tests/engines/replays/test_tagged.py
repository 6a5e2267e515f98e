"""The tagged encoding against values worked out by hand, and against s2protocol."""

import pytest

from starmill.engines.replays import protocols
from starmill.engines.replays.limits import Meter
from starmill.engines.replays.tagged import TaggedReader, TaggedWriter
from starmill.schema import errors
from tests import replay_factory
from tests.engines.replays.conftest import RealReplay


def _meter() -> Meter:
    return Meter(10**7, float("inf"))


def _read(data: bytes) -> object:
    return TaggedReader(data, _meter()).value()


def test_values_by_hand() -> None:
    assert _read(b"\x09\x02") == 1
    assert _read(b"\x09\x03") == -1
    assert _read(replay_factory.tagged(123456789)) == 123456789
    assert _read(replay_factory.tagged({1: b"ab", 2: [1, 2], 3: None, 4: True})) == {
        1: b"ab",
        2: [1, 2],
        3: None,
        4: 1,
    }
    assert _read(b"\x03\x04\x09\x06") == (2, 3)  # a choice: tag 2, value 3
    assert _read(b"\x07abcd") == b"abcd"
    assert _read(b"\x08abcdefgh") == b"abcdefgh"
    assert _read(b"\x01\x12\xff\x01") == (9, b"\xff\x01")  # nine bits


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0a",  # no such kind
        b"\x02\x7f\x01",  # longer than the data
        b"\x02\x03",  # a negative length
        b"\x00\xfe\xff\xff\xff\x7f",  # an array of billions
        b"\x05\xfe\xff\xff\xff\x7f",  # a struct of billions
        b"\x09" + b"\xff" * 100,  # a number without end
        b"\x04\x01" * 1000,  # nested without end
        b"\x01\xfe\xff\xff\xff\x7f",  # bits without end
    ],
)
def test_damaged_values(data: bytes) -> None:
    with pytest.raises(errors.FormatError):
        _read(data)


def test_details_and_tracker_events_equal_s2protocols(
    real_replays: list[RealReplay], short_replays: list[RealReplay]
) -> None:
    for row, replay, s2protocol in real_replays:
        member = replay.member("replay.details")
        assert replay.details == s2protocol.decode_replay_details(member), row["file"]
    compared = 0
    for row, replay, s2protocol in short_replays:
        if row["decode_tracker_events"] != "ok":
            continue
        member = replay.member("replay.tracker.events")
        expected = list(s2protocol.decode_replay_tracker_events(member))
        for event in expected:
            del event["_bits"]
        assert list(replay.tracker_events()) == expected
        compared += 1
    assert compared > 5


# One value of each kind that the writer knows; `_blob` and `_int` have bounds nobody checks.
TYPES = [
    ("_int", [(0, 8)]),
    ("_bool", []),
    ("_blob", [(0, 8)]),
    ("_fourcc", []),
    ("_optional", [0]),
    ("_array", [(0, 4), 0]),
    ("_choice", [(0, 2), {0: ("small", 0), 1: ("text", 2)}]),
    (
        "_struct",
        [
            [
                ("b", 1, 7),
                ("list", 5, 2),
                ("maybe", 4, 3),
                ("which", 6, 1),
                ("code", 3, 9),
            ]
        ],
    ),
]


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, 8191, 8192, 2**31, -(2**31)])
def test_numbers_survive(number: int) -> None:
    writer = TaggedWriter(TYPES)
    writer.write(0, number)
    assert _read(writer.getvalue()) == number


def test_the_writer_orders_a_struct_by_tag_and_omits_what_is_absent() -> None:
    writer = TaggedWriter(TYPES)
    writer.write(
        7, {"b": True, "list": [1, 2], "which": {"text": b"x"}, "code": b"SC2 "}
    )
    fields = _read(writer.getvalue())
    assert fields == {1: (1, b"x"), 2: [1, 2], 7: 1, 9: b"SC2 "}
    assert list(fields) == [1, 2, 7, 9]


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of \['small', 'text'\]"):
        TaggedWriter(TYPES).write(6, {"other": 1})


def test_details_of_every_build_are_written_as_they_were(
    real_replays: list[RealReplay],
) -> None:
    for row, replay, s2protocol in real_replays:
        member = replay.member("replay.details")
        protocol = protocols.protocol(int(row["base_build"]))
        writer = TaggedWriter(protocol.types)
        writer.write(protocol.details, s2protocol.decode_replay_details(member))
        assert writer.getvalue() == member, row["file"]
