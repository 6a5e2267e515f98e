"""The paper's own results, for comparison and as fixed reference ratings.

In: `data/paper_results.json`, with the numbers as printed. Out: records. Nothing here is computed
from games.
"""

import dataclasses
import functools
import importlib.resources
import json

from starmill.benchmark.ratings import elo


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperAgent:
    """One line of the paper's table.

    Attributes:
        agent: the short name used in results.
        name: as printed.
        kind: the group of agents that the paper puts it in.
        reference: whether it is one of the protocol's seven opponents.
        robustness: in [0, 1].
        elo: as printed.
        versus_very_hard: win rate against very_hard, in [0, 1].
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
        """Returns the win rate that the Elo model predicts from the printed rating."""
        return float(elo.win_probability(self.elo, elo.ANCHOR_ELO))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperWinRate:
    """A win rate that the paper's text states.

    Attributes:
        home: short name of the first agent.
        away: short name of the second.
        win_rate: home's, in [0, 1].
    """

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
    """Returns the table's lines, in its order."""
    return [PaperAgent(**line) for line in _content()["agents"]]  # type: ignore[arg-type]  # fields are checked by a test


def win_rates() -> list[PaperWinRate]:
    """Returns the win rates that the text states."""
    return [PaperWinRate(**line) for line in _content()["win_rates"]]  # type: ignore[arg-type]  # fields are checked by a test


def reference_ratings() -> dict[str, float]:
    """Returns the printed Elo of the protocol's seven opponents."""
    return {line.agent: line.elo for line in agents() if line.reference}
