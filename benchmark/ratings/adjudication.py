"""Games that reached their time limit, scored by what both sides had then.

In: results, and the material of the games that reached their limit. Out: the same results with
these games scored, for reading beside the strict ones. Strict results stay as they are: a game at
its limit is a draw.

The side with more army and economy wins if it has at least MARGIN times as much as the other;
otherwise the game stays a draw.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from starmill.benchmark.ratings.results import Result
from starmill.benchmark.statistics.material import Material

ADJUDICATED = "adjudicated"
# Half as much again is a lead that computer players rarely lose; less may be one good fight.
MARGIN = 1.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairScore:
    """One pair's games, scored strictly and by adjudication, from the first player's side.

    Attributes:
        agent: the first player.
        opponent: the second.
        strict: games won, drawn and lost; a game at its limit is drawn.
        adjudicated: the same with games at the limit scored.
        scored: how many games reached the limit and were scored.
    """

    agent: str
    opponent: str
    strict: tuple[int, int, int]
    adjudicated: tuple[int, int, int]
    scored: int


def outcome(home: Material, away: Material) -> int:
    """Returns 1 if home is far enough ahead, -1 if away is, otherwise 0."""
    ours, theirs = home.army + home.economy, away.army + away.economy
    if ours > theirs and ours >= MARGIN * theirs:
        return 1
    if theirs > ours and theirs >= MARGIN * ours:
        return -1
    return 0


def adjudicate(
    rows: Iterable[Result], material: Mapping[str, tuple[Material, Material]]
) -> list[Result]:
    """Returns the rows, with games at their limit scored and their ending `adjudicated`.

    material: what home and away had, by game. Games at the limit that it lacks stay draws.
    """
    out = []
    for row in rows:
        if row.ending == "limit" and row.game in material:
            scored = outcome(*material[row.game])
            row = dataclasses.replace(row, outcome=scored, ending=ADJUDICATED)
        out.append(row)
    return out


def pair_scores(
    strict: Sequence[Result], adjudicated: Sequence[Result]
) -> list[PairScore]:
    """Returns each pair's score both ways, by home and away; both have the same games."""
    pairs = sorted({(row.home, row.away) for row in strict})
    return [
        PairScore(
            agent=home,
            opponent=away,
            strict=_counts(strict, home, away),
            adjudicated=_counts(adjudicated, home, away),
            scored=sum(
                row.ending == ADJUDICATED
                for row in adjudicated
                if (row.home, row.away) == (home, away)
            ),
        )
        for home, away in pairs
    ]


def _counts(rows: Iterable[Result], home: str, away: str) -> tuple[int, int, int]:
    outcomes = [row.outcome for row in rows if (row.home, row.away) == (home, away)]
    return outcomes.count(1), outcomes.count(0), outcomes.count(-1)
