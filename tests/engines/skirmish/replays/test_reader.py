"""Replay files that cannot be played, and what is read of those that can."""

import pytest

from starmill.engines.replays import archive, archive_writer
from starmill.engines.skirmish.replays import reader, recorder
from starmill.schema import errors
from tests.factories import games


@pytest.fixture(scope="module")
def played():
    return games.played()


def test_a_broken_file_and_a_foreign_one_are_told_apart(played, shared):
    with pytest.raises(errors.ReplayError) as broken:
        reader.read(played.replay[: len(played.replay) // 2])
    assert broken.value.reason == reader.BROKEN
    real = shared / "replays/a63c91985a28e732e16ba863659af674.SC2Replay"
    with pytest.raises(errors.ReplayError) as foreign:
        reader.read(real.read_bytes())
    assert foreign.value.reason == reader.FOREIGN


def test_a_recording_is_what_the_recorder_was_told(played):
    recording = reader.read(played.replay)
    assert recording.game_map.name == "Amber Basin"
    assert recording.seed == 5
    assert [setup.race for setup in recording.players] == [1, 2]
    assert [participant.mmr for participant in recording.participants] == [4100, 4200]
    assert recording.loops == played.loops
    assert recording.result == ("win", "loss")
    summary = reader.summary(played.replay)
    assert summary.ours and summary.loops == played.loops
    assert summary.metadata == recording.metadata


@pytest.mark.parametrize("size", [0, 10, 100])
def test_a_file_that_is_cut_short_is_broken(played, size):
    with pytest.raises(errors.ReplayError) as broken:
        reader.summary(played.replay[:size])
    assert broken.value.reason == reader.BROKEN


def _hostile(played, **members):
    """The replay's archive with other members in it."""
    stored = archive.Archive(played.replay, max_table_entries=4096)
    names = ("replay.gamemetadata.json", recorder.SETUP_MEMBER, "replay.game.events")
    content = {name: stored.read(name, 1 << 24) for name in names}
    return archive_writer.write(content | members, stored.user_data)


def test_a_replay_that_was_taken_apart_and_put_together_plays(played):
    assert reader.read(_hostile(played)) == reader.read(played.replay)


@pytest.mark.parametrize("member", ["replay.gamemetadata.json", recorder.SETUP_MEMBER])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "nested"),
        # A kilobyte that unpacks to a gigabyte in a careless reader.
        (bytes(1 << 26), "expected at most 1048576 bytes"),
        (b"\xffx", "decode"),
    ],
)
def test_members_that_attack_the_reader_are_refused(played, member, content, said):
    with pytest.raises(errors.ReplayError, match=said) as refused:
        reader.read(_hostile(played, **{member: content}))
    assert refused.value.reason == reader.BROKEN


def test_events_that_unpack_to_too_much_are_refused(played):
    bomb = _hostile(played, **{"replay.game.events": bytes(1 << 26)})
    assert len(bomb) < 100_000
    with pytest.raises(errors.ReplayError, match="expected at most 16777216 bytes"):
        reader.read(bomb)
