"""`starmill export`: writes a dataset in the predecessor's layout, as RLDS or as npz files."""

import argparse
import sys

from starmill import running
from starmill.pipelines.exports import export

EXAMPLES = """\
  starmill export data --format npz --out arrays
  starmill export data --format alphastar --out records --split train
  starmill export data --format rlds --out tensorflow_datasets --mmr-above 6000
  starmill export s3://bucket/data --format npz --out s3://bucket/arrays \
    --runner=DataflowRunner --project=PROJECT --region=REGION --temp_location=gs://bucket/tmp
"""
# Options that the command does not know are Beam's.
PASSES_ON = True


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
        help="empty folder or URL to write to",
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
    running.add_arguments(parser, "--out")


def run(args: argparse.Namespace) -> int:
    """Exports the dataset; exits 1 if an episode had to be left out."""
    source = export.Source(
        reference=args.dataset,
        registry_file=args.registry,
        split=tuple(args.split) if args.split else None,
        mmr_above=args.mmr_above,
        outcome=tuple(args.outcome) if args.outcome else None,
    )
    opened = source.open()
    shards = len(opened.manifest.shards)
    with running.runs(args, "export", shards, args.out) as run_shards:
        problems = export.export(source, args.format, args.out, run_shards)
    for problem in problems:
        print(problem, file=sys.stderr)
    left = len(opened) - len(problems)
    print(f"{left} episodes as {args.format} in {args.out}, from {opened.reference}")
    return 1 if problems else 0
