"""Replay files that cannot be played, and what is read of those that can."""

import pytest

from starmill.engines.skirmish.replays import reader
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
