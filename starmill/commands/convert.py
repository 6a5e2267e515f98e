"""`starmill convert`: a captured observation stream to arrays."""

import argparse
from pathlib import Path

from starmill.converters import capture
from starmill.schema import errors, storage

EXAMPLES = """\
  starmill convert episode.npz --out arrays.npz
  starmill convert episode.npz --out arrays.npz --overwrite
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "case",
        metavar="CASE.npz",
        type=Path,
        help="settings and messages of one episode (docs/converter.md has the layout)",
    )
    parser.add_argument(
        "--out",
        metavar="OUT.npz",
        type=Path,
        required=True,
        help="where the arrays go, time in axis 0",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace OUT.npz if it exists"
    )


def run(args: argparse.Namespace) -> int:
    """Converts one capture."""
    if args.out.exists() and not args.overwrite:
        raise errors.ConfigError(f"{args.out}: exists; pass --overwrite to replace it")
    if not args.out.parent.is_dir():
        raise errors.ConfigError(f"{args.out.parent}: no such folder")
    arrays = capture.convert(capture.load(args.case))
    storage.write(str(args.out), capture.to_bytes(arrays))
    steps = len(arrays["__encoded_delay"])
    print(f"{args.out}: {steps} steps, {len(arrays)} arrays")
    return 0
