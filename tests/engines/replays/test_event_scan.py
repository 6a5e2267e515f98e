"""The compiled scan against the slow reader, and on data that would trap it."""

import contextlib
import random

import numpy as np
import pytest

from starmill.converters import timing
from starmill.engines.replays import event_scan, protocols
from starmill.engines.replays.bit_packed import BitPackedReader
from starmill.engines.replays.limits import Meter
from starmill.schema import errors
from tests import replay_factory
from tests.engines.replays.conftest import RealReplay


def _fast_events(
    data: bytes, protocol: protocols.Protocol, max_events: int = 1000
) -> list[list[int]]:
    types = event_scan.EventTypes(
        protocol.delta, protocol.user, protocol.event_id, protocol.event_type_numbers
    )
    return event_scan.event_columns(
        data, protocol.program, types, max_events=max_events
    ).tolist()


def _slow_events(data: bytes, protocol: protocols.Protocol) -> list[list[int]]:
    reader = BitPackedReader(data, protocol.types, Meter(10**7, float("inf")))
    events, loop = [], 0
    while not reader.done:
        (delta,) = reader.value(protocol.delta).values()
        loop += delta
        user = reader.value(protocol.user)["m_userId"]
        number = reader.value(protocol.event_id)
        if number not in protocol.event_types:
            raise errors.FormatError("unknown event")
        reader.value(protocol.event_types[number][0])
        reader.align()
        events.append([loop, user, number])
    return events


def test_events_equal_s2protocols(short_replays: list[RealReplay]) -> None:
    for _, replay, s2protocol in short_replays:
        data = replay.member("replay.game.events")
        assert list(replay.game_events()) == [
            timing.GameEvent(
                event["_gameloop"],
                event["_userid"]["m_userId"],
                event["_event"].removeprefix("NNet.Game.S").removesuffix("Event"),
            )
            for event in s2protocol.decode_replay_game_events(data)
        ]


def test_the_scan_equals_the_slow_reader_on_damaged_events() -> None:
    """Either both read the same events, or both find them damaged."""
    protocol = protocols.protocol(replay_factory.BUILD)
    generator = random.Random(3)
    agreed = [0, 0]
    for _ in range(300):
        data = bytearray(replay_factory.game_events(replay_factory.EVENTS))
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        data = bytes(data[: generator.choice([len(data), len(data) - 3])])
        fast = slow = None
        with contextlib.suppress(errors.FormatError):
            fast = _fast_events(data, protocol)
        with contextlib.suppress(errors.FormatError):
            slow = _slow_events(data, protocol)
        assert fast == slow
        agreed[fast is None] += 1
    assert min(agreed) > 20  # both cases occurred


def test_too_many_events() -> None:
    protocol = protocols.protocol(replay_factory.BUILD)
    data = replay_factory.game_events(replay_factory.EVENTS)
    assert len(_fast_events(data, protocol, 8)) == 8
    with pytest.raises(errors.ReplayError, match="more than 7 game events"):
        _fast_events(data, protocol, 7)


def test_a_program_by_hand() -> None:
    table = [
        ("_int", [(0, 6)]),
        ("_optional", [0]),
        ("_struct", [[("x", 0, 0), ("y", 1, 1)]]),
        ("_choice", [(2, 3), {0: ("a", 0), 2: ("b", 1)}]),
        ("_struct", [[("u", 0, 0), ("v", 0, 1)]]),
    ]
    program = event_scan.compile_types(table, [("x", "y")])
    assert program.types[:, 1:].tolist() == [
        [0, 6, 0, 0, 6],
        [0, 1, 0, 1, -1],
        [0, 0, 1, 2, -1],
        [2, 3, 3, 3, -1],
        [0, 0, 6, 2, 12],
    ]
    assert program.children.tolist() == [
        *([0, -1], [0, 0], [1, -1]),
        *([0, -1], [-1, -1], [1, -1]),
        *([0, -1], [0, -1]),
    ]


def test_an_array_of_nothings_does_not_run_forever() -> None:
    table = [("_null", []), ("_array", [(0, 17), 0]), ("_array", [(0, 17), 1])]
    program = event_scan.compile_types(table, ())
    ones = b"\xff" * 2000
    with pytest.raises(errors.FormatError):
        event_scan.captured_fields(ones, program, 2)


def test_types_nested_in_themselves_are_bounded() -> None:
    table = [("_optional", [0]), ("_struct", [[("a", 1, 0), ("b", 1, 1)]])]
    program = event_scan.compile_types(table, ())
    with pytest.raises(errors.FormatError, match="ends in the middle"):
        event_scan.captured_fields(b"\xff" * 100, program, 0)
    with pytest.raises(errors.FormatError, match="nested too deeply"):
        event_scan.captured_fields(b"\xff" * 100, program, 1)


def test_a_choice_without_that_tag_is_an_error() -> None:
    table = [("_int", [(0, 6)]), ("_choice", [(0, 2), {0: ("a", 0), 2: ("b", 0)}])]
    program = event_scan.compile_types(table, ())
    assert event_scan.captured_fields(b"\x02", program, 1) == {}
    for tag in (1, 3):
        with pytest.raises(errors.FormatError, match="none of the types"):
            event_scan.captured_fields(bytes([tag]), program, 1)


def test_captures_name_the_field_of_the_right_struct() -> None:
    table = [
        ("_int", [(0, 8)]),
        ("_struct", [[("x", 0, 0), ("mark", 0, 1)]]),
        ("_struct", [[("x", 0, 0), ("other", 0, 1)]]),
        ("_array", [(0, 8), 1]),
        ("_struct", [[("many", 3, 0), ("one", 2, 1)]]),
    ]
    program = event_scan.compile_types(table, [("x", "mark"), ("x", "other")])
    fields = event_scan.captured_fields(bytes([2, 10, 0, 20, 0, 30, 0]), program, 4)
    assert fields == {0: [10, 20], 1: [30]}


def test_reading_past_any_end_is_an_error() -> None:
    protocol = protocols.protocol(replay_factory.BUILD)
    whole = replay_factory.init_data()
    event_scan.captured_fields(whole, protocol.program, protocol.init_data)
    for cut in range(len(whole) - 1):
        with pytest.raises(errors.FormatError):
            event_scan.captured_fields(
                whole[:cut], protocol.program, protocol.init_data
            )
    assert np.frombuffer(whole, np.uint8).size > 50
