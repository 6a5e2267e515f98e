"""Replays are played again from both sides, with or without commands and results."""

import numpy as np
import pytest

from starmill.pipelines.viewing import playing
from starmill.schema import errors
from tests.factories import short_games
from tests.pipelines.viewing.test_packing import read


def test_no_gap_is_longer_than_a_second():
    loops = playing.shown_loops([5, 100], [60, 100, 0, 500], 130)
    assert loops == [5, 27, 49, 60, 82, 100, 122, 130]
    assert playing.shown_loops([], (), 50) == [22, 44, 50]
    assert playing.shown_loops([], (), 0) == []


@pytest.fixture(scope="module")
def replayed():
    data = short_games.short_game(3, loops=260, mmrs=(4100, None))
    with playing.Player("skirmish") as player:
        return player.play(data, "x.SC2Replay", {1: [37, 41]})


def test_both_sides_are_played(replayed):
    assert [side["side"] for side in replayed.sides] == [1, 2]
    one, two = replayed.sides
    assert (one["race"], one["opponent_race"]) == (two["opponent_race"], two["race"])
    assert (one["mmr"], two["mmr"]) == (4100, None)
    assert one["outcome"] == -two["outcome"] != 0
    assert one["id"].endswith("-1")
    assert one["map"] == replayed.row.map_name


def test_steps_include_the_watched_loops_and_leave_no_gaps(replayed):
    columns, _ = read(replayed.sides[0])
    loops = columns["game_loop"]
    assert {37, 41} <= set(loops.tolist())
    assert np.diff(loops).max() <= 22
    assert loops[0] == 0 or loops[0] <= 22


def test_what_is_no_replay_is_named():
    with (
        playing.Player("skirmish") as player,
        pytest.raises(errors.FormatError, match=r"junk\.SC2Replay: expected a replay"),
    ):
        player.play(b"nothing", "junk.SC2Replay")
