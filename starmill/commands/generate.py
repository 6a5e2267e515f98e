"""`starmill generate`: replays to a dataset, on this machine or on a cluster."""

import argparse
import atexit
import collections
import contextlib
import dataclasses
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from apache_beam.options import pipeline_options

from starmill import progress
from starmill.engines import client, pool
from starmill.pipelines import cost, episode_maker, generate, local_runner, plan
from starmill.schema import errors, selection, settings

# What argparse does not know is passed on to Beam.
PASSES_ON = True
EXAMPLES = """\
  starmill generate --replays replays/ --selection skirmish --output data --sc2 skirmish
  starmill generate --replays 'packs/*.zip' --selection unplugged --output data --dry-run
  starmill generate --replays replays/ --selection unplugged --output s3://bucket/data \\
      --runner=FlinkRunner --flink_master=localhost:8081 --environment_type=LOOPBACK
  starmill generate --replays more/ --selection skirmish --output data2 --version 1.1.0 \\
      --extend data --sc2 skirmish

Options that are not listed above are Beam's.
"""
_LICENSE = "https://blzdistsc2-a.akamaihd.net/AI_AND_MACHINE_LEARNING_LICENSE.html"
_LOCAL = "FnApiRunner"
_SHOWN = 20
_RETRIES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    source = parser.add_argument_group("what")
    source.add_argument(
        "--replays",
        nargs="+",
        default=[],
        metavar="SRC",
        help="replay files, folders, globs, zip packs or URLs",
    )
    source.add_argument("--index", metavar="INDEX.parquet", help="instead of --replays")
    source.add_argument(
        "--selection",
        required=True,
        metavar="NAME|FILE.json",
        help=f"which replays: {', '.join(selection.PRESETS)}, or rules in a file",
    )
    source.add_argument(
        "--settings",
        metavar="FILE.json",
        help="of the converter, in the reference's JSON (default: AlphaStar Unplugged's)",
    )
    source.add_argument(
        "--extend",
        metavar="DATASET",
        help="take over the episodes that this dataset already has",
    )
    source.add_argument("--pack-password", metavar="PASSWORD", help="of zip packs")
    source.add_argument(
        "--accept-license",
        action="store_true",
        help=f"you agree to Blizzard's license for encrypted packs: {_LICENSE}",
    )
    _add_output_arguments(parser.add_argument_group("where to"))
    _add_engine_arguments(parser.add_argument_group("how"))


def _add_output_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--output", required=True, metavar="DEST", help="folder or URL of the dataset"
    )
    group.add_argument(
        "--work", metavar="DIR", help="unfinished work (default: in DEST)"
    )
    group.add_argument("--name", help="of the dataset (default: the selection's)")
    group.add_argument("--version", default="1.0.0", help="of the dataset: %(default)s")
    group.add_argument(
        "--replays-per-shard", type=int, default=64, metavar="N", help="%(default)s"
    )
    group.add_argument(
        "--keep-work", action="store_true", help="keep the work folder when done"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="print the plan and its cost, and stop"
    )
    group.add_argument("--json", action="store_true", help="the summary as JSON")


def _add_engine_arguments(group: argparse._ArgumentGroup) -> None:
    defaults = pool.PoolConfig(root="")
    group.add_argument(
        "--sc2",
        metavar="PATH|skirmish",
        help="the game's folder (default: $SC2PATH), or the embedded game",
    )
    group.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes on this machine (default: one per core)",
    )
    group.add_argument("--runner", default=_LOCAL, help="Beam's (default: %(default)s)")
    group.add_argument(
        "--one-process",
        action="store_true",
        help="one game per worker: half the memory, the sides one after the other",
    )
    group.add_argument(
        "--attempts", type=int, default=3, metavar="N", help="per side: %(default)s"
    )
    group.add_argument(
        "--max-replays", type=int, default=defaults.max_replays, metavar="N",
        help="after which a game process is replaced: %(default)s",
    )  # fmt: skip
    group.add_argument(
        "--max-idle", type=int, default=defaults.max_idle, metavar="N",
        help="game processes that a worker keeps waiting: %(default)s",
    )  # fmt: skip
    for field in dataclasses.fields(client.Deadlines):
        group.add_argument(
            f"--{field.name}-deadline",
            type=float,
            default=field.default,
            metavar="SECONDS",
            help="%(default)s",
        )
    group.add_argument(
        "--retry", type=int, default=0, help=argparse.SUPPRESS
    )  # how often a lost worker has made the command begin again


def run(args: argparse.Namespace) -> int:
    """Builds the dataset; its reference is the last line printed."""
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    options = _beam_options(args)
    request = _request(args)
    try:
        with _temp_folder():
            made = generate.prepare(request, options)
            if args.dry_run:
                return _print_plan(args, request, made)
            outcome = generate.run(
                request, made, options, lambda made: _watch(request, made)
            )
    except local_runner.WorkerLost as error:
        local_runner.end_children()
        _begin_again(args, error)
    except KeyboardInterrupt:
        # Beam's threads would keep the process; its workers end with their games.
        local_runner.end_children()
        print("interrupted; run the same command again to carry on", file=sys.stderr)
        sys.stderr.flush()
        os._exit(130)
    return _print_outcome(args, request, outcome)


@contextlib.contextmanager
def _temp_folder() -> Iterator[str]:
    """Gives Beam a temp folder, as on Flink and Prism it leaves things in it.

    It is removed at exit, after Beam's own handlers: they still look for their folders.
    """
    before = tempfile.tempdir
    folder = tempfile.mkdtemp(prefix="starmill-beam-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tempfile.tempdir = folder
    try:
        yield folder
    except (KeyboardInterrupt, local_runner.WorkerLost):
        shutil.rmtree(folder, ignore_errors=True)  # these end without exit handlers
        raise
    finally:
        tempfile.tempdir = before


def _begin_again(args: argparse.Namespace, error: local_runner.WorkerLost) -> NoReturn:
    if args.retry >= _RETRIES:
        raise errors.EngineError(
            f"workers died {args.retry + 1} times ({error}); is the machine out of "
            "memory? Take fewer --workers, then run the command again to carry on"
        )
    print(
        f"generate  a worker died ({error}); carrying on", file=sys.stderr, flush=True
    )
    arguments = [word for word in sys.argv[1:] if not word.startswith("--retry=")]
    os.execv(
        sys.executable,
        [sys.executable, "-m", "starmill", *arguments, f"--retry={args.retry + 1}"],
    )


def _request(args: argparse.Namespace) -> generate.Request:
    chosen = selection.load(args.selection)
    if args.pack_password and not args.accept_license:
        raise errors.ConfigError(
            f"--pack-password: pass --accept-license if you agree to {_LICENSE}"
        )
    root = args.sc2 or os.environ.get("SC2PATH")
    if not root:
        raise errors.ConfigError(
            "no game: set SC2PATH or --sc2 to a StarCraft II installation, or take the "
            "embedded game with --sc2 skirmish"
        )
    if root != pool.SKIRMISH:
        root = os.path.abspath(os.path.expanduser(root))  # noqa: PTH100, PTH111  # a plain string for workers
        if args.runner == _LOCAL:  # elsewhere the folder is the workers' own
            pool.installation(Path(root))
    deadlines = client.Deadlines(
        start=args.start_deadline, load=args.load_deadline, play=args.play_deadline
    )
    return generate.Request(
        replays=tuple(args.replays),
        index=args.index,
        selection=chosen,
        output=args.output.rstrip("/"),
        work=args.work,
        name=args.name or chosen.name,
        version=args.version,
        pool=pool.PoolConfig(
            root=root,
            deadlines=deadlines,
            max_idle=args.max_idle,
            max_replays=args.max_replays,
        ),
        config=episode_maker.MakerConfig(
            settings=_settings(args.settings),
            attempts=args.attempts,
            one_process=args.one_process,
        ),
        replays_per_shard=args.replays_per_shard,
        extend=args.extend,
        password=args.pack_password,
        keep_work=args.keep_work,
    )


def _settings(path: str | None) -> settings.ConverterSettings:
    if path is None:
        return settings.UNPLUGGED
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  # one read
            return settings.from_json(json.load(file))
    except (OSError, ValueError) as error:
        raise errors.ConfigError(f"--settings {path}: {error}") from error


def _beam_options(args: argparse.Namespace) -> list[str]:
    if args.workers < 1:
        raise errors.ConfigError(f"--workers {args.workers}: expected at least 1")
    options = [f"--runner={args.runner}", *args.beam]
    if args.runner == _LOCAL and args.workers > 1:
        options += [
            "--direct_running_mode=multi_processing",
            f"--direct_num_workers={args.workers}",
        ]
    parser = pipeline_options._BeamArgumentParser()
    for kind in pipeline_options.PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(options)
    if unknown:
        raise errors.ConfigError(
            f"{unknown[0]}: neither an option of generate nor one of Beam's"
        )
    return options


@contextlib.contextmanager
def _watch(request: generate.Request, made: plan.BuildPlan) -> Any:
    rejected = sum(made.rejected.values())
    print(
        f"generate  read {made.read:,} replays: selected {made.selected:,}, "
        f"rejected {rejected:,}{_listed(made.rejected)}",
        file=sys.stderr,
        flush=True,
    )

    def done() -> int:
        return made.reused + generate.count_parts(request.work_folder)

    with progress.Progress("generate", made.selected, "replays", done):
        yield


def _listed(counts: Any) -> str:
    if not counts:
        return ""
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return " (" + ", ".join(f"{reason} {n:,}" for reason, n in pairs) + ")"


def _print_plan(
    args: argparse.Namespace, request: generate.Request, made: plan.BuildPlan
) -> int:
    expected = cost.estimate(made, engine=made.engine)
    if args.json:
        print(json.dumps(cost.to_json(made, expected), sort_keys=True))
        return 0
    print(
        f"selection    {request.selection.name}: {json.dumps(request.job()['selection'])}"
    )
    print(f"replays      {made.read:,} read, {made.selected:,} selected")
    print(f"rejected     {sum(made.rejected.values()):,}{_listed(made.rejected)}")
    print(f"episodes     {made.sides:,} wanted, {made.reused:,} replays reused")
    print(f"shards       {sum(made.shard_counts.values()):,} {dict(made.shard_counts)}")
    for line in cost.lines(expected):
        print(line)
    return 0


def _print_outcome(
    args: argparse.Namespace, request: generate.Request, outcome: generate.Outcome
) -> int:
    made, written, failures = outcome.plan, outcome.manifest, outcome.failures
    reasons = collections.Counter(row.reason for row in failures)
    if args.json:
        print(
            json.dumps(
                {
                    "read": made.read,
                    "selected": made.selected,
                    "rejected": dict(made.rejected),
                    "episodes": written.episodes,
                    "quarantined": len(outcome.quarantine),
                    "failed": dict(reasons),
                    "unwanted": dict(made.unwanted_sides),
                    "steps": written.steps,
                    "bytes": written.size_bytes,
                    "versions": len(written.statistics["by_game_version"]),
                    "counters": dict(outcome.counters),
                    "reference": written.reference(),
                },
                sort_keys=True,
            )
        )
    for row in failures[:_SHOWN]:
        print(f"{row.replay_id}-{row.player_id}: {row.reason}: {row.detail}")
    if {"engine_missing", "engine_refused"} & set(reasons):
        where = request.pool.root
        print(f"SC2PATH   the game was looked for in {where} (--sc2, or SC2PATH)")
    if len(failures) > _SHOWN:
        print(f"... and {len(failures) - _SHOWN:,} more in quarantine.parquet")
    print(
        f"replays   {made.read:,} read = {made.selected:,} selected + "
        f"{sum(made.rejected.values()):,} rejected{_listed(made.rejected)}"
    )
    print(
        f"episodes  {made.selected:,} x 2 = {written.episodes:,} episodes + "
        f"{len(outcome.quarantine):,} quarantined"
        f"{_listed(collections.Counter(row.reason for row in outcome.quarantine))}"
    )
    print(
        f"dataset   {written.steps:,} steps, {written.size_bytes:,} bytes in "
        f"{len(written.shards):,} shards at {request.output}"
    )
    if outcome.counters:
        print(
            "counters  " + ", ".join(f"{k} {v:,}" for k, v in outcome.counters.items())
        )
    print(written.reference())
    return 1 if failures else 0
