"""Elo intervals by resampling games: a check on the analytic ones, with fewer assumptions.

In: a win table and its ratings. Out: the ratings with other intervals. Games are resampled
within each pair of agents, with weights that make race pairs count equally. Race pairs are not
strata: with two games in each, resampling inside them would halve the variance. Differences
between races therefore count as noise, which widens the interval a little.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from starmill.benchmark.ratings import elo, winrates

Floats = NDArray[np.float64]
# A resampled rating that is farther from the anchor counts as infinite.
_FAR = elo.LIMIT / 2


def resampled_win_rates(
    table: winrates.WinTable, first: int, second: int, count: int, seed: int
) -> Floats:
    """Returns [count] values of f(first, second), each from as many resampled games."""
    games = table.games[first, second].ravel()
    draws = table.draws[first, second].ravel()
    wins = np.rint(table.points[first, second].ravel() - draws / 2).astype(np.int64)
    kinds = np.stack([wins, draws, games - wins - draws]).ravel()
    score = np.repeat([1.0, 0.5, 0.0], len(games))
    with np.errstate(divide="ignore"):
        weight = np.tile(np.where(games > 0, 1.0 / games, 0.0), 3)
    total = int(games.sum())
    generator = np.random.default_rng([seed, first, second])
    drawn = generator.multinomial(total, kinds / total, size=count)
    return np.asarray((drawn @ (weight * score)) / (drawn @ weight))


def intervals(
    table: winrates.WinTable,
    ratings: Mapping[str, elo.Rating],
    anchor: str,
    *,
    seed: int = 0,
    replicates: int = 1000,
    confidence: float = 0.95,
) -> dict[str, elo.Rating]:
    """Returns the ratings with resampled intervals; agents without a rating stay as they are.

    `ratings` is the result of `elo.fit_pool` for the same table and anchor.
    """
    at = table.index(anchor)
    members = np.array(
        [
            i
            for i, name in enumerate(table.agents)
            if i == at or ratings[name].status is elo.Status.RATED
        ]
    )
    first, second, design, variables = elo.pair_design(table, members, at)
    anchor_elo = ratings[anchor].elo
    if not len(variables) or anchor_elo is None:
        return dict(ratings)
    f = np.stack(
        [
            resampled_win_rates(table, int(i), int(j), replicates, seed)
            for i, j in zip(first, second, strict=True)
        ],
        axis=1,
    )
    fitted = elo.solve(f, design, np.zeros(len(first)), np.ones_like(f))
    tail = (1 - confidence) / 2
    ends = np.quantile(fitted, [tail, 1 - tail], axis=0, method="inverted_cdf")
    out = dict(ratings)
    for place, (low, high) in zip(variables, ends.T, strict=True):
        name = table.agents[members[place]]
        out[name] = dataclasses.replace(
            ratings[name],
            low=None if low < -_FAR else float(anchor_elo + low),
            high=None if high > _FAR else float(anchor_elo + high),
        )
    return out
