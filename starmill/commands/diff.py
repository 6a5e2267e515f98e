"""`starmill diff`: lists what differs between two datasets."""

import argparse
import dataclasses
import json

from starmill import progress
from starmill.pipelines import differences
from starmill.schema.loader import dataset

EXAMPLES = """\
  starmill diff old new
  starmill diff old new --json
"""
# Episodes of each kind that are printed; all of them are in --json.
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("first", metavar="A", help="path, URL or reference")
    parser.add_argument("second", metavar="B", help="path, URL or reference")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--registry", metavar="FILE", help="registry that knows the names"
    )


def run(args: argparse.Namespace) -> int:
    """Prints what differs; exits 1 if anything does."""
    first = dataset.open_dataset(args.first, registry_file=args.registry)
    second = dataset.open_dataset(args.second, registry_file=args.registry)
    done = [0]

    def count() -> None:
        done[0] += 1

    shared = set(first.column("episode_id").to_pylist()) & set(
        second.column("episode_id").to_pylist()
    )
    with progress.Progress("diff", len(shared), "episodes", lambda: done[0]):
        outcome = differences.compare(first, second, count)
    if args.json:
        print(json.dumps(dataclasses.asdict(outcome), sort_keys=True, indent=1))
    else:
        print(_text(outcome))
    return 0 if outcome.is_empty else 1


def _text(outcome: differences.Differences) -> str:
    if outcome.is_empty:
        return f"the same: {outcome.same_episodes:,} episodes"
    lines = [
        f"{change.name}: {change.first!r} -> {change.second!r}"
        for change in (*outcome.facts, *outcome.arrays)
    ]
    for title, names in (
        ("only in A", outcome.only_first),
        ("only in B", outcome.only_second),
    ):
        if names:
            lines.append(f"{title}: {len(names):,} episodes")
            lines += [f"  {name}" for name in names[:_SHOWN]]
            lines += [f"  and {len(names) - _SHOWN:,} more"] * (len(names) > _SHOWN)
    if outcome.changed:
        lines.append(f"changed: {len(outcome.changed):,} episodes")
        for name in list(outcome.changed)[:_SHOWN]:
            lines.append(f"  {name}")
            lines += [f"    {change}" for change in outcome.changed[name]]
        more = len(outcome.changed) - _SHOWN
        lines += [f"  and {more:,} more"] * (more > 0)
    lines.append(f"the same: {outcome.same_episodes:,} episodes")
    return "\n".join(lines)
