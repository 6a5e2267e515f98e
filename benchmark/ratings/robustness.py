"""Robustness: an agent's worst win rate over its opponents, with an interval.

Paper: appendix A.2.  Departs: the paper prints 1 - min f(p, q); its table shows min f(p, q),
which is also what "one minus exploitability" means.
Mirror matches are not counted, so the best agent may exceed the 50% at which f(p, p) = 1/2 caps
the paper's best.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from starmill.benchmark.ratings import winrates

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Robustness:
    """The worst win rate of one agent.

    Attributes:
        win_rate: in [0, 1].
        low: lower end of the interval.
        high: upper end of the interval.
        opponent: the opponent of the worst rate; of several, the first in the table.
        opponents: number of opponents that were considered.
    """

    win_rate: float
    low: float
    high: float
    opponent: str
    opponents: int


def wilson(rate: Floats, games: Floats, z: Floats | float) -> tuple[Floats, Floats]:
    """Returns the ends of Wilson's interval of a rate seen over `games`; arguments broadcast."""
    squared = np.square(z)
    centre = (rate + squared / (2 * games)) / (1 + squared / games)
    reach = np.sqrt(rate * (1 - rate) / games + squared / (4 * games**2))
    reach = np.abs(z) * reach / (1 + squared / games)
    # The ends meet a rate of 0 or 1 exactly but for rounding.
    low = np.where(rate <= 0, 0.0, np.clip(centre - reach, 0, 1))
    return low, np.where(rate >= 1, 1.0, np.clip(centre + reach, 0, 1))


def robustness(
    table: winrates.WinTable,
    agent: str,
    opponents: Iterable[str] | None = None,
    *,
    confidence: float = 0.95,
) -> Robustness | None:
    """Returns the agent's worst win rate over the opponents it met; None if it met none.

    `opponents` limits the opponents; by default everybody in the table counts.

    The smallest of several estimates is smaller than the smallest truth, so the upper end
    allows for as many opponents as could be the worst one; the lower end needs no allowance.
    With one clearly worst opponent the interval is that of its win rate alone.
    """
    at = table.index(agent)
    wanted = set(table.agents if opponents is None else opponents)
    met = [
        i
        for i, name in enumerate(table.agents)
        if i != at and name in wanted and table.played[at, i]
    ]
    if not met:
        return None
    f = table.win_rate[at, met]
    # A draw is less of a surprise than a win or a loss: such games count for more.
    spread = np.maximum(f * (1 - f), 1e-9)
    sureness = spread / np.maximum(spread - table.draw_rate[at, met] / 4, spread / 10)
    games = table.effective_games[at, met] * sureness
    tail = (1 - confidence) / 2
    low, high = wilson(f, games, _quantile(tail))
    rivals = max(1, int((low <= high.min()).sum()))
    _, high = wilson(f, games, _quantile(1 - (1 - tail) ** (1 / rivals)))
    worst = int(np.argmin(f))
    return Robustness(
        win_rate=float(f[worst]),
        low=float(low.min()),
        high=float(max(high.min(), f[worst])),
        opponent=table.agents[met[worst]],
        opponents=len(met),
    )


def _quantile(tail: float) -> float:
    if not math.isfinite(tail):
        return 0.0
    return statistics.NormalDist().inv_cdf(1 - tail)
