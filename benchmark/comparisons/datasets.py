"""Two datasets side by side: size, players, outcomes, lengths, actions and maps.

In: two open datasets. Out: an HTML page.
"""

from typing import Any

import numpy as np

from starmill.benchmark.comparisons import page
from starmill.benchmark.comparisons.page import Points, Sides
from starmill.pipelines.report import report, statistics
from starmill.pipelines.report.statistics import Histogram, Statistics
from starmill.schema.game_constants import LOOPS_PER_MINUTE, RACES
from starmill.schema.loader.dataset import Dataset


def render(first: Dataset, second: Dataset) -> str:
    """Returns the page."""
    names = [f"{one.manifest.name}@{one.manifest.version}" for one in (first, second)]
    if names[0] == names[1]:
        names = [
            f"{name} {one.reference.rpartition(':')[2][:8]}"
            for name, one in zip(names, (first, second), strict=True)
        ]
    sides = Sides(*names)
    a, b = report.numbers(first), report.numbers(second)
    sections = [
        page.section(
            "What they are", page.facts("Facts", sides, _facts(first, second, a, b))
        ),
        page.section(
            "Who plays",
            page.curves(
                "MMR, % of episodes", sides, _curve(a.mmr), _curve(b.mmr), "MMR"
            ),
            page.facts("Wins by race, %", sides, _wins(a, b), wide=False),
            page.shares("Match-ups", dict(a.match_ups), dict(b.match_ups)),
            page.shares("Maps", dict(a.maps), dict(b.maps)),
            page.shares("Game versions", dict(a.versions), dict(b.versions)),
            page.shares("Splits", dict(a.splits), dict(b.splits)),
        ),
        page.section(
            "What happens",
            page.curves(
                "Game length in minutes, % of episodes",
                sides,
                _curve(a.minutes),
                _curve(b.minutes),
                "minutes",
            ),
            page.curves(
                "Steps a minute, % of episodes",
                sides,
                _curve(a.actions_per_minute),
                _curve(b.actions_per_minute),
                "steps a minute",
            ),
            page.shares("Functions", dict(a.functions), dict(b.functions)),
            page.shares("Delays in game loops", _delays(a), _delays(b), in_order=True),
            page.curves(
                "Own units by minute",
                sides,
                a.units_by_minute,
                b.units_by_minute,
                "min",
            ),
        ),
    ]
    sampled = f"Functions, delays and units are of {a.sample:,} and {b.sample:,} sampled episodes."
    return page.render(f"{sides.first} and {sides.second}", sampled, sides, sections)


def _facts(
    first: Dataset, second: Dataset, a: Statistics, b: Statistics
) -> list[tuple[str, str, str]]:
    columns = [_column(first, a), _column(second, b)]
    return [(name, columns[0][name], columns[1][name]) for name in columns[0]]


def _column(data: Dataset, numbers: Statistics) -> dict[str, str]:
    rows: Any = data.table
    rated = [mmr for mmr in rows.column("mmr").to_pylist() if mmr is not None]
    loops = rows.column("game_loops").to_pylist()
    manifest = data.manifest
    return {
        "reference": data.reference,
        "engine": manifest.engine,
        "selection": str(manifest.selection.get("name", "custom")),
        "schema": manifest.schema,
        "replays": page.number(manifest.replays),
        "episodes": page.number(len(data)),
        "steps": page.number(data.steps),
        "hours, each side": page.number(sum(loops) / LOOPS_PER_MINUTE / 60, 1),
        "stored megabytes": page.number(manifest.size_bytes / 1e6, 1),
        "bytes a step": page.number(manifest.size_bytes / max(data.steps, 1)),
        "median MMR": page.number(float(np.median(rated)) if rated else None),
        "episodes without MMR": page.number(numbers.unrated),
        "median minutes": page.number(float(np.median(loops)) / LOOPS_PER_MINUTE, 1),
        "game loops a step": page.number(numbers.delay_compression, 1),
    }


def _wins(a: Statistics, b: Statistics) -> list[tuple[str, str, str]]:
    rows = []
    for race in RACES:
        cells = []
        for side in (a, b):
            wins, draws, losses = side.outcomes[race]
            games = wins + draws + losses
            share = 100 * (wins + draws / 2) / games if games else None
            cells.append(f"{page.number(share, 1)} of {games:,}")
        rows.append((race, cells[0], cells[1]))
    return rows


def _curve(histogram: Histogram) -> Points:
    """Returns the share of each bin, in percent, at its middle."""
    total = sum(histogram.counts)
    if not total:
        return []
    return [
        ((low + high) / 2, 100 * count / total)
        for low, high, count in zip(
            histogram.edges, histogram.edges[1:], histogram.counts, strict=False
        )
    ]


def _delays(numbers: statistics.Statistics) -> dict[str, float]:
    edges = numbers.delays.edges
    return {
        (f"{low:g}" if high == low + 1 else f"{low:g} to {high - 1:g}"): count
        for low, high, count in zip(
            edges, edges[1:], numbers.delays.counts, strict=False
        )
    }
