"""`starmill select`: counts which replays of an index a selection keeps, and why."""

import argparse
import dataclasses
import json

from starmill.pipelines.planning import census
from starmill.schema import errors, replay_index, selection
from starmill.schema.archives import json_text

EXAMPLES = """\
  starmill select index.parquet --selection unplugged
  starmill select index.parquet --selection unplugged --set mmr_scope=both --json
  starmill select index.parquet --selection mine.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("index", metavar="INDEX.parquet", help="from `starmill index`")
    parser.add_argument(
        "--selection",
        required=True,
        metavar="NAME|FILE.json",
        help=f"rules: {', '.join(selection.PRESETS)}, or a JSON file (docs/replays.md)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="RULE=VALUE",
        help="change one rule, with a value in JSON or a bare word: min_mmr=6000",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the resolved rules, then stop"
    )


def run(args: argparse.Namespace) -> int:
    """Counts and prints; exits 1 if nothing is kept."""
    rules = changed(selection.load(args.selection), args.set)
    if args.dry_run:
        print(json.dumps(rules.to_json(), indent=1))
        return 0
    counts = census.take(replay_index.read_batches(args.index, census.COLUMNS), rules)
    if args.json:
        print(json.dumps({"selection": rules.to_json(), **counts.to_json()}, indent=1))
    else:
        print(f"selection {rules.name}\n" + census.text(counts))
    return 0 if counts.kept_replays else 1


def changed(rules: selection.Selection, changes: list[str]) -> selection.Selection:
    """Returns the selection with the rules of `--set RULE=VALUE` changed."""
    values = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals:
            raise errors.ConfigError(
                f"--set {change}: expected RULE=VALUE, like min_mmr=6000"
            )
        try:
            values[name] = json_text.parse(text)
        except ValueError:  # a bare word, like both
            values[name] = text
    if not values:
        return rules
    parsed = selection.from_json(values)
    return dataclasses.replace(
        rules, **{name: getattr(parsed, name) for name in values}
    )
