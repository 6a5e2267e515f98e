"""The six reference agents that ship with starmill, trained on the embedded game's ladder.

In: a name like "skirmish:bc". Out: the agent's file, and how it plays. Everybody has the same
files, so ratings on the embedded game are comparable.
"""

import importlib.resources
from pathlib import Path
from typing import NamedTuple

from starmill.schema import errors

PREFIX = "skirmish:"


class Shipped(NamedTuple):
    """A reference agent.

    Attributes:
        file: name in `agents/`, without the ending.
        options: how it plays, as after a checkpoint's "?".
    """

    file: str
    options: str


# What to do and when is drawn as players do it. Units, targets and places are drawn more calmly: an unlikely
# one is mostly a mistake, and whole armies move. docs/results.md has games with other temperatures.
_CALM = "temperature=0.6&temperature_function=1.0&temperature_delay=1.0"
AGENTS = {
    "bc": Shipped("bc", _CALM),
    "ft-bc": Shipped("ft-bc", _CALM),
    "oac": Shipped("oac", _CALM),
    "e-oac": Shipped("e-oac", _CALM),
    "mzs": Shipped("mzs", _CALM),
    "mzs-mcts": Shipped("mzs", f"search=20&{_CALM}"),
}


def shipped(word: str) -> tuple[Path, str]:
    """Returns the file and the options of "skirmish:NAME"; ConfigError if it does not ship."""
    name = word.removeprefix(PREFIX)
    if name not in AGENTS:
        raise errors.ConfigError(
            f"{word!r}: expected one of {', '.join(PREFIX + agent for agent in AGENTS)}"
        )
    agent = AGENTS[name]
    folder = importlib.resources.files("starmill.benchmark.opponents") / "agents"
    return Path(str(folder / f"{agent.file}.agent")), agent.options
