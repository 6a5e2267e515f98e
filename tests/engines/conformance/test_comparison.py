"""Where two messages differ first, and what counts as the same."""

import contextlib

import pytest

from starmill.converters.protos import sc2api_pb2
from starmill.engines.conformance import comparison, ledger, messages, recording
from starmill.engines.playback import Info

INFO = Info(game_info=b"", replay_info=b"")


def _message(loop=5, tags=(7, 8), **unit):
    message = sc2api_pb2.ResponseObservation()
    message.observation.game_loop = loop
    for tag in tags:
        message.observation.raw_data.units.add(tag=tag, **unit)
    return message


@pytest.mark.parametrize(
    ("other", "place"),
    [
        (_message(), ""),
        (_message(loop=6), "observation.game_loop"),
        (_message(tags=(7, 9)), "observation.raw_data.units[1].tag"),
        (_message(tags=(7,)), "observation.raw_data.units (2 and 1 entries)"),
        (_message(health=1.0), "observation.raw_data.units[0].health"),
    ],
)
def test_the_place_of_the_first_difference_is_named(other, place):
    assert comparison.place_of(_message(), other) == place


def _recording(observations):
    record = recording.Recording(INFO)
    for message in observations:
        record.add(message.observation.game_loop, message.SerializeToString())
    return contextlib.closing(record)


def _states(one, two):
    book = ledger.Ledger()
    with _recording(one) as expected, _recording(two) as record:
        comparison.compare_messages(book, "order.same_bytes", expected, record, "here")
    return {entry.id: entry for entry in book.entries()}


def test_equal_recordings_hold():
    entries = _states([_message(), _message(9)], [_message(), _message(9)])
    assert entries["order.same_bytes"].state == ledger.HELD
    assert entries["order.units"].confirmed == 2


def test_another_order_is_named_apart_from_other_bytes():
    entries = _states([_message()], [_message(tags=(8, 7))])
    assert entries["order.units"].state == ledger.BROKEN
    assert entries["order.same_bytes"].state == ledger.BROKEN
    entries = _states([_message()], [_message(health=1.0)])
    assert entries["order.units"].state == ledger.HELD
    evidence = entries["order.same_bytes"].evidence
    assert evidence is not None
    assert evidence.place == "observation.raw_data.units[0].health"


def test_what_people_wrote_is_neither_compared_nor_shown():
    talk = _message()
    talk.chat.add(player_id=1, message="a private word")
    entries = _states([_message()], [talk])
    assert entries["order.same_bytes"].state == ledger.HELD
    talk.observation.game_loop = 5
    talk.observation.raw_data.units[0].health = 2.0
    evidence = _states([_message()], [talk])["order.same_bytes"].evidence
    assert evidence is not None
    shown = bytes.fromhex(evidence.expected) + bytes.fromhex(evidence.found)
    assert b"private" not in shown


def test_a_shorter_recording_is_not_the_same():
    entries = _states([_message(), _message(9)], [_message()])
    assert "2 and 1 of them" in entries["order.same_bytes"].detail


def test_a_recording_returns_what_it_was_given_in_any_order():
    given = [_message(1), _message(2, health=3.0), _message(3)]
    with _recording(given) as record:
        assert len(record) == 3
        assert record[1] == given[1].SerializeToString()
        assert record[0] == given[0].SerializeToString()
        record.add(4, b"more")
        assert record[3] == b"more"
        assert [loop for loop, _ in record.stream()] == [1, 2, 3, 4]


def test_the_share_of_reported_loops_leaves_out_the_end():
    # Actions on 10, 20 and 30; the last frame, 40, is the leaving player's.
    frames = [10, 20, 30, 40]
    observed = [(0, 0), (10, 1), (20, 1), (30, 0), (40, 2)]
    assert messages.reported_share(frames, observed) == (2, 3)
    assert messages.reported_share([], []) == (0, 0)
