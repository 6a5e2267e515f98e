"""`starmill generate`: builds a dataset from replays, on this machine or on a cluster."""

import argparse
import atexit
import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from starmill import pack_options, progress
from starmill.engines import client, installation, pool
from starmill.pipelines import cost, episode_maker, generate, local_runner, plan
from starmill.pipelines.inputs import packs
from starmill.pipelines.jobs import beam_options
from starmill.schema import errors, selection
from starmill.schema.archives import json_text
from starmill.schema.card import BLIZZARD_LICENSE
from starmill.schema.settings import UNPLUGGED, ConverterSettings

# Options that argparse does not know go to Beam.
PASSES_ON = True
EXAMPLES = """\
  starmill generate --replays replays/ --selection skirmish --output data --sc2 skirmish
  starmill generate --replays 'packs/*.zip' --selection unplugged --output data --dry-run
  starmill generate --replays replays/ --selection unplugged --output s3://bucket/data \\
      --runner=FlinkRunner --flink_master=localhost:8081 --environment_type=LOOPBACK
  starmill generate --replays more/ --selection skirmish --output data2 --version 1.1.0 \\
      --extend data --sc2 skirmish
  starmill generate --replays more/ --selection skirmish --output data --version 1.1.0 \\
      --extend data --sc2 skirmish

Options that are not listed above are Beam's.
"""
_LOCAL = "FnApiRunner"
_TEMP_PREFIX, _TEMP_LOCK = "starmill-beam-", "lock"
# Failures that are printed; the others are in quarantine.parquet.
_SHOWN = 20
# How often the command starts again after losing a worker process.
_RETRIES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    source = parser.add_argument_group("what to build")
    source.add_argument(
        "--replays",
        nargs="+",
        default=[],
        metavar="SRC",
        help="replay files, folders, globs, zip packs or URLs",
    )
    source.add_argument(
        "--index",
        metavar="INDEX.parquet",
        help="an index from `starmill index`, instead of --replays",
    )
    source.add_argument(
        "--selection",
        required=True,
        metavar="NAME|FILE.json",
        help=f"which replays to keep: {', '.join(selection.PRESETS)}, or a file of rules",
    )
    source.add_argument(
        "--settings",
        metavar="FILE.json",
        help="converter settings in the reference's JSON (default: AlphaStar Unplugged's)",
    )
    source.add_argument(
        "--extend",
        metavar="DATASET",
        help="reuse the episodes that this dataset already has; with the dataset's own folder as "
        "--output, add the new replays to it, and leave its files as they are",
    )
    pack_options.add_password(source)
    pack_options.add_license(source)
    _add_output_arguments(parser.add_argument_group("where to write it"))
    _add_engine_arguments(parser.add_argument_group("how to build it"))


def _add_output_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--output", required=True, metavar="DEST", help="folder or URL of the dataset"
    )
    group.add_argument(
        "--work",
        metavar="DIR",
        help="empty folder for unfinished work (default: DEST/_work)",
    )
    group.add_argument(
        "--name", help="name of the dataset (default: the selection's name)"
    )
    group.add_argument(
        "--version",
        default="1.0.0",
        help="version of the dataset (default: %(default)s)",
    )
    group.add_argument(
        "--replays-per-shard",
        type=int,
        default=64,
        metavar="N",
        help="on average (default: %(default)s)",
    )
    group.add_argument(
        "--keep-work", action="store_true", help="keep the work folder at the end"
    )
    group.add_argument(
        "--take-over",
        action="store_true",
        help="continue a build whose process on another machine no longer runs",
    )
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="print the plan and its cost, and write nothing (but the index to --work)",
    )
    group.add_argument("--json", action="store_true", help="print the summary as JSON")


def _add_engine_arguments(group: argparse._ArgumentGroup) -> None:
    defaults = pool.PoolConfig(root="")
    group.add_argument(
        "--sc2",
        metavar="PATH|skirmish",
        help="folder of StarCraft II (default: $SC2PATH), or the embedded game",
    )
    group.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="worker processes on this machine (default: one per core)",
    )
    group.add_argument(
        "--runner", default=_LOCAL, help="runner of Beam (default: %(default)s)"
    )
    group.add_argument(
        "--one-process",
        action="store_true",
        help="play both sides in one game, one after the other, which halves the memory",
    )
    group.add_argument(
        "--attempts",
        type=int,
        default=3,
        metavar="N",
        help="how often a side is played before it is quarantined (default: %(default)s)",
    )
    group.add_argument(
        "--max-replays", type=int, default=defaults.max_replays, metavar="N",
        help="replays after which a game process is replaced (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--max-idle", type=int, default=defaults.max_idle, metavar="N",
        help="idle game processes that a worker keeps (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--max-idle-gb", type=float, default=defaults.max_idle_bytes / (1 << 30), metavar="GB",
        help="memory of the idle game processes that a worker keeps; games of another version "
        "end when one of the next does not fit beside them (default: %(default)s)",
    )  # fmt: skip
    for field in dataclasses.fields(client.Deadlines):
        group.add_argument(
            f"--{field.name}-deadline",
            type=float,
            default=field.default,
            metavar="SECONDS",
            help="time that the game has to answer (default: %(default)s)",
        )
    group.add_argument(
        "--retry", type=int, default=0, help=argparse.SUPPRESS
    )  # how often the command has started again after losing a worker


def run(args: argparse.Namespace) -> int:
    """Builds the dataset and prints its reference last; exits 1 if any side failed."""
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    options = _beam_options(args)
    request = _request(args)
    try:
        with _temp_folder() as temporary:
            if args.dry_run:
                return _dry_run(args, request, options, temporary)
            with generate.claimed(request, take_over=args.take_over) as token:
                build_plan = generate.prepare(request, options)
                outcome = generate.run(
                    request,
                    build_plan,
                    options,
                    lambda _: _watch(request, build_plan),
                    token,
                )
    except local_runner.WorkerLost as error:
        local_runner.end_children()
        _start_again(args, error)
    except KeyboardInterrupt:
        # Of two interrupts, the second one would end the command in the middle of this.
        local_runner.ignore_interrupts()
        # Games end with their workers.
        local_runner.end_children()
        print("interrupted; run the same command again to continue", file=sys.stderr)
        sys.stderr.flush()
        local_runner.exit_at_once(130)
    return _print_outcome(args, request, outcome)


def _dry_run(
    args: argparse.Namespace,
    request: generate.Request,
    options: list[str],
    temporary: str,
) -> int:
    """Prints the plan. It writes to no folder but --work, where the build finds the index."""
    generate.check_destination(request)
    if request.work is None:
        request = dataclasses.replace(request, work=os.path.join(temporary, "work"))  # noqa: PTH118  # a plain string
        return _print_plan(args, request, generate.prepare(request, options))
    with generate.claimed(request, take_over=args.take_over):
        return _print_plan(args, request, generate.prepare(request, options))


@contextlib.contextmanager
def _temp_folder() -> Iterator[str]:
    """Gives Beam a temporary folder of its own, because it leaves files in it.

    The folder is deleted at exit, after Beam's own exit handlers, which still need it. A
    process that is killed leaves its folder; the next one deletes it, as its lock is free.
    """
    before = tempfile.tempdir
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = tempfile.mkdtemp(prefix=_TEMP_PREFIX)
    lock = os.open(os.path.join(folder, _TEMP_LOCK), os.O_CREAT | os.O_RDWR)  # noqa: PTH118  # as tempfile has it
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tempfile.tempdir = folder
    try:
        yield folder
    except (KeyboardInterrupt, local_runner.WorkerLost):
        shutil.rmtree(folder, ignore_errors=True)  # these skip the exit handlers
        raise
    finally:
        tempfile.tempdir = before


def _remove_abandoned(parent: Path) -> None:
    """Deletes the temporary folders of processes that were killed."""
    for folder in parent.glob(_TEMP_PREFIX + "*"):
        with contextlib.suppress(OSError):  # another user's, or another process has it
            lock = os.open(folder / _TEMP_LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _start_again(args: argparse.Namespace, error: local_runner.WorkerLost) -> NoReturn:
    if args.retry >= _RETRIES:
        raise errors.EngineError(
            f"workers died {args.retry + 1} times ({error}). The machine may be short of "
            "memory: run the command again with fewer --workers to continue"
        )
    print(f"generate  a worker died ({error}); continuing", file=sys.stderr, flush=True)
    arguments = [word for word in sys.argv[1:] if not word.startswith("--retry=")]
    os.execve(
        sys.executable,
        [sys.executable, "-m", "starmill", *arguments, f"--retry={args.retry + 1}"],
        {**os.environ, local_runner.SAFE_PATH: "1"},
    )


def _request(args: argparse.Namespace) -> generate.Request:
    rules = selection.load(args.selection)
    if args.pack_password and not args.accept_license:
        raise errors.ConfigError(
            f"--pack-password: pass --accept-license if you accept {BLIZZARD_LICENSE}"
        )
    root = args.sc2 or os.environ.get("SC2PATH")
    if not root:
        raise errors.ConfigError(
            "no game: set SC2PATH or --sc2 to the folder of StarCraft II, or use the "
            "embedded game with --sc2 skirmish"
        )
    if root != pool.SKIRMISH:
        root = os.path.abspath(os.path.expanduser(root))  # noqa: PTH100, PTH111  # a plain string for workers
        if args.runner == _LOCAL:  # on a cluster, the folder is on the workers
            installation.find(Path(root))
    output = args.output.rstrip("/")
    deadlines = client.Deadlines(
        start=args.start_deadline, load=args.load_deadline, play=args.play_deadline
    )
    return generate.Request(
        replays=tuple(args.replays),
        index=args.index,
        selection=rules,
        output=output,
        work=args.work,
        name=args.name or generate.name_in_place(args.extend, output) or rules.name,
        version=args.version,
        pool=pool.PoolConfig(
            root=root,
            deadlines=deadlines,
            max_idle=args.max_idle,
            max_idle_bytes=round(args.max_idle_gb * (1 << 30)),
            max_replays=args.max_replays,
        ),
        config=episode_maker.MakerConfig(
            settings=_settings(args.settings),
            attempts=args.attempts,
            one_process=args.one_process,
        ),
        replays_per_shard=args.replays_per_shard,
        extend=args.extend,
        password=packs.password_source(
            args.pack_password, is_local=args.runner == _LOCAL
        ),
        keep_work=args.keep_work,
    )


def _settings(path: str | None) -> ConverterSettings:
    if path is None:
        return UNPLUGGED
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  # one read
            return ConverterSettings.from_json(json_text.parse(file.read()))
    except (OSError, ValueError) as error:
        raise errors.ConfigError(f"--settings {path}: {error}") from error


def _beam_options(args: argparse.Namespace) -> list[str]:
    if args.workers < 1:
        raise errors.ConfigError(f"--workers {args.workers}: expected at least 1")
    options = beam_options.checked(args.runner, args.beam, "generate")
    if args.runner == _LOCAL and args.workers > 1:
        options += [
            "--direct_running_mode=multi_processing",
            f"--direct_num_workers={args.workers}",
        ]
    return options


@contextlib.contextmanager
def _watch(request: generate.Request, build_plan: plan.BuildPlan) -> Iterator[None]:
    """Prints what was selected, then the progress until the block ends."""
    rejected = sum(build_plan.rejected.values())
    print(
        f"generate  read {build_plan.read:,} replays: "
        f"selected {build_plan.selected:,}, "
        f"rejected {rejected:,}{_listed(build_plan.rejected)}",
        file=sys.stderr,
        flush=True,
    )

    def done() -> int:
        return build_plan.reused + generate.count_parts(request.work_folder)

    with progress.Progress("generate", build_plan.selected, "replays", done):
        yield


def _listed(counts: Mapping[str, int]) -> str:
    """Returns " (reason count, ...)", largest first; "" if there are none."""
    if not counts:
        return ""
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return " (" + ", ".join(f"{reason} {n:,}" for reason, n in pairs) + ")"


def _print_plan(
    args: argparse.Namespace, request: generate.Request, build_plan: plan.BuildPlan
) -> int:
    expected = cost.estimate(build_plan, engine=build_plan.engine)
    if args.json:
        print(json.dumps(cost.to_json(build_plan, expected), sort_keys=True))
        return 0
    rules = json.dumps(request.job()["selection"])
    rejected = sum(build_plan.rejected.values())
    shard_counts = dict(build_plan.shard_counts)
    print(f"selection    {request.selection.name}: {rules}")
    print(f"replays      {build_plan.read:,} read, {build_plan.selected:,} selected")
    print(f"rejected     {rejected:,}{_listed(build_plan.rejected)}")
    print(
        f"episodes     {build_plan.sides:,} selected, "
        f"{build_plan.reused:,} replays reused"
    )
    print(f"shards       {sum(shard_counts.values()):,} {shard_counts}")
    for line in cost.lines(expected):
        print(line)
    return 0


def _print_outcome(
    args: argparse.Namespace, request: generate.Request, outcome: generate.Outcome
) -> int:
    content = outcome.manifest
    if args.json:
        print(json.dumps(_summary(outcome), sort_keys=True))
    for row in outcome.examples[:_SHOWN]:
        print(f"{row.replay_id}-{row.player_id}: {row.reason}: {row.detail}")
    if {"engine_missing", "engine_refused"} & set(outcome.failed):
        print(f"SC2PATH   the game's folder was {request.pool.root} (--sc2 or SC2PATH)")
    failures = sum(outcome.failed.values())
    if failures > _SHOWN:
        print(f"... and {failures - _SHOWN:,} more in quarantine.parquet")
    _print_counts(outcome)
    print(
        f"dataset   {content.steps:,} steps, {content.size_bytes:,} bytes in "
        f"{len(content.shards):,} shards at {request.output}"
    )
    if outcome.counters:
        counters = (f"{name} {count:,}" for name, count in outcome.counters.items())
        print("counters  " + ", ".join(counters))
    print(content.reference())
    return 1 if outcome.failed else 0


def _print_counts(outcome: generate.Outcome) -> None:
    """Prints the two sums that show that nothing was dropped."""
    build_plan = outcome.plan
    unselected = outcome.plan.unselected
    failures = sum(outcome.failed.values())
    print(
        f"replays   {build_plan.read:,} read = {build_plan.selected:,} selected + "
        f"{sum(build_plan.rejected.values()):,} rejected{_listed(build_plan.rejected)}"
    )
    print(
        f"episodes  {build_plan.selected:,} x 2 = "
        f"{outcome.episodes:,} episodes + "
        f"{outcome.unselected:,} not selected{_listed(unselected)} + "
        f"{failures:,} quarantined{_listed(outcome.failed)}"
    )


def _summary(outcome: generate.Outcome) -> dict[str, Any]:
    build_plan, content = outcome.plan, outcome.manifest
    return {
        "read": build_plan.read,
        "selected": build_plan.selected,
        "rejected": dict(build_plan.rejected),
        "episodes": outcome.episodes,
        "quarantined": sum(outcome.failed.values()),
        "failed": dict(outcome.failed),
        "unselected": dict(build_plan.unselected),
        "steps": content.steps,
        "bytes": content.size_bytes,
        "versions": len(content.statistics["by_game_version"]),
        "counters": dict(outcome.counters),
        "reference": content.reference(),
    }
