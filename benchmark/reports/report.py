"""The report of a tournament: one record, and its Markdown and JSON forms.

In: a win table, its standings and, if known, the single games. Out: a `Report` and its text. The
same inputs give the same bytes: the text has no time and no host.
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from starmill.benchmark.ratings import (
    elo,
    paper,
    results,
    standings,
    transitivity,
    winrates,
)
from starmill.benchmark.reports import play
from starmill.benchmark.reports.play import Play
from starmill.schema import storage
from starmill.schema.game_constants import LOOPS_PER_MINUTE, RACES

JSON = "report.json"  # in the folder of an evaluation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that the reports show.

    Attributes:
        title: heading of the report.
        anchor: the agent whose rating is fixed.
        lines: standings, best first; this is the order of agents in every matrix.
        table: counts of wins, with the agents in that order.
        transitivity: whether Elo explains the games; None if the anchor did not play.
        games: single games; empty if only outcomes are known.
        folder: replay paths of the games are relative to it.
        about: (name, text) pairs below the title, such as the engine.
        play: how the agents played; without players if nobody watched.
    """

    title: str
    anchor: str
    lines: tuple[standings.Standing, ...]
    table: winrates.WinTable
    transitivity: transitivity.Transitivity | None
    games: tuple[results.Result, ...] = ()
    folder: Path = Path()
    about: tuple[tuple[str, str], ...] = ()
    play: Play = dataclasses.field(default_factory=Play)

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers, for programs; unplayed cells are null."""
        cycles = self.transitivity
        return {
            "title": self.title,
            "anchor": self.anchor,
            "about": dict(self.about),
            "agents": {line.agent: line.to_json() for line in self.lines},
            "order": [line.agent for line in self.lines],
            "win_rate": _rounded(self.table.win_rate),
            "games": self.table.pair_games.tolist(),
            "races": list(RACES),
            "race_win_rate": _rounded(self.table.race_win_rate),
            "race_games": self.table.games.tolist(),
            "transitivity": None if cycles is None else dataclasses.asdict(cycles),
            "game_minutes": _length_table(self.games),
            "play": self.play.to_json(),
            "paper": [dataclasses.asdict(line) for line in paper.agents()],
        }


def build(
    table: winrates.WinTable,
    lines: Sequence[standings.Standing],
    *,
    anchor: str = elo.ANCHOR,
    results: Sequence[results.Result] = (),
    folder: Path = Path(),
    title: str = "Evaluation",
    played: Play | None = None,
) -> Report:
    """Returns the report, with agents in the order of their standing."""
    order = [table.index(line.agent) for line in lines]
    ordered = winrates.WinTable(
        agents=tuple(line.agent for line in lines),
        games=table.games[np.ix_(order, order)],
        points=table.points[np.ix_(order, order)],
        draws=table.draws[np.ix_(order, order)],
        mirrors=table.mirrors,
    )
    engines = sorted({game.engine for game in results})
    about = [("games", f"{int(table.pair_games.sum()) // 2:,}")]
    if engines:
        about.append(("engine", ", ".join(engines)))
        about.append(("maps", ", ".join(sorted({game.map_name for game in results}))))
    known = anchor in ordered.agents
    return Report(
        title=title,
        anchor=anchor,
        lines=tuple(lines),
        table=ordered,
        transitivity=transitivity.transitivity(ordered, anchor) if known else None,
        games=tuple(results),
        folder=folder,
        about=tuple(about),
        play=Play() if played is None else played,
    )


def percent(rate: float | None) -> str:
    """Returns a share as the paper prints it."""
    return "-" if rate is None or np.isnan(rate) else f"{100 * rate:.0f}%"


def elo_text(rating: elo.Rating) -> str:
    """Returns the rating, or the bound of a saturated one."""
    if rating.elo is not None:
        return f"{rating.elo:.0f}"
    if rating.status is elo.Status.ABOVE:
        return "saturated" if rating.low is None else f"> {rating.low:.0f}"
    if rating.status is elo.Status.BELOW:
        return "saturated" if rating.high is None else f"< {rating.high:.0f}"
    return "unrated"


def interval_text(low: float | None, high: float | None, scale: float = 1.0) -> str:
    """Returns "low to high"; an open end is "-inf" or "inf"."""
    if low is None and high is None:
        return ""
    ends = ["-inf" if low is None else f"{scale * low:.0f}"]
    ends.append("inf" if high is None else f"{scale * high:.0f}")
    return " to ".join(ends)


# Pages of single games are in this folder, beside the results.
WATCH_FOLDER = "watch"
HEADINGS = (
    "Agent",
    "Robustness",
    "95%",
    "Elo",
    "95%",
    "vs anchor",
    "Games",
)  # 95%: intervals


def table_rows(lines: Sequence[standings.Standing]) -> list[tuple[str, ...]]:
    """Returns the results table's cells, in the paper's order of columns."""
    rows: list[tuple[str, ...]] = []
    for line in lines:
        worst = line.robustness
        rows.append(
            (
                line.agent,
                percent(None if worst is None else worst.win_rate),
                "" if worst is None else interval_text(worst.low, worst.high, 100),
                elo_text(line.rating),
                interval_text(line.rating.low, line.rating.high)
                if line.rating.status is not elo.Status.FIXED
                else "",
                percent(line.versus_anchor),
                f"{line.games:,}",
            )
        )
    return rows


def table_text(lines: Sequence[standings.Standing]) -> str:
    """Returns the results table for a terminal."""
    return aligned([HEADINGS, *table_rows(lines)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines of text with aligned columns, the first of them to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def markdown(report: Report) -> str:
    """Returns the report as Markdown: results, win matrix, by race, lengths, the paper's table."""
    out = [f"# {report.title}", ""]
    out += [f"- {name}: {text}" for name, text in report.about]
    out += ["", "## Results", "", comparable_text(report), ""]
    out += [*_markdown_table(HEADINGS, table_rows(report.lines))]
    notes = [f"- {x.agent}: {note}" for x in report.lines for note in x.notes]
    out += ["", *notes] if notes else []
    agents = report.table.agents
    out += ["", "## Win rates, %", "", "Row against column; a draw is half.", ""]
    matrix = [
        (name, *(_cell(rate) for rate in report.table.win_rate[i]))
        for i, name in enumerate(agents)
    ]
    out += _markdown_table(("", *agents), matrix)
    out += ["", "## Win rates by race, %", ""]
    sides = [f"{name} {race[0].upper()}" for name in agents for race in RACES]
    out += _markdown_table(("", *sides), _race_rows(report, sides))
    out += ["", "## Is one scale enough?", "", transitivity_text(report), ""]
    out += _play_markdown(report.play)
    lengths = _length_table(report.games)
    if lengths:
        out += ["## Game lengths, minutes", ""]
        rows = [
            (pair, *(f"{part[key]:.1f}" for key in ("shortest", "median", "longest")))
            for pair, part in lengths.items()
        ]
        out += [*_markdown_table(("pair", "shortest", "median", "longest"), rows), ""]
    out += ["## The paper's table", "", PAPER_TEXT, ""]
    out += _markdown_table(PAPER_HEADINGS, paper_rows())
    return "\n".join(out) + "\n"


def _play_markdown(played: Play) -> list[str]:
    out = []
    if played.players:
        out += ["## How they play", "", play.HEADINGS_TEXT, ""]
        out += _markdown_table(play.HEADINGS, play.table_rows(played))
        out += ["", "### Refused commands", ""]
        out += _markdown_table(play.REFUSAL_HEADINGS, play.refusal_rows(played))
        out += ["", "### Minute by minute", ""]
        out += _markdown_table(play.MINUTE_HEADINGS, play.minute_rows(played))
        out.append("")
    if played.pairs:
        out += ["## Games at the time limit, adjudicated", "", play.PAIR_TEXT, ""]
        out += [*_markdown_table(play.PAIR_HEADINGS, play.pair_rows(played)), ""]
    return out


PAPER_TEXT = (
    "These agents played StarCraft II against its own AI and against each other. Ratings from "
    "the embedded game, or from other opponents, are not comparable with them."
)
PAPER_HEADINGS = ("Agent", "Robustness", "Elo", "vs very_hard", "vs very_hard by Elo")


def comparable_text(report: Report) -> str:
    """Returns what the ratings compare with, to be read before them."""
    engines = sorted({game.engine for game in report.games})
    if any(engine.startswith("skirmish") for engine in engines):
        return (
            "These games were played on the embedded game. The ratings are not comparable with "
            "the paper's, nor with any of StarCraft II."
        )
    return "Ratings compare only with those that have the same anchor and opponents."


def paper_rows() -> list[tuple[str, ...]]:
    """Returns the paper's table, with the win rate against very_hard that its Elo predicts."""
    return [
        (
            line.name,
            percent(line.robustness),
            f"{line.elo:.0f}",
            percent(line.versus_very_hard),
            percent(line.expected_versus_very_hard),
        )
        for line in paper.agents()
    ]


def transitivity_text(report: Report) -> str:
    """Returns the result of the test of the Elo model, in words."""
    test = report.transitivity
    if test is None:
        return "Not tested: the anchor played none of these games."
    if test.p_value is None:
        text = (
            "Too few pairs met to test whether one rating per agent explains the games."
        )
    else:
        word = "does not explain" if test.p_value < 0.05 else "can explain"
        text = (
            f"One rating per agent {word} the win rates: deviance {test.deviance:.1f} "
            f"with {test.freedom} degrees of freedom, p = {test.p_value:.3g}."
        )
    sure = [cycle for cycle in test.cycles if cycle.p_value < 0.05]
    text += f" Cycles seen: {len(test.cycles)}, beyond chance: {len(sure)}."
    for cycle in sure[:5]:
        links = ", ".join(percent(rate) for rate in cycle.win_rates)
        text += f" {' beats '.join((*cycle.agents, cycle.agents[0]))} ({links})."
    return text


def replay_link(report: Report, game: results.Result, page_folder: Path) -> str:
    """Returns the replay's path relative to the page's folder; empty if there is none."""
    if not game.replay:
        return ""
    target = (report.folder / game.replay).resolve()
    return Path(os.path.relpath(target, page_folder.resolve())).as_posix()


def watch_link(report: Report, game: results.Result, page_folder: Path) -> str:
    """Returns the path of the game's page relative to the report's folder."""
    target = (report.folder / WATCH_FOLDER / f"{game.game}.html").resolve()
    return Path(os.path.relpath(target, page_folder.resolve())).as_posix()


def write_markdown(report: Report, path: Path) -> None:
    """Writes the Markdown form."""
    write_text(path, markdown(report))


def write_json(report: Report, path: Path) -> None:
    """Writes the JSON form."""
    text = json.dumps(report.to_json(), indent=1, sort_keys=True, allow_nan=False)
    write_text(path, text + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one piece: readers see the old one or the new one."""
    storage.write(str(path), text.encode())


def _race_rows(report: Report, sides: Sequence[str]) -> list[tuple[str, ...]]:
    count = len(sides)
    # [A, A, 3, 3] -> [A, 3, A, 3] -> [3A, 3A]
    rates = report.table.race_win_rate.transpose(0, 2, 1, 3).reshape(count, count)
    return [(side, *map(_cell, rates[i])) for i, side in enumerate(sides)]


def _cell(rate: float) -> str:
    return "" if np.isnan(rate) else f"{100 * rate:.0f}"


def _markdown_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join(["---"] + ["---:"] * (len(headings) - 1)) + "|"
    return [line(headings), rule, *(line(row) for row in rows)]


def _length_table(games: Sequence[results.Result]) -> dict[str, dict[str, float]]:
    """Returns shortest, median and longest game in minutes by pair of agents."""
    by_pair: dict[str, list[float]] = {}
    for game in games:
        pair = " - ".join(sorted((game.home, game.away)))
        by_pair.setdefault(pair, []).append(game.game_loops / LOOPS_PER_MINUTE)
    return {
        pair: {
            "shortest": min(minutes),
            "median": float(np.median(minutes)),
            "longest": max(minutes),
        }
        for pair, minutes in sorted(by_pair.items())
    }


def _rounded(values: Any) -> Any:
    """Returns nested lists with six decimals and None for nan."""
    if isinstance(values, np.ndarray):
        return _rounded(values.tolist())
    if isinstance(values, list):
        return [_rounded(value) for value in values]
    return None if np.isnan(values) else round(values, 6)
