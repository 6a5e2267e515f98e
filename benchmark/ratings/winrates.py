"""Who beat whom how often: games in, f(p, q) out.

f(p, q) is the mean over the race pairs of p's share of the points against q, a draw being
half a point (paper, appendix A.2). Each race pair counts the same however many of its games
were played; race pairs without a game are left out and reported by `race_pairs`.
Knows neither files nor ratings.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors
from starmill.schema.game_constants import RACES

# The order of every race axis below.
RACE_PAIRS = len(RACES) ** 2

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Game:
    """One finished game.

    Attributes:
        home: name of the first agent.
        away: name of the second.
        home_race: one of RACES, as played.
        away_race: one of RACES, as played.
        outcome: 1 home won, 0 draw, -1 home lost.
    """

    home: str
    away: str
    home_race: str
    away_race: str
    outcome: int

    def __post_init__(self) -> None:
        """Checks the fields whose values are few."""
        problems = [
            f"{name}: expected one of {', '.join(RACES)}, found {race!r}"
            for name, race in (
                ("home_race", self.home_race),
                ("away_race", self.away_race),
            )
            if race not in RACES
        ]
        if self.outcome not in (-1, 0, 1):
            problems.append(f"outcome: expected 1, 0 or -1, found {self.outcome!r}")
        problems += [
            f"{name}: expected an agent's name, found an empty one"
            for name, agent in (("home", self.home), ("away", self.away))
            if not agent
        ]
        if problems:
            raise errors.FormatError("; ".join(problems))


@dataclasses.dataclass(frozen=True, kw_only=True)
class WinTable:
    """Counts of games by agent pair and race pair; [p, q] and [q, p] count the same games.

    Attributes:
        agents: names, in the order of the axes.
        games: [A, A, 3, 3], games of p against q, by p's race and q's race.
        points: [A, A, 3, 3], p's points in them: 1 for a win, a half for a draw.
        draws: [A, A, 3, 3], how many of them were draws.
        mirrors: games of an agent against itself, which are not in the other counts.
    """

    agents: tuple[str, ...]
    games: Counts
    points: Floats
    draws: Counts
    mirrors: int = 0

    def index(self, agent: str) -> int:
        """Returns the agent's place on the axes; ConfigError if it never played."""
        if agent not in self.agents:
            raise errors.ConfigError(
                f"no games of {agent!r}; agents in these results: {', '.join(self.agents)}"
            )
        return self.agents.index(agent)

    @property
    def played(self) -> NDArray[np.bool_]:
        """Returns [A, A]: whether the two ever met."""
        return self.pair_games > 0

    @property
    def pair_games(self) -> Counts:
        """Returns [A, A]: games of each pair."""
        return np.asarray(self.games.sum((2, 3)))

    @property
    def race_pairs(self) -> Counts:
        """Returns [A, A]: race pairs with at least one game, of nine."""
        return np.asarray((self.games > 0).sum((2, 3)))

    @property
    def race_win_rate(self) -> Floats:
        """Returns [A, A, 3, 3]: p's share of the points; nan where no game was played."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.points / self.games)

    @property
    def win_rate(self) -> Floats:
        """Returns f, [A, A]; nan where the two never met and on the diagonal."""
        rates = np.where(self.games > 0, self.race_win_rate, 0.0).sum((2, 3))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(rates / self.race_pairs)

    @property
    def draw_rate(self) -> Floats:
        """Returns [A, A]: share of draws, counted against one game more than was played.

        The game more keeps a pair of only draws from looking certain.
        """
        return np.asarray(self.draws.sum((2, 3)) / (self.pair_games + 1))

    @property
    def effective_games(self) -> Floats:
        """Returns [A, A]: the evenly spread games that would tell as much as those played.

        f weighs race pairs alike, so where they were played unevenly its variance is that of
        fewer games: R**2 / sum over race pairs of 1/games. 0 where the two never met.
        """
        with np.errstate(divide="ignore"):
            inverse = np.where(self.games > 0, 1.0 / self.games, 0.0).sum((2, 3))
        pairs = self.race_pairs.astype(np.float64)
        return np.where(inverse > 0, pairs**2 / np.maximum(inverse, 1e-300), 0.0)

    def variance(self, expected: Floats) -> Floats:
        """Returns [A, A]: the variance of f, where the model expects `expected`.

        The outcome's spread is taken at f pulled towards the model by one game, so that a
        pair that went all one way is not taken for certain. A draw is worth less surprise:
        the variance of a game is f (1 - f) - draws / 4.
        """
        games = self.effective_games
        f = np.where(games > 0, self.win_rate, expected)
        pulled = (games * f + expected) / (games + 1)
        spread = pulled * (1 - pulled) - self.draw_rate / 4
        # Fewer draws than the pull allows for can leave nothing; a game is never that sure.
        spread = np.maximum(spread, 0.25 / (games + 1) ** 2)
        return np.where(games > 0, spread / np.maximum(games, 1e-300), np.inf)


def tabulate(games: Iterable[Game], agents: Sequence[str] | None = None) -> WinTable:
    """Returns the counts of the games, agents in the order given or else of first mention."""
    names: dict[str, int] = {name: i for i, name in enumerate(agents or ())}
    race = {name: i for i, name in enumerate(RACES)}
    cells: dict[tuple[int, int, int, int, int], int] = {}
    mirrors = 0
    for game in games:
        home = names.setdefault(game.home, len(names))
        away = names.setdefault(game.away, len(names))
        if home == away:
            mirrors += 1
            continue
        key = (home, away, race[game.home_race], race[game.away_race], game.outcome)
        cells[key] = cells.get(key, 0) + 1
    count = len(names)
    shape = (count, count, len(RACES), len(RACES))
    played, points = np.zeros(shape, np.int64), np.zeros(shape)
    draws = np.zeros(shape, np.int64)
    for (home, away, home_race, away_race, outcome), times in cells.items():
        there = (home, away, home_race, away_race)
        back = (away, home, away_race, home_race)
        for place, result in ((there, outcome), (back, -outcome)):
            played[place] += times
            points[place] += times * (1 + result) / 2
            draws[place] += times * (result == 0)
    return WinTable(
        agents=tuple(names), games=played, points=points, draws=draws, mirrors=mirrors
    )
