"""The games among the embedded game's opponents that ship, and the ratings fitted to them."""

import collections
import itertools
import json

import numpy as np
import pytest

from starmill import cli
from starmill.benchmark import contestants, elo, pool, references, results, winrates
from tests.benchmark import tournaments
from tests.benchmark.test_elo import scipy_fit
from tests.benchmark.test_rate_command import write_csv

AGENTS = [f"skirmish-{name}" for name in pool.AGENTS]
SPECIALISTS = ["rush", "economy", "turtle"]
LEVELS = ["very_hard", "very_easy"]


@pytest.fixture(scope="module")
def games():
    return results.read_results(references.games_file())


def test_agents_met_every_bot_and_bots_each_other_in_all_race_pairs(games):
    """Two levels have no seat to meet from; of the agents, search met its plain policy."""
    played = collections.Counter(frozenset((g.home, g.away)) for g in games)
    bots = itertools.combinations([*SPECIALISTS, *LEVELS], 2)
    wanted = {frozenset(pair) for pair in bots} - {frozenset(LEVELS)}
    wanted |= {frozenset((a, b)) for a in AGENTS for b in [*SPECIALISTS, *LEVELS]}
    wanted.add(frozenset(("skirmish-mzs", "skirmish-mzs-mcts")))
    assert set(played) == wanted
    assert min(played.values()) >= 20
    table = winrates.tabulate(g.as_game() for g in games)
    assert (table.race_pairs[table.played] == 9).all()


def test_the_games_are_those_of_the_agents_that_ship(games):
    words = {f"skirmish-{name}": f"skirmish:{name}" for name in pool.AGENTS}
    for row in games:
        for name, digest in (
            (row.home, row.home_digest),
            (row.away, row.away_digest),
        ):
            assert digest == contestants.contestant(words.get(name, name)).digest
        assert row.engine.startswith("skirmish ")


def test_ratings_are_what_somebody_elses_fit_gives(games):
    ratings = references.skirmish_ratings()
    assert set(ratings) == {*AGENTS, *SPECIALISTS, *LEVELS}
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
        "evaluate", "--agent", "skirmish-bc=random", "--opponents", "very_easy",
        "--games", "1", "--references", "skirmish", "--out", str(tmp_path / "games"),
    ]  # fmt: skip
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "skirmish-bc: sha256:" in said
    assert "was rated, random:" in said
