"""`starmill critic`: predicts who wins at each step, with models not trained on its game."""

import argparse
import json
from pathlib import Path

from starmill.learners import columns
from starmill.learners.algorithms import contract
from starmill.learners.critic import calibration, cross_fit, inputs
from starmill.learners.critic.model import ModelConfig
from starmill.schema import errors, storage
from starmill.schema.loader import dataset

EXAMPLES = """\
  starmill critic --dataset data --out critic.npz
  starmill train --agent oac --dataset data --init runs/bc --critic critic.npz --out runs/oac

The table shows errors as shares of the outcomes' variance (1 is no better than a constant), and in
brackets how often the sign is right. critic.json beside the file has the same numbers.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--dataset", required=True, metavar="REF", help="path, URL or name@version"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE.npz")
    parser.add_argument("--seed", type=int, default=0, help="random seed (0)")
    parser.add_argument(
        "--looks",
        type=int,
        default=ModelConfig().looks,
        help="how often training measures its error on other games, at most; every "
        f"{ModelConfig().updates} updates ({ModelConfig().looks})",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the file if it exists"
    )


def run(args: argparse.Namespace) -> int:
    """Fits the critic, and writes values and their calibration."""
    if args.out.exists() and not args.overwrite:
        raise errors.ConfigError(f"{args.out} exists; pass --overwrite to replace it")
    data = dataset.open_dataset(args.dataset).filter(split="train")
    steps = inputs.read(data)
    games = sorted(set(data.table.column("replay_id").to_pylist()))
    result = cross_fit.cross_fit(
        steps,
        cross_fit.folds(games),
        ModelConfig(looks=args.looks),
        seed=args.seed,
    )
    measured = calibration.measure(result.values, steps.outcome, steps.loop)
    values = columns.of_dataset(data, {contract.CRITIC_VALUES: result.values})
    columns.write(args.out, values)
    summary = {
        "dataset": data.reference,
        "games": len(games),
        "seed": args.seed,
        "looks": result.looks,
        "calibration": measured,
    }
    text = json.dumps(summary, indent=1, sort_keys=True) + "\n"
    storage.write(str(args.out.with_suffix(".json")), text.encode())
    print("\n".join(calibration.table_lines({"critic": measured})))
    print(f"{args.out}: {len(result.values):,} steps of {len(games):,} games")
    return 0
