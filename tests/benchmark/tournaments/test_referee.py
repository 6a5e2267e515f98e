"""A referee's games with bots of python-sc2, where the bot's side fails."""

import sys
from pathlib import Path

import pytest

from starmill.benchmark.opponents import contestants, python_sc2
from starmill.benchmark.tournaments import referee, schedule
from starmill.schema import errors
from starmill.schema.settings import UNPLUGGED

FIXTURE = schedule.Fixture(
    game="random-vs-guest-0000",
    home="random",
    away="guest",
    home_race="terran",
    away_race="zerg",
    map_path="Skirmish/AmberBasin.SC2Map",
    seed=3,
)


def test_a_bot_that_ends_before_it_joins_is_an_agents_failure(monkeypatch):
    """This interpreter has no burnysc2, so the bot's process ends at once."""
    bot = python_sc2.Bot(
        module="bots",
        class_name="Bot",
        python=sys.executable,
        race="",
        file=Path(__file__),
        version="0",
    )
    monkeypatch.setattr(python_sc2, "find", lambda source, python: bot)
    guest = contestants.Contestant(
        name="guest",
        source="python-sc2:bots:Bot",
        kind=contestants.Kind.PYTHON_SC2,
        digest="",
    )
    judge = referee.Referee(
        referee.RefereeConfig(
            root="skirmish",
            game_version="",
            contestants={"random": contestants.contestant("random"), "guest": guest},
            settings=UNPLUGGED,
            max_loops=500,
        )
    )
    try:
        with pytest.raises(errors.AgentError, match="ended before it joined") as caught:
            judge.play(FIXTURE)
    finally:
        judge.close()
    assert "No module named 'sc2'" in str(caught.value)
