"""`starmill verify`: checks a dataset's files and records, and can play replays again."""

import argparse
import importlib
import json
import os

from starmill import pack_options, running
from starmill.pipelines import verify
from starmill.schema import errors, manifest, registry

EXAMPLES = """\
  starmill verify data
  starmill verify 'data#sha256:0f3c...'
  starmill verify data --replay 5 --replays replays/ --sc2 skirmish
  starmill verify s3://bucket/data --work s3://bucket/tmp --runner=FlinkRunner \
    --flink_master=host:8081 --environment_type=EXTERNAL --environment_config=localhost:15555
"""
# Options that the command does not know are Beam's.
PASSES_ON = True
# Problems that are printed; all of them are in --json.
_SHOWN = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("dataset", metavar="DATASET", help="path, URL or reference")
    parser.add_argument(
        "--replay",
        metavar="SAMPLE",
        help="play replays again and compare: how many, or their ids with commas",
    )
    parser.add_argument(
        "--replays",
        nargs="+",
        default=[],
        metavar="SRC",
        help="replay files, folders, packs, URLs or an index, for --replay",
    )
    pack_options.add_password(parser)
    parser.add_argument(
        "--sc2",
        metavar="PATH|skirmish",
        help="folder of StarCraft II (default: $SC2PATH), or the embedded game",
    )
    running.add_arguments(parser, None)
    parser.add_argument(
        "--registry", metavar="FILE", help="registry that knows the name"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Verifies the dataset; exits 1 if anything is wrong."""
    folder, content = registry.open_manifest(args.dataset, args.registry)
    with running.runs(args, "verify", len(content.shards), None) as run_shards:
        checked = verify.verify(
            folder, content, run=run_shards, is_job=args.runner is not None
        )
    problems = list(checked.problems)
    played = 0
    if args.replay:
        differences, played = _replay(args, folder, content)
        problems += differences
    _print(args, content, checked, problems, played)
    return 1 if problems else 0


def _replay(
    args: argparse.Namespace, folder: str, content: manifest.Manifest
) -> tuple[list[verify.Problem], int]:
    root = args.sc2 or os.environ.get("SC2PATH")
    if not root or not args.replays:
        raise errors.ConfigError(
            "--replay: pass --replays (where the files are), and --sc2 or SC2PATH"
        )
    # Imported here, because only this needs a game and Beam.
    replaying = importlib.import_module("starmill.pipelines.replaying")
    request = replaying.Request(
        sample=args.replay,
        sources=args.replays,
        root=root,
        password=args.pack_password,
    )
    problems: list[verify.Problem]
    problems, played = replaying.compare(request, folder, content)
    return problems, played


def _print(
    args: argparse.Namespace,
    content: manifest.Manifest,
    checked: verify.Checked,
    problems: list[verify.Problem],
    played: int,
) -> None:
    if args.json:
        result = {
            "reference": content.reference(),
            "problems": [problem._asdict() for problem in problems],
            "files": checked.files,
            "episodes": checked.episodes,
            "steps": checked.steps,
            "replayed": played,
        }
        print(json.dumps(result, sort_keys=True))
        return
    for problem in problems[:_SHOWN]:
        print(problem)
    if len(problems) > _SHOWN:
        print(f"... and {len(problems) - _SHOWN:,} more; --json lists all")
    print(
        f"{'PROBLEMS' if problems else 'ok'}  {len(problems):,} problems in "
        f"{checked.files:,} files, {checked.episodes:,} episodes, "
        f"{checked.steps:,} steps"
        + (f"; {played:,} replays played again" if played else "")
    )
    print(content.reference())
