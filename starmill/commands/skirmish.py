"""`starmill skirmish`: installs the embedded game, plays ladders and single games."""

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
    install_parser = commands.add_parser(
        "install", help="install the game into a folder"
    )
    install_parser.add_argument(
        "directory", type=Path, help="the folder; set SC2PATH to it afterwards"
    )
    install_parser.add_argument(
        "--versions",
        default="all",
        help="versions to install, such as 4.8.2,4.9.2 (default: all)",
    )
    ladder_parser = commands.add_parser(
        "ladder", help="play games between bots of similar ratings, write replays"
    )
    ladder_parser.add_argument(
        "--games", type=int, required=True, help="number of games"
    )
    ladder_parser.add_argument(
        "--seed", type=int, required=True, help="decides all games"
    )
    ladder_parser.add_argument(
        "--out", type=Path, required=True, help="folder for the replays"
    )
    ladder_parser.add_argument(
        "--versions",
        default="all",
        help="versions of the replays, such as 4.8.2,4.9.2 (default: all)",
    )
    ladder_parser.add_argument(
        "--parallel",
        type=int,
        default=1,
        help="number of processes; does not change the replays",
    )
    ladder_parser.add_argument(
        "--ratings",
        default="{}-{}".format(*ladder.RATINGS),
        metavar="LOW-HIGH",
        help="range of the players' ratings (default: %(default)s)",
    )
    play_parser = commands.add_parser("play", help="play one game and print its result")
    for side in ("home", "away"):
        play_parser.add_argument(
            f"--{side}",
            default="bot:4000",
            help="bot:MMR, a difficulty such as very_hard, or random (default: %(default)s)",
        )
        play_parser.add_argument(
            f"--{side}-race",
            choices=list(game_constants.RACE_IDS),
            default="random",
        )
    play_parser.add_argument(
        "--map", default=None, help="the map's name (default: drawn by the seed)"
    )
    play_parser.add_argument(
        "--seed", type=int, default=1, help="decides the game (default: %(default)s)"
    )
    play_parser.add_argument(
        "--version",
        default=versions.LATEST.number,
        help="version of the replay (default: %(default)s)",
    )
    play_parser.add_argument(
        "--out", type=Path, help="file for the replay (default: none)"
    )


def _versions(text: str) -> tuple[versions.Version, ...]:
    if text == "all":
        return versions.VERSIONS
    known = {version.number: version for version in versions.VERSIONS}
    unknown = [number for number in text.split(",") if number not in known]
    if unknown:
        raise errors.ConfigError(
            f"--versions: expected versions out of {', '.join(known)}, found {', '.join(unknown)}"
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
    game_versions = _versions(args.versions)
    install.install(args.directory, game_versions)
    _compile()
    print(f"Skirmish {', '.join(v.number for v in game_versions)} in {args.directory}")
    print(f"export SC2PATH={args.directory.resolve()}")
    return 0


def _compile() -> None:
    with progress.Waiting("skirmish", "compiling the game, once per machine"):
        warmup.ready()


def _ladder(args: argparse.Namespace) -> int:
    options = {
        "games": args.games,
        "seed": args.seed,
        "out": args.out,
        "game_versions": _versions(args.versions),
        "ratings": _ratings(args.ratings),
    }
    finished = [ladder.played_already(**options)]

    def update(games: int) -> None:
        finished[0] = games

    _compile()
    with progress.Progress("ladder", args.games, "games", lambda: finished[0]):
        summary = ladder.play_ladder(**options, parallel=args.parallel, progress=update)
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
    """Runs the command and returns its exit code."""
    return _ACTIONS[args.action](args)
