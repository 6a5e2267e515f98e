import numpy as np
import pytest

from starmill.benchmark.ratings import winrates
from starmill.schema import errors
from tests.factories import tournaments


def game(home, away, home_race, away_race, outcome):
    return winrates.Game(
        home=home,
        away=away,
        home_race=home_race,
        away_race=away_race,
        outcome=outcome,
    )


def test_race_pairs_weigh_alike_however_many_games_they_had():
    # terran-zerg: 3 of 4; terran-terran: 0 of 1. By games 3/5, by race pairs (3/4 + 0) / 2.
    games = [game("p", "q", "terran", "zerg", 1)] * 3
    games += [game("p", "q", "terran", "zerg", -1)]
    games += [game("p", "q", "terran", "terran", -1)]
    table = winrates.tabulate(games)
    assert table.win_rate[0, 1] == pytest.approx(3 / 8)
    assert table.win_rate[1, 0] == pytest.approx(5 / 8)
    assert table.race_pairs[0, 1] == 2


def test_a_draw_is_half_a_point():
    table = winrates.tabulate(tournaments.series("p", "q", won=1, drawn=2))
    assert table.win_rate[0, 1] == pytest.approx((1 + 2 / 2) / 3)
    assert table.win_rate[0, 1] + table.win_rate[1, 0] == 1


def test_home_and_away_are_the_same_pair():
    games = [game("p", "q", "zerg", "protoss", 1), game("q", "p", "protoss", "zerg", 1)]
    table = winrates.tabulate(games)
    assert table.games[0, 1, 1, 2] == 2  # p zerg against q protoss
    assert table.games[1, 0, 2, 1] == 2
    assert table.win_rate[0, 1] == 0.5


def test_effective_games_are_the_games_when_spread_evenly_and_fewer_when_not():
    even = winrates.tabulate(tournaments.play({"p": 0, "q": 0}, 18, 0))
    assert even.effective_games[0, 1] == pytest.approx(18)
    lopsided = winrates.tabulate(
        [game("p", "q", "zerg", "zerg", 1)] * 17 + [game("p", "q", "zerg", "terran", 1)]
    )
    # Var f = (1/17 + 1/1) / 4 of a game's variance.
    assert lopsided.effective_games[0, 1] == pytest.approx(4 / (1 + 1 / 17))


def test_variance_of_f_is_what_repetition_shows():
    ratings = {"p": 1100.0, "q": 1000.0}
    rates, claimed = [], []
    for seed in range(400):
        table = winrates.tabulate(tournaments.play(ratings, 36, seed, draws=0.3))
        rates.append(table.win_rate[0, 1])
        expected = np.full((2, 2), 0.64)
        claimed.append(table.variance(expected)[0, 1])
    assert np.mean(claimed) == pytest.approx(np.var(rates), rel=0.15)


def test_games_against_oneself_are_left_out_and_counted():
    games = [game("p", "p", "zerg", "zerg", 1), *tournaments.series("p", "q", won=1)]
    table = winrates.tabulate(games)
    assert table.mirrors == 1
    assert table.pair_games.sum() == 2  # one game, seen from both sides


@pytest.mark.parametrize(
    ("field", "value"),
    [("home", ""), ("home_race", "random"), ("away_race", "Zerg"), ("outcome", 2)],
)
def test_a_game_says_what_is_wrong_with_it(field, value):
    fields = {
        "home": "p",
        "away": "q",
        "home_race": "zerg",
        "away_race": "zerg",
        "outcome": 1,
    }
    with pytest.raises(errors.FormatError, match=field):
        winrates.Game(**{**fields, field: value})


def test_unknown_agent_is_named_with_those_there_are():
    table = winrates.tabulate(tournaments.series("p", "q", won=1))
    with pytest.raises(errors.ConfigError, match=r"'x'.*p, q"):
        table.index("x")
