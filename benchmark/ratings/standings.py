"""The results table: one line per agent, with the paper's columns and their intervals.

In: a win table, and an anchor or reference ratings. Out: `Standing`s, best first, also as JSON.
Knows nothing of files.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from starmill.benchmark.ratings import bootstrap, elo, robustness, winrates
from starmill.schema import errors

Method = Literal["analytic", "bootstrap"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """One agent's line.

    Attributes:
        agent: its name.
        rating: Elo, or why there is none.
        robustness: None if the agent met no opponent.
        versus_anchor: f against the anchor; a half for the anchor, None if they never met.
        games: games against all opponents.
        notes: caveats about the numbers, one sentence each.
    """

    agent: str
    rating: elo.Rating
    robustness: robustness.Robustness | None
    versus_anchor: float | None
    games: int
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the agent's entry of `starmill rate --json`; unknown numbers are None."""
        worst = self.robustness
        return {
            "elo": self.rating.elo,
            "elo_low": self.rating.low,
            "elo_high": self.rating.high,
            "robustness": None if worst is None else worst.win_rate,
            "robustness_low": None if worst is None else worst.low,
            "robustness_high": None if worst is None else worst.high,
            "worst_opponent": None if worst is None else worst.opponent,
            "versus_anchor": self.versus_anchor,
            "games": self.games,
            "status": str(self.rating.status),
            "notes": list(self.notes),
        }


def standings(
    table: winrates.WinTable,
    anchor: str = elo.ANCHOR,
    *,
    anchor_elo: float = elo.ANCHOR_ELO,
    references: Mapping[str, float] | None = None,
    method: Method = "analytic",
    confidence: float = 0.95,
    seed: int = 0,
) -> list[Standing]:
    """Returns every agent's line, sorted by rating.

    With `references`, whose ratings are fixed, each other agent is rated on its own against
    them, and its robustness counts them alone; this is how the paper rates a new agent. The
    intervals are then always analytic. Without references, all agents are fitted together,
    with the anchor at `anchor_elo`.
    """
    if not 0 < confidence < 1:
        raise errors.ConfigError(
            f"confidence: expected between 0 and 1, found {confidence!r}"
        )
    if references is None:
        ratings = elo.fit_pool(
            table, anchor, anchor_elo=anchor_elo, confidence=confidence
        )
        if method == "bootstrap":
            ratings = bootstrap.intervals(
                table, ratings, anchor, seed=seed, confidence=confidence
            )
    else:
        ratings = _against(table, references, confidence)
    lines = [
        _standing(table, name, ratings[name], anchor, references, confidence)
        for name in table.agents
    ]
    return sorted(lines, key=_order)


def _against(
    table: winrates.WinTable, references: Mapping[str, float], confidence: float
) -> dict[str, elo.Rating]:
    if not set(references) & set(table.agents):
        raise errors.ConfigError(
            f"none of the reference agents played: expected some of "
            f"{', '.join(references)}; found {', '.join(table.agents)}"
        )
    return {
        name: elo.fixed(references[name])
        if name in references
        else elo.rate_against(table, name, references, confidence=confidence)
        for name in table.agents
    }


def _standing(
    table: winrates.WinTable,
    agent: str,
    rating: elo.Rating,
    anchor: str,
    references: Mapping[str, float] | None,
    confidence: float,
) -> Standing:
    at = table.index(agent)
    versus = 0.5 if agent == anchor else None
    if anchor in table.agents and table.played[at, table.index(anchor)]:
        versus = float(table.win_rate[at, table.index(anchor)])
    notes = [rating.note] if rating.note else []
    met, pairs = table.played[at], table.race_pairs[at]
    expected = table.agents if references is None else tuple(references)
    absent = [
        name
        for i, name in enumerate(table.agents)
        if i != at and not met[i] and name in expected
    ]
    if absent and met.any():
        notes.append(f"never met {', '.join(absent)}")
    partial = [
        f"{name} ({pairs[i]})"
        for i, name in enumerate(table.agents)
        if met[i] and pairs[i] < winrates.RACE_PAIRS
    ]
    if partial:
        notes.append(
            f"fewer than {winrates.RACE_PAIRS} race pairs against {', '.join(partial)}"
        )
    return Standing(
        agent=agent,
        rating=rating,
        robustness=robustness.robustness(
            table, agent, references, confidence=confidence
        ),
        versus_anchor=versus,
        games=int(table.pair_games[at].sum()),
        notes=tuple(notes),
    )


def _order(line: Standing) -> tuple[int, float, str]:
    """Sorts the saturated above first, then by rating, then the saturated below, then the rest."""
    groups = {elo.Status.ABOVE: 0, elo.Status.BELOW: 2, elo.Status.UNLINKED: 3}
    return groups.get(line.rating.status, 1), -(line.rating.elo or 0.0), line.agent
