"""Do Skirmish's ratings mean what ratings mean? Plays matchmade games and compares with Elo.

    python -m perf.calibrate_skirmish --games 600 --seed 1 --parallel 2 --out games.csv
    python -m perf.calibrate_skirmish --show games.csv

Prints, for five bins of the rating difference, the share of games that the first player won
beside what Elo predicts, with two standard errors; then wins by match-up and style, the
length of games and game loops per step. `bots._MMR_SKILL` and `bots.FORM_SCALE` are set from this.
"""

import argparse
import collections
import concurrent.futures
import csv
import multiprocessing
import sys
from pathlib import Path
from typing import Any

from starmill.engines.skirmish import bots, maps, match
from starmill.engines.skirmish import game as game_lib
from starmill.engines.skirmish.scene import Dice

RACES = {1: "T", 2: "Z", 3: "P"}
BINS = 5


def steps_of(played: match.Match, player: int) -> int:
    """Returns the player's kept steps: loops with commands, and the last of camera moves in a row."""
    kinds: dict[int, str] = {}
    for loop, item in played.inputs:
        if item.player != player:
            continue
        if isinstance(item, game_lib.UnitCommand | game_lib.Autocast):
            kinds[loop] = "command"
        elif isinstance(item, game_lib.CameraMove):
            kinds.setdefault(loop, "camera")
    order = [kinds[loop] for loop in sorted(kinds)]
    return sum(
        not (kind == "camera" and after == "camera")
        for kind, after in zip(order, [*order[1:], "end"], strict=True)
    )


def play(job: tuple[int, int]) -> dict[str, Any]:
    """Plays game `index` of a ladder with this seed."""
    seed, index = job
    dice = Dice(seed * 1_000_003 + index)
    for _ in range(4):
        dice.unit()
    first = 2500.0 + 4500.0 * dice.unit()
    spread = sum(dice.unit() for _ in range(12)) - 6.0  # nearly normal
    second = min(max(first + 220.0 * spread, 2500.0), 7000.0)
    races = (1 + dice.below(3), 1 + dice.below(3))
    start = dice.below(2)
    names = list(maps.MAPS)
    game_map = maps.MAPS[names[dice.below(len(names))]]
    setups = (
        game_lib.PlayerSetup(race_requested=races[0], race=races[0], start=start),
        game_lib.PlayerSetup(race_requested=races[1], race=races[1], start=1 - start),
    )
    players = [
        bots.human(int(first), races[0], dice.below(1 << 31)),
        bots.human(int(second), races[1], dice.below(1 << 31)),
    ]
    played = match.play_match(game_map, setups, players, dice.below(1 << 31))
    return {
        "game": index,
        "map": game_map.name,
        "mmr1": int(first),
        "mmr2": int(second),
        "race1": RACES[races[0]],
        "race2": RACES[races[1]],
        "style1": players[0].style,
        "style2": players[1].style,
        "result": played.result[1],
        "loops": played.loops,
        "pace1": played.loops / max(steps_of(played, 1), 1),
        "pace2": played.loops / max(steps_of(played, 2), 1),
    }


def score(row: dict[str, Any]) -> float:
    """Returns the first player's point."""
    return {"win": 1.0, "loss": 0.0, "tie": 0.5}[row["result"]]


def expected(row: dict[str, Any]) -> float:
    """Returns what Elo predicts for the first player."""
    gap = float(row["mmr1"]) - float(row["mmr2"])
    return float(1.0 / (1.0 + 10.0 ** (-gap / 400.0)))


def bins(rows: list[dict[str, Any]]) -> list[tuple[int, float, float, float]]:
    """Returns (games, observed, predicted, two standard errors) in five bins of the difference."""
    ordered = sorted(rows, key=lambda r: float(r["mmr1"]) - float(r["mmr2"]))
    found = []
    for k in range(BINS):
        part = ordered[k * len(ordered) // BINS : (k + 1) * len(ordered) // BINS]
        wanted = [expected(row) for row in part]
        variance = sum(p * (1.0 - p) for p in wanted)
        observed = sum(score(row) for row in part) / len(part)
        error = 2.0 * variance**0.5 / len(part)
        found.append((len(part), observed, sum(wanted) / len(part), error))
    return found


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the summary."""
    for games, observed, predicted, error in bins(rows):
        good = "ok" if abs(observed - predicted) <= error else "OFF"
        print(
            f"{games:4d} games  won {observed:.3f}  Elo {predicted:.3f} +- {error:.3f}  {good}"
        )
    won: dict[str, list[float]] = collections.defaultdict(list)
    for row in rows:
        if row["race1"] != row["race2"]:
            pair = sorted((row["race1"], row["race2"]))
            point = score(row) - expected(row)
            won["v".join(pair)].append(point if row["race1"] == pair[0] else -point)
        for side, sign in (("1", 1.0), ("2", -1.0)):
            key = f"{row['race' + side]} {row['style' + side]}"
            won[key].append(sign * (score(row) - expected(row)))
    for key, points in sorted(won.items()):
        print(
            f"{key:10s} {len(points):4d} games  {sum(points) / len(points):+.3f} beyond Elo"
        )
    loops = sorted(int(row["loops"]) for row in rows)
    tenth = len(loops) // 10
    print(
        f"loops: median {loops[len(loops) // 2]}, middle 80% {loops[tenth]} to {loops[-tenth - 1]}"
    )
    pace = sum(float(r["pace1"]) + float(r["pace2"]) for r in rows) / 2 / len(rows)
    print(f"loops per step {pace:.1f}; draws {sum(r['result'] == 'tie' for r in rows)}")
    print(f"maps {sorted(collections.Counter(r['map'] for r in rows).items())}")


def main() -> int:
    """Plays or shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    args = parser.parse_args()
    if args.show:
        with args.show.open(encoding="utf-8") as stream:
            show(list(csv.DictReader(stream)))
        return 0
    if args.out is None:
        print("calibrate: --out is needed to play", file=sys.stderr)
        return 2
    jobs = [(args.seed, index) for index in range(args.first, args.first + args.games)]
    rows = []
    context = multiprocessing.get_context("spawn")
    with (
        args.out.open("w", encoding="utf-8", newline="") as stream,
        concurrent.futures.ProcessPoolExecutor(args.parallel, context) as pool,
    ):
        writer = None
        for row in pool.map(play, jobs):
            if writer is None:
                writer = csv.DictWriter(stream, list(row))
                writer.writeheader()
            writer.writerow(row)
            stream.flush()
            rows.append(row)
    show(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
