"""The bots in `bots`, which use python-sc2 as bots of the community do, as cases of `run_pysc2`.

In: a case such as "python_sc2.survey.Acropolis". Out: the command that plays it. python-sc2's
distribution holds no example and no test; these bots are our own and use what its published ones
use: ramps, walls, expansions, queries, debug commands, research, and BotAI's helpers.
"""

from pathlib import Path

from tests.conftest import ROOT

PYTHON = ROOT / ".venv-burnysc2/bin/python"
PREFIX = "python_sc2."
_BOTS = Path(__file__).with_name("bots")
_LADDER = ("AmberBasin", "TwinRidges", "LongReach", "FrostHollow", "BrokenSpan")
_STAND_INS = (
    *("Acropolis", "Automaton", "CyberForest", "KairosJunction", "KingsCove"),
    *("NewRepugnancy", "PortAleksander", "Thunderbird", "TurboCruise84", "YearZero"),
)
# Bot -> the maps that it plays on.
_MAPS = {
    "actions": ("Acropolis",),
    "damage": ("Empty128",),
    "economy": ("Acropolis", "AmberBasin"),
    "queries": ("Empty128",),
    "survey": (*_LADDER, *_STAND_INS),
    "upgrades": ("Empty128",),
    "wall": ("Acropolis", "TwinRidges"),
}


def cases() -> set[str]:
    """Returns the names of all cases: python_sc2.BOT.MAP."""
    return {f"{PREFIX}{bot}.{name}" for bot, names in _MAPS.items() for name in names}


def command(case: str) -> list[str]:
    """Returns the command that plays a case."""
    bot, name = case.removeprefix(PREFIX).split(".")
    return [str(PYTHON), str(_BOTS / f"{bot}.py"), name]
