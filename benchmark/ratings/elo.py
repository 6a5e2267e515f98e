"""Elo ratings: f(p, q) in, ratings with intervals out.

The model is P(p beats q) = 1 / (1 + 10 ** ((e(q) - e(p)) / 400)) and the fit minimises the sum
over pairs of the cross-entropy -[f log f^ + (1 - f) log(1 - f^)], every pair weighing the same.
Paper: appendix A.2.  Departs: the paper prints the model with the sign of the exponent reversed
and only the first term of the cross-entropy; neither has a finite optimum like the one that its
table shows.

An agent that won (or lost) every point has an infinite rating. Such a rating is reported as
saturated, with the bound that the games support, instead of being hidden behind a prior.
"""

import dataclasses
import enum
import math
import statistics
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from starmill.benchmark.ratings import winrates
from starmill.schema import errors

ANCHOR = "very_hard"
ANCHOR_ELO = 1000.0
# Elo points per unit of log odds, inverted.
SCALE = math.log(10) / 400
# Beyond this distance an agent's share rounds to 0 or 1 in double precision.
LIMIT = 12_000.0

Floats = NDArray[np.float64]


class Status(enum.StrEnum):
    """The evidence for a rating."""

    RATED = "rated"
    FIXED = "fixed"  # the anchor, or a reference, whose rating does not move
    ABOVE = "saturated above"  # won everything against the rated: +infinity
    BELOW = "saturated below"  # lost everything against the rated: -infinity
    UNLINKED = "unlinked"  # no chain of games decides it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rating:
    """An agent's rating.

    Attributes:
        elo: None unless status is RATED or FIXED.
        low: the interval's lower end; None if it is unbounded below.
        high: the interval's upper end; None if it is unbounded above.
        status: the evidence for the rating.
        note: one sentence for people; empty if there is nothing to say.
    """

    elo: float | None
    low: float | None
    high: float | None
    status: Status
    note: str = ""


def win_probability(elo: Floats | float, opponent: Floats | float) -> Floats:
    """Returns the model's P(win); arguments broadcast."""
    difference = np.asarray(elo, np.float64) - opponent
    return np.asarray(1.0 / (1.0 + 10.0 ** (-np.clip(difference, -LIMIT, LIMIT) / 400)))


def solve(f: Floats, design: Floats, offset: Floats, weights: Floats) -> Floats:
    """Returns the ratings [N, V] that minimise the cross-entropy of N problems at once.

    Args:
        f: [N, P], shares of the points in P pairs.
        design: [P, V], +1 where the variable is the pair's first agent, -1 its second.
        offset: [P], what fixed ratings add to the difference of the pair.
        weights: [N, P], what each pair counts.
    A problem without a finite optimum comes back with ratings near +-LIMIT.
    """
    ratings = np.zeros((f.shape[0], design.shape[1]))
    if design.shape[1] == 0 or f.shape[0] == 0:
        return ratings
    # With fixed opponents, begin level with them; without, offset is zero.
    ratings -= offset.mean()
    ridge = 1e-9 * np.eye(design.shape[1])
    for _ in range(200):
        # Convex, so Newton with a bounded step cannot cycle; 200 Elo is where the
        # quadratic picture of the logistic stops being good.
        expected = win_probability(ratings @ design.T + offset, 0.0)
        gradient = (weights * (f - expected)) @ design
        curvature = np.einsum(
            "np,pv,pw->nvw", weights * expected * (1 - expected), design, design
        )
        step = np.linalg.solve(curvature + ridge, gradient[..., None])[..., 0] / SCALE
        step = np.clip(step, -200.0, 200.0)
        ratings = np.clip(ratings + step, -LIMIT, LIMIT)
        if np.abs(step).max() < 1e-9:
            break
    return ratings


def fit_pool(
    table: winrates.WinTable,
    anchor: str = ANCHOR,
    *,
    anchor_elo: float = ANCHOR_ELO,
    confidence: float = 0.95,
) -> dict[str, Rating]:
    """Returns every agent's rating from one joint fit, with the anchor at `anchor_elo`.

    Agents that won or lost everything against the rest get no number, nor do those without a
    chain of games to the anchor; their status says which. They take no part in the fit of the
    others, which they would not change in the limit.
    """
    at = table.index(anchor)
    rated, above, below = _standing(table, at)
    members = np.flatnonzero(rated)
    elos, errors_ = _fit_members(table, members, at, anchor_elo)
    z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    known = {table.agents[i]: float(e) for i, e in zip(members, elos, strict=True)}
    ratings = {}
    for i, name in enumerate(table.agents):
        if i == at:
            ratings[name] = fixed(anchor_elo)
        elif rated[i]:
            place = int(np.flatnonzero(members == i)[0])
            ratings[name] = _rated(elos[place], z * errors_[place])
        elif above[i] or below[i]:
            ratings[name] = _saturated(table, i, bool(above[i]), known, confidence)
        else:
            ratings[name] = _unlinked(table, i, anchor)
    return ratings


def rate_against(
    table: winrates.WinTable,
    agent: str,
    references: Mapping[str, float],
    *,
    confidence: float = 0.95,
) -> Rating:
    """Returns one agent's rating from its games against references with fixed ratings.

    It ignores games against other agents.
    """
    at = table.index(agent)
    rivals = [
        (i, float(references[name]))
        for i, name in enumerate(table.agents)
        if name in references and table.played[at, i]
    ]
    if not rivals:
        return Rating(
            elo=None,
            low=None,
            high=None,
            status=Status.UNLINKED,
            note="played none of the reference agents",
        )
    places = np.array([i for i, _ in rivals])
    fixed = np.array([e for _, e in rivals])
    f = table.win_rate[at, places]
    if (f == 1).all() or (f == 0).all():
        known = {table.agents[i]: e for i, e in rivals}
        return _saturated(table, at, bool(f[0] == 1), known, confidence)
    design, weights = np.ones((len(rivals), 1)), np.ones((1, len(rivals)))
    elo = float(solve(f[None], design, -fixed, weights)[0, 0])
    expected = win_probability(elo, fixed)
    full = np.zeros_like(table.win_rate)
    full[at, places] = expected
    spread = table.variance(full)[at, places].sum()
    error = math.sqrt(spread) / float((expected * (1 - expected)).sum()) / SCALE
    return _rated(elo, statistics.NormalDist().inv_cdf(0.5 + confidence / 2) * error)


def _fit_members(
    table: winrates.WinTable, members: NDArray[np.int64], anchor: int, anchor_elo: float
) -> tuple[Floats, Floats]:
    """Returns ratings and standard errors of agents that form one linked, unseparated group.

    The errors are the sandwich H^-1 S H^-1: H the curvature of the cross-entropy, S the
    variance of its gradient. It holds whatever the games per pair, and where Elo does not fit.
    """
    first, second, design, variables = pair_design(table, members, anchor)
    f = table.win_rate[first, second][None]
    relative = solve(f, design, np.zeros(len(first)), np.ones_like(f))[0]
    elos = np.full(len(members), anchor_elo)
    spread = np.zeros(len(members))
    elos[variables] += relative
    if len(variables):
        everyone = np.zeros(len(table.agents))
        everyone[members] = elos
        expected = win_probability(everyone[:, None], everyone[None, :])
        at_pairs = expected[first, second]
        curvature = design.T @ (design * (at_pairs * (1 - at_pairs))[:, None])
        variance = table.variance(expected)[first, second]
        gradient = design.T @ (design * variance[:, None])
        inverse = np.linalg.inv(curvature)
        spread[variables] = np.sqrt(np.diag(inverse @ gradient @ inverse)) / SCALE
    return elos, spread


def pair_design(
    table: winrates.WinTable, members: NDArray[np.int64], anchor: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Returns the pairs among members that met, as the fit wants them.

    First and second agent of each pair [P], the design matrix [P, V], and the places within
    `members` of its variables [V]: all but the anchor.
    """
    first, second = np.nonzero(np.triu(table.played, 1))
    kept = np.isin(first, members) & np.isin(second, members)
    first, second = first[kept], second[kept]
    variables = np.flatnonzero(members != anchor)
    design = (first[:, None] == members[variables]).astype(np.float64)
    design -= second[:, None] == members[variables]
    return first, second, design, variables


def _standing(
    table: winrates.WinTable, anchor: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns who can be rated, who is infinitely above the anchor and who below; each [A].

    An edge p -> q says that p took something from q. The fit is finite exactly for those who
    reach the anchor and are reached from it; where only one of the two holds, nothing in the
    results bounds the agent on one side.
    """
    took = table.played & (np.nan_to_num(table.win_rate) > 0)
    down, up = _reachable(took, anchor), _reachable(took.T, anchor)
    return up & down, up & ~down, down & ~up


def _reachable(edges: NDArray[np.bool_], start: int) -> NDArray[np.bool_]:
    seen = np.zeros(len(edges), bool)
    seen[start] = True
    while True:
        grown = seen | edges[seen].any(0)
        if (grown == seen).all():
            return seen
        seen = grown


def _rated(elo: float, reach: float) -> Rating:
    return Rating(
        elo=float(elo),
        low=float(elo - reach),
        high=float(elo + reach),
        status=Status.RATED,
    )


def fixed(elo: float) -> Rating:
    """Returns a fixed rating: the anchor's or a reference's."""
    return Rating(elo=elo, low=elo, high=elo, status=Status.FIXED)


def _saturated(
    table: winrates.WinTable,
    at: int,
    won: bool,
    known: Mapping[str, float],
    confidence: float,
) -> Rating:
    """Returns the rating of an agent that won (or lost) all: a bound on one side only.

    The bound is the rating at which so clean a record would have had the chance
    (1 - confidence) / 2.
    """
    games = table.effective_games[at]
    rivals = [
        (games[table.index(name)], elo)
        for name, elo in known.items()
        if games[table.index(name)] > 0
    ]
    word, side = ("won", "above") if won else ("lost", "below")
    note = (
        f"saturated: {word} every point against the rated agents, so any rating far enough "
        f"{side} fits; stronger or weaker opponents are needed to place it"
    )
    status = Status.ABOVE if won else Status.BELOW
    if not rivals:
        note = (
            f"saturated: stands {side} every rated agent only through others that do, "
            "and met none of the rated"
        )
        return Rating(elo=None, low=None, high=None, status=status, note=note)
    weight, elos = np.array(rivals).T
    sign = 1.0 if won else -1.0
    target = math.log((1 - confidence) / 2)

    def log_chance(rating: float) -> float:
        odds = np.clip(-sign * SCALE * (rating - elos), -700, 700)
        return float(-(weight * np.log1p(np.exp(odds))).sum())

    low, high = -LIMIT, LIMIT
    for _ in range(80):
        middle = (low + high) / 2
        # The chance of a clean record grows with the rating for a winner, falls for a loser.
        if (log_chance(middle) < target) == won:
            low = middle
        else:
            high = middle
    bound = (low + high) / 2
    return Rating(
        elo=None,
        low=bound if won else None,
        high=None if won else bound,
        status=status,
        note=note,
    )


def _unlinked(table: winrates.WinTable, at: int, anchor: str) -> Rating:
    met = _reachable(table.played, at)[table.index(anchor)]
    if table.pair_games[at].sum() == 0:
        note = "played no games against others"
    elif met:
        note = (
            f"not comparable with {anchor}: the games between them all went one way, "
            "in directions that leave their order open"
        )
    else:
        note = f"no chain of games leads to {anchor}"
    return Rating(elo=None, low=None, high=None, status=Status.UNLINKED, note=note)


def check_ratings(references: Mapping[str, object], where: str) -> dict[str, float]:
    """Returns reference ratings as numbers; ConfigError names those that are not."""
    problems = [
        f"{name}: expected a finite number, found {value!r}"
        for name, value in references.items()
        if isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
    ]
    if problems or not references:
        raise errors.ConfigError(
            f"{where}: " + ("; ".join(problems) or "expected at least one rating")
        )
    return {name: float(value) for name, value in references.items()}  # type: ignore[arg-type]  # checked above
