"""`starmill evaluate`: an agent's games against opponents, and its rating."""

import argparse
import os
import sys
from pathlib import Path

from starmill import progress
from starmill.benchmark import evaluation
from starmill.benchmark.ratings import elo, references
from starmill.benchmark.reports import play, report
from starmill.benchmark.tournaments import referee, tournament
from starmill.engines import installation
from starmill.schema import errors
from starmill.schema.game_constants import LOOPS_PER_MINUTE
from starmill.schema.loader import dataset
from starmill.schema.loader.dataset import Dataset

EXAMPLES = """\
  starmill evaluate --agent runs/bc --opponents very_hard --games 18 --out eval/bc
  starmill evaluate --agent runs/bc --opponents very_hard,runs/oac,rush --games 27 --parallel 2
  starmill evaluate --agent bc=runs/bc --agent oac=runs/oac --opponents very_hard,hard,rush \\
      --round-robin --games 18 --parallel 2 --out eval/all

A contestant is a checkpoint's folder, a packed agent, a difficulty of the game's own AI (very_easy
... very_hard, cheat_insane; "very_hard+rush" with a build), random, a specialist (rush, economy,
turtle), a trained agent that ships (skirmish:bc, ft-bc, oac, e-oac, mzs, mzs-mcts), or a bot written
with python-sc2 (python-sc2:MODULE:CLASS, as an opponent); "NAME=CONTESTANT" renames it. The same
seed gives the same games. Running again in the same folder
carries on; results.csv there is what `starmill rate` reads.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the sub-command's options."""
    add = parser.add_argument
    add(
        "--agent",
        action="append",
        required=True,
        metavar="WHO",
        help="agent to rate; may be repeated",
    )
    add("--opponents", default="very_hard", metavar="WHO,...", help="(%(default)s)")
    add(
        "--round-robin",
        action="store_true",
        help="play all pairs, not only agents against opponents",
    )
    add("--games", type=int, default=18, help="games of each pair (%(default)s)")
    add(
        "--parallel",
        type=int,
        default=1,
        help="games played at the same time (%(default)s)",
    )
    add("--out", type=Path, default=Path("evaluation"), help="folder (%(default)s)")
    add(
        "--seed",
        type=int,
        default=0,
        help="seed of races, maps, starts and agents (%(default)s)",
    )
    add("--sc2", help="installation, or skirmish (default: $SC2PATH, else skirmish)")
    add("--game-version", default="", help='like "4.9.2" (default: the latest)')
    add("--maps", default="", metavar="NAME,...", help="(default: the dataset's)")
    add(
        "--max-minutes",
        type=float,
        help=f"of game time; then it is a draw ({evaluation.Config.max_minutes:g}; with "
        "--references skirmish as its games had)",
    )
    add(
        "--actions",
        type=int,
        default=22,
        help="most actions of an agent in any five seconds (%(default)s)",
    )
    add(
        "--bot-python",
        default="",
        metavar="PYTHON",
        help="interpreter with burnysc2, for bots (default: .venv-burnysc2/bin/python)",
    )
    add(
        "--bot-seconds",
        type=float,
        default=evaluation.Config.bot_seconds,
        help="for which a bot may be silent before its game is given up (%(default)g)",
    )
    add(
        "--anchor",
        help="agent whose rating is 1000 (default: very_hard, otherwise the first opponent)",
    )
    add(
        "--references",
        choices=tuple(references.BY_NAME),
        help="rate against fixed ratings: the paper's, or those of the embedded game's opponents",
    )
    add(
        "--compare",
        metavar="DATASET",
        help="show how this dataset's players play beside the agents: commands, bank, attacks",
    )
    add("--title", default="Evaluation", help="title of the reports (%(default)s)")
    add(
        "--resume",
        action="store_true",
        help="continue in --out; an error if it holds no results",
    )
    add("--dry-run", action="store_true", help="print the games and stop")


def run(args: argparse.Namespace) -> int:
    """Plays, rates and reports; exit 1 where games could not be played."""
    if args.parallel < 1:
        raise errors.ConfigError(f"--parallel {args.parallel}: expected at least 1")
    config = evaluation.Config(
        agents=tuple(args.agent),
        opponents=_words(args.opponents),
        round_robin=args.round_robin,
        games=args.games,
        seed=args.seed,
        maps=_words(args.maps),
        max_minutes=max_minutes(args.max_minutes, args.references),
        actions=args.actions,
        root=args.sc2 or os.environ.get("SC2PATH") or "skirmish",
        game_version=args.game_version,
        bot_python=args.bot_python,
        bot_seconds=args.bot_seconds,
    )
    if args.references == "skirmish" and not installation.is_embedded(config.root):
        raise errors.ConfigError(
            f"--references skirmish: those were rated on the embedded game, and {config.root} "
            "is another; choose --sc2 skirmish, or other references"
        )
    if args.resume and not (args.out / evaluation.RESULTS).is_file():
        raise errors.ConfigError(f"--resume: there are no results in {args.out}")
    # Opened first, so that a mistyped path does not wait for the games.
    compared = None if args.compare is None else dataset.open_dataset(args.compare)
    plan = evaluation.plan(
        config, referee.available_maps(config.root, config.game_version)
    )
    anchor = _anchor(args.anchor, plan)
    if args.references == "skirmish":
        references.check_skirmish(
            (name, contestant.digest) for name, contestant in plan.contestants.items()
        )
    if args.dry_run:
        for fixture in plan.fixtures:
            print(
                f"{fixture.game}  {fixture.home_race} {fixture.away_race}  "
                f"{fixture.map_path}  seed {fixture.seed}"
            )
        return 0
    done = [evaluation.played_already(plan, args.out)]

    def note(played: int, total: int, crashes: int) -> None:
        done[0] = played

    with progress.Progress("evaluate", len(plan.fixtures), "games", lambda: done[0]):
        failures = evaluation.run(plan, args.out, parallel=args.parallel, progress=note)
    return _report(args, anchor, failures, compared)


def max_minutes(asked: float | None, fixed: str | None) -> float:
    """Returns the games' limit; ConfigError where fixed ratings rest on another."""
    if fixed != "skirmish":
        return evaluation.Config.max_minutes if asked is None else asked
    rated = references.skirmish_limit_loops() / LOOPS_PER_MINUTE
    if asked not in (None, rated):
        raise errors.ConfigError(
            f"--max-minutes {asked:g}: the games behind --references skirmish were drawn "
            f"after {rated:g}, so ratings would not compare; leave --max-minutes out"
        )
    return rated


def _anchor(asked: str | None, plan: evaluation.EvaluationPlan) -> str:
    """Returns the contestant whose rating is fixed; ConfigError if it does not take part."""
    if asked is not None and asked not in plan.contestants:
        raise errors.ConfigError(
            f"--anchor {asked}: does not take part; these do: {', '.join(plan.contestants)}"
        )
    if asked or elo.ANCHOR in plan.contestants:
        return asked or elo.ANCHOR
    return plan.fixtures[0].away


def _report(
    args: argparse.Namespace,
    anchor: str,
    failures: list[tournament.Failure],
    compared: Dataset | None,
) -> int:
    for failure in failures:
        print(f"not played: {failure.fixture.game}: {failure.reason}", file=sys.stderr)
    if failures and not evaluation.has_games(args.out):
        print("no game could be played: nothing to rate", file=sys.stderr)
        return 1
    fixed = references.BY_NAME[args.references]() if args.references else None
    content = evaluation.write_reports(
        args.out,
        anchor=anchor,
        references=fixed,
        title=args.title,
        compared=compared,
    )
    print(report.table_text(content.lines))
    if content.play.players:
        print(f"\n{report.aligned(play.telling_table(content.play))}")
    if content.play.pairs:
        rows = [play.PAIR_HEADINGS, *play.pair_rows(content.play)]
        print(f"\n{report.aligned(rows)}")
    for line in content.lines:
        for note in line.notes:
            print(f"{line.agent}: {note}", file=sys.stderr)
    print(
        f"reports: {args.out / 'report.html'}, report.md, report.json", file=sys.stderr
    )
    return 1 if failures else 0


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
