"""The paper's own results, shipped as data, for comparison and as fixed reference ratings.

Numbers are as printed (`data/paper_results.json`); nothing here is computed from games.
"""

import dataclasses
import functools
import importlib.resources
import json

from starmill.benchmark.ratings import elo


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperAgent:
    """One printed line.

    agent: the short name used in results.  name: as printed.
    reference: whether it is one of the seven opponents of the protocol.
    robustness, versus_very_hard: in [0, 1].
    """

    agent: str
    name: str
    kind: str
    reference: bool
    robustness: float
    elo: float
    versus_very_hard: float

    @property
    def expected_versus_very_hard(self) -> float:
        """Returns what the Elo model makes of the printed rating."""
        return float(elo.win_probability(self.elo, elo.ANCHOR_ELO))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperWinRate:
    """A win rate that the paper's text states."""

    home: str
    away: str
    win_rate: float


@functools.cache
def _content() -> dict[str, list[dict[str, object]]]:
    source = (
        importlib.resources.files("starmill.benchmark.ratings")
        / "data/paper_results.json"
    )
    content: dict[str, list[dict[str, object]]] = json.loads(source.read_text("utf-8"))
    return content


def agents() -> list[PaperAgent]:
    """Returns the table's lines in its order."""
    return [PaperAgent(**line) for line in _content()["agents"]]  # type: ignore[arg-type]  # fields are checked by a test


def win_rates() -> list[PaperWinRate]:
    """Returns the single win rates that the text gives."""
    return [PaperWinRate(**line) for line in _content()["win_rates"]]  # type: ignore[arg-type]  # fields are checked by a test


def reference_ratings() -> dict[str, float]:
    """Returns the printed Elo of the protocol's seven opponents."""
    return {line.agent: line.elo for line in agents() if line.reference}
