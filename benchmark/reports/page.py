"""The report of a tournament as one HTML file: tables, heat maps and charts.

In: a `Report`. Out: the page's text, which needs no other file. Numbers on the page have
`data-` attributes with the unrounded values, for programs and tests.
"""

import html
import string
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from starmill.benchmark.ratings import elo, standings
from starmill.benchmark.reports import play, report
from starmill.pages import charts, document
from starmill.schema.game_constants import LOOPS_PER_MINUTE, RACES

# So many games are listed without a click.
_FEW_GAMES = 40


def write_html(content: report.Report, path: Path) -> None:
    """Writes the page; its links to replays are relative to its folder."""
    report.write_text(path, render(content, path.parent))


def render(content: report.Report, folder: Path) -> str:
    """Returns the page's HTML, with links that are relative to `folder`."""
    return document.page(
        title=content.title,
        subtitle=" · ".join(f"{name}: {text}" for name, text in content.about),
        main=_main(content, folder),
        footer="Made by starmill.",
        style=_asset("style.css"),
    )


def _asset(name: str) -> str:
    folder = resources.files("starmill.benchmark.reports").joinpath("assets")
    return folder.joinpath(name).read_text("utf-8")


def _main(content: report.Report, folder: Path) -> str:
    return string.Template(_asset("report.html")).substitute(
        results=_results_table(content),
        notes=_notes(content.lines),
        comparable=html.escape(report.comparable_text(content)),
        ratings=_rating_chart(content.lines),
        matrix=_matrix(content),
        race_matrix=_race_matrix(content),
        transitivity=html.escape(report.transitivity_text(content)),
        play=_play(content.play),
        lengths=_lengths(content),
        paper_text=report.PAPER_TEXT,
        paper=_plain_table(report.PAPER_HEADINGS, report.paper_rows(), "paper"),
        games=_games(content, folder),
    )


def _results_table(content: report.Report) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in report.HEADINGS)
    rows = []
    for line, cells in zip(
        content.lines, report.table_rows(content.lines), strict=True
    ):
        worst = line.robustness
        values = {
            "agent": line.agent,
            "elo": line.rating.elo,
            "robustness": None if worst is None else worst.win_rate,
            "games": line.games,
        }
        data = "".join(
            f' data-{key}="{html.escape(str(value))}"'
            for key, value in values.items()
            if value is not None
        )
        rows.append(
            f"<tr{data}>" + "".join(f"<td>{html.escape(x)}</td>" for x in cells)
        )
    return (
        f'<table class="plain" id="results"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(row + '</tr>' for row in rows)}</tbody></table>"
    )


def _plain_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], name: str
) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f'<table class="plain" id="{name}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _notes(lines: Sequence[standings.Standing]) -> str:
    notes = [
        f"<li><b>{html.escape(line.agent)}</b>: {html.escape(note)}</li>"
        for line in lines
        for note in line.notes
    ]
    return f'<ul class="note" id="notes">{"".join(notes)}</ul>' if notes else ""


def _heat_cell(rate: float, games: int, label: str) -> str:
    if np.isnan(rate):
        return '<td class="heat none"></td>'
    title = f"{label}: {100 * rate:.1f}% of {games} games"
    return (
        f'<td class="heat" style="--f:{100 * rate:.1f}%" data-f="{rate:.6f}" '
        f'title="{html.escape(title)}">{100 * rate:.0f}</td>'
    )


def _matrix(content: report.Report) -> str:
    table = content.table
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.agents)
    games, rates = table.pair_games, table.win_rate
    rows = []
    for i, name in enumerate(table.agents):
        cells = "".join(
            _heat_cell(rates[i, j], int(games[i, j]), f"{name} against {other}")
            for j, other in enumerate(table.agents)
        )
        rows.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    return f'<table class="matrix" id="matrix"><tr><th></th>{head}</tr>{"".join(rows)}</table>'


def _race_matrix(content: report.Report) -> str:
    table, races = content.table, RACES
    top = "".join(
        f'<th colspan="{len(races)}">{html.escape(name)}</th>' for name in table.agents
    )
    letters = "".join(f"<th>{race[0].upper()}</th>" for race in races)
    rates, games = table.race_win_rate, table.games
    rows = []
    for i, name in enumerate(table.agents):
        for r, race in enumerate(races):
            cells = "".join(
                _heat_cell(
                    rates[i, j, r, s],
                    int(games[i, j, r, s]),
                    f"{name} {race} against {other} {other_race}",
                )
                for j, other in enumerate(table.agents)
                for s, other_race in enumerate(races)
            )
            label = f"{html.escape(name)} {race[0].upper()}"
            rows.append(f"<tr><th>{label}</th>{cells}</tr>")
    return (
        f'<table class="matrix small" id="race-matrix"><tr><th></th>{top}</tr>'
        f"<tr><th></th>{letters * len(table.agents)}</tr>{''.join(rows)}</table>"
    )


def _rating_chart(lines: Sequence[standings.Standing]) -> str:
    """Returns each rating as a dot and its interval as a bar, which is open where unbounded."""
    shown = [x for x in lines if x.rating.status is not elo.Status.UNLINKED]
    known = [
        value
        for line in shown
        for value in (line.rating.elo, line.rating.low, line.rating.high)
        if value is not None
    ]
    if not known:
        return "<p>no ratings</p>"
    low, high = min(known) - 40, max(known) + 40
    width, left, step = 760, 190, 26
    height = step * len(shown) + 34

    def x(value: float) -> float:
        return left + (width - left - 12) * (value - low) / (high - low)

    parts = []
    for value in _ticks(low, high):
        parts.append(
            f'<line class="axis" x1="{x(value):.1f}" y1="6" x2="{x(value):.1f}" '
            f'y2="{height - 24}"/><text x="{x(value):.1f}" y="{height - 8}" '
            f'text-anchor="middle">{value:.0f}</text>'
        )
    for row, line in enumerate(shown):
        y = 20 + row * step
        rating = line.rating
        ends = (
            x(low if rating.low is None else rating.low),
            x(high if rating.high is None else rating.high),
        )
        title = f"{line.agent}: {report.elo_text(rating)}"
        interval = report.interval_text(rating.low, rating.high)
        parts.append(
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{html.escape(line.agent)}'
            f'</text><line class="whisker" x1="{ends[0]:.1f}" y1="{y}" x2="{ends[1]:.1f}" '
            f'y2="{y}"><title>{html.escape(title)} ({interval})</title></line>'
        )
        if rating.elo is not None:
            parts.append(
                f'<circle class="dot" cx="{x(rating.elo):.1f}" cy="{y}" r="5">'
                f"<title>{html.escape(title)} ({interval})</title></circle>"
            )
    return (
        f'<svg class="chart" id="ratings" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Elo with 95% intervals">{"".join(parts)}</svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    step = next(
        size for size in (20, 50, 100, 200, 500, 1000, 5000) if (high - low) / size < 9
    )
    first = int(np.ceil(low / step))
    return [step * i for i in range(first, int(high // step) + 1)]


def _lengths(content: report.Report) -> str:
    if not content.games:
        return '<p class="note">The lengths of these games are unknown.</p>'
    minutes = [game.game_loops / LOOPS_PER_MINUTE for game in content.games]
    counts, edges = np.histogram(minutes, bins=min(20, max(4, len(minutes) // 4)))
    chart = charts.histogram(
        [round(float(edge), 1) for edge in edges],
        [int(count) for count in counts],
        unit="minutes",
        label="Games by length in minutes",
    )
    limits = sum(game.ending == "limit" for game in content.games)
    note = f"Median {np.median(minutes):.1f} minutes; {limits} reached the time limit."
    return f'<div class="card">{chart}<p class="note" id="lengths">{note}</p></div>'


def _play(played: play.Play) -> str:
    parts = []
    if played.players:
        table = _plain_table(play.HEADINGS, play.table_rows(played), "play")
        refusals = _plain_table(
            play.REFUSAL_HEADINGS, play.refusal_rows(played), "refusals"
        )
        minutes = _plain_table(
            play.MINUTE_HEADINGS, play.minute_rows(played), "minutes"
        )
        parts.append(
            f'<h2>How they play</h2><p class="note">{html.escape(play.HEADINGS_TEXT)}</p>'
            f'<div class="card wide">{table}</div>'
            f"<details><summary>refused commands by kind</summary>"
            f'<div class="wide">{refusals}</div></details>'
            f"<details><summary>minute by minute</summary>"
            f'<div class="wide">{minutes}</div></details>'
        )
    if played.pairs:
        pairs = _plain_table(play.PAIR_HEADINGS, play.pair_rows(played), "adjudicated")
        parts.append(
            "<h2>Games at the time limit, adjudicated</h2>"
            f'<p class="note">{html.escape(play.PAIR_TEXT)}</p>'
            f'<div class="card wide">{pairs}</div>'
        )
    return "".join(parts)


def _games(content: report.Report, folder: Path) -> str:
    if not content.games:
        return ""
    rows = []
    for game in content.games:
        link = report.replay_link(content, game, folder)
        replay = f'<a href="{html.escape(link)}">replay</a>' if link else ""
        name = html.escape(game.game)
        if link:
            page = html.escape(report.watch_link(content, game, folder))
            name = f'<a href="{page}" title="watch this game">{name}</a>'
        score = {1: "won", 0: "draw", -1: "lost"}[game.outcome]
        cells = (
            f"{game.home} ({game.home_race[0].upper()})",
            f"{game.away} ({game.away_race[0].upper()})",
            score,
            game.map_name,
            f"{game.game_loops / LOOPS_PER_MINUTE:.1f}",
        )
        text = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        rows.append(f"<tr><td>{name}</td>{text}<td>{replay}</td></tr>")
    is_open = " open" if len(rows) <= _FEW_GAMES else ""
    headings = (
        "game: watch it",
        "home",
        "away",
        "home's result",
        "map",
        "minutes",
        "file",
    )
    head = "".join(f"<th>{name}</th>" for name in headings)
    return (
        f"<h2>Games</h2><details{is_open}><summary>all {len(rows):,} games</summary>"
        f'<div class="wide"><table class="plain" id="games"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )
