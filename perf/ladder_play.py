"""How the players of a ladder play: decisions, attacks, banks, game length, favourites.

    python -m perf.ladder_play --games 40 --seed 5 [--ratings 5500-7000] [--parallel 2]

Plays the games of a ladder without writing replays, and prints what `play_measures` says of all
players, of winners and of losers. Compare before and after a change of the players: wins alone do
not show whether an agent can learn from their games.
"""

import argparse
import concurrent.futures
import multiprocessing
import time
from typing import NamedTuple

from starmill.engines import lifeline
from starmill.engines.skirmish import ladder, versions
from starmill.engines.skirmish.players import bots, play_measures
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import Game, PlayerSetup
from starmill.schema.game_constants import RANDOM

BANK_MINUTES = (3, 5, 8, 10, 12, 15)


class Measured(NamedTuple):
    """One measured game.

    Attributes:
        mmrs: ratings of players 1 and 2.
        races: race ids of players 1 and 2.
        plays: what players 1 and 2 did.
        seconds: processor time that the game took.
    """

    mmrs: tuple[int, int]
    races: tuple[int, int]
    plays: list[play_measures.Play]
    seconds: float


def play(job: tuple[int, int, tuple[int, int]]) -> Measured:
    """Plays and measures game `index` of a ladder."""
    seed, index, ratings = job
    match = ladder.pairing(seed, index, versions.VERSIONS[-1:], ratings)
    races = tuple(
        1 + (match.seed + i) % 3 if r == RANDOM else r
        for i, r in enumerate(match.races)
    )
    setups = [
        PlayerSetup(race_requested=races[i], race=races[i], start=(match.seed + i) % 2)
        for i in (0, 1)
    ]
    players = [
        bots.human(
            match.mmrs[i], races[i], match.seed + i, opponent_mmr=match.mmrs[1 - i]
        )
        for i in (0, 1)
    ]
    began = time.process_time()
    game = Game(maps.MAPS[match.map_name], (setups[0], setups[1]), match.seed)
    plays = play_measures.measured_match(game, players)
    seconds = time.process_time() - began
    return Measured(match.mmrs, (races[0], races[1]), plays, seconds)


def show(title: str, plays: list[play_measures.Play]) -> None:
    """Prints the summary of some plays."""
    numbers = play_measures.summary(plays)
    print(
        f"{title}: {numbers.plays} plays, {numbers.steps:.0f} steps each, a step every "
        f"{numbers.step_loops:.1f} loops, {numbers.decisions:.1%} decisions"
    )
    shares = ", ".join(f"{kind} {share:.1%}" for kind, share in numbers.shares.items())
    print(f"  steps: {shares}")
    print(
        f"  attacks: far {numbers.far:.0%}; of these {numbers.attack_units:.0f} units, "
        f"{numbers.attack_share:.0%} of the army, regroups {numbers.regroups:.0%}; first at "
        f"minute {numbers.first_attack:.1f}"
    )
    print(f"  games: {numbers.minutes:.1f} minutes, draws {numbers.draws:.1%}")
    for minute in BANK_MINUTES:
        if minute in numbers.banks:
            minerals, vespene, food, army, workers = numbers.banks[minute]
            print(
                f"  minute {minute:2d}: minerals {minerals:5.0f}  gas {vespene:5.0f}  food "
                f"{food:5.1f}  army {army:5.1f}  workers {workers:4.1f}"
            )


def main() -> int:
    """Plays and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--ratings", default="{}-{}".format(*ladder.RATINGS))
    parser.add_argument("--parallel", type=int, default=1)
    args = parser.parse_args()
    low, high = map(int, args.ratings.split("-"))
    jobs = [(args.seed, index, (low, high)) for index in range(args.games)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        args.parallel, context, lifeline.end_with_parent
    ) as pool:
        games = list(pool.map(play, jobs))
    everyone = [play for game in games for play in game.plays]
    show("all", everyone)
    show("winners", [play for play in everyone if play.result == "win"])
    show("losers", [play for play in everyone if play.result == "loss"])
    decided = [game for game in games if game.plays[0].result != "tie"]
    favourites = sum(
        (game.mmrs[0] > game.mmrs[1]) == (game.plays[0].result == "win")
        for game in decided
    )
    seconds = sum(game.seconds for game in games) / len(games)
    print(
        f"favourites win {favourites} of {len(decided)} decided games; "
        f"{seconds:.2f} s of processor a game, measuring included"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
