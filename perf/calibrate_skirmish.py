"""Checks Skirmish's ratings against Elo, and measures how skill affects the chance of winning.

    python -m perf.calibrate_skirmish --show replays/ladder.csv [MORE.csv]
    python -m perf.calibrate_skirmish --games 200 --seed 1 --parallel 2 --out skills.csv

The first prints, for five bins of the rating difference, the share of points that the first player
won, beside Elo's prediction with two standard errors; and the slope: 1 if differences matter as
much as Elo says, less if they matter less; then the same by level, and wins by match-up. The
second plays bots of
known skills and prints how many logits of winning a unit of skill is worth, by level, with
match-ups, styles and game loops per step. `profiles._GAP_PER_MMR` is set from both.
"""

import argparse
import collections
import concurrent.futures
import csv
import math
import multiprocessing
import sys
from pathlib import Path
from typing import Any

from starmill.engines import lifeline
from starmill.engines.skirmish.players import bots, match, profiles
from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.simulation import game, maps

RACES = {1: "T", 2: "Z", 3: "P"}
BINS = 5


def steps_of(played: match.Match, player: int) -> int:
    """Returns the player's kept steps: loops with commands, and the last of camera moves in a row."""
    kinds: dict[int, str] = {}
    for loop, item in played.inputs:
        if item.player != player:
            continue
        if isinstance(item, game.UnitCommand | game.Autocast):
            kinds[loop] = "command"
        elif isinstance(item, game.CameraMove):
            kinds.setdefault(loop, "camera")
    order = [kinds[loop] for loop in sorted(kinds)]
    return sum(
        not (kind == "camera" and after == "camera")
        for kind, after in zip(order, [*order[1:], "end"], strict=True)
    )


def play(job: tuple[int, int]) -> dict[str, Any]:
    """Plays game `index` of a seed: skills up to 0.6 apart around any level."""
    seed, index = job
    dice = Dice(seed * 1_000_003 + index)
    for _ in range(4):
        dice.unit()
    gap = -0.6 + 1.2 * dice.unit()
    level = abs(gap) / 2 + (1.0 - abs(gap)) * dice.unit()
    races = (1 + dice.below(3), 1 + dice.below(3))
    start = dice.below(2)
    names = list(maps.MAPS)
    game_map = maps.MAPS[names[dice.below(len(names))]]
    setups = (
        game.PlayerSetup(race_requested=races[0], race=races[0], start=start),
        game.PlayerSetup(race_requested=races[1], race=races[1], start=1 - start),
    )
    players = [
        bots.Bot(profiles.Profile.of_person(skill), race, seed=dice.below(1 << 31))
        for skill, race in zip((level + gap / 2, level - gap / 2), races, strict=True)
    ]
    played = match.play_match(game_map, setups, players, dice.below(1 << 31))
    return {
        "game": index,
        "map": game_map.name,
        "level": level,
        "gap": gap,
        "p1_race": races[0],
        "p2_race": races[1],
        "p1_style": players[0].style,
        "p2_style": players[1].style,
        "p1_result": played.result[1],
        "loops": played.loops,
        "p1_pace": played.loops / max(steps_of(played, 1), 1),
        "p2_pace": played.loops / max(steps_of(played, 2), 1),
    }


def score(row: dict[str, Any]) -> float:
    """Returns the first player's point."""
    return {"win": 1.0, "loss": 0.0, "tie": 0.5}[row["p1_result"]]


def chance(logit: float) -> float:
    """Returns the chance of winning that a logit stands for."""
    return 1.0 / (1.0 + math.exp(-logit))


def slope(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Returns the b of `chance(b * x)` that fits (x, score) best, and its standard error."""
    b = error = 0.0
    for _ in range(40):
        guess = [(x, y, chance(b * x)) for x, y in points]
        weight = sum(p * (1.0 - p) * x * x for x, _, p in guess)
        if weight < 1e-9:
            break
        b += sum((y - p) * x for x, y, p in guess) / weight
        error = weight**-0.5
    return b, error


def elo_logit(row: dict[str, Any]) -> float:
    """Returns the logit of winning that Elo predicts from the two ratings."""
    gap = float(row["p1_mmr"]) - float(row["p2_mmr"])
    return gap * math.log(10.0) / 400.0


def bins(points: list[tuple[float, float]]) -> list[tuple[int, float, float, float]]:
    """Returns (games, observed, predicted, two standard errors) in five bins of the logit."""
    ordered = sorted(points)
    rows = []
    for k in range(BINS):
        part = ordered[k * len(ordered) // BINS : (k + 1) * len(ordered) // BINS]
        wanted = [chance(x) for x, _ in part]
        error = 2.0 * sum(p * (1.0 - p) for p in wanted) ** 0.5 / len(part)
        observed = sum(y for _, y in part) / len(part)
        rows.append((len(part), observed, sum(wanted) / len(part), error))
    return rows


def show_ladder(rows: list[dict[str, Any]]) -> None:
    """Prints how a ladder's wins compare with Elo."""
    points = [(elo_logit(row), score(row)) for row in rows]
    for games, observed, predicted, error in bins(points):
        good = "ok" if abs(observed - predicted) <= error else "OFF"
        print(
            f"{games:4d} games  won {observed:.3f}  Elo {predicted:.3f} +- {error:.3f}  {good}"
        )
    print("slope {:.2f} +- {:.2f}".format(*slope(points)))
    levels: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
    for row, point in zip(rows, points, strict=True):
        mean = (int(row["p1_mmr"]) + int(row["p2_mmr"])) // 2
        levels[f"{mean // 1000}000s"].append(point)
    _show_groups("slope", levels)
    _show_wins(rows, [chance(x) for x, _ in points])


def show_skills(rows: list[dict[str, Any]]) -> None:
    """Prints how skill affects the chance of winning."""
    points = [(float(row["gap"]), score(row)) for row in rows]
    worth, error = slope(points)
    print(f"{worth:.1f} +- {error:.1f} logits per unit of skill")
    levels: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
    for row, point in zip(rows, points, strict=True):
        levels[f"level {int(float(row['level']) * 5) / 5:.1f}"].append(point)
    _show_groups("logits", levels)
    _show_wins(rows, [chance(worth * x) for x, _ in points])
    pace = sum(float(r["p1_pace"]) + float(r["p2_pace"]) for r in rows) / 2 / len(rows)
    print(f"loops per step {pace:.1f}")


def _show_groups(word: str, groups: dict[str, list[tuple[float, float]]]) -> None:
    for key, points in sorted(groups.items()):
        value, error = slope(points)
        print(f"{key:10s} {len(points):4d} games  {word} {value:.2f} +- {error:.2f}")


def _show_wins(rows: list[dict[str, Any]], predicted: list[float]) -> None:
    """Prints what races and styles win beyond the prediction, and how long games take."""
    won: dict[str, list[float]] = collections.defaultdict(list)
    for row, expected in zip(rows, predicted, strict=True):
        point = score(row) - expected
        first, second = (RACES[int(row[f"p{k}_race"])] for k in (1, 2))
        if first != second:
            pair = "v".join(sorted((first, second)))
            won[pair].append(point if first < second else -point)
        won["player 1"].append(point)
        if "p1_style" in row:
            won[f"{first} {row['p1_style']}"].append(point)
            won[f"{second} {row['p2_style']}"].append(-point)
    for key, points in sorted(won.items()):
        mean = sum(points) / len(points)
        error = 1.0 / len(points) ** 0.5
        print(f"{key:10s} {len(points):4d} games  {mean:+.3f} (two errors {error:.3f})")
    loops = sorted(int(row["loops"]) for row in rows)
    tenth = len(loops) // 10
    print(
        f"loops: median {loops[len(loops) // 2]}, middle 80% {loops[tenth]} to {loops[-tenth - 1]}"
    )
    print(f"draws {sum(score(row) == 0.5 for row in rows)}")
    print(f"maps {sorted(collections.Counter(r['map'] for r in rows).items())}")


def main() -> int:
    """Plays or shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path, nargs="+")
    args = parser.parse_args()
    if args.show:
        rows: list[dict[str, Any]] = []
        for table in args.show:
            with table.open(encoding="utf-8", newline="") as stream:
                rows += csv.DictReader(stream)
        (show_skills if "gap" in rows[0] else show_ladder)(rows)
        return 0
    if args.out is None:
        print("calibrate: --out is needed to play", file=sys.stderr)
        return 2
    jobs = [(args.seed, index) for index in range(args.games)]
    rows = []
    context = multiprocessing.get_context("spawn")
    with (
        args.out.open("w", encoding="utf-8", newline="") as stream,
        concurrent.futures.ProcessPoolExecutor(
            args.parallel, context, lifeline.end_with_parent
        ) as pool,
    ):
        writer = None
        for row in pool.map(play, jobs):
            if writer is None:
                writer = csv.DictWriter(stream, list(row))
                writer.writeheader()
            writer.writerow(row)
            stream.flush()
            rows.append(row)
    show_skills(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
