"""Fixed ratings that other agents are rated against: the paper's, and the embedded game's.

In: the paper's table (`paper`), and `data/skirmish_games.csv`, games among the embedded game's
opponents as `starmill evaluate` wrote them. Out: Elo by name. Anyone can repeat the fit of those
games. Knows nothing of contestants but their names and digests.
"""

import functools
import importlib.resources
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from starmill.benchmark.ratings import elo, paper, results, winrates
from starmill.schema import errors


def games_file() -> Path:
    """Returns the CSV of the games among the embedded game's reference opponents."""
    folder = importlib.resources.files("starmill.benchmark.ratings") / "data"
    return Path(str(folder / "skirmish_games.csv"))


@functools.cache
def _games() -> tuple[results.Result, ...]:
    return tuple(results.read_results(games_file()))


@functools.cache
def skirmish_ratings() -> dict[str, float]:
    """Returns the Elo of the embedded game's opponents, rounded to a tenth; very_hard is 1000.

    It omits opponents whose games give no finite rating.
    """
    fitted = elo.fit_pool(winrates.tabulate(row.as_game() for row in _games()))
    return {
        name: round(rating.elo, 1)
        for name, rating in fitted.items()
        if rating.elo is not None
    }


@functools.cache
def skirmish_limit_loops() -> int:
    """Returns the game loop at which the rated games were stopped, as draws."""
    (limit,) = {row.game_loops for row in _games() if row.ending == "limit"}
    return limit


def check_skirmish(contestants: Iterable[tuple[str, str]]) -> None:
    """Raises ConfigError if a contestant has a reference's name but another digest.

    `contestants` are names with digests; a name may occur with several.
    """
    rated = {row.home: row.home_digest for row in _games()}
    rated |= {row.away: row.away_digest for row in _games()}
    others = [
        f"{name}: {rated[name]} was rated, found {digest}"
        for name, digest in sorted(set(contestants))
        if rated.get(name, digest) != digest
    ]
    if others:
        raise errors.ConfigError(
            "--references skirmish: rename contestants whose digest differs from the "
            "reference's\n  " + "\n  ".join(others)
        )


def check_skirmish_games(rows: Sequence[results.Result]) -> None:
    """Raises ConfigError if games had other rules than the references' games, or other players."""
    limit = skirmish_limit_loops()
    others = [
        f"{row.game}: {row.engine}, {row.ending} at loop {row.game_loops}"
        for row in rows
        if not row.engine.startswith("skirmish ")
        or row.game_loops > limit
        or row.ending == "adjudicated"
        or (row.ending == "limit" and row.game_loops != limit)
    ]
    if others:
        raise errors.ConfigError(
            "--references skirmish: rated on the embedded game, stopped at loop "
            f"{limit}; {len(others)} games differ: {'; '.join(others[:3])}. Play them "
            "again with `starmill evaluate --references skirmish`, or rate without it"
        )
    check_skirmish(
        [(row.home, row.home_digest) for row in rows]
        + [(row.away, row.away_digest) for row in rows]
    )


BY_NAME: dict[str, Callable[[], dict[str, float]]] = {
    "paper": paper.reference_ratings,
    "skirmish": skirmish_ratings,
}
