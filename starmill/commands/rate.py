"""`starmill rate`: ratings from games already played."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from starmill.benchmark.ratings import (
    elo,
    references,
    results,
    standings,
    winrates,
)
from starmill.benchmark.reports import page, report
from starmill.schema import errors
from starmill.schema.archives import json_text

EXAMPLES = """\
  starmill rate results.csv
  starmill rate results.csv --anchor very_hard --json
  starmill rate results.csv --intervals bootstrap --html report.html
  starmill rate new.csv --references ratings.json    a new agent against fixed ratings
  starmill rate new.csv --references paper           against the paper's printed ratings
  starmill rate new.csv --references skirmish        against the embedded game's opponents

The file is CSV with the columns home, away, home_race, away_race (terran, zerg, protoss) and
outcome (1 home won, 0 draw, -1 home lost). Files that `starmill evaluate` writes have them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the sub-command's options."""
    parser.add_argument("results", type=Path, metavar="RESULTS.csv")
    parser.add_argument(
        "--anchor",
        help=f"agent whose rating is fixed (default: {elo.ANCHOR}, or, if it did not play, "
        "the away agent of the first game)",
    )
    parser.add_argument(
        "--anchor-elo",
        type=float,
        default=elo.ANCHOR_ELO,
        help="the anchor's rating (%(default)g)",
    )
    parser.add_argument(
        "--references",
        metavar="RATINGS.json|paper|skirmish",
        help="fixed ratings: {agent: elo}, or the output of --json; every other agent is "
        "rated against them, one at a time",
    )
    parser.add_argument(
        "--intervals",
        choices=("analytic", "bootstrap"),
        default="analytic",
        help="how Elo intervals are computed (%(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the bootstrap (%(default)s)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON, one entry per agent"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write an HTML page"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write Markdown"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the ratings. Notes go to stderr, so stdout holds the table alone."""
    games = results.read_games(args.results)
    table = winrates.tabulate(games)
    fixed = None if args.references is None else _references(args.references)
    if args.references == "skirmish" and results.has_columns(args.results):
        references.check_skirmish_games(results.read_results(args.results))
    anchor = args.anchor or elo.ANCHOR
    if fixed is None:
        # `evaluate` rates against its first opponent if very_hard does not play.
        if args.anchor is None and anchor not in table.agents:
            anchor = games[0].away
        table.index(anchor)
    lines = standings.standings(
        table,
        anchor,
        anchor_elo=args.anchor_elo,
        references=fixed,
        method=args.intervals,
        seed=args.seed,
    )
    if args.json:
        by_agent = {line.agent: line.to_json() for line in lines}
        print(json.dumps(by_agent, indent=2, allow_nan=False))
    else:
        print(report.table_text(lines))
    for line in lines:
        for note in line.notes:
            print(f"{line.agent}: {note}", file=sys.stderr)
    if table.mirrors:
        print(
            f"{table.mirrors} games of an agent against itself are not counted",
            file=sys.stderr,
        )
    if args.html or args.markdown:
        _write_reports(args, anchor, table, lines)
    return 0


def _write_reports(
    args: argparse.Namespace,
    anchor: str,
    table: winrates.WinTable,
    lines: list[standings.Standing],
) -> None:
    played = (
        results.read_results(args.results) if results.has_columns(args.results) else []
    )
    content = report.build(
        table, lines, anchor=anchor, results=played, folder=args.results.parent
    )
    if args.html:
        page.write_html(content, args.html)
    if args.markdown:
        report.write_markdown(content, args.markdown)


def _references(where: str) -> dict[str, float]:
    if where in references.BY_NAME:
        return references.BY_NAME[where]()
    path = Path(where)
    try:
        data: Any = json_text.parse(path.read_text("utf-8"))
    except OSError as error:
        raise errors.ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise errors.ConfigError(f"{path}: expected JSON: {error}") from error
    if not isinstance(data, dict):
        raise errors.ConfigError(f"{path}: expected an object of agent: elo")
    ratings = {
        name: value["elo"] if isinstance(value, dict) and "elo" in value else value
        for name, value in data.items()
    }
    return elo.check_ratings(ratings, str(path))
