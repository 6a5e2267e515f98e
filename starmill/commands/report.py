"""`starmill report DATASET`: one self-contained HTML file with an episode viewer."""

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
    parser.add_argument("dataset", help="a folder, URL or name@version#sha256:...")
    parser.add_argument("--out", type=Path, default=Path("report.html"))
    parser.add_argument("--split", help="only this split's episodes")
    parser.add_argument("--shown", type=int, default=6, help="episodes in the viewer")
    parser.add_argument("--json", action="store_true", help="print what was written")


def run(args: argparse.Namespace) -> int:
    """Writes the report and says where it is."""
    if args.shown < 1:
        raise errors.ConfigError(f"--shown {args.shown}: must be at least 1")
    if not args.out.parent.is_dir():
        raise errors.ConfigError(
            f"--out {args.out}: its folder does not exist; make it first"
        )
    opened = dataset.open_dataset(args.dataset, split=args.split)
    if not len(opened):
        raise errors.ConfigError(f"{args.dataset}: no episode is left to report on")
    size = report.write_report(opened, args.out, shown=args.shown)
    if args.json:
        print(json.dumps({"report": str(args.out), "bytes": size}))
    else:
        print(f"{args.out}  {size / 1e6:.1f} MB  open it in a browser")
    return 0
