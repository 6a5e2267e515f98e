import numpy as np
import pytest
import scipy.stats

from starmill.benchmark.ratings import transitivity, winrates
from starmill.schema import errors
from tests.factories import tournaments


def cycle_games(times):
    games = []
    for first, second in (
        ("rock", "scissors"),
        ("scissors", "paper"),
        ("paper", "rock"),
    ):
        games += tournaments.series(first, second, won=7 * times, lost=3 * times)
    return games


def test_rock_paper_scissors_is_found():
    answer = transitivity.transitivity(winrates.tabulate(cycle_games(10)), "rock")
    assert answer.freedom == 1
    assert answer.p_value < 0.001
    assert [cycle.agents for cycle in answer.cycles] == [("rock", "scissors", "paper")]
    assert answer.cycles[0].win_rates == pytest.approx((0.7, 0.7, 0.7))
    assert answer.cycles[0].p_value < 0.001


def test_a_cycle_of_few_games_is_no_proof():
    answer = transitivity.transitivity(winrates.tabulate(cycle_games(1)), "rock")
    assert len(answer.cycles) == 1
    assert answer.cycles[0].p_value > 0.05


def test_p_values_are_uniform_when_elo_holds():
    ratings = {"very_hard": 1000.0, "a": 1100.0, "b": 1200.0, "c": 1250.0}
    values = [
        transitivity.transitivity(
            winrates.tabulate(tournaments.play(ratings, 36, seed)),
            "very_hard",
            simulations=200,
        ).p_value
        for seed in range(120)
    ]
    assert scipy.stats.kstest(values, "uniform").pvalue > 0.01


def test_deviance_follows_chi_square_for_many_games():
    ratings = {"very_hard": 1000.0, "a": 1100.0, "b": 1200.0}
    deviances = [
        transitivity.transitivity(
            winrates.tabulate(tournaments.play(ratings, 180, seed)),
            "very_hard",
            simulations=1,
        ).deviance
        for seed in range(150)
    ]
    assert scipy.stats.kstest(deviances, scipy.stats.chi2(1).cdf).pvalue > 0.01
    assert np.min(deviances) >= 0


def test_two_agents_cannot_contradict_one_scale():
    table = winrates.tabulate(tournaments.series("p", "q", won=3, lost=2))
    answer = transitivity.transitivity(table, "p")
    assert (answer.freedom, answer.p_value, answer.cycles) == (0, None, ())


def test_no_simulations_is_refused():
    table = winrates.tabulate(cycle_games(1))
    with pytest.raises(errors.ConfigError, match="simulations"):
        transitivity.transitivity(table, "rock", simulations=0)


def test_agents_in_order_make_no_cycle():
    games = [
        *tournaments.series("a", "b", won=6, lost=4),
        *tournaments.series("b", "c", won=6, lost=4),
        *tournaments.series("a", "c", won=7, lost=3),
    ]
    answer = transitivity.transitivity(winrates.tabulate(games), "a")
    assert answer.cycles == ()
    assert answer.p_value > 0.5
