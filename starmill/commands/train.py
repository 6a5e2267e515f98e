"""`starmill train`: trains an agent on a dataset, or continues where it stopped."""

import argparse
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from starmill import progress
from starmill.learners import (
    agent_file,
    agents,
    columns,
    compiled_code,
    journal,
    learner,
    prediction,
    presets,
    processes,
    rollouts,
    run_folder,
    runs,
    splits,
    training,
)
from starmill.learners.counts import step_weights
from starmill.learners.networks import parameters
from starmill.learners.runs import Run
from starmill.schema import errors, storage
from starmill.schema.archives import json_text
from starmill.schema.loader import dataset
from starmill.schema.loader.dataset import Dataset

EXAMPLES = """\
  starmill train --agent bc --dataset data --out runs/bc
  starmill train --agent oac --dataset data --out runs/oac --init runs/bc
  starmill train --agent mzs --dataset data --out runs/mzs --frames 2000000
  starmill train --agent bc --preset full --dataset data --out x --dry-run

  starmill train --agent bc --dataset data --out runs/bc \
      --coordinator HOST:1234 --processes 4 --process-id 0    (on each host, with its number)

Running the same command again continues from the newest checkpoint.
"""
# XLA's pass that removes the barriers between a value and its second computation.
_BARRIERS = "cse_barrier_expander"
# As many steps as the transformer's memory looks back.
BURN_IN = 16
# Options that replace one field of the run, of its algorithm or of its optimizer.
_FIELDS: dict[str, tuple[Callable[[str], Any], str]] = {
    "frames": (int, "frames to train on"),
    "batch_size": (int, "rollouts in a batch"),
    "rollout": (int, "steps of a rollout"),
    "accumulate": (int, "batches in an update"),
    "burn_in": (int, "steps before each rollout that only fill the memory"),
    "learning_rate": (float, "the highest learning rate of the schedule"),
    "ramp_in": (int, "frames of linear warm-up"),
    "mmr_above": (int, "train on episodes of players rated above this"),
    "outcome": (int, "train on episodes with this outcome: 1, 0 or -1"),
    "hold_out": (int, "training games in a thousand to evaluate on instead"),
    "seed": (int, "random seed of parameters, batches and everything else"),
    "log_every": (int, "updates between rows of metrics.csv"),
    "save_every": (int, "updates between checkpoints"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--agent",
        type=_agent_name,
        choices=list(agents.AGENTS),
        default="bc",
        help="which agent to train (bc)",
    )
    parser.add_argument(
        "--dataset", required=True, metavar="REF", help="path, URL or name@version"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--preset", choices=list(presets.NETWORKS), default="tiny")
    parser.add_argument(
        "--init",
        type=Path,
        metavar="DIR",
        help="start from the parameters of this run, or of this .agent file",
    )
    parser.add_argument(
        "--critic",
        type=Path,
        metavar="FILE",
        help="values that `starmill critic` wrote, in place of the critic of --init",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE.json",
        help="a run's JSON, or parts of it, that replace the preset's",
    )
    for name, (kind, text) in _FIELDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=text)
    parser.add_argument(
        "--balance",
        type=float,
        metavar="SHARE",
        help="weigh frequent functions down until none has more than this share of the weight",
    )
    parser.add_argument(
        "--memory", choices=("none", "lstm", "transformer"), help="the network's memory"
    )
    parser.add_argument(
        "--workers", type=int, default=1, help="processes that load data (1)"
    )
    parser.add_argument(
        "--devices",
        type=int,
        help="devices to split batches over (all); on a CPU, splits it into that many",
    )
    parser.add_argument(
        "--split",
        default="test",
        help="what to evaluate on at the end: test (default), valid, valid,test or none",
    )
    parser.add_argument(
        "--logger",
        nargs="+",
        choices=journal.LOGGERS,
        default=[journal.TENSORBOARD],
        help="what shows the metrics, besides metrics.csv: tensorboard (default), wandb "
        "(starmill[wandb]), both, or csv for nothing else",
    )
    parser.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        help="where process 0 listens, to train with several processes; not needed on Slurm, "
        "GKE and TPU, whose processes find each other",
    )
    parser.add_argument(
        "--process-id", type=int, metavar="I", help="this process's number, from 0"
    )
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="how many processes train together; 1 to not look for a cluster",
    )
    parser.add_argument(
        "--heartbeat-seconds",
        type=int,
        default=processes.HEARTBEAT_SECONDS,
        help="how long a process may be silent before all others end "
        f"({processes.HEARTBEAT_SECONDS})",
    )
    parser.add_argument(
        "--compute",
        choices=("float32", "bfloat16"),
        help="number format for encoding observations; parameters are float32 (float32)",
    )
    parser.add_argument(
        "--remat",
        action="store_true",
        help="use less device memory, at the cost of some time",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the run and stop")
    parser.add_argument(
        "--compile",
        action="store_true",
        help="with --dry-run: also compile one batch, and print its cost and memory",
    )


def run(args: argparse.Namespace) -> int:
    """Trains, then evaluates on held-out games."""
    if not args.dry_run:
        processes.join(
            args.coordinator,
            args.process_id,
            args.processes,
            heartbeat_seconds=args.heartbeat_seconds,
        )
    compiled_code.keep()
    if args.devices:
        learner.split_host(args.devices)
    data = dataset.open_dataset(args.dataset)
    resolved = resolve(args, data)
    config = resolved.algorithm
    shapes = parameters.shapes(config.network, config.settings)
    count = parameters.count(shapes)
    if args.dry_run:
        print(json.dumps(resolved.to_json(), indent=1, sort_keys=True))
        parts = parameters.parts(shapes).items()
        print("\n".join(f"{number:>13,} {name}" for name, number in parts))
        print(f"{count:>13,} parameters, {resolved.updates:,} updates")
        if args.compile:
            print(_cost(resolved, data))
        return 0
    episodes = splits.training_episodes(resolved, data)
    # Before training, so that a wrong --split does not show hours later.
    held_out = None
    if args.split != "none":
        held_out = splits.held_out_episodes(resolved, data, args.split.split(","))
    _say(
        f"{resolved.agent}: {count:,} parameters, {resolved.updates:,} updates of "
        f"{resolved.frames_per_update:,} frames, on {len(episodes):,} episodes with "
        f"{episodes.steps:,} steps of {data.reference}"
    )
    summary = _train(args, resolved, data)
    seconds = max(summary.seconds, 1e-9)
    _say(
        f"{summary.frames:,} frames; this session {summary.new_frames:,} in "
        f"{summary.seconds:.0f} s ({summary.new_frames / seconds:.0f} frames/s, "
        f"{100 * summary.wait_seconds / seconds:.1f}% of the time waiting for data); "
        f"results in {args.out}"
    )
    if summary.problem:
        _say(f"stopped: {summary.problem}")
        return 1
    if held_out is not None:
        trained = agent_file.load_trained(args.out)
        if processes.is_writer():
            _evaluate(args, resolved, data, held_out, trained)
        processes.wait("the evaluation")
    elif args.split != "none":
        _say(
            f"evaluation skipped: the dataset has no episodes in {args.split}. To "
            "evaluate on training games instead, hold some out (--hold-out 100 of a "
            "thousand) and train in another folder"
        )
    return 0


def _cost(resolved: Run, data: Dataset) -> str:
    """Returns what an update of one batch costs on one device, as the compiler sees it."""
    one = runs.replace(resolved, accumulate=1)
    arrays = next(splits.batches(one, splits.training_episodes(one, data)))
    batch = rollouts.prepare(arrays, data.settings, splits.cut(one))
    shapes = jax.eval_shape(lambda: batch)
    lowered = learner.Learner(one, 1).lower(shapes)
    flops = lowered.cost_analysis()["flops"] / one.frames_per_update
    # On a CPU, the compiler would otherwise keep what --remat computes again.
    memory = lowered.compile({"xla_disable_hlo_passes": _BARRIERS}).memory_analysis()
    return (
        f"one batch of {one.frames_per_update:,} frames with up to {batch['units'].shape[2]} "
        f"units: {flops / 1e9:.3g} GFLOP a frame; on a device "
        f"{memory.temp_size_in_bytes / 1e9:.3g} GB for the computation, "
        f"{memory.argument_size_in_bytes / 1e9:.3g} GB for the state and the batch"
    )


def _train(args: argparse.Namespace, resolved: Run, data: Dataset) -> training.Summary:
    frames_done = 0

    def on_update(update: int, frames: int) -> None:
        nonlocal frames_done
        frames_done = frames

    total = resolved.updates * resolved.frames_per_update
    bar: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if processes.is_writer():
        bar = progress.Progress(
            "train",
            total,
            "frames",
            lambda: frames_done,
            starting="reading data and compiling the network",
        )
    with bar:
        return training.train(
            resolved,
            data,
            args.out,
            init=args.init,
            critic=args.critic,
            workers=args.workers,
            devices=args.devices,
            loggers=args.logger,
            on_update=on_update,
        )


def _say(text: str) -> None:
    """Prints in the process that writes the files; the others would only repeat it."""
    if processes.is_writer():
        print(text)


def resolve(args: argparse.Namespace, data: Dataset) -> Run:
    """Returns the run that the options mean: the preset, then the file, then single options."""
    resolved = presets.run(args.agent, args.preset, data.settings)
    if args.config:
        try:
            changes = json_text.parse(args.config.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise errors.ConfigError(f"{args.config}: {error}") from error
        merged = _over(resolved.to_json(), changes, str(args.config))
        resolved = runs.from_json(merged)
    if args.memory:
        # Rollouts of single steps need earlier steps for their memory.
        burn_in = resolved.algorithm.burn_in or (
            BURN_IN if resolved.algorithm.rollout == 1 and args.memory != "none" else 0
        )
        memory = {"algorithm": {"burn_in": burn_in, "network": {"memory": args.memory}}}
        resolved = runs.from_json(_over(resolved.to_json(), memory, "--memory"))
    if args.compute:
        compute = {"algorithm": {"network": {"compute": args.compute}}}
        resolved = runs.from_json(_over(resolved.to_json(), compute, "--compute"))
    if args.remat:
        remat = {"algorithm": {"network": {"remat": True}}}
        resolved = runs.from_json(_over(resolved.to_json(), remat, "--remat"))
    fields = {
        name: getattr(args, name) for name in _FIELDS if getattr(args, name) is not None
    }
    resolved = runs.replace(resolved, **fields)
    if args.critic is not None:
        resolved = runs.replace(resolved, critic=columns.digest(args.critic))
    if args.balance is not None:
        counted = step_weights.count(splits.training_episodes(resolved, data))
        weights = step_weights.balanced(counted, args.balance)
        resolved = runs.replace(resolved, step_weights=weights)
    return resolved


def _agent_name(text: str) -> str:
    """Returns an agent's name for the name or alias; unknown words are left to `choices`."""
    return agents.find(text).name if text in agents.NAMES else text


def _over(under: dict[str, Any], over: Any, where: str) -> dict[str, Any]:
    """Returns `under` with the values of `over` in it; unknown keys are errors."""
    if not isinstance(over, dict):
        raise errors.ConfigError(
            f"{where}: expected an object, found {type(over).__name__}"
        )
    merged = dict(under)
    for key, value in over.items():
        if key not in under:
            raise errors.ConfigError(
                f"{where}: unknown key {key!r}; expected some of {sorted(under)}"
            )
        inner = under[key]
        # Step weights are by any function's name, and a network can be of another kind than the
        # preset's. `runs.from_json` checks both.
        whole = key == "step_weights" or (key == "network" and set(value) - set(inner))
        is_record = isinstance(inner, dict) and not whole
        merged[key] = _over(inner, value, where) if is_record else value
    return merged


def _evaluate(
    args: argparse.Namespace,
    resolved: Run,
    data: Dataset,
    held_out: Dataset,
    trained: agent_file.TrainedAgent,
) -> None:
    steps_done = 0

    def on_batch(steps: int) -> None:
        nonlocal steps_done
        steps_done += steps

    with progress.Progress("evaluate", held_out.steps, "steps", lambda: steps_done):
        result = prediction.evaluate(
            trained.params,
            resolved.algorithm,
            held_out,
            splits.training_games(resolved, data),
            behaviour=trained.behaviour,
            on_batch=on_batch,
        )
    result["split"], result["hold_out"] = args.split, resolved.hold_out
    text = json.dumps(result, indent=1, sort_keys=True) + "\n"
    storage.write(str(args.out / run_folder.PREDICTION), text.encode())
    print(f"held-out {args.split}: {result['games']} games, {result['steps']:,} steps")
    print("\n".join(prediction.table_lines(result)))
