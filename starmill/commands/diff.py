"""`starmill diff`: which facts, settings, episodes and arrays differ between two datasets."""

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
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("first", metavar="A", help="path, URL or reference")
    parser.add_argument("second", metavar="B", help="path, URL or reference")
    parser.add_argument("--json", action="store_true", help="all of it as JSON")
    parser.add_argument("--registry", metavar="FILE", help="where names are looked up")


def run(args: argparse.Namespace) -> int:
    """Prints what differs; exit 0 if nothing does, 1 if something."""
    first = dataset.open_dataset(args.first, registry_file=args.registry)
    second = dataset.open_dataset(args.second, registry_file=args.registry)
    done = [0]

    def count() -> None:
        done[0] += 1

    shared = set(first.table.column("episode_id").to_pylist()) & set(
        second.table.column("episode_id").to_pylist()
    )
    with progress.Progress("diff", len(shared), "episodes", lambda: done[0]):
        found = differences.compare(first, second, count)
    if args.json:
        print(json.dumps(dataclasses.asdict(found), sort_keys=True, indent=1))
    else:
        print(_text(found))
    return 0 if found.is_empty else 1


def _text(found: differences.Differences) -> str:
    if found.is_empty:
        return f"the same: {found.same_episodes:,} episodes"
    lines = [
        f"{change.name}: {change.first!r} -> {change.second!r}"
        for change in (*found.facts, *found.arrays)
    ]
    for title, names in (
        ("only in A", found.only_first),
        ("only in B", found.only_second),
    ):
        if names:
            lines.append(f"{title}: {len(names):,} episodes")
            lines += [f"  {name}" for name in names[:_SHOWN]]
            lines += [f"  and {len(names) - _SHOWN:,} more"] * (len(names) > _SHOWN)
    if found.changed:
        lines.append(f"changed: {len(found.changed):,} episodes")
        for name in list(found.changed)[:_SHOWN]:
            lines.append(f"  {name}")
            lines += [f"    {what}" for what in found.changed[name]]
        more = len(found.changed) - _SHOWN
        lines += [f"  and {more:,} more"] * (more > 0)
    lines.append(f"the same: {found.same_episodes:,} episodes")
    return "\n".join(lines)
