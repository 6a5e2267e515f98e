"""From a request to the games that it means, and the same games whoever plays them."""

import subprocess
import sys

import pytest

from starmill.benchmark import evaluation
from starmill.benchmark.ratings import results
from starmill.schema import errors
from tests.conftest import ROOT

MAPS = ["Ladder2019Season3/AcropolisLE.SC2Map", "Skirmish/AmberBasin.SC2Map"]


def plan(**changes):
    config = {"agents": ("random", "rush"), "opponents": ("easy", "hard"), "games": 9}
    return evaluation.plan(evaluation.Config(**{**config, **changes}), MAPS)


def test_a_plan_has_every_agent_against_every_opponent():
    result = plan()
    pairs = {(f.home, f.away) for f in result.fixtures}
    assert pairs == {
        ("random", "easy"),
        ("random", "hard"),
        ("rush", "easy"),
        ("rush", "hard"),
    }
    assert len(result.fixtures) == 4 * 9
    assert result.maps == ("Skirmish/AmberBasin.SC2Map",)


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


SCRIPT = """
import sys
from pathlib import Path
from starmill.benchmark import evaluation
from starmill.benchmark.tournaments import referee

if __name__ == "__main__":
    out, parallel = Path(sys.argv[1]), int(sys.argv[2])
    config = evaluation.Config(
        agents=("skirmish:bc", "skirmish:oac"), opponents=("skirmish:oac", "easy"),
        games=2, max_minutes=0.5, seed=4)
    plan = evaluation.plan(config, referee.available_maps("skirmish"))
    assert evaluation.run(plan, out, parallel=parallel) == []
    assert "jax" not in sys.modules or parallel == 1
"""


@pytest.mark.slow
def test_agents_in_processes_of_their_own_play_the_games_of_agents_in_one(tmp_path):
    """With one worker agents act in it; with two, each acts in a process for both."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for parallel in ("1", "2"):
        subprocess.run(
            [sys.executable, script, tmp_path / parallel, parallel],
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            check=True,
        )
    one, two = (
        sorted(
            results.read_results(tmp_path / parallel / "results.csv"),
            key=lambda row: row.game,
        )
        for parallel in ("1", "2")
    )
    assert one == two
    assert len(one) == 6
    for row in one:
        first, second = (
            (tmp_path / parallel / row.replay).read_bytes() for parallel in ("1", "2")
        )
        assert first == second
