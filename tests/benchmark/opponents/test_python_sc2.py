"""Bots of python-sc2: what a text names, what is missing, and whole games of real bots."""

import os
import sys
from pathlib import Path

import pytest

from starmill.benchmark import evaluation
from starmill.benchmark.opponents import contestants, python_sc2
from starmill.benchmark.ratings import results
from starmill.schema import errors
from tests.conftest import ROOT

BOTS = Path(__file__).with_name("bots") / "python_sc2_bots.py"
MAPS = ["Skirmish/AmberBasin.SC2Map"]


@pytest.fixture(scope="module")
def python():
    """The interpreter of an environment that has burnysc2."""
    path = os.environ.get(
        "STARMILL_BURNYSC2_PYTHON", str(ROOT / ".venv-burnysc2/bin/python")
    )
    if not os.access(path, os.X_OK):
        pytest.skip("needs python-sc2: `make burnysc2`, or STARMILL_BURNYSC2_PYTHON")
    return path


def test_a_missing_interpreter_is_named_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.ConfigError, match="pip install burnysc2") as caught:
        contestants.contestant("python-sc2:bots:Rush")
    assert ".venv-burnysc2/bin/python" in str(caught.value)
    assert "--bot-python" in str(caught.value)


def test_an_interpreter_without_burnysc2_is_named_with_what_to_do():
    with pytest.raises(errors.ConfigError, match="has no burnysc2") as caught:
        contestants.contestant(f"python-sc2:{BOTS}:WorkerRush", sys.executable)
    assert "pip install burnysc2" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["python-sc2:", "python-sc2:module", "python-sc2:module:Bot?speed=9"]
)
def test_a_text_that_names_no_bot_is_refused(text):
    with pytest.raises(errors.ConfigError, match="MODULE:CLASS"):
        python_sc2.find(text, sys.executable)


@pytest.mark.slow
def test_a_bots_facts_come_from_its_own_environment(python):
    rush = contestants.contestant(f"python-sc2:{BOTS}:WorkerRush", python)
    assert (rush.name, rush.kind, rush.race) == ("WorkerRush", "python-sc2", "")
    assert rush.digest.startswith("python-sc2:WorkerRush:")
    assert not rush.is_agent
    assert (
        contestants.contestant(f"python-sc2:{BOTS}:Protoss", python).race == "protoss"
    )
    named = contestants.contestant(f"me=python-sc2:{BOTS}:Crashing?race=zerg", python)
    assert (named.name, named.race) == ("me", "zerg")
    with pytest.raises(errors.ConfigError, match="cannot import Nobody"):
        contestants.contestant(f"python-sc2:{BOTS}:Nobody", python)
    with pytest.raises(errors.ConfigError, match="race"):
        contestants.contestant(f"python-sc2:{BOTS}:Crashing?race=human", python)


def _play(tmp_path, python, bots, **options):
    """Plays one game of the random agent against each bot; returns failures and rows."""
    config = evaluation.Config(
        agents=("random",),
        opponents=tuple(f"python-sc2:{BOTS}:{bot}" for bot in bots),
        games=1,
        max_minutes=3,
        bot_python=python,
        **options,
    )
    plan = evaluation.plan(config, MAPS)
    failures = evaluation.run(plan, tmp_path)
    if not evaluation.has_games(tmp_path):
        return failures, {}
    rows = results.read_results(tmp_path / evaluation.RESULTS)
    return failures, {row.away: row for row in rows}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_real_bots_play_whole_games(tmp_path, python):
    failures, rows = _play(tmp_path, python, ["Protoss", "Surrendering"])
    assert failures == []
    assert (rows["Surrendering"].outcome, rows["Surrendering"].ending) == (1, "won")
    assert rows["Protoss"].outcome == -1
    assert rows["Protoss"].away_race == "protoss"
    assert all((tmp_path / row.replay).stat().st_size > 1000 for row in rows.values())
    evaluation.write_reports(tmp_path, anchor="Protoss")
    assert "Surrendering" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_bots_that_fail_are_failures_of_their_games(tmp_path, python):
    bots = ["Crashing", "Hanging", "Exiting", "Cheating"]
    failures, rows = _play(tmp_path, python, bots, bot_seconds=20.0)
    reasons = {failure.fixture.away: failure.reason for failure in failures}
    assert rows == {}
    assert "Crashing left its connection at loop" in reasons["Crashing"]
    assert reasons["Crashing"].endswith("RuntimeError: this bot is broken")
    assert "Hanging sent no request for 20 seconds" in reasons["Hanging"]
    assert "Exiting left its connection at loop 0" in reasons["Exiting"]
    assert "debug is not allowed in a rated game" in reasons["Cheating"]
