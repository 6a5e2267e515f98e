"""`starmill pack`: writes a trained agent as one small file."""

import argparse
from pathlib import Path

from starmill.benchmark.opponents import contestants
from starmill.learners import agent_file

EXAMPLES = """\
  starmill pack runs/bc --out bc.agent
  starmill evaluate --agent bc.agent --opponents very_easy --games 18
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "run", metavar="RUN", type=Path, help="the folder of a training run"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE")


def run(args: argparse.Namespace) -> int:
    """Packs the newest checkpoint."""
    agent_file.pack(args.run, args.out)
    size, digest = args.out.stat().st_size, contestants.tree_digest(args.out)
    print(f"{args.out}: {size / 1e6:.1f} MB, sha256:{digest}")
    return 0
