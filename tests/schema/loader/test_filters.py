import pyarrow.compute
import pytest

import starmill
from starmill.schema import errors
from tests.factories import records


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("filters")
    records.dataset(
        str(path),
        [
            records.episode(0, steps=20, race="zerg", mmr=4000, outcome=1),
            records.episode(1, steps=30, race="terran", mmr=5000, outcome=-1),
            records.episode(2, steps=40, race="terran", mmr=None, outcome=-1),
        ],
    )
    return starmill.open_dataset(path)


@pytest.mark.parametrize(
    ("filters", "match"),
    [
        ({"split": "tran"}, "split 'tran': there are train, valid, test; .* 'train'"),
        ({"split": ["train", "tests"]}, "split 'tests': there are .* mean 'test'"),
        ({"race": "Zerg"}, "race 'Zerg': there are terran, zerg, protoss; .* 'zerg'"),
        ({"opponent_race": "random"}, "opponent_race 'random': there are terran, zerg"),
        (
            {"map_name": "Acropolis LE"},
            "map_name 'Acropolis LE': there are Acropolis, Thunderbird, Year Zero; "
            "did you mean 'Acropolis'",
        ),
        ({"game_version": "4.9"}, "game_version '4.9': there are 4.9.2"),
        ({"outcome": 2}, "outcome 2: there are 1, 0, -1"),
        ({"outcome": "Win"}, "outcome 'Win': there are 1, 0, -1"),
        ({"mmr_rule": "any"}, "mmr_rule 'any': there are own, both"),
        ({"race": "zrg", "split": "x"}, "split 'x': .*; race 'zrg': "),
    ],
)
def test_values_that_do_not_exist_are_told_those_that_do(opened, filters, match):
    with pytest.raises(errors.ConfigError, match=match):
        opened.filter(**filters)
    with pytest.raises(errors.ConfigError, match=match):
        starmill.open_dataset(opened.url, **filters)


@pytest.mark.parametrize(
    ("filters", "match"),
    [
        ({"race": "protoss"}, "no episode of 3 .* race is one of terran, zerg"),
        (
            {"race": "zerg", "outcome": -1},
            "none is left with outcome -1; outcome is one of 1",
        ),
        ({"mmr_above": 9999}, "mmr above 9999; mmr is from 4,000 to 5,000"),
        ({"min_steps": 41}, "at least 41 steps; steps is from 20 to 40"),
        (
            {"max_steps": 40, "min_steps": 40, "mmr_above": 0},
            r"steps is from 20 to 30|steps is from",
        ),
        (
            {"where": pyarrow.compute.field("player_id") == 3},
            "no episode of 3 .*player_id == 3",
        ),
        (
            {"where": pyarrow.compute.field("nothing") == 3},
            "the columns are episode_id",
        ),
    ],
)
def test_when_nothing_is_left_the_message_says_what_there_was(opened, filters, match):
    with pytest.raises(errors.ConfigError, match=match):
        opened.filter(**filters)


def test_values_of_the_whole_dataset_may_be_asked_of_a_part(opened):
    zerg = opened.filter(race="zerg")
    (name,) = {episode.meta.map_name for episode in zerg}
    others = {episode.meta.map_name for episode in opened} - {name}
    assert len(zerg.filter(map_name=[name, *others])) == 1
    assert len(zerg.filter(outcome=[1, 0])) == 1
