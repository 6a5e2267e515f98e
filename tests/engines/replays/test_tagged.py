"""Both encodings against s2protocol, on real replays and on every build's types."""

import contextlib
import csv
import importlib.util
import random
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from starmill.converters import timing
from starmill.engines.replays import (
    event_scan,
    protocols,
    replay_file,
    tagged,
)
from starmill.schema import errors
from tests import replay_factory


def _s2protocol(build: int) -> types.ModuleType:
    """s2protocol's module of a build, without its loader, which newer Pythons lack."""
    found = importlib.util.find_spec("s2protocol")
    path = (
        Path(found.submodule_search_locations[0]) / f"versions/protocol{build:05d}.py"
    )
    spec = importlib.util.spec_from_file_location(f"their_protocol_{build}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _meter() -> tagged.Meter:
    return tagged.Meter(10**7, float("inf"))


@pytest.fixture(scope="module")
def real(shared: Path) -> list[tuple[dict, replay_file.ReplayFile, bytes]]:
    """One readable replay of each build, the smallest: (manifest row, ours, bytes)."""
    smallest: dict[str, tuple] = {}
    with (shared / "replays/manifest.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["decode_game_events"] != "ok":
                continue
            data = (shared / "replays" / row["file"]).read_bytes()
            old = smallest.get(row["base_build"])
            if old is None or len(old[2]) > len(data):
                smallest[row["base_build"]] = (row, replay_file.open_replay(data), data)
    return list(smallest.values())


def test_every_build_compiles() -> None:
    assert len(protocols.builds()) > 80
    for build in protocols.builds():
        protocol = protocols.protocol(build)
        assert len(protocol.program.op) == len(protocol.types)


def test_a_build_without_protocol() -> None:
    for build in (76811, 80188, 0, -1, 10**9):
        with pytest.raises(errors.ReplayError) as caught:
            protocols.protocol(build)
        assert caught.value.reason == "no_protocol"


def test_whole_members_equal_s2protocols(real: list) -> None:
    for row, ours, _ in real:
        theirs = _s2protocol(int(row["base_build"]))
        member = ours._member(replay_file._either("replay.details"), 1 << 22, None)
        assert ours.details == theirs.decode_replay_details(member), row["file"]
        assert ours.init_data == theirs.decode_replay_initdata(ours._init_data)


def test_events_equal_s2protocols(real: list) -> None:
    chosen = [item for item in real if int(item[0]["n_game_events"]) < 3000]
    assert len(chosen) > 10
    for row, ours, _ in chosen:
        theirs = _s2protocol(int(row["base_build"]))
        expected = list(theirs.decode_replay_game_events(ours._events()))
        for event in expected:
            del event["_bits"]
        assert list(ours.full_game_events()) == expected
        short = [
            timing.GameEvent(
                event["_gameloop"],
                event["_userid"]["m_userId"],
                event["_event"].removeprefix("NNet.Game.S").removesuffix("Event"),
            )
            for event in expected
        ]
        assert list(ours.game_events()) == short
        if row["decode_tracker_events"] == "ok":
            tracker = ours._member(("replay.tracker.events",), 1 << 25, None)
            expected = list(theirs.decode_replay_tracker_events(tracker))
            for event in expected:
                del event["_bits"]
            assert list(ours.tracker_events()) == expected


def test_the_walker_equals_the_slow_reader_on_made_values() -> None:
    """Random bytes: both read the same events, or both find them damaged."""
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
    assert min(agreed) > 20  # both cases were seen


def _fast_events(
    data: bytes, protocol: protocols.Protocol, max_events: int = 1000
) -> list[list[int]]:
    return event_scan.event_columns(
        data,
        protocol.program,
        delta_type=protocol.delta,
        user_type=protocol.user,
        id_type=protocol.event_id,
        event_types=protocol.event_type_numbers,
        max_events=max_events,
    ).tolist()


def _slow_events(data: bytes, protocol: protocols.Protocol) -> list[list[int]]:
    reader = tagged.BitReader(data, protocol.types, _meter())
    out, loop = [], 0
    while not reader.done:
        (delta,) = reader.value(protocol.delta).values()
        loop += delta
        user = reader.value(protocol.user)["m_userId"]
        number = reader.value(protocol.event_id)
        if number not in protocol.event_types:
            raise errors.FormatError("unknown event")
        reader.value(protocol.event_types[number][0])
        reader.align()
        out.append([loop, user, number])
    return out


def test_too_many_events() -> None:
    protocol = protocols.protocol(replay_factory.BUILD)
    data = replay_factory.game_events(replay_factory.EVENTS)
    assert len(_fast_events(data, protocol, 8)) == 8
    with pytest.raises(errors.ReplayError, match="more than 7 game events"):
        _fast_events(data, protocol, 7)


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


def test_captures_name_the_field_of_the_right_struct() -> None:
    table = [
        ("_int", [(0, 8)]),
        ("_struct", [[("x", 0, 0), ("mark", 0, 1)]]),
        ("_struct", [[("x", 0, 0), ("other", 0, 1)]]),
        ("_array", [(0, 8), 1]),
        ("_struct", [[("many", 3, 0), ("one", 2, 1)]]),
    ]
    program = event_scan.compile_types(table, [("x", "mark"), ("x", "other")])
    found = event_scan.captured_fields(bytes([2, 10, 0, 20, 0, 30, 0]), program, 4)
    assert found == {0: [10, 20], 1: [30]}


def test_tagged_values_by_hand() -> None:
    def read(data: bytes):
        return tagged.TaggedReader(data, _meter()).value()

    assert read(b"\x09\x02") == 1
    assert read(b"\x09\x03") == -1
    assert read(replay_factory.tagged(123456789)) == 123456789
    assert read(replay_factory.tagged({1: b"ab", 2: [1, 2], 3: None, 4: True})) == {
        1: b"ab",
        2: [1, 2],
        3: None,
        4: 1,
    }
    assert read(b"\x03\x04\x09\x06") == (2, 3)  # a choice: tag 2, value 3
    assert read(b"\x07abcd") == b"abcd"
    assert read(b"\x08abcdefgh") == b"abcdefgh"
    assert read(b"\x01\x12\xff\x01") == (9, b"\xff\x01")  # nine bits


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
def test_damaged_tagged_values(data: bytes) -> None:
    with pytest.raises(errors.FormatError):
        tagged.TaggedReader(data, _meter()).value()


def test_the_meter_stops_work() -> None:
    data = replay_factory.tagged([0] * 5000)
    with pytest.raises(errors.ReplayError) as caught:
        tagged.TaggedReader(data, tagged.Meter(100, float("inf"))).value()
    assert caught.value.reason == "too_large"
    with pytest.raises(errors.ReplayError) as caught:
        tagged.TaggedReader(data, tagged.Meter(8192, 0.0)).value()
    assert caught.value.reason == "too_slow"


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
