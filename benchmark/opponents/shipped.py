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


# Not the paper's 0.8: most actions in a game are idle ones, so agents of this size give each
# real decision a small probability. A lower temperature makes it smaller still. The games that
# show this are in docs/results.md.
_AS_LEARNT = "temperature=1.0"
AGENTS = {
    "bc": Shipped("bc", _AS_LEARNT),
    "ft-bc": Shipped("ft-bc", _AS_LEARNT),
    "oac": Shipped("oac", _AS_LEARNT),
    "e-oac": Shipped("e-oac", _AS_LEARNT),
    "mzs": Shipped("mzs", _AS_LEARNT),
    "mzs-mcts": Shipped("mzs", f"search=20&{_AS_LEARNT}"),
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
