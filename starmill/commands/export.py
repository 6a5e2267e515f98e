"""`starmill export`: writes a dataset in the predecessor's layout, as RLDS or as npz files."""

import argparse
import sys
from pathlib import Path

from starmill import progress
from starmill.pipelines.exports import export
from starmill.schema.loader import dataset

EXAMPLES = """\
  starmill export data --format npz --out arrays
  starmill export data --format alphastar --out records --split train
  starmill export data --format rlds --out tensorflow_datasets --mmr-above 6000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("dataset", metavar="DATASET", help="path, URL or reference")
    parser.add_argument(
        "--format", required=True, choices=export.FORMATS, help="layout to write"
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        type=Path,
        help="empty folder to write to",
    )
    parser.add_argument(
        "--split", nargs="+", metavar="NAME", help="only these: train, valid, test"
    )
    parser.add_argument(
        "--mmr-above", type=int, metavar="MMR", help="only above this MMR"
    )
    parser.add_argument(
        "--outcome", nargs="+", type=int, choices=(-1, 0, 1), help="only these outcomes"
    )
    parser.add_argument(
        "--registry", metavar="FILE", help="registry that knows the name"
    )


def run(args: argparse.Namespace) -> int:
    """Exports the dataset; exits 1 if an episode had to be left out."""
    opened = dataset.open_dataset(
        args.dataset,
        registry_file=args.registry,
        split=args.split,
        mmr_above=args.mmr_above,
        outcome=args.outcome,
    )
    done = [0]

    def count() -> None:
        done[0] += 1

    with progress.Progress("export", len(opened), "episodes", lambda: done[0]):
        problems = export.export(opened, args.format, args.out, count)
    for problem in problems:
        print(problem, file=sys.stderr)
    left = len(opened) - len(problems)
    print(f"{left} episodes as {args.format} in {args.out}, from {opened.reference}")
    return 1 if problems else 0
