"""From a request to the games that it means."""

import pytest

from starmill.benchmark import evaluation
from starmill.schema import errors

MAPS = ["Ladder2019Season3/AcropolisLE.SC2Map", "Skirmish/AmberBasin.SC2Map"]


def plan(**changes):
    config = {"agents": ("random", "rush"), "opponents": ("easy", "hard"), "games": 9}
    return evaluation.plan(evaluation.Config(**{**config, **changes}), MAPS)


def test_a_plan_has_every_agent_against_every_opponent():
    made = plan()
    pairs = {(f.home, f.away) for f in made.fixtures}
    assert pairs == {
        ("random", "easy"),
        ("random", "hard"),
        ("rush", "easy"),
        ("rush", "hard"),
    }
    assert len(made.fixtures) == 4 * 9
    assert made.maps == ("Skirmish/AmberBasin.SC2Map",)


def test_a_round_robin_leaves_out_what_cannot_be_played():
    pairs = {(f.home, f.away) for f in plan(round_robin=True).fixtures}
    assert len(pairs) == 5  # of six: easy against hard have no seat
    assert ("easy", "hard") not in pairs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": ()}, "at least one agent"),
        ({"games": 0}, "games"),
        ({"max_minutes": 0}, "max_minutes"),
        ({"agents": ("easy",), "opponents": ("hard",)}, "nothing to play"),
        ({"maps": ("Nowhere",)}, "no map Nowhere"),
    ],
)
def test_plans_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(errors.ConfigError, match=message):
        plan(**changes)
