"""`starmill report`: pages about a dataset, a training run, or two of a kind side by side."""

import argparse
import importlib
import json
from pathlib import Path

from starmill.benchmark.ratings import results
from starmill.learners import run_folder
from starmill.pipelines.report import report
from starmill.schema import errors, storage
from starmill.schema.loader import dataset

EXAMPLES = """
  starmill report demo/dataset --out demo/report.html
  starmill report gs://bucket/unplugged --split test --shown 3 --out report.html
  starmill report ladder@1.0.0 ladder@1.1.0 --out datasets.html
  starmill report runs/bc --out curves.html
  starmill report runs/bc runs/mzs --out runs.html
  starmill report evaluations/before evaluations/after --out ratings.html
"""
_FILES = {"run": run_folder.RUN, "evaluation": results.FILE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a dataset (path, URL or reference), or the folder of a training run",
    )
    parser.add_argument(
        "other",
        metavar="OTHER",
        nargs="?",
        help="another of the same kind, to compare with; evaluations can be compared too",
    )
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
    kind = _kind(args.source)
    if args.other is not None and _kind(args.other) != kind:
        raise errors.ConfigError(
            f"{args.source} is a {kind} and {args.other} a {_kind(args.other)}: expected two "
            "of a kind"
        )
    if kind == "dataset" and args.other is None:
        size = report.write_report(
            _opened(args, args.source), args.out, shown=args.shown
        )
    else:
        text = _page(args, kind)
        size = storage.write(str(args.out), text.encode("utf-8")).size_bytes
    if args.json:
        print(json.dumps({"report": str(args.out), "bytes": size}))
    else:
        print(f"{args.out}  {size / 1e6:.1f} MB  open it in a browser")
    return 0


def _kind(source: str) -> str:
    """Returns what a source is: a dataset, unless it has the file of a run or an evaluation."""
    for kind, name in _FILES.items():
        if (Path(source) / name).is_file():
            return kind
    return "dataset"


def _page(args: argparse.Namespace, kind: str) -> str:
    # Imported here, because a dataset's own page needs none of it.
    room = importlib.import_module(f"starmill.benchmark.comparisons.{kind}s")
    names = [one for one in (args.source, args.other) if one is not None]
    sources = [_opened(args, n) if kind == "dataset" else Path(n) for n in names]
    if kind == "evaluation" and len(sources) < 2:
        raise errors.ConfigError(
            f"{args.source}: an evaluation has a report already, {args.source}/report.html; "
            "name a second evaluation to compare them"
        )
    return str(room.render(*sources))


def _opened(args: argparse.Namespace, source: str) -> dataset.Dataset:
    opened = dataset.open_dataset(source, split=args.split)
    if not len(opened):
        raise errors.ConfigError(
            f"{source}: expected episodes to report on, found none"
        )
    return opened
