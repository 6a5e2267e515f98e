"""The reference opponents that ship: agents trained on the embedded ladder, and their ratings.

`skirmish:bc` on the command line is the file `agents/bc.agent` beside this module, the same for
everybody, so that two people who rate an agent on the embedded game rate it against the same
opponents. Ratings are as measured once among them (`data/skirmish_ratings.json`).
"""

import functools
import importlib.resources
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from starmill.benchmark import elo, paper
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


@functools.cache
def ratings() -> dict[str, float]:
    """Returns the measured Elo of every reference opponent, very_hard at 1000."""
    source = (
        importlib.resources.files("starmill.benchmark") / "data/skirmish_ratings.json"
    )
    return elo.check_ratings(json.loads(source.read_text("utf-8")), source.name)


# Ratings that `--references` names: they stay fixed, and a new agent is rated against them.
REFERENCES: dict[str, Callable[[], dict[str, float]]] = {
    "paper": paper.reference_ratings,
    "skirmish": ratings,
}
