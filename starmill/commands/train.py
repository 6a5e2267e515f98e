"""`starmill train`: an agent on a dataset, from the start or from where it stopped."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starmill import progress
from starmill.learners import checkpoint, prediction, presets, runs, training
from starmill.learners.networks import network
from starmill.schema import errors, storage
from starmill.schema.loader import dataset

EXAMPLES = """\
  starmill train --agent bc --dataset data --out runs/bc
  starmill train --agent oac --dataset data --out runs/oac --init runs/bc
  starmill train --agent mzs --dataset data --out runs/mzs --frames 2000000
  starmill train --agent bc --preset full --dataset data --out x --dry-run

Running the same command again carries on from the newest checkpoint.
"""
EVALUATION = "evaluation.json"
# Options that replace a field of the run, wherever it is in it.
_FIELDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "frames": (int, "frames to train on"),
    "batch_size": (int, "rollouts in a batch"),
    "rollout": (int, "steps of a rollout"),
    "accumulate": (int, "batches in an update"),
    "learning_rate": (float, "at the top of its schedule"),
    "ramp_in": (int, "frames of linear warm-up"),
    "mmr_above": (int, "train on episodes of players rated above this"),
    "outcome": (int, "train on episodes with this outcome: 1, 0 or -1"),
    "hold_out": (int, "of a thousand training games, how many to evaluate on instead"),
    "seed": (int, "of parameters, batches and everything else"),
    "log_every": (int, "updates between rows of metrics.csv"),
    "save_every": (int, "updates between checkpoints"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--agent", choices=presets.AGENTS, default="bc")
    parser.add_argument(
        "--dataset", required=True, metavar="REF", help="path, URL or name@version"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--preset", choices=sorted(presets.NETWORKS), default="tiny")
    parser.add_argument(
        "--init", type=Path, metavar="DIR", help="start from this run's parameters"
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE.json",
        help="a run's JSON, or parts of one, over the preset",
    )
    for name, (kind, text) in _FIELDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text)
    parser.add_argument(
        "--memory", choices=("none", "lstm", "transformer"), help="of the network"
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="processes that load data (1)"
    )
    parser.add_argument(
        "--devices",
        type=int,
        help="devices to split batches over (all; on CPUs: makes that many)",
    )
    parser.add_argument(
        "--split",
        default="test",
        help="evaluated at the end: test (default), valid, valid,test, or none",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the run and stop")


def run(args: argparse.Namespace) -> int:
    """Trains, then evaluates on held-out games."""
    if args.devices:
        training.split_host(args.devices)
    data = dataset.open_dataset(args.dataset)
    made = resolve(args, data)
    shapes = network.shapes(made.algorithm.network, made.algorithm.settings)
    count = network.parameter_count(shapes)
    if args.dry_run:
        print(json.dumps(made.to_json(), indent=1, sort_keys=True))
        print(f"{count:,} parameters, {made.updates:,} updates")
        return 0
    chosen = training.training_data(made, data)
    # Before the training: hours later is no time to learn that nothing was held out.
    held_out = None
    if args.split != "none":
        held_out = training.held_out_data(made, data, args.split.split(","))
    print(
        f"{made.agent}: {count:,} parameters, {made.updates:,} updates of "
        f"{made.frames_per_update:,} frames, on {len(chosen):,} episodes with "
        f"{chosen.steps:,} steps of {data.reference}"
    )
    done = [0]

    def on_update(update: int, frames: int) -> None:
        done[0] = frames

    total = made.updates * made.frames_per_update
    with progress.Progress("train", total, "frames", lambda: done[0]):
        summary = training.train(
            made,
            data,
            args.out,
            init=args.init,
            workers=args.workers,
            devices=args.devices,
            on_update=on_update,
        )
    print(
        f"{summary.frames:,} frames; this part {summary.new_frames:,} in "
        f"{summary.seconds:.0f} s ({summary.new_frames / max(summary.seconds, 1e-9):.0f} "
        f"frames/s, {100 * summary.wait_seconds / max(summary.seconds, 1e-9):.1f}% of "
        f"the time waiting for data); results in {args.out}"
    )
    if summary.problem:
        print(f"stopped: {summary.problem}")
        return 1
    if held_out is not None:
        _evaluate(args, made, data, held_out)
    return 0


def resolve(args: argparse.Namespace, data: dataset.Dataset) -> runs.Run:
    """Returns the run that the options mean: preset, then the file, then single options."""
    made = presets.run(args.agent, args.preset, data.settings)
    if args.config:
        try:
            changes = json.loads(args.config.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise errors.ConfigError(f"{args.config}: {error}") from error
        made = runs.from_json(_over(made.to_json(), changes, str(args.config)))
    given = {
        name: getattr(args, name) for name in _FIELDS if getattr(args, name) is not None
    }
    if args.memory:
        merged = _over(
            made.to_json(), {"algorithm": {"network": {"memory": args.memory}}}, ""
        )
        made = runs.from_json(merged)
    return runs.replace(made, **given)


def _over(under: dict[str, Any], over: Any, where: str) -> dict[str, Any]:
    if not isinstance(over, dict):
        raise errors.ConfigError(
            f"{where}: expected an object, found {type(over).__name__}"
        )
    out = dict(under)
    for key, value in over.items():
        if key not in under:
            raise errors.ConfigError(
                f"{where}: unknown key {key!r}; expected some of {sorted(under)}"
            )
        inner = under[key]
        out[key] = _over(inner, value, where) if isinstance(inner, dict) else value
    return out


def _evaluate(
    args: argparse.Namespace,
    made: runs.Run,
    data: dataset.Dataset,
    held_out: dataset.Dataset,
) -> None:
    _, arrays = checkpoint.load(args.out)
    config = made.algorithm
    like = network.shapes(config.network, config.settings)
    params, _ = checkpoint.graft(arrays, like, prefix="0")
    behaviour, missing = checkpoint.graft(arrays, like, prefix="2/behaviour")
    done = [0]

    def on_batch(frames: int) -> None:
        done[0] += frames

    with progress.Progress("evaluate", held_out.steps, "steps", lambda: done[0]):
        result = prediction.evaluate(
            params,
            config,
            held_out,
            training.training_games(made, data),
            behaviour=None if missing else behaviour,
            on_batch=on_batch,
        )
    result["split"], result["hold_out"] = args.split, made.hold_out
    text = json.dumps(result, indent=1, sort_keys=True) + "\n"
    storage.write(str(args.out / EVALUATION), text.encode())
    print(f"held-out {args.split}: {result['games']} games, {result['steps']:,} steps")
    print("\n".join(prediction.table_lines(result)))
