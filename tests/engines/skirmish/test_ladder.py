"""The ladder: wins follow ratings, everything occurs, levels are ordered.

`STARMILL_LADDER_GAMES=DIR:DIR` takes the 600 games of the Elo test from ladders already played.
"""

import csv
import itertools
import os
from pathlib import Path

import pytest

from starmill import cli
from starmill.engines.skirmish import ladder, versions
from starmill.engines.skirmish.players import bots, match, profiles
from starmill.engines.skirmish.simulation import game, maps

GAMES = ((1, 400), (2, 200))  # (seed, games)
BINS = 5
POINTS = {"win": 1.0, "loss": 0.0, "tie": 0.5}


# How ratings become skill


def test_two_ratings_mean_a_level_and_a_difference():
    gaps = []
    for middle in range(2700, 6900, 300):
        home = profiles.skill_against(middle + 100, middle - 100)
        away = profiles.skill_against(middle - 100, middle + 100)
        assert (home + away) / 2 == pytest.approx(profiles.skill_of(middle))
        assert home - away > profiles.skill_of(4600) - profiles.skill_of(4400)
        gaps.append(home - away)
    assert gaps == sorted(gaps)


def test_skills_of_a_pair_stay_in_range_and_keep_their_gap():
    for low, high in ((1000, 1300), (7500, 7800), (8200, 8500)):
        pair = profiles.skill_against(low, high), profiles.skill_against(high, low)
        assert pair[1] - pair[0] == pytest.approx(0.12 if high < 2500 else 0.72)
        assert 0.0 <= pair[0] < pair[1] <= 1.0
    assert profiles.skill_against(8500, 1000) == 1.0


# Who plays


def test_players_are_of_the_ratings_asked_for():
    drawn = [
        ladder.pairing(3, index, versions.VERSIONS, (7500, 8000))
        for index in range(200)
    ]
    mmrs = [mmr for match in drawn for mmr in match.mmrs]
    assert 7500 <= min(mmrs) < 7520
    assert 7980 < max(mmrs) <= 8000
    assert ladder.pairing(3, 0, versions.VERSIONS, (4000, 4000)).mmrs == (4000, 4000)
    plain = ladder.pairing(3, 0, versions.VERSIONS)
    assert plain == ladder.pairing(3, 0, versions.VERSIONS, (2500, 7000))
    # Everything else about a game is drawn as without.
    assert (plain.seed, plain.races) == (drawn[0].seed, drawn[0].races)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7500", "expected two numbers such as 2500-7000, found '7500'"),
        ("a-b", "expected two numbers"),
        ("7000-2500", "the lower one first, found 7000 to 2500"),
        ("2500-9000", "expected ratings from 1000 to 8000"),
    ],
)
def test_ratings_that_nobody_has_are_refused(text, message, tmp_path, capsys):
    command = ["skirmish", "ladder", "--games", "1", "--seed", "1"]
    out = tmp_path / "out"
    assert cli.main([*command, "--out", str(out), "--ratings", text]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


# 600 games


def _rows(tmp_path):
    given = os.environ.get("STARMILL_LADDER_GAMES")
    if given:
        tables = [Path(folder) / ladder.TABLE for folder in given.split(":")]
    else:
        for seed, games in GAMES:
            ladder.play_ladder(
                games=games,
                seed=seed,
                out=tmp_path / str(seed),
                game_versions=versions.VERSIONS,
                parallel=2,
            )
        tables = [tmp_path / str(seed) / ladder.TABLE for seed, _ in GAMES]
    rows = []
    for table in tables:
        with table.open(encoding="utf-8", newline="") as stream:
            rows += csv.DictReader(stream)
    return rows


def _bins(rows):
    """(observed, predicted, standard error) of the first player's points by MMR difference."""
    games = sorted(
        (int(row["p1_mmr"]) - int(row["p2_mmr"]), POINTS[row["p1_result"]])
        for row in rows
    )
    for k in range(BINS):
        part = games[k * len(games) // BINS : (k + 1) * len(games) // BINS]
        predicted = [1.0 / (1.0 + 10.0 ** (-gap / 400.0)) for gap, _ in part]
        error = sum(p * (1.0 - p) for p in predicted) ** 0.5 / len(part)
        observed = sum(points for _, points in part) / len(part)
        yield observed, sum(predicted) / len(part), error


def test_bins_tell_elo_from_coin_flips():
    gaps = range(-600, 600, 2)
    fair = [
        {"p1_mmr": 4000 + gap, "p2_mmr": 4000, "p1_result": result}
        for gap, result in zip(gaps, itertools.cycle(("win", "loss")), strict=False)
    ]
    bins = list(_bins(fair))
    assert abs(bins[0][0] - bins[0][1]) > 2 * bins[0][2]
    assert abs(bins[2][0] - bins[2][1]) < 2 * bins[2][2]
    assert abs(bins[4][0] - bins[4][1]) > 2 * bins[4][2]


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_wins_of_600_ladder_games_follow_elo(tmp_path):
    rows = _rows(tmp_path)
    assert len(rows) == 600
    for observed, predicted, error in _bins(rows):
        assert abs(observed - predicted) <= 2 * error
    pairs = {(row["p1_race"], row["p2_race"]) for row in rows}
    assert pairs == set(itertools.product("123", "123"))
    assert {row["map"] for row in rows} == set(maps.MAPS)
    results = {(row["p1_result"], row["p2_result"]) for row in rows}
    assert results == {("win", "loss"), ("loss", "win"), ("tie", "tie")}
    mmrs = [int(row[f"{player}_mmr"]) for row in rows for player in ("p1", "p2")]
    low, high = ladder.RATINGS
    assert low <= min(mmrs) < 2600
    assert 6900 < max(mmrs) <= high


# The built-in levels


def _points(lower: int, upper: int, number: int) -> float:
    """The upper level's share of points over games of all match-ups and maps in turn."""
    names = list(maps.MAPS)
    won = 0.0
    for k in range(number):
        races = 1 + k % 3, 1 + (k // 3 + k) % 3
        seed = 1000 * upper + 10 * k
        levels = (upper, lower) if k % 2 == 0 else (lower, upper)
        setups, players = [], []
        for index, level in enumerate(levels):
            extra = bots.computer_setup(level)
            setups.append(
                game.PlayerSetup(
                    race_requested=races[index],
                    race=races[index],
                    start=(k // 2 + index) % 2,
                    income=extra.income,
                    all_visible=extra.all_visible,
                )
            )
            players.append(bots.computer(level, races[index], seed + index))
        played = match.play_match(
            maps.MAPS[names[k % len(names)]], tuple(setups), players, seed
        )
        won += POINTS[played.result[1 + levels.index(upper)]]
    return won / number


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("upper", range(2, 8))
def test_every_fair_level_beats_the_one_below(upper):
    assert _points(upper - 1, upper, 14) > 0.5


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_levels_with_more_money_beat_those_without():
    assert _points(7, 9, 10) > 0.5
    assert _points(9, 10, 10) > 0.5
    assert _points(7, 10, 10) >= 0.8
