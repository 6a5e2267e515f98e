"""Which games are played: pairs, races, maps and seeds, all derived from one seed.

In: contestants' names and map paths. Out: fixtures. Knows nothing of how games are played.
Each pair's games depend on that pair alone, so more opponents or more games leave the earlier
games as they are. Race pairs come in shuffled rounds of nine: any multiple of nine games plays
each race pair equally often. Maps and game seeds (which decide start positions) are uniform.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from starmill.benchmark.ratings import winrates
from starmill.schema import errors
from starmill.schema.game_constants import RACES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fixture:
    """One game to play.

    Attributes:
        game: the game's id, like "home-vs-away-0007"; also the replay's file name.
        home: name of the first contestant.
        away: name of the second.
        home_race: one of RACES.
        away_race: one of RACES.
        map_path: as the game lists it.
        seed: of the game and its agents, in [0, 2**31).
    """

    game: str
    home: str
    away: str
    home_race: str
    away_race: str
    map_path: str
    seed: int


def against(agents: Sequence[str], opponents: Sequence[str]) -> list[tuple[str, str]]:
    """Returns every pair of an agent and an opponent, each once, nobody against itself."""
    pairs: dict[frozenset[str], tuple[str, str]] = {}
    for home, away in itertools.product(agents, opponents):
        if home != away:
            pairs.setdefault(frozenset((home, away)), (home, away))
    return list(pairs.values())


def round_robin(names: Sequence[str]) -> list[tuple[str, str]]:
    """Returns every pair once."""
    return list(itertools.combinations(names, 2))


def fixtures(
    pairs: Iterable[tuple[str, str]],
    *,
    games: int,
    maps: Sequence[str],
    seed: int,
) -> list[Fixture]:
    """Returns `games` games of each pair.

    Pairs take turns, so that an interrupted evaluation has games of every pair.
    """
    if games < 1 or not maps:
        raise errors.ConfigError(
            f"expected at least one game per pair and one map; found {games} games, "
            f"{len(maps)} maps"
        )
    pairs = list(pairs)
    ordered = sorted(maps)
    return [
        _fixture(home, away, number, ordered, seed)
        for number in range(games)
        for home, away in pairs
    ]


def _fixture(
    home: str, away: str, number: int, maps: Sequence[str], seed: int
) -> Fixture:
    race_round, turn = divmod(number, winrates.RACE_PAIRS)
    order = _generator(seed, home, away, "races", race_round).permutation(
        winrates.RACE_PAIRS
    )
    home_race, away_race = divmod(int(order[turn]), len(RACES))
    draw = _generator(seed, home, away, "game", number)
    return Fixture(
        game=f"{home}-vs-{away}-{number:04d}",
        home=home,
        away=away,
        home_race=RACES[home_race],
        away_race=RACES[away_race],
        map_path=maps[int(draw.integers(len(maps)))],
        seed=int(draw.integers(1 << 31)),
    )


def _generator(*parts: object) -> np.random.Generator:
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
