"""`starmill conformance`: checks starmill's assumptions about the game against a given game."""

import argparse
import os
from pathlib import Path

from starmill import progress
from starmill.engines import installation
from starmill.engines.client import Deadlines
from starmill.engines.conformance import report, trial
from starmill.engines.conformance.ledger import BROKEN
from starmill.engines.conformance.records import Options, Report
from starmill.schema import errors, storage

EXAMPLES = """\
  starmill conformance --sc2 ~/StarCraftII --replays replays --out conformance
  starmill conformance --sc2 skirmish --replays demo/replays --most 2
  starmill conformance --replays replays --reference-python .venv-reference/bin/python
"""
_SUFFIX = ".SC2Replay"
_JSON, _PAGE = "conformance.json", "conformance.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--sc2",
        metavar="PATH|skirmish",
        help="folder of StarCraft II (default: $SC2PATH), or the embedded game",
    )
    parser.add_argument(
        "--replays",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of replays of a version that is installed",
    )
    parser.add_argument(
        "--most",
        type=int,
        default=3,
        metavar="N",
        help="replays to play, in the order of their names; on StarCraft II each takes "
        "minutes (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("conformance"),
        metavar="DIR",
        help=f"folder for {_JSON} and {_PAGE} (default: %(default)s)",
    )
    parser.add_argument(
        "--reference-python",
        metavar="PYTHON",
        help="a Python 3.10 with pysc2 4.0.0's wheel, to compare with DeepMind's own code",
    )
    parser.add_argument(
        "--play-deadline",
        type=float,
        default=Deadlines().play,
        metavar="SECONDS",
        help="for one step or observation (default: %(default)s)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the files of another run"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs every check; exit 1 if an assumption does not hold."""
    options = _options(args)
    stages = [0]

    def on_stage(_: str) -> None:
        stages[0] += 1

    total = min(len(options.files), options.most_replays) + trial.OTHER_STAGES
    with progress.Progress("conformance", total, "stages", lambda: stages[0]):
        result = trial.run(options, on_stage)
    args.out.mkdir(parents=True, exist_ok=True)
    storage.write(str(args.out / _JSON), report.json_text(result).encode())
    storage.write(str(args.out / _PAGE), report.page(result).encode())
    if args.json:
        print(report.json_text(result), end="")
    else:
        _print(result, args.out)
    return 0 if report.is_conformant(result) else 1


def _options(args: argparse.Namespace) -> Options:
    root = args.sc2 or os.environ.get("SC2PATH")
    if not root:
        raise errors.ConfigError(
            "no game: pass --sc2 with the folder of StarCraft II, or --sc2 skirmish"
        )
    if args.most < 1:
        raise errors.ConfigError(f"--most {args.most}: must be at least 1")
    if not args.replays.is_dir():
        raise errors.ConfigError(f"--replays {args.replays}: expected a folder")
    files = sorted(path for path in args.replays.rglob(f"*{_SUFFIX}") if path.is_file())
    if not files:
        raise errors.ConfigError(
            f"--replays {args.replays}: expected {_SUFFIX} files, found none"
        )
    for name in (_JSON, _PAGE):
        if (args.out / name).exists() and not args.overwrite:
            raise errors.ConfigError(
                f"{args.out / name}: exists; pass --overwrite to replace it"
            )
    if root != installation.SKIRMISH:
        root = str(Path(root).expanduser())
    return Options(
        root=root,
        files=files,
        most_replays=args.most,
        deadlines=Deadlines(play=args.play_deadline),
        reference_python=args.reference_python,
    )


def _print(result: Report, out: Path) -> None:
    content = report.to_json(result)
    for entry in content["assumptions"]:
        if entry["state"] == BROKEN:
            print(f"BROKEN       {entry['id']}  {entry['detail']}")
    for entry in content["assumptions"]:
        if entry["state"] not in (BROKEN, "held"):
            print(f"not checked  {entry['id']}  {entry['detail']}")
    for title, value, assumed in report.measurement_rows(content["measured"]):
        print(
            f"measured     {title}: {value}"
            + (f" (assumed {assumed})" if assumed else "")
        )
    shown = ", ".join(
        f"{number} {state}" for state, number in content["counts"].items()
    )
    verdict = "holds" if content["conformant"] else "DOES NOT HOLD"
    print(f"{verdict}  {content['engine']}: {shown}")
    print(f"{out / _PAGE}  {out / _JSON}")
