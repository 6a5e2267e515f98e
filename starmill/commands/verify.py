"""`starmill verify`: re-hash, re-decode and re-play a dataset; lists every problem."""

import argparse
import json
import os
import threading

from starmill import progress
from starmill.engines.pool import Pool, PoolConfig
from starmill.pipelines import episode_maker, index, verify
from starmill.pipelines.inputs import sources
from starmill.schema import errors, manifest, registry, replay_index, storage, table
from starmill.schema.replay_row import ReplayRow

EXAMPLES = """\
  starmill verify data
  starmill verify 'data#sha256:0f3c...'
  starmill verify data --replay 5 --replays replays/ --sc2 skirmish
"""
_SHOWN = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("dataset", metavar="DATASET", help="path, URL or reference")
    parser.add_argument(
        "--replay",
        metavar="SAMPLE",
        help="play this many replays again and compare; or a comma list of replay ids",
    )
    parser.add_argument(
        "--replays", nargs="+", default=[], metavar="SRC", help="where the replays are"
    )
    parser.add_argument("--pack-password", metavar="PASSWORD", help="of zip packs")
    parser.add_argument(
        "--sc2", metavar="PATH|skirmish", help="the game's folder (default: $SC2PATH)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="threads (default: one per core)",
    )
    parser.add_argument("--registry", metavar="FILE", help="where names are looked up")
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Verifies; exit 1 if anything is wrong."""
    folder, content = registry.open_manifest(args.dataset, args.registry)
    done = [0]
    lock = threading.Lock()

    def on_shard() -> None:
        with lock:
            done[0] += 1

    with progress.Progress("verify", len(content.shards), "shards", lambda: done[0]):
        checked = verify.verify(
            folder, content, threads=args.workers, on_shard=on_shard
        )
    problems = list(checked.problems)
    played = 0
    if args.replay:
        again, played = _replay(args, folder, content)
        problems += again
    _print(args, content, checked, problems, played)
    return 1 if problems else 0


def _replay(
    args: argparse.Namespace, folder: str, content: manifest.Manifest
) -> tuple[list[verify.Problem], int]:
    root = args.sc2 or os.environ.get("SC2PATH")
    if not root or not args.replays:
        raise errors.ConfigError(
            "--replay needs --replays (where the files are) and --sc2 or SC2PATH"
        )
    rows = table.parse_table(
        storage.read(storage.join(folder, table.EPISODES)),
        table.EPISODE_SCHEMA,
        table.EPISODES,
    )
    if args.replay.isdigit():
        wanted = verify.sample(rows, int(args.replay))
    else:
        wanted = args.replay.split(",")
    found = _find(args, set(wanted))
    pool = Pool(PoolConfig(root=root))
    try:
        player = episode_maker.EpisodeMaker(
            pool, episode_maker.MakerConfig(settings=content.settings)
        )
        problems = list(
            verify.replayed(
                folder, content, rows, found, wanted, player, args.pack_password
            )
        )
    finally:
        pool.close()
    return problems, len(wanted)


def _find(args: argparse.Namespace, wanted: set[str]) -> dict[str, ReplayRow]:
    """Returns the rows of the wanted replays; reads files until all are found."""
    found: dict[str, ReplayRow] = {}
    if len(args.replays) == 1 and args.replays[0].endswith(".parquet"):
        rows = replay_index.read_rows(args.replays[0])
        return {row.replay_id: row for row in rows if row.replay_id in wanted}
    settings = index.IndexSettings(events=False, password=args.pack_password)
    for unit in sources.find(args.replays).units:
        for row in index.rows_of(unit, settings):
            if row.replay_id in wanted:
                found[row.replay_id] = row
        if len(found) == len(wanted):
            break
    return found


def _print(
    args: argparse.Namespace,
    content: manifest.Manifest,
    checked: verify.Checked,
    problems: list[verify.Problem],
    played: int,
) -> None:
    if args.json:
        result = {
            "reference": content.reference(),
            "problems": [problem._asdict() for problem in problems],
            "files": checked.files,
            "episodes": checked.episodes,
            "steps": checked.steps,
            "replayed": played,
        }
        print(json.dumps(result, sort_keys=True))
        return
    for problem in problems[:_SHOWN]:
        print(problem)
    if len(problems) > _SHOWN:
        print(f"... and {len(problems) - _SHOWN:,} more (all with --json)")
    print(
        f"{'PROBLEMS' if problems else 'ok'}  {len(problems):,} problems in "
        f"{checked.files:,} files, {checked.episodes:,} episodes, "
        f"{checked.steps:,} steps"
        + (f"; {played:,} replays played again" if played else "")
    )
    print(content.reference())
