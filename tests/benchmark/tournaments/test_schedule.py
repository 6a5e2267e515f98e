import collections

import pytest
import scipy.stats

from starmill.benchmark.tournaments import schedule
from starmill.schema import errors

MAPS = ("a.SC2Map", "b.SC2Map", "c.SC2Map")


def make(pairs=(("bc", "very_hard"),), games=18, seed=1):
    return schedule.fixtures(pairs, games=games, maps=MAPS, seed=seed)


def test_every_nine_games_play_all_race_pairs():
    build_plan = make(games=27)
    for start in (0, 9, 18):
        races = {(f.home_race, f.away_race) for f in build_plan[start : start + 9]}
        assert len(races) == 9
    orders = [
        [f.home_race + f.away_race for f in build_plan[i : i + 9]] for i in (0, 9)
    ]
    assert orders[0] != orders[1]


def test_maps_are_uniform_and_seeds_differ():
    build_plan = make(games=900)
    counts = collections.Counter(f.map_path for f in build_plan)
    assert scipy.stats.chisquare([counts[name] for name in MAPS]).pvalue > 0.001
    assert len({f.seed for f in build_plan}) == 900
    assert all(0 <= f.seed < 2**31 for f in build_plan)


def test_same_seed_same_games_other_seed_others():
    assert make(seed=4) == make(seed=4)
    assert make(seed=4) != make(seed=5)


def test_more_games_and_more_opponents_leave_the_others_alone():
    few = {f.game: f for f in make(games=10)}
    many = {f.game: f for f in make((("bc", "hard"), ("bc", "very_hard")), games=20)}
    assert few.items() <= many.items()


def test_this_schedule_is_this_schedule():
    # Literal, so that a change that would break resuming is seen.
    first = make()[0]
    assert first == schedule.Fixture(
        game="bc-vs-very_hard-0000",
        home="bc",
        away="very_hard",
        home_race="zerg",
        away_race="terran",
        map_path="b.SC2Map",
        seed=85294986,
    )


def test_pairs():
    assert schedule.round_robin(["a", "b", "c"]) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert schedule.against(["a", "b"], ["b", "a", "x"]) == [
        ("a", "b"),
        ("a", "x"),
        ("b", "x"),
    ]


def test_nothing_to_play_on_is_refused():
    with pytest.raises(errors.ConfigError, match="one map"):
        schedule.fixtures([("a", "b")], games=1, maps=(), seed=0)
