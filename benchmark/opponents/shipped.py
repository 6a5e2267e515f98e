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
    options: str


# Not the paper's 0.8: agents of this size give each decision of theirs a small probability
# among the many things hands do, and sharpening makes it smaller. Games in docs/results.md.
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
    """Returns the file and the options of `skirmish:NAME`; ConfigError if there is none."""
    name = word.removeprefix(PREFIX)
    if name not in AGENTS:
        raise errors.ConfigError(
            f"{word!r}: expected one of {', '.join(PREFIX + known for known in AGENTS)}"
        )
    one = AGENTS[name]
    folder = importlib.resources.files("starmill.benchmark.opponents") / "agents"
    return Path(str(folder / f"{one.file}.agent")), one.options
