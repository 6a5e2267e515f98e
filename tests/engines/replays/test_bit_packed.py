"""The bit-packed encoding against s2protocol, read and written."""

import pytest

from starmill.engines.replays import protocols
from starmill.engines.replays.bit_packed import BitPackedReader, BitPackedWriter
from starmill.engines.replays.limits import Meter
from starmill.schema import errors
from tests.engines.replays.conftest import RealReplay

TYPES = [
    ("_int", [(-10, 5)]),
    ("_bool", []),
    ("_blob", [(0, 3)]),
    ("_fourcc", []),
    ("_optional", [0]),
    ("_array", [(0, 4), 0]),
    ("_choice", [(1, 2), {1: ("small", 0), 2: ("text", 2)}]),
    ("_bitarray", [(0, 6)]),
    ("_null", []),
    ("_struct", [[("__parent", 10, 0), ("c", 6, 1), ("code", 3, 2)]]),
    ("_struct", [[("a", 5, 0), ("b", 4, 1), ("n", 8, 2)]]),
]


def _read(data: bytes, number: int) -> object:
    return BitPackedReader(data, TYPES, Meter(10**7, float("inf"))).value(number)


def _written(number: int, value: object) -> bytes:
    writer = BitPackedWriter(TYPES)
    writer.write(number, value)
    return writer.getvalue()


def test_bits_by_hand() -> None:
    """The picture in the module's docstring: 0xA7 after three other bits."""
    writer = BitPackedWriter(TYPES)
    writer.bits(0b000, 3)
    writer.bits(0xA7, 8)
    assert writer.getvalue() == bytes([0b10100_000, 0b111])
    assert _read(bytes([0b11111]), 0) == 21
    assert _read(bytes([0b00000_010, ord("h"), ord("i")]), 2) == b"hi"  # a whole byte


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (0, -10),
        (0, 21),
        (1, True),
        (2, b"seven.."),
        (3, "S2GE"),
        (4, None),
        (4, 3),
        (5, [1, -2, 3]),
        (6, {"text": b"x"}),
        (7, (33, 0x1_2345_6789)),
        (8, None),
        (9, {"a": [0], "b": None, "n": None, "c": {"small": 5}, "code": "abcd"}),
    ],
)
def test_values_of_every_kind_survive(number: int, value: object) -> None:
    assert _read(_written(number, value), number) == value


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit in 3 bits"):
        BitPackedWriter(TYPES).bits(8, 3)
    with pytest.raises(ValueError, match=r"expected one of \['small', 'text'\]"):
        _written(6, {"other": 1})


@pytest.mark.parametrize(
    ("data", "number", "message"),
    [
        (b"", 0, "ends in the middle of a value"),
        (b"\x07abc", 2, "ends in the middle of bytes"),
        (b"\x02", 6, "expected one of 2 choices, found 3"),
    ],
)
def test_damaged_values(data: bytes, number: int, message: str) -> None:
    with pytest.raises(errors.FormatError, match=message):
        _read(data, number)


def test_init_data_equals_s2protocols(real_replays: list[RealReplay]) -> None:
    for row, replay, s2protocol in real_replays:
        data = replay.member("replay.initData")
        assert replay.init_data == s2protocol.decode_replay_initdata(data), row["file"]


def test_game_events_equal_s2protocols(short_replays: list[RealReplay]) -> None:
    for row, replay, s2protocol in short_replays:
        data = replay.member("replay.game.events")
        expected = list(s2protocol.decode_replay_game_events(data))
        for event in expected:
            del event["_bits"]
        assert list(replay.full_game_events()) == expected, row["file"]


def test_init_data_of_every_build_is_written_as_it_was(
    real_replays: list[RealReplay],
) -> None:
    for row, replay, s2protocol in real_replays:
        data = replay.member("replay.initData")
        protocol = protocols.protocol(int(row["base_build"]))
        writer = BitPackedWriter(protocol.types)
        writer.write(protocol.init_data, s2protocol.decode_replay_initdata(data))
        assert writer.getvalue() == data, row["file"]
