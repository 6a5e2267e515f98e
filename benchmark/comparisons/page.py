"""The parts of a page that compares: facts in two columns, paired bars, and lines over each other.

In: numbers of the two sides. Out: HTML. The first side has the charts' first colour and full lines, the
second the other colour and dashed lines.
"""

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starmill.pages import charts, document

Points = Sequence[tuple[float, float]]
_BARS = 14


class Sides(NamedTuple):
    """What the page calls the two things that it compares.

    Attributes:
        first: the name of the one that is shown first.
        second: the name of the other.
    """

    first: str
    second: str


def render(title: str, subtitle: str, sides: Sides, sections: Sequence[str]) -> str:
    """Returns the page of these sections, with a key of the two sides on top."""
    key = (
        f'<p class="sides"><i class="first"></i>{html.escape(sides.first)} '
        f'<i class="second"></i>{html.escape(sides.second)}</p>'
    )
    return document.page(
        title=title,
        subtitle=subtitle,
        main="\n".join([key, *sections]),
        footer="Made by starmill.",
    )


def section(title: str, *cards: str) -> str:
    """Returns a heading and a grid of those cards that are not empty."""
    body = "".join(cards)
    return (
        f'<h2>{html.escape(title)}</h2><div class="grid">{body}</div>' if body else ""
    )


def facts(
    title: str, sides: Sides, rows: Sequence[tuple[str, str, str]], wide: bool = True
) -> str:
    """Returns a table of (name, first, second); names of differing rows are bold."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("", *sides))
    body = "".join(
        f'<tr class="{"same" if first == second else "differs"}"><td>{html.escape(name)}</td>'
        f"<td>{html.escape(first)}</td><td>{html.escape(second)}</td></tr>"
        for name, first, second in rows
    )
    table = (
        f'<table class="plain compared"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )
    kind = "card wide whole" if wide else "card wide"
    return f'<section class="{kind}"><h3>{html.escape(title)}</h3>{table}</section>'


def curves(title: str, sides: Sides, first: Points, second: Points, unit: str) -> str:
    """Returns a chart with a line of each side; empty if neither has points."""
    if not first and not second:
        return ""
    chart = charts.lines(
        [(sides.first, first), (sides.second, second)], unit=unit, label=title
    )
    return f'<section class="card"><h3>{html.escape(title)}</h3>{chart}</section>'


def shares(
    title: str,
    first: Mapping[str, float],
    second: Mapping[str, float],
    *,
    in_order: bool = False,
) -> str:
    """Returns paired bars of each name's share of its side.

    The largest come first, unless the names are to keep their order.
    """
    totals = [sum(side.values()) or 1 for side in (first, second)]
    both = {
        name: (first.get(name, 0) / totals[0], second.get(name, 0) / totals[1])
        for name in {**first, **second}
    }
    names = list(both)
    if not in_order:
        names.sort(key=lambda name: (-max(both[name]), name))
    if not names:
        return ""
    top = max(max(pair) for pair in both.values()) or 1.0
    rows = []
    for name in names[:_BARS]:
        bars = "".join(
            f'<span class="fill {side}" style="width:{100 * share / top:.1f}%"></span>'
            for side, share in zip(("first", "second"), both[name], strict=True)
        )
        text = " / ".join(f"{100 * share:.1f}" for share in both[name])
        rows.append(
            f'<tr><th title="{html.escape(name)}">{html.escape(name)}</th>'
            f'<td class="track">{bars}</td><td class="value">{text}</td></tr>'
        )
    rest = len(names) - _BARS
    note = f'<p class="note">and {rest} more</p>' if rest > 0 else ""
    return (
        f'<section class="card"><h3>{html.escape(title)}, %</h3>'
        f'<table class="bars">{"".join(rows)}</table>{note}</section>'
    )


def number(value: float | None, digits: int = 0) -> str:
    """Returns a number for a table; "-" if there is none."""
    return "-" if value is None else f"{value:,.{digits}f}"
