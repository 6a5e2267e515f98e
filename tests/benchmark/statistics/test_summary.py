"""Summaries of records that are written here by hand, and their files."""

import pytest

from starmill.benchmark.statistics import files, function_groups, summary
from starmill.benchmark.statistics.files import GameStatistics
from starmill.benchmark.statistics.material import Material
from starmill.benchmark.statistics.play_record import (
    POSSESSIONS,
    Attack,
    PlayRecord,
)
from starmill.schema import errors, vocab


def record(minutes=3, minerals=100.0, **changes):
    series = dict.fromkeys(POSSESSIONS, (0.0,) * minutes)
    series["minerals"] = tuple(minerals * (m + 1) for m in range(minutes))
    values = {
        "game_loops": minutes * 1344 + 5,
        "steps": 10,
        "commands": {"build": 6, "train": 2, "move": 4},
        "refused": {
            "build": {"NotEnoughMinerals": 2, "Error": 1},
            "move": {"Error": 4},
        },
        "minutes": {**series, "value": (0.5,) * minutes},
        "attacks": (),
    }
    return PlayRecord(**{**values, **changes})


def attack(minute, units, army, distance):
    return Attack(loop=minute * 1344, units=units, army=army, distance=distance)


def test_means_are_over_the_games_that_have_the_number():
    one = summary.summarize([record(3), record(5, minerals=300.0), record(1)])
    assert one.games == 3
    assert one.minute_games == (3, 2, 2, 1, 1)
    assert one.minutes["minerals"] == pytest.approx(
        (500 / 3, 400, 600, 1200, 1500), abs=1e-3
    )
    # Two of three games reach minute 3, one reaches minute 4.
    assert (one.compared_minute, one.bank) == (3, 600)
    assert one.refused_share == pytest.approx(3 / 8)
    assert one.decision_share == pytest.approx(8 / 12, abs=1e-4)
    assert one.groups["build"].reasons == {"NotEnoughMinerals": 6, "Error": 3}
    assert (one.groups["move"].commands, one.groups["move"].refused) == (12, 12)
    assert "attack" not in one.groups
    assert one.first_attack is None
    assert one.enemy_structures is None


def test_attacks_near_home_and_strays_do_not_count_as_setting_out():
    attacks = (
        attack(2, 9, 9, 0.05),
        attack(3, 1, 4, 0.5),
        attack(5, 8, 10, 0.5),
        attack(6, 30, 20, 0.9),
    )
    one = summary.summarize([record(attacks=attacks), record()], [4, 1])
    assert one.first_attack == 5
    assert one.attacking_games == 1
    assert one.attack_units == 8
    assert one.attack_share == pytest.approx((1 / 4 + 8 / 10 + 1) / 3, abs=1e-4)
    assert one.away_attacks == 1.5
    assert (one.enemy_structures, one.limit_games) == (2.5, 2)


def test_what_is_unknown_stays_unknown():
    one = summary.summarize([record(0, refused=None)])
    assert one.refused_share is None
    assert one.groups["build"].refused is None
    assert (one.compared_minute, one.bank) == (0, None)


def test_a_games_file_is_read_back_and_can_be_missing(tmp_path):
    game = GameStatistics(
        home=record(attacks=(attack(2, 9, 9, 0.0512),)),
        home_material=Material(army=100, economy=200, structures=3),
        away_material=Material(army=1, economy=2, structures=0),
    )
    files.write(tmp_path, "a-vs-b-0000", game)
    assert files.read(tmp_path, "a-vs-b-0000") == game
    assert files.read(tmp_path, "a-vs-b-0001") is None
    assert game.swapped().away == game.home
    assert game.swapped().home_material.structures == 0
    assert game.swapped().swapped() == game


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"format": 2}', '{"format": 1, "players": {"home": {}, "away": null}}'],
)
def test_damaged_files_are_named(tmp_path, content):
    files.write(tmp_path, "a", GameStatistics())
    (tmp_path / "statistics" / "a.json").write_text(content)
    with pytest.raises(errors.FormatError, match=r"a\.json"):
        files.read(tmp_path, "a")


def test_every_function_has_a_group():
    groups = {function_groups.group_of(f.id) for f in vocab.functions()[1:]}
    assert groups == set(function_groups.GROUPS) - {"other"}
    for name, group in (
        ("Build_Pylon_pt", "build"),
        ("TrainWarp_Zealot_pt", "train"),
        ("Attack_unit", "attack"),
        ("Effect_Scan_pt", "ability"),
    ):
        assert function_groups.group_of(vocab.function_named(name).id) == group
    assert function_groups.group_of(10**6) == "other"
