"""`starmill report`: writes statistics and an episode viewer as one HTML file."""

import argparse
import json
from pathlib import Path

from starmill.pipelines.report import report
from starmill.schema import errors
from starmill.schema.loader import dataset

EXAMPLES = """
  starmill report demo/dataset --out demo/report.html
  starmill report gs://bucket/unplugged --split test --shown 3 --out report.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("dataset", metavar="DATASET", help="path, URL or reference")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        help="file to write (default: %(default)s)",
    )
    parser.add_argument("--split", help="only the episodes of this split")
    parser.add_argument(
        "--shown",
        type=int,
        default=6,
        help="episodes in the viewer (default: %(default)s)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the file's name and size as JSON"
    )


def run(args: argparse.Namespace) -> int:
    """Writes the report and prints where it is."""
    if args.shown < 1:
        raise errors.ConfigError(f"--shown {args.shown}: must be at least 1")
    if not args.out.parent.is_dir():
        raise errors.ConfigError(
            f"--out {args.out}: its folder does not exist; create it first"
        )
    opened = dataset.open_dataset(args.dataset, split=args.split)
    if not len(opened):
        raise errors.ConfigError(
            f"{args.dataset}: expected episodes to report on, found none"
        )
    size = report.write_report(opened, args.out, shown=args.shown)
    if args.json:
        print(json.dumps({"report": str(args.out), "bytes": size}))
    else:
        print(f"{args.out}  {size / 1e6:.1f} MB  open it in a browser")
    return 0
