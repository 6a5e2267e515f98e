"""Renders the report of a dataset as one HTML page.

In: a `Summary`, the statistics, and the viewer's episodes. Out: the page's text. Styles,
scripts and data are all inside, so the page also opens from a mail attachment.
"""

import dataclasses
import html
import string
from collections.abc import Sequence
from importlib import resources

from starmill.pages import charts, document
from starmill.pipelines.report import statistics
from starmill.pipelines.viewing import viewer
from starmill.pipelines.viewing.viewer import Game
from starmill.schema.game_constants import LOOPS_PER_MINUTE
from starmill.schema.settings import ConverterSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The facts that the page states about the dataset.

    Attributes:
        name: of the dataset.
        version: of the dataset, like "1.0.0".
        reference: `name@version#sha256:...`.
        digest: `sha256:...` of the manifest.
        engine: the game that played the replays.
        schema: fingerprint of the array specs.
        selection: name of the selection.
        replays: replays with at least one episode.
        episodes: episodes of the dataset.
        steps: of all episodes.
        game_loops: of all episodes; a game with two episodes counts twice.
        stored_bytes: size of the shards.
        dense_bytes: size of the same steps as plain arrays.
        field_bytes: (field, stored bytes, dense bytes) of a few encoded episodes.
        unselected: (reason, number of sides) that the selection leaves out.
        quarantined: (reason, number of failed episodes).
    """

    name: str
    version: str
    reference: str
    digest: str
    engine: str
    schema: str
    selection: str
    replays: int
    episodes: int
    steps: int
    game_loops: int
    stored_bytes: int
    dense_bytes: int
    field_bytes: Sequence[tuple[str, int, int]]
    unselected: Sequence[tuple[str, int]]
    quarantined: Sequence[tuple[str, int]]


def render(
    summary: Summary,
    numbers: statistics.Statistics,
    games: Sequence[Game],
    settings: ConverterSettings,
) -> str:
    """Returns the page's HTML.

    Args:
        summary: the facts about the dataset.
        numbers: the statistics that the charts show.
        games: what the viewer shows.
        settings: of the converter that made the dataset.
    """
    assets = resources.files("starmill.pipelines.report").joinpath("assets")
    main = string.Template(assets.joinpath("report.html").read_text("utf-8"))
    return document.page(
        title=f"{summary.name} {summary.version}",
        subtitle=summary.reference,
        main=main.substitute(
            body=_body(summary, numbers),
            viewer=viewer.fragment(),
            viewer_note=html.escape(
                f"This file contains {sum(len(game.sides) for game in games)} of "
                f"{summary.episodes:,} episodes. Drag the slider, use the arrow keys, or click "
                "a curve; point at a unit to see its raw values."
            ),
        ),
        footer=(
            f"Made by starmill from {summary.reference}. Engine: {summary.engine}. "
            f"Schema {summary.schema}."
        ),
        style=viewer.style(),
        script=viewer.script(),
        data=viewer.data(games, settings),
    )


def size_text(size_bytes: float) -> str:
    """Returns a size with its unit, like "1.5 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return (
                f"{size_bytes:.0f} {unit}"
                if unit == "B"
                else f"{size_bytes:.1f} {unit}"
            )
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def _card(title: str, body: str) -> str:
    return f'<section class="card"><h3>{html.escape(title)}</h3>{body}</section>'


def _figures(summary: Summary, numbers: statistics.Statistics) -> str:
    hours = summary.game_loops / LOOPS_PER_MINUTE / 60
    per_step = summary.stored_bytes / max(summary.steps, 1)
    shown = [
        ("replays", f"{summary.replays:,}", "replays"),
        ("episodes", f"{summary.episodes:,}", "episodes"),
        ("steps", f"{summary.steps:,}", "steps"),
        ("hours", f"{hours:,.1f} h", "of play, counting each side"),
        ("bytes", size_text(summary.stored_bytes), "in shards"),
        ("bytes-per-step", f"{per_step:,.0f} B", "a step"),
        (
            "compression",
            f"{summary.dense_bytes / max(summary.stored_bytes, 1):,.0f}x",
            "smaller than the dense arrays",
        ),
        ("delay", f"{numbers.delay_compression:.1f}", "game loops a step"),
    ]
    cells = [
        f'<div class="figure"><b id="figure-{key}">{html.escape(value)}</b>'
        f"<span>{html.escape(text)}</span></div>"
        for key, value, text in shown
    ]
    return f'<div class="figures">{"".join(cells)}</div>'


def _body(summary: Summary, numbers: statistics.Statistics) -> str:
    sampled = f"of {numbers.sample:,} sampled episodes"
    sections = [
        _figures(summary, numbers),
        "<h2>Who plays</h2>",
        _grid(
            _card("MMR of the episode's player", _mmr(numbers)),
            _card("Outcomes by race", _outcomes(numbers)),
            _card("Match-ups", _counts(numbers.match_ups)),
            _card("Maps", _counts(numbers.maps)),
            _card("Game versions", _counts(numbers.versions)),
            _card("Splits", _counts(numbers.splits)),
        ),
        "<h2>What happens</h2>",
        _grid(
            _card(
                "Game length, minutes",
                charts.histogram(
                    numbers.minutes.edges,
                    numbers.minutes.counts,
                    unit="minutes",
                    label="episodes by game length",
                ),
            ),
            _card(
                "Steps a minute",
                charts.histogram(
                    numbers.actions_per_minute.edges,
                    numbers.actions_per_minute.counts,
                    unit="steps a minute",
                    label="episodes by steps a minute",
                ),
            ),
            _card(f"Delays, game loops ({sampled})", _delays(numbers)),
            _card(f"Functions ({sampled})", _counts(numbers.functions)),
            _card(
                f"Own units by minute ({sampled})",
                charts.line(
                    numbers.units_by_minute, unit="min", label="own units over time"
                ),
            ),
        ),
        "<h2>What it costs, and what was left out</h2>",
        _grid(
            _card("Stored bytes by field", _fields(summary)),
            _card("Sides that the selection leaves out", _counts(summary.unselected)),
            _card("Sides that failed", _counts(summary.quarantined)),
            _card("What this is", _identity(summary)),
        ),
    ]
    return "\n".join(sections)


def _grid(*cards: str) -> str:
    return f'<div class="grid">{"".join(cards)}</div>'


def _mmr(numbers: statistics.Statistics) -> str:
    chart = charts.histogram(
        numbers.mmr.edges, numbers.mmr.counts, unit="MMR", label="episodes by MMR"
    )
    if not numbers.unrated:
        return chart
    return f'{chart}<p class="note">{numbers.unrated:,} episodes have no MMR.</p>'


def _delays(numbers: statistics.Statistics) -> str:
    edges, counts = numbers.delays.edges, numbers.delays.counts
    total = max(sum(counts), 1)
    rows = []
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        name = f"{low:g}" if high == low + 1 else f"{low:g} to {high - 1:g}"
        rows.append((name, float(count), f"{100 * count / total:.1f}%"))
    return charts.bars(rows)


def _counts(pairs: Sequence[tuple[str, int]], most: int = 14) -> str:
    rows = [(name, float(count), f"{count:,}") for name, count in pairs[:most]]
    rest = pairs[most:]
    note = (
        f'<p class="note">and {len(rest)} more, {sum(n for _, n in rest):,} in all</p>'
        if rest
        else ""
    )
    return charts.bars(rows) + note


def _outcomes(numbers: statistics.Statistics) -> str:
    lines = [
        f'<tr id="outcomes-{race}"><td>{race}</td><td>{wins:,}</td><td>{draws:,}</td>'
        f"<td>{losses:,}</td></tr>"
        for race, (wins, draws, losses) in numbers.outcomes.items()
    ]
    head = "<tr><th>race</th><th>wins</th><th>draws</th><th>losses</th></tr>"
    return f'<table class="plain">{head}{"".join(lines)}</table>'


def _fields(summary: Summary) -> str:
    return charts.bars(
        [
            (
                name,
                float(stored),
                f"{size_text(stored)}, 1/{dense / max(stored, 1):,.0f}",
            )
            for name, stored, dense in summary.field_bytes
        ]
    )


def _identity(summary: Summary) -> str:
    pairs = [
        ("reference", summary.reference),
        ("engine", summary.engine),
        ("schema", summary.schema),
        ("selection", summary.selection),
    ]
    cells = "".join(
        f'<dt>{key}</dt><dd class="mono">{html.escape(value)}</dd>'
        for key, value in pairs
    )
    return f"<dl>{cells}</dl>"
