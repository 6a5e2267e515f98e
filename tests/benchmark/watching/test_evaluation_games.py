"""An evaluation's games by name, the pages that stand in for them, and who played which side."""

import dataclasses

import pytest

from starmill.benchmark.ratings import results
from starmill.benchmark.ratings.results import Result
from starmill.benchmark.statistics.decisions import DecisionLog, GameDecisions
from starmill.benchmark.watching import evaluation_games
from starmill.engines.replays import replay_file
from starmill.schema import errors
from tests.factories import short_games

RESULT = Result(
    game="b-0000",
    home="mine",
    away="bot",
    home_race="zerg",
    away_race="terran",
    outcome=1,
    home_digest="1",
    away_digest="2",
    map_name="Frost Hollow",
    seed=3,
    game_loops=300,
    ending="won",
    attempts=1,
    engine="skirmish 1",
    replay="replays/b-0000.SC2Replay",
)
HOSTILE = "<b>a-0000"


@pytest.fixture
def folder(tmp_path):
    """An evaluation of three games, the last without a replay."""
    rows = [
        RESULT,
        dataclasses.replace(RESULT, game=HOSTILE),
        dataclasses.replace(RESULT, game="c-0000", replay=""),
    ]
    results.write_results(tmp_path / results.FILE, rows)
    return tmp_path


def test_games_with_a_replay_are_listed_by_name(folder):
    names = [row.game for row in evaluation_games.rows(folder)]
    assert names == [HOSTILE, "b-0000"]
    assert evaluation_games.row(folder, "b-0000") == RESULT


@pytest.mark.parametrize("name", ["c-0000", "b"])
def test_a_name_that_no_game_has_is_refused(folder, name):
    with pytest.raises(errors.ConfigError, match=f"2 games .*found '{name}'"):
        evaluation_games.row(folder, name)


def test_placeholders_name_the_commands_and_leave_pages_alone(folder):
    page = evaluation_games.page_path(folder, "b-0000")
    page.parent.mkdir()
    page.write_text("made before")
    evaluation_games.write_placeholders(folder)
    assert page.read_text() == "made before"
    stand_in = evaluation_games.page_path(folder, HOSTILE).read_text()
    assert f"starmill watch {folder} --game &lt;b&gt;a-0000</code>" in stand_in
    assert "<b>" not in stand_in
    assert len(list(page.parent.iterdir())) == 2


def _side(logs, *, home_race, away_race):
    races = {"home_race": home_race, "away_race": away_race}
    return evaluation_games._home_side(
        short_games.short_game(1), dataclasses.replace(RESULT, **races), logs
    )


def test_an_agent_has_the_first_seat():
    log = DecisionLog()
    for logs, side in (
        (GameDecisions(home=log, away=log), 1),
        (GameDecisions(home=log), 1),
        (GameDecisions(away=log), 2),
    ):
        assert _side(logs, home_race="zerg", away_race="zerg") == side


def test_without_decisions_the_races_tell():
    players = replay_file.replay_row(short_games.short_game(1), events=False).players
    first, second = (player.race_name for player in players)
    assert first != second
    nothing = GameDecisions()
    assert _side(nothing, home_race=first, away_race=second) == 1
    assert _side(nothing, home_race=second, away_race=first) == 2
    assert _side(nothing, home_race=first, away_race=first) == 1
