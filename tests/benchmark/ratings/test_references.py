"""The games among the embedded game's opponents that ship, and the ratings fitted to them."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from starmill import cli
from starmill.benchmark import evaluation
from starmill.benchmark.opponents import contestants
from starmill.benchmark.ratings import elo, references, results, winrates
from starmill.benchmark.tournaments import referee
from starmill.commands import evaluate
from tests.benchmark.ratings.test_elo import scipy_fit
from tests.commands.test_rate import write_csv
from tests.factories import tournaments

SPECIALISTS = ["rush", "economy", "turtle"]
LEVELS = ["very_hard", "very_easy"]


@pytest.fixture(scope="module")
def games():
    return results.read_results(references.games_file())


def test_they_are_the_games_that_one_command_plays(games):
    """All pairs, 20 games each; the game's own levels have no seat to meet from."""
    config = evaluation.Config(
        agents=tuple(SPECIALISTS),
        opponents=tuple(LEVELS),
        round_robin=True,
        games=20,
        max_minutes=12,
    )
    offered = referee.available_maps("skirmish")
    plan = evaluation.plan(config, offered)
    everybody = [*SPECIALISTS, *LEVELS]
    pairs = set(itertools.combinations(everybody, 2)) - {tuple(LEVELS)}
    assert {(one.home, one.away) for one in plan.fixtures} == pairs
    played = {
        (g.game, g.home, g.away, g.home_race, g.away_race, g.map_name, g.seed)
        for g in games
    }
    assert len(played) == len(games) == 20 * len(pairs)
    assert played == {
        (
            one.game,
            one.home,
            one.away,
            one.home_race,
            one.away_race,
            Path(one.map_path).stem,
            one.seed,
        )
        for one in plan.fixtures
    }
    table = winrates.tabulate(g.as_game() for g in games)
    assert (table.race_pairs[table.played] == 9).all()


@pytest.mark.slow
def test_a_game_played_again_ends_as_it_did(games, tmp_path):
    """Scripted players alone: a network's rounding may differ from processor to processor."""
    rush = [g for g in games if (g.home, g.away) == ("rush", "very_easy")][:2]
    command = [
        "evaluate", "--agent", "rush", "--opponents", "very_easy", "--games", "2",
        "--max-minutes", "12", "--sc2", "skirmish", "--out", str(tmp_path),
    ]  # fmt: skip
    assert cli.main(command) == 0
    again = sorted(results.read_results(tmp_path / "results.csv"), key=lambda g: g.game)
    assert [dataclasses.replace(g, replay="") for g in again] == [
        dataclasses.replace(g, attempts=1) for g in rush
    ]


def test_the_games_are_those_of_the_present_players(games):
    for row in games:
        for name, digest in (
            (row.home, row.home_digest),
            (row.away, row.away_digest),
        ):
            assert digest == contestants.contestant(name).digest
        assert row.engine.startswith("skirmish ")


def test_ratings_are_what_somebody_elses_fit_gives(games):
    ratings = references.skirmish_ratings()
    assert set(ratings) == {*SPECIALISTS, *LEVELS}
    assert ratings[elo.ANCHOR] == elo.ANCHOR_ELO
    table = winrates.tabulate(row.as_game() for row in games)
    fitted = [ratings[name] for name in table.agents]
    np.testing.assert_allclose(fitted, scipy_fit(table, elo.ANCHOR), atol=0.15)


def test_a_new_agent_is_rated_against_them(tmp_path, capsys):
    fixed = references.skirmish_ratings()
    truth = {**fixed, "mine": 700.0}
    played = [
        game
        for game in tournaments.play(truth, 90, 5)
        if "mine" in (game.home, game.away)
    ]
    path = write_csv(tmp_path / "results.csv", played)
    assert cli.main(["rate", str(path), "--references", "skirmish", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert lines["mine"]["elo_low"] < 700 < lines["mine"]["elo_high"]
    for name, rating in fixed.items():
        assert (lines[name]["elo"], lines[name]["status"]) == (rating, "fixed")


def test_another_agent_under_a_references_name_is_refused(tmp_path, capsys):
    command = [
        "evaluate", "--agent", "rush=random", "--opponents", "very_easy",
        "--games", "1", "--references", "skirmish", "--out", str(tmp_path / "games"),
    ]  # fmt: skip
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "rush: specialist:rush:" in said
    assert "was rated, found random:" in said


def rate_one(out, *options):
    command = [
        "evaluate", "--agent", "random", "--opponents", "very_easy", "--games", "1",
        "--references", "skirmish", "--out", str(out), "--dry-run",
    ]  # fmt: skip
    return cli.main([*command, *options])


def test_games_are_stopped_where_the_references_were(games, tmp_path, capsys):
    assert {g.game_loops for g in games if g.ending == "limit"} == {12 * 1344}
    assert max(g.game_loops for g in games) == 12 * 1344
    assert evaluate.max_minutes(None, "skirmish") == 12
    assert evaluate.max_minutes(12, "skirmish") == 12
    assert evaluate.max_minutes(16, "paper") == 16
    assert evaluate.max_minutes(None, None) == 60
    assert rate_one(tmp_path, "--sc2", "skirmish", "--max-minutes", "16") == 2
    assert "--max-minutes 16: the games behind" in capsys.readouterr().err


def test_another_games_results_are_not_rated_against_them(tmp_path, capsys):
    """A folder laid out like an installation, without the embedded game's mark."""
    binary = tmp_path / "Versions/Base74741/SC2_x64"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/false\n")
    binary.chmod(0o755)
    assert rate_one(tmp_path / "out", "--sc2", str(tmp_path)) == 2
    assert "rated on the embedded game" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"game_loops": 80640}, "1 games differ: rush-vs-very_easy-0000"),
        ({"game_loops": 9000, "ending": "limit"}, "limit at loop 9000"),
        ({"engine": "sc2 4.9.2.74741"}, "sc2 4.9.2.74741, won at loop"),
        ({"away_digest": "built-in:easy"}, "was rated, found built-in:easy"),
    ],
)
def test_games_by_other_rules_are_not_rated(games, tmp_path, capsys, changes, message):
    rush = [g for g in games if (g.home, g.away) == ("rush", "very_easy")]
    new = [dataclasses.replace(g, home="mine", home_digest="sha256:0") for g in rush]
    new[0] = dataclasses.replace(new[0], **changes)
    with results.Store(tmp_path / "results.csv") as store:
        for row in new:
            store.append(row)
    command = ["rate", str(tmp_path / "results.csv"), "--references", "skirmish"]
    assert cli.main(command) == (0 if message is None else 2)
    if message is not None:
        assert message in capsys.readouterr().err
