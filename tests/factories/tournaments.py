"""Simulated tournaments: agents with true ratings play, seeded."""

from collections.abc import Mapping

import numpy as np

from starmill.benchmark.ratings import winrates
from starmill.schema.game_constants import RACES


def play(
    ratings: Mapping[str, float],
    games: int,
    seed: int,
    *,
    draws: float = 0.0,
) -> list[winrates.Game]:
    """Returns `games` games of each pair, spread over the race pairs in turn.

    The chance of a draw is `draws` between equals and falls off with the distance, so that
    the expected share of points stays the model's.
    """
    generator = np.random.default_rng(seed)
    names, out = list(ratings), []
    for i, home in enumerate(names):
        for away in names[i + 1 :]:
            chance = 1 / (1 + 10 ** ((ratings[away] - ratings[home]) / 400))
            draw = draws * 4 * chance * (1 - chance)
            for number, luck in enumerate(generator.random(games)):
                outcome = 1 if luck < chance - draw / 2 else -1
                if chance - draw / 2 <= luck < chance + draw / 2:
                    outcome = 0
                own, other = divmod(number % 9, 3)
                out.append(
                    winrates.Game(
                        home=home,
                        away=away,
                        home_race=RACES[own],
                        away_race=RACES[other],
                        outcome=outcome,
                    )
                )
    return out


def series(
    home: str, away: str, won: int, lost: int = 0, drawn: int = 0
) -> list[winrates.Game]:
    """Returns games of one pair, in one race pair."""
    outcomes = [1] * won + [-1] * lost + [0] * drawn
    return [
        winrates.Game(
            home=home,
            away=away,
            home_race="terran",
            away_race="zerg",
            outcome=outcome,
        )
        for outcome in outcomes
    ]
