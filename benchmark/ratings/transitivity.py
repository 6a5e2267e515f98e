"""Tests whether one number per agent explains the games, and lists the cycles.

In: a win table. Out: two answers. The first is the deviance between the win rates and the Elo
fit, with its p-value if Elo held; the p-value comes from simulation, because tables are small
and draws are common. The second is the list of triples in which p beats q, q beats r and r beats
p, with the p-value of each one's weakest link.
"""

import dataclasses
import itertools
import math

import numpy as np
from numpy.typing import NDArray

from starmill.benchmark.ratings import elo, winrates
from starmill.schema import errors

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cycle:
    """Three agents, each of which beats the next; the last beats the first.

    Attributes:
        agents: in that order, starting with the first in the table.
        win_rates: f of each over the next.
        p_value: of the weakest link if it had no advantage, times the number of triples
            examined, at most 1. A small value means that the cycle is not chance.
    """

    agents: tuple[str, str, str]
    win_rates: tuple[float, float, float]
    p_value: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transitivity:
    """How well one scale explains the results.

    Attributes:
        deviance: 2 sum games [f log(f / f^) + (1 - f) log((1 - f) / (1 - f^))]; 0 is a
            perfect fit.
        freedom: pairs that met, minus ratings fitted; 0 means that nothing can be tested.
        p_value: chance of this deviance or more if Elo holds; None if freedom is 0.
        cycles: the most certain first.
    """

    deviance: float
    freedom: int
    p_value: float | None
    cycles: tuple[Cycle, ...]


def transitivity(
    table: winrates.WinTable,
    anchor: str,
    *,
    seed: int = 0,
    simulations: int = 2000,
) -> Transitivity:
    """Returns the test over the agents that a joint fit can rate."""
    if simulations < 1:
        raise errors.ConfigError(
            f"simulations: expected 1 or more, found {simulations}"
        )
    at = table.index(anchor)
    ratings = elo.fit_pool(table, anchor)
    members = np.array(
        [i for i, name in enumerate(table.agents) if ratings[name].elo is not None]
    )
    first, second, design, variables = elo.pair_design(table, members, at)
    freedom = len(first) - len(variables)
    cycles = _cycles(table)
    if freedom < 1:
        return Transitivity(deviance=0.0, freedom=0, p_value=None, cycles=cycles)
    games = table.effective_games[first, second]
    f = table.win_rate[first, second][None]
    expected = _expected(f, design)
    seen = float(_deviance(f, expected, games)[0])
    drawn = _simulated(
        expected[0], table.draw_rate[first, second], games, simulations, seed
    )
    chance = _deviance(drawn, _expected(drawn, design), games)
    # Plus one on either side, because the data are one draw under the hypothesis.
    p_value = (1 + int((chance >= seen - 1e-9).sum())) / (1 + simulations)
    return Transitivity(deviance=seen, freedom=freedom, p_value=p_value, cycles=cycles)


def _expected(f: Floats, design: Floats) -> Floats:
    fitted = elo.solve(f, design, np.zeros(f.shape[1]), np.ones_like(f))
    return elo.win_probability(fitted @ design.T, 0.0)


def _deviance(f: Floats, expected: Floats, games: Floats) -> Floats:
    """Returns [N], of shares and expectations [N, P]."""

    def part(share: Floats, model: Floats) -> Floats:
        ratio = np.maximum(share, 1e-12) / np.maximum(model, 1e-12)
        return np.where(share > 0, share * np.log(ratio), 0.0)

    both = part(f, expected) + part(1 - f, 1 - expected)
    return np.asarray(2 * (both @ games))


def _simulated(
    expected: Floats, draw_rate: Floats, games: Floats, count: int, seed: int
) -> Floats:
    """Returns [count, P] shares of points, drawn from the fit with the draws as seen."""
    generator = np.random.default_rng(seed)
    # A draw takes half its chance from either side, so it cannot exceed twice the smaller.
    draws = np.minimum(draw_rate, 2 * np.minimum(expected, 1 - expected))
    wins = np.clip(expected - draws / 2, 0, 1)
    whole = np.maximum(np.rint(games), 1).astype(np.int64)
    shares = np.empty((count, len(expected)))
    for pair, n in enumerate(whole):
        chances = np.array([wins[pair], draws[pair], 0.0])
        chances[2] = max(0.0, 1 - chances.sum())
        drawn = generator.multinomial(n, chances / chances.sum(), size=count)
        shares[:, pair] = (drawn[:, 0] + drawn[:, 1] / 2) / n
    return shares


def _cycles(table: winrates.WinTable) -> tuple[Cycle, ...]:
    f, candidates, looked_at = table.win_rate, [], 0
    error = np.sqrt(table.variance(np.full_like(f, 0.5)))
    for triple in itertools.combinations(range(len(table.agents)), 3):
        p, q, r = triple
        if not (table.played[p, q] and table.played[q, r] and table.played[r, p]):
            continue
        looked_at += 1
        for order in ((p, q, r), (p, r, q)):
            links = [(order[i], order[(i + 1) % 3]) for i in range(3)]
            if all(f[link] > 0.5 for link in links):
                weakest = max(_tail((f[link] - 0.5) / error[link]) for link in links)
                candidates.append((weakest, order, tuple(float(f[x]) for x in links)))
    cycles = [
        Cycle(
            agents=(table.agents[a], table.agents[b], table.agents[c]),
            win_rates=(rates[0], rates[1], rates[2]),
            p_value=min(1.0, weakest * looked_at),
        )
        for weakest, (a, b, c), rates in sorted(candidates)
    ]
    return tuple(cycles)


def _tail(z: float) -> float:
    """Returns the chance of a normal deviate above z."""
    return 0.5 * math.erfc(z / math.sqrt(2))
