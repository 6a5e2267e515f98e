import itertools

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from starmill.benchmark.ratings import bootstrap, elo, winrates
from starmill.schema import errors
from tests.factories import tournaments

RATINGS = {"very_hard": 1000.0, "a": 1100.0, "b": 1210.0, "c": 1320.0, "d": 1450.0}


def scipy_fit(table, anchor, anchor_elo=1000.0):
    """The cross-entropy of the specification, minimised by somebody else's code."""
    f, at = table.win_rate, table.index(anchor)
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(len(f)), 2)
        if table.pair_games[i, j]
    ]

    def loss(free):
        ratings = np.insert(free, at, anchor_elo)
        total = 0.0
        for i, j in pairs:
            odds = (ratings[i] - ratings[j]) * np.log(10) / 400
            total -= f[i, j] * scipy.special.log_expit(odds)
            total -= (1 - f[i, j]) * scipy.special.log_expit(-odds)
        return total

    start = np.full(len(f) - 1, anchor_elo)
    fit = scipy.optimize.minimize(
        loss, start, method="Nelder-Mead", options={"maxiter": 20000, "xatol": 1e-4}
    )
    polished = scipy.optimize.minimize(
        loss, fit.x, method="BFGS", options={"gtol": 1e-9}
    )
    return np.insert(polished.x, at, anchor_elo)


def test_higher_rating_means_higher_chance():
    assert elo.win_probability(1400, 1000) == pytest.approx(10 / 11)
    assert elo.win_probability(1000, 1400) == pytest.approx(1 / 11)


@pytest.mark.parametrize("seed", range(8))
def test_joint_fit_equals_scipys(seed):
    generator = np.random.default_rng(seed)
    count = int(generator.integers(2, 7))
    names = [f"agent{i}" for i in range(count)]
    true = dict(zip(names, generator.normal(1000, 150, count), strict=True))
    games = tournaments.play(true, int(generator.integers(12, 40)), seed, draws=0.2)
    # Uneven: some games are lost, so pairs and race pairs differ in number.
    games = [g for g in games if generator.random() < 0.8]
    table = winrates.tabulate(games)
    anchor = table.agents[int(generator.integers(len(table.agents)))]
    ratings = elo.fit_pool(table, anchor)
    fitted = [ratings[name].elo for name in table.agents]
    np.testing.assert_allclose(fitted, scipy_fit(table, anchor), atol=0.1)
    assert ratings[anchor].elo == 1000


def test_a_random_win_matrix_far_from_elo_still_has_scipys_fit():
    generator = np.random.default_rng(3)
    count = 5
    games = np.full((count, count, 3, 3), 4)
    games[np.arange(count), np.arange(count)] = 0
    points = generator.integers(0, 9, games.shape) / 2
    for i, j in itertools.combinations(range(count), 2):
        points[j, i] = (4 - points[i, j]).T
    points *= games > 0
    table = winrates.WinTable(
        agents=tuple("abcde"), games=games, points=points, draws=np.zeros_like(games)
    )
    ratings = elo.fit_pool(table, "c")
    fitted = [ratings[name].elo for name in table.agents]
    np.testing.assert_allclose(fitted, scipy_fit(table, "c"), atol=0.1)


def test_two_agents_by_hand():
    table = winrates.tabulate(tournaments.series("p", "very_hard", won=3, lost=1))
    rating = elo.fit_pool(table)["p"]
    assert rating.elo == pytest.approx(1000 + 400 * np.log10(3))


def test_true_ratings_are_recovered_from_many_games():
    table = winrates.tabulate(tournaments.play(RATINGS, 4500, 7))
    ratings = elo.fit_pool(table)
    for name, true in RATINGS.items():
        assert ratings[name].elo == pytest.approx(true, abs=12)


def test_new_agent_is_rated_against_fixed_references():
    references = {"very_hard": 1000.0, "bc": 1380.0, "oac": 1548.0}
    games = [
        *tournaments.series("new", "very_hard", won=9, lost=1),
        *tournaments.series("new", "bc", won=5, lost=5),
        *tournaments.series("new", "oac", won=2, lost=8),
        *tournaments.series("new", "stranger", won=0, lost=10),
    ]
    table = winrates.tabulate(games)

    def loss(rating):
        parts = [(0.9, 1000.0), (0.5, 1380.0), (0.2, 1548.0)]
        odds = [(f, (rating - e) * np.log(10) / 400) for f, e in parts]
        return -sum(
            f * scipy.special.log_expit(o) + (1 - f) * scipy.special.log_expit(-o)
            for f, o in odds
        )

    best = scipy.optimize.minimize_scalar(loss, bounds=(500, 2000), method="bounded")
    rating = elo.rate_against(table, "new", references)
    assert rating.elo == pytest.approx(best.x, abs=0.1)
    assert rating.low < rating.elo < rating.high


def test_all_wins_saturate_above_with_the_bound_that_ten_games_give():
    table = winrates.tabulate(tournaments.series("p", "very_hard", won=10))
    rating = elo.fit_pool(table)["p"]
    assert (rating.elo, rating.high) == (None, None)
    assert rating.status is elo.Status.ABOVE
    assert "saturated" in rating.note
    # p ** 10 = 2.5% at the bound.
    chance = 0.025**0.1
    assert rating.low == pytest.approx(1000 + 400 * np.log10(chance / (1 - chance)))


def test_all_losses_saturate_below_also_against_fixed_references():
    table = winrates.tabulate(tournaments.series("p", "very_hard", won=0, lost=10))
    for rating in (
        elo.fit_pool(table)["p"],
        elo.rate_against(table, "p", {"very_hard": 1000.0}),
    ):
        assert rating.status is elo.Status.BELOW
        assert (rating.elo, rating.low) == (None, None)
        chance = 0.025**0.1
        assert rating.high == pytest.approx(
            1000 - 400 * np.log10(chance / (1 - chance))
        )


def test_one_game_gives_a_bound_and_one_draw_a_wide_interval():
    won = elo.fit_pool(winrates.tabulate(tournaments.series("p", "very_hard", won=1)))
    assert won["p"].low == pytest.approx(1000 + 400 * np.log10(0.025 / 0.975))
    table = winrates.tabulate(tournaments.series("p", "very_hard", won=0, drawn=1))
    drawn = elo.fit_pool(table)["p"]
    assert drawn.elo == 1000
    assert drawn.high - drawn.low > 400


def test_only_draws_are_level_but_never_certain():
    table = winrates.tabulate(tournaments.series("p", "very_hard", won=0, drawn=50))
    rating = elo.fit_pool(table)["p"]
    assert rating.elo == pytest.approx(1000)
    assert 2 < rating.high - rating.low < 100


def test_a_missing_pair_is_no_obstacle():
    games = [
        *tournaments.series("p", "very_hard", won=3, lost=1),
        *tournaments.series("q", "p", won=3, lost=1),
    ]
    ratings = elo.fit_pool(winrates.tabulate(games))
    assert ratings["q"].elo == pytest.approx(1000 + 800 * np.log10(3))
    # q hangs on p: its uncertainty is that of both links.
    wide = ratings["q"].high - ratings["q"].low
    assert wide > ratings["p"].high - ratings["p"].low


def test_no_chain_of_games_to_the_anchor_is_said():
    games = [
        *tournaments.series("p", "very_hard", won=3, lost=1),
        *tournaments.series("x", "y", won=3, lost=1),
    ]
    ratings = elo.fit_pool(winrates.tabulate(games))
    assert ratings["p"].status is elo.Status.RATED
    for name in ("x", "y"):
        assert ratings[name].status is elo.Status.UNLINKED
        assert ratings[name].elo is None
        assert "no chain of games" in ratings[name].note


def test_order_left_open_by_one_way_games_is_said():
    games = [
        *tournaments.series("very_hard", "weak", won=5),
        *tournaments.series("x", "weak", won=5),
    ]
    ratings = elo.fit_pool(winrates.tabulate(games))
    assert ratings["weak"].status is elo.Status.BELOW
    assert ratings["x"].status is elo.Status.UNLINKED
    assert "not comparable" in ratings["x"].note


def test_a_saturated_group_does_not_move_the_rest():
    games = tournaments.play({"very_hard": 1000.0, "p": 1050.0}, 40, 1)
    alone = elo.fit_pool(winrates.tabulate(games))["p"]
    for rival in ("very_hard", "p"):
        games += tournaments.series("god", rival, won=20)
        games += tournaments.series("demigod", rival, won=20)
    games += tournaments.series("god", "demigod", won=6, lost=2)
    ratings = elo.fit_pool(winrates.tabulate(games))
    assert ratings["p"].elo == pytest.approx(alone.elo)
    assert ratings["god"].status is ratings["demigod"].status is elo.Status.ABOVE


def test_an_agent_that_met_no_reference_is_unlinked():
    table = winrates.tabulate(tournaments.series("p", "q", won=1, lost=1))
    rating = elo.rate_against(table, "p", {"very_hard": 1000.0})
    assert rating.status is elo.Status.UNLINKED


def test_extreme_ratings_converge():
    references = {"very_hard": 1000.0, "far": 4000.0}
    games = [
        *tournaments.series("p", "very_hard", won=999, lost=1),
        *tournaments.series("p", "far", won=1, lost=999),
    ]
    rating = elo.rate_against(winrates.tabulate(games), "p", references)
    assert rating.elo == pytest.approx(2500, abs=1)


def test_bootstrap_agrees_with_the_analytic_interval():
    table = winrates.tabulate(tournaments.play(RATINGS, 90, 11, draws=0.1))
    analytic = elo.fit_pool(table)
    resampled = bootstrap.intervals(table, analytic, "very_hard", seed=5)
    for name in ("a", "b", "c", "d"):
        one, other = analytic[name], resampled[name]
        assert other.elo == one.elo
        width = one.high - one.low
        assert other.high - other.low == pytest.approx(width, rel=0.15)
        assert abs(other.low - one.low) < 0.15 * width
    again = bootstrap.intervals(table, analytic, "very_hard", seed=5)
    assert again == resampled
    assert bootstrap.intervals(table, analytic, "very_hard", seed=6) != resampled


def test_reference_ratings_must_be_numbers():
    with pytest.raises(errors.ConfigError, match="bc"):
        elo.check_ratings({"very_hard": 1000, "bc": None}, "ratings.json")
    with pytest.raises(errors.ConfigError, match="at least one"):
        elo.check_ratings({}, "ratings.json")


SIX = {"very_hard": 1000, "a": 1100, "b": 1200, "c": 1300, "d": 1400, "e": 1550}
COVERAGE = [
    # true ratings, games per pair, draws between equals
    (SIX, 20, 0.0),
    pytest.param(SIX, 20, 0.2, marks=pytest.mark.slow),
    pytest.param(
        {"very_hard": 1000, "a": 900, "b": 1000, "c": 1150},
        90,
        0.05,
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("ratings", "games", "draws"), COVERAGE)
def test_intervals_cover_the_truth_in_93_to_97_of_100_tournaments(
    ratings, games, draws
):
    covered = dict.fromkeys(list(ratings)[1:], 0)
    for seed in range(1000):
        table = winrates.tabulate(tournaments.play(ratings, games, seed, draws=draws))
        fitted = elo.fit_pool(table)
        for name in covered:
            low, high = fitted[name].low, fitted[name].high
            covered[name] += (low is None or low <= ratings[name]) and (
                high is None or ratings[name] <= high
            )
    for name, times in covered.items():
        assert 930 <= times <= 970, (name, times)


@pytest.mark.slow
def test_intervals_against_fixed_references_cover_the_truth():
    references = {"very_hard": 1000.0, "bc": 1380.0, "oac": 1548.0}
    covered = 0
    for seed in range(1000):
        games = [
            game
            for game in tournaments.play({"new": 1300.0, **references}, 18, seed)
            if game.home == "new"
        ]
        rating = elo.rate_against(winrates.tabulate(games), "new", references)
        covered += rating.low <= 1300 <= rating.high
    assert 930 <= covered <= 970
