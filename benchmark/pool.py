"""The reference opponents that ship: the six agents, trained on the embedded ladder.

`skirmish:bc` on the command line is the file `agents/bc.agent` beside this module, the same for
everybody, so that two people who rate an agent on the embedded game rate it against the same
opponents.
"""

import importlib.resources
from pathlib import Path
from typing import NamedTuple

from starmill.schema import errors

PREFIX = "skirmish:"


class Shipped(NamedTuple):
    """A reference agent. file: under `agents/`. options: as after a checkpoint's "?"."""

    file: str
    options: str = ""


AGENTS = {
    "bc": Shipped("bc"),
    "ft-bc": Shipped("ft-bc"),
    "oac": Shipped("oac"),
    "e-oac": Shipped("e-oac"),
    "mzs": Shipped("mzs"),
    "mzs-mcts": Shipped("mzs", "search=20"),
}


def shipped(word: str) -> tuple[Path, str]:
    """Returns the file and the options of `skirmish:NAME`; ConfigError if there is none."""
    name = word.removeprefix(PREFIX)
    if name not in AGENTS:
        raise errors.ConfigError(
            f"{word!r}: expected one of {', '.join(PREFIX + known for known in AGENTS)}"
        )
    one = AGENTS[name]
    folder = importlib.resources.files("starmill.benchmark") / "agents"
    return Path(str(folder / f"{one.file}.agent")), one.options
