"""`starmill index`: writes a Parquet index with one row for each replay."""

import argparse
import collections
import dataclasses
import logging

from apache_beam.options.pipeline_options import PipelineOptions

from starmill import pack_options, progress
from starmill.engines.replays import replay_file
from starmill.pipelines import claims, index, local_runner
from starmill.pipelines.inputs import packs, sources
from starmill.schema import errors, replay_index, selection, storage
from starmill.schema.card import BLIZZARD_LICENSE

EXAMPLES = """\
  starmill index replays/ --out index.parquet
  starmill index 'packs/*.zip' --pack-password env:PASSWORD --accept-license --out index.parquet
  starmill index s3://bucket/replays --out s3://bucket/index.parquet --selection unplugged
"""
_LOCAL = "FnApiRunner"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "replays",
        nargs="+",
        metavar="REPLAYS",
        help="replay files, folders, globs, zip packs or URLs (s3://, gs://, memory://)",
    )
    parser.add_argument(
        "--out", required=True, metavar="INDEX.parquet", help="the index to write"
    )
    parser.add_argument(
        "--selection",
        metavar="NAME|FILE.json",
        help="decode game events only in replays that this selection would keep",
    )
    parser.add_argument(
        "--no-events",
        action="store_true",
        help="never decode game events: faster, but misses damage in them",
    )
    pack_options.add_password(parser)
    pack_options.add_license(parser)
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a limit on what one replay may cost: "
        + ", ".join(f"{k}={v}" for k, v in vars(replay_file.DEFAULT_LIMITS).items()),
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="worker processes on this machine (default: %(default)s)",
    )
    parser.add_argument(
        "--runner", default=_LOCAL, help="runner of Beam (default: %(default)s)"
    )
    parser.add_argument(
        "--beam",
        action="append",
        default=[],
        metavar="--OPTION=VALUE",
        help="an option of Beam, like --beam=--flink_master=host:8081",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace an index that exists"
    )


def run(args: argparse.Namespace) -> int:
    """Writes the index and lists the broken replays; exits 1 if there are any."""
    if storage.exists(args.out) and not args.overwrite:
        raise errors.ConfigError(f"{args.out}: exists; pass --overwrite to replace it")
    settings = index.IndexSettings(
        limits=_limits(args.limit),
        selection=selection.load(args.selection) if args.selection else None,
        events=not args.no_events,
        password=packs.password_source(
            args.pack_password, is_local=args.runner == _LOCAL
        ),
    )
    inputs = sources.find(args.replays)
    if not inputs.units:
        raise errors.ConfigError("expected replays, found only empty packs")
    if inputs.encrypted and (args.pack_password is None or not args.accept_license):
        raise errors.ConfigError(
            "some packs are encrypted: pass --pack-password, and --accept-license if you "
            f"accept the license at {BLIZZARD_LICENSE}"
        )
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    folder = index.parts_folder(args.out)
    fingerprint = settings.fingerprint()
    replays = {
        index.part_name(unit, fingerprint): unit.replays for unit in inputs.units
    }

    def done() -> int:
        return sum(replays.get(name, 0) for name in storage.names(folder))

    options = _beam_options(args)
    with (
        claims.held([folder], take_over=args.overwrite),
        progress.Progress("index", inputs.replays, "replays", done),
    ):
        try:
            index.run(inputs, args.out, settings, options)
        except local_runner.WorkerLost as error:
            raise errors.EngineError(
                f"a worker process died ({error}). This machine may be short of memory: run "
                "the command again with fewer --workers to continue"
            ) from error
        index.remove_parts(args.out)
    return _report(args.out)


def _limits(changes: list[str]) -> replay_file.Limits:
    limits = replay_file.DEFAULT_LIMITS
    for change in changes:
        name, _, value = change.partition("=")
        if name not in vars(limits):
            raise errors.ConfigError(
                f"--limit {change}: expected one of {sorted(vars(limits))}"
            )
        kind = type(getattr(limits, name))
        try:
            limits = dataclasses.replace(limits, **{name: kind(value)})
        except ValueError as error:
            raise errors.ConfigError(f"--limit {change}: {error}") from error
    return limits


def _beam_options(args: argparse.Namespace) -> PipelineOptions:
    options = [f"--runner={args.runner}", *args.beam]
    if args.workers < 1:
        raise errors.ConfigError(f"--workers {args.workers}: expected at least 1")
    if args.workers > 1:
        options += [
            f"--direct_num_workers={args.workers}",
            "--direct_running_mode=multi_processing",
        ]
    return PipelineOptions(options)


def _report(out: str) -> int:
    """Prints every broken replay and a summary; returns the exit code."""
    rows = 0
    reasons: collections.Counter[str] = collections.Counter()
    for batch in replay_index.read_batches(out, ["source", "status", "detail"]):
        rows += batch.num_rows
        for row in batch.to_pylist():
            if row["status"] != "ok":
                reasons[row["status"]] += 1
                print(f"{row['source']}: {row['status']}: {row['detail']}")
    broken = sum(reasons.values())
    listed = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
    print(
        f"{out}: {rows:,} replays, {rows - broken:,} ok, {broken:,} not"
        + (f" ({listed})" if listed else "")
    )
    return 1 if broken else 0
