import numpy as np
import pytest

from starmill.benchmark.ratings import elo, robustness, winrates
from tests.factories import tournaments


def test_robustness_is_the_worst_win_rate():
    games = [
        *tournaments.series("p", "q", won=3, lost=1),
        *tournaments.series("r", "p", won=6, lost=4),
        *tournaments.series("p", "s", won=1, lost=0, drawn=1),
    ]
    worst = robustness.robustness(winrates.tabulate(games), "p")
    assert worst.win_rate == pytest.approx(0.4)
    assert worst.opponent == "r"
    assert worst.opponents == 3
    assert worst.low < 0.4 < worst.high


def test_only_the_opponents_asked_for_count():
    games = [
        *tournaments.series("p", "q", won=3, lost=1),
        *tournaments.series("p", "r", won=0, lost=9),
    ]
    table = winrates.tabulate(games)
    assert robustness.robustness(table, "p", ["q"]).win_rate == 0.75
    assert robustness.robustness(table, "p", ["nobody"]) is None


def test_wilson_by_hand():
    # Wilson's interval of 8 in 10 at z = 1.96 (R: prop.test(8, 10, correct=FALSE)).
    low, high = robustness.wilson(np.array(0.8), np.array(10.0), 1.959964)
    assert low == pytest.approx(0.4901625, abs=1e-6)
    assert high == pytest.approx(0.9433178, abs=1e-6)


def test_a_perfect_or_hopeless_record_keeps_an_interval():
    table = winrates.tabulate(tournaments.series("p", "q", won=20))
    best = robustness.robustness(table, "p")
    assert (best.win_rate, best.high) == (1.0, 1.0)
    assert 0.8 < best.low < 0.9
    worst = robustness.robustness(table, "q")
    assert (worst.win_rate, worst.low) == (0.0, 0.0)
    assert 0.1 < worst.high < 0.2


def covered(ratings, games, agent, tournaments_played=1000):
    others = [rating for name, rating in ratings.items() if name != agent]
    truth = elo.win_probability(ratings[agent], np.array(others)).min()
    count = 0
    for seed in range(tournaments_played):
        table = winrates.tabulate(tournaments.play(ratings, games, seed))
        worst = robustness.robustness(table, agent)
        count += worst.low <= truth <= worst.high
    return count


@pytest.mark.slow
def test_interval_covers_the_truth_with_one_clearly_worst_opponent():
    ratings = {"p": 1000.0, "strong": 1200.0, "weak": 700.0}
    assert 930 <= covered(ratings, 90, "p") <= 970


@pytest.mark.slow
def test_interval_errs_to_the_wide_side_among_equals():
    # The smallest of four equal win rates is biased downwards; the interval allows for it.
    ratings = dict.fromkeys("pqrst", 1000.0)
    assert covered(ratings, 36, "p") >= 940


def test_several_that_could_be_worst_raise_the_upper_end():
    games = tournaments.series("p", "a", won=12, lost=8)
    alone = robustness.robustness(winrates.tabulate(games), "p")
    for rival in "bcd":
        games += tournaments.series("p", rival, won=12, lost=8)
    among = robustness.robustness(winrates.tabulate(games), "p")
    assert among.win_rate == alone.win_rate
    assert among.high > alone.high + 0.02
    assert among.low == alone.low
