"""Ratings that stay fixed while others are rated against them: the paper's, and Skirmish's own.

The paper's are printed (`paper`). The embedded game's opponents were played against each other
once, and those games ship (`data/skirmish_games.csv`, the rows that `starmill evaluate` wrote), so
their ratings are not numbers to be believed but a fit that anyone can repeat.
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
    """Returns the Elo of the embedded game's opponents, very_hard at 1000, to a tenth.

    Left out are those whom their games give no finite rating.
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
    """Raises ConfigError where one bears a reference's name and is another.

    contestants: names with digests; a name may come with several.
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
            "--references skirmish: rename who is not the one that was rated\n  "
            + "\n  ".join(others)
        )


def check_skirmish_games(rows: Sequence[results.Result]) -> None:
    """Raises ConfigError where games are not by the references' rules, or not theirs."""
    limit = skirmish_limit_loops()
    others = [
        f"{row.game}: {row.engine}, {row.ending} at loop {row.game_loops}"
        for row in rows
        if not row.engine.startswith("skirmish ")
        or row.game_loops > limit
        or (row.ending == "limit" and row.game_loops != limit)
    ]
    if others:
        raise errors.ConfigError(
            "--references skirmish: rated on the embedded game, stopped at loop "
            f"{limit}; {len(others)} games are others: {'; '.join(others[:3])}. Play "
            "them anew with `starmill evaluate --references skirmish`, or rate without it"
        )
    check_skirmish(
        [(row.home, row.home_digest) for row in rows]
        + [(row.away, row.away_digest) for row in rows]
    )


BY_NAME: dict[str, Callable[[], dict[str, float]]] = {
    "paper": paper.reference_ratings,
    "skirmish": skirmish_ratings,
}
