"""Two evaluations side by side: ratings, win rates, how agents play, game lengths and maps.

In: the folders of two evaluations. Out: an HTML page. Ratings compare only if both evaluations have the
same anchor and the same engine, and the page says so if they have not.
"""

import collections
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from starmill.benchmark.comparisons import page
from starmill.benchmark.comparisons.page import Points, Sides
from starmill.benchmark.ratings import results
from starmill.benchmark.ratings.results import Result
from starmill.benchmark.reports import report
from starmill.schema import errors
from starmill.schema.archives import json_text
from starmill.schema.game_constants import LOOPS_PER_MINUTE

# Numbers of `play` that are compared, with their digits.
_PLAY = {
    "commands_per_minute": 0,
    "decision_share": 3,
    "refused_share": 3,
    "attacking_games": 0,
    "first_attack": 1,
    "attack_share": 2,
    "supply": 0,
    "bank": 0,
}


def render(first: Path, second: Path) -> str:
    """Returns the page."""
    names = [folder.resolve().name for folder in (first, second)]
    if names[0] == names[1]:
        names = [str(first), str(second)]
    sides = Sides(names[0], names[1])
    a, b = _content(first), _content(second)
    games = [results.read_results(folder / results.FILE) for folder in (first, second)]
    sections = [
        _warning(a, b),
        page.section(
            "Ratings", page.facts("Elo, with 95% intervals", sides, _elo(a, b))
        ),
        page.section(
            "Win rates, %", page.facts("Agent against opponent", sides, _rates(a, b))
        ),
        page.section("How they play", page.facts("Agents", sides, _play(a, b))),
        page.section(
            "Games",
            page.curves(
                "Length in minutes, % of games",
                sides,
                _lengths(games[0]),
                _lengths(games[1]),
                "minutes",
            ),
            page.shares(
                "Endings", _counts(games[0], "ending"), _counts(games[1], "ending")
            ),
            page.shares(
                "Maps", _counts(games[0], "map_name"), _counts(games[1], "map_name")
            ),
        ),
    ]
    about = "; ".join(
        f"{name}: {len(rows):,} {'game' if len(rows) == 1 else 'games'} on "
        f"{content['about'].get('engine', 'unknown engine')}"
        for name, rows, content in zip(sides, games, (a, b), strict=True)
    )
    return page.render(f"{sides.first} and {sides.second}", about, sides, sections)


def _content(folder: Path) -> dict[str, Any]:
    path = folder / report.JSON
    try:
        content: dict[str, Any] = json_text.parse(path.read_text("utf-8"))
        missing = [key for key in ("agents", "anchor", "order", "win_rate", "about", "play")
                   if key not in content]  # fmt: skip
    except (OSError, ValueError, TypeError) as error:
        raise errors.FormatError(f"{path}: expected JSON: {error}") from error
    if missing:
        raise errors.FormatError(
            f"{path}: expected a report as `starmill evaluate` writes it, found no {missing}; "
            "run `starmill evaluate` in its folder again"
        )
    return content


def _warning(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    reasons = []
    if a["anchor"] != b["anchor"]:
        reasons.append("their anchors differ")
    if a["about"].get("engine") != b["about"].get("engine"):
        reasons.append("their engines differ")
    if not reasons:
        return ""
    return f'<p class="note warning">Ratings are not comparable: {" and ".join(reasons)}.</p>'


def _agents(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*a["order"], *b["order"]]))


def _elo(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    for agent in _agents(a, b):
        cells = []
        for side in (a, b):
            line = side["agents"].get(agent)
            if line is None:
                cells.append("-")
                continue
            low, high = line.get("elo_low"), line.get("elo_high")
            text = (
                page.number(line["elo"]) if line["elo"] is not None else line["status"]
            )
            if line["status"] != "fixed" and (low is not None or high is not None):
                ends = [
                    "-inf" if low is None else page.number(low),
                    "inf" if high is None else page.number(high),
                ]
                text += f" ({' to '.join(ends)})"
            cells.append(text)
        rows.append((agent, cells[0], cells[1]))
    return rows


def _rates(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    tables = [
        {
            (row, column): rate
            for row, rates in zip(side["order"], side["win_rate"], strict=True)
            for column, rate in zip(side["order"], rates, strict=True)
            if rate is not None
        }
        for side in (a, b)
    ]
    order = _agents(a, b)
    pairs = [(one, other) for i, one in enumerate(order) for other in order[i + 1 :]]
    return [
        (
            f"{one} against {other}",
            *(
                page.number(None if rate is None else 100 * rate)
                for rate in (table.get((one, other)) for table in tables)
            ),
        )  # type: ignore[misc]  # two cells follow the name
        for one, other in pairs
        if any((one, other) in table for table in tables)
    ]


def _play(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    players = [side["play"].get("agents", {}) for side in (a, b)]
    rows = []
    for agent in _agents(a, b):
        for name, digits in _PLAY.items():
            values = [side.get(agent, {}).get(name) for side in players]
            if values != [None, None]:
                cells = [page.number(value, digits) for value in values]
                rows.append((f"{agent}: {name.replace('_', ' ')}", cells[0], cells[1]))
    return rows


def _counts(games: Sequence[Result], column: str) -> dict[str, float]:
    return dict(collections.Counter(str(getattr(game, column)) for game in games))


def _lengths(games: Sequence[Result]) -> Points:
    minutes = [game.game_loops / LOOPS_PER_MINUTE for game in games]
    if not minutes:
        return []
    edges = np.arange(0, np.ceil(max(minutes)) + 2)
    counts, _ = np.histogram(minutes, edges)
    return [
        (float(low) + 0.5, 100 * int(count) / len(minutes))
        for low, count in zip(edges, counts, strict=False)
    ]
