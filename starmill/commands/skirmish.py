"""`starmill skirmish`: the embedded game. Lays out an installation, plays ladders and games."""

import argparse
from collections.abc import Callable
from pathlib import Path

from starmill import progress
from starmill.engines.skirmish import (
    install,
    ladder,
    recorded_game,
    versions,
    warmup,
)
from starmill.schema import errors, game_constants

EXAMPLES = """\
  starmill skirmish install games/skirmish
  starmill skirmish ladder --games 200 --seed 1 --out replays --parallel 2
  starmill skirmish play --home bot:5500 --away very_hard --seed 3 --out game.SC2Replay
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the sub-command's options."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    laid = commands.add_parser(
        "install", help="lay out a folder like an installed game"
    )
    laid.add_argument("directory", type=Path, help="then set SC2PATH to it")
    laid.add_argument(
        "--versions",
        default="all",
        help="comma list such as 4.8.2,4.9.2 (default: all)",
    )
    played = commands.add_parser(
        "ladder", help="play a matchmade ladder, write replays"
    )
    played.add_argument("--games", type=int, required=True, help="how many")
    played.add_argument("--seed", type=int, required=True)
    played.add_argument(
        "--out", type=Path, required=True, help="folder for the replays"
    )
    played.add_argument(
        "--versions",
        default="all",
        help="comma list of versions to write (default: all)",
    )
    played.add_argument(
        "--parallel",
        type=int,
        default=1,
        help="processes; the replays do not depend on it",
    )
    played.add_argument(
        "--ratings",
        default="{}-{}".format(*ladder.RATINGS),
        metavar="LOW-HIGH",
        help="of the players, drawn evenly from between (%(default)s)",
    )
    single = commands.add_parser("play", help="play one game and print its result")
    for side in ("home", "away"):
        single.add_argument(
            f"--{side}",
            default="bot:4000",
            help="bot:MMR, a difficulty such as very_hard, or random",
        )
        single.add_argument(
            f"--{side}-race",
            choices=list(game_constants.RACE_IDS),
            default="random",
        )
    single.add_argument("--map", default=None, help="a map's name (default: by seed)")
    single.add_argument("--seed", type=int, default=1)
    single.add_argument("--version", default=versions.LATEST.number)
    single.add_argument("--out", type=Path, help="where to write the replay")


def _versions(text: str) -> tuple[versions.Version, ...]:
    if text == "all":
        return versions.VERSIONS
    known = {version.number: version for version in versions.VERSIONS}
    unknown = [number for number in text.split(",") if number not in known]
    if unknown:
        raise errors.ConfigError(
            f"--versions: expected some of {', '.join(known)}, found {', '.join(unknown)}"
        )
    return tuple(known[number] for number in text.split(","))


def _ratings(text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    if not (dash and low.isdecimal() and high.isdecimal()):
        raise errors.ConfigError(
            f"--ratings: expected two numbers such as 2500-7000, found {text!r}"
        )
    return int(low), int(high)


def _install(args: argparse.Namespace) -> int:
    chosen = _versions(args.versions)
    install.install(args.directory, chosen)
    _compile()
    print(f"Skirmish {', '.join(v.number for v in chosen)} in {args.directory}")
    print(f"export SC2PATH={args.directory.resolve()}")
    return 0


def _compile() -> None:
    with progress.Waiting("skirmish", "compiling the game, once per machine"):
        warmup.ready()


def _ladder(args: argparse.Namespace) -> int:
    asked = {
        "games": args.games,
        "seed": args.seed,
        "out": args.out,
        "chosen": _versions(args.versions),
        "ratings": _ratings(args.ratings),
    }
    done = [ladder.played_already(**asked)]

    def note(played: int) -> None:
        done[0] = played

    _compile()
    with progress.Progress("ladder", args.games, "games", lambda: done[0]):
        summary = ladder.play_ladder(**asked, parallel=args.parallel, progress=note)
    print(summary)
    return 0


def _play(args: argparse.Namespace) -> int:
    _compile()
    outcome = recorded_game.play_game(
        home=recorded_game.parse_player(args.home, args.home_race),
        away=recorded_game.parse_player(args.away, args.away_race),
        map_name=args.map,
        seed=args.seed,
        version=_versions(args.version)[0],
    )
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_bytes(outcome.replay)
    print(outcome.line)
    return 0


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "install": _install,
    "ladder": _ladder,
    "play": _play,
}


def run(args: argparse.Namespace) -> int:
    """Does the work and returns the exit code."""
    return _ACTIONS[args.action](args)
