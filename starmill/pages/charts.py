"""Small charts as inline SVG and HTML: no script, no font, no colour of their own.

Colours come from the page's CSS variables, so one chart serves light and dark.
"""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 380, 190, 46, 28
# Lines of more points show no dots.
_MOST_DOTS = 60


def count_text(value: float) -> str:
    """Returns a number as people read it: 12,400 or 3.4 M."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.1f} M"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Returns at most `most` round numbers from `low` to `high`: multiples of 1, 2 or 5 x 10^n."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (power * factor for factor in (1, 2, 5, 10, 20, 50)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            break
    return [round(index * step, 10) for index in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Returns a round number in few letters: 4200, 0.25, 20k or 3M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:g}"


def histogram(
    edges: Sequence[float], counts: Sequence[float], *, unit: str, label: str
) -> str:
    """Returns a histogram: `edges` has one entry more than `counts`, evenly spaced."""
    scale = _scale(0, max([*counts, 1]))
    plot_width, plot_height = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - 10
    width = plot_width / max(len(counts), 1)
    bars = []
    for index, count in enumerate(counts):
        height = plot_height * count / scale.top
        x, y = _LEFT + index * width, 10 + plot_height - height
        title = f"{edges[index]:g} to {edges[index + 1]:g} {unit}: {count_text(count)}"
        bars.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{max(width - 1, 0.5):.1f}" '
            f'height="{height:.1f}"><title>{html.escape(title)}</title></rect>'
        )
    low, span = edges[0], (edges[-1] - edges[0]) or 1.0
    marks = [(_LEFT + plot_width * (x - low) / span, x) for x in ticks(low, edges[-1])]
    return _frame("".join(bars), marks, scale, label)


def line(points: Sequence[tuple[float, float]], *, unit: str, label: str) -> str:
    """Returns a line through (x, y) points, x ascending."""
    return lines([(label, points)], unit=unit, label=label)


def lines(
    series: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    unit: str,
    label: str,
) -> str:
    """Returns a line for each series of (x, y) points, x ascending; two are told apart by colour."""
    shown = [(name, points) for name, points in series if points]
    if not shown:
        return "<p>no data</p>"
    ys = [y for _, points in shown for _, y in points]
    xs = [x for _, points in shown for x, _ in points]
    scale = _scale(min([*ys, 0]), max([*ys, 0]))
    # The axis begins at 0 unless most of it would be empty.
    low = min(xs) if min(xs) < 0 or min(xs) > 0.3 * max(xs) else 0.0
    span = (max(xs) - low) or 1.0
    plot_width, plot_height = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - 10

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + plot_width * (x - low) / span,
            10 + plot_height * (scale.top - y) / (scale.top - scale.bottom),
        )

    parts = []
    for number, (name, points) in enumerate(shown):
        path = " ".join(
            f"{px:.1f},{py:.1f}" for px, py in (place(x, y) for x, y in points)
        )
        side = " second" if number else ""
        parts.append(f'<polyline class="line{side}" points="{path}"/>')
        if len(points) > _MOST_DOTS:
            continue
        parts += [
            f'<circle class="dot{side}" cx="{place(x, y)[0]:.1f}" cy="{place(x, y)[1]:.1f}" '
            f'r="3"><title>{html.escape(name)}, {x:g} {html.escape(unit)}: {y:.4g}</title>'
            "</circle>"
            for x, y in points
        ]
    marks = [(place(x, 0)[0], x) for x in ticks(low, low + span)]
    return _frame("".join(parts), marks, scale, label)


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Returns horizontal bars from (name, value, text shown)."""
    if not rows:
        return "<p>none</p>"
    top = max([value for _, value, _ in rows] + [1e-9])
    lines = [
        f'<tr><th>{html.escape(name)}</th><td class="track">'
        f'<span class="fill" style="width:{100 * value / top:.1f}%"></span></td>'
        f'<td class="value">{html.escape(text)}</td></tr>'
        for name, value, text in rows
    ]
    return f'<table class="bars">{"".join(lines)}</table>'


class _Scale(NamedTuple):
    """The y axis of a chart.

    Attributes:
        bottom: the lowest number that is drawn.
        top: the highest.
        marks: numbers beside the axis, ascending; bottom and top are among them.
    """

    bottom: float
    top: float
    marks: list[float]


def _scale(low: float, high: float) -> _Scale:
    """Returns an axis of a few round steps that covers both numbers."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * n for n in (1, 2, 5, 10, 20) if span / (power * n) <= 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = [
        round(index * step, 10) for index in range(first, max(last, first + 1) + 1)
    ]
    return _Scale(marks[0], marks[-1], marks)


def _frame(
    body: str,
    marks: Sequence[tuple[float, float]],
    scale: _Scale,
    label: str,
) -> str:
    """Returns a chart with its axes; `marks` are places and numbers along the x axis."""
    plot_height = _HEIGHT - _BOTTOM - 10
    parts = []
    for value in scale.marks:
        y = 10 + plot_height * (scale.top - value) / (scale.top - scale.bottom)
        parts.append(
            f'<line class="axis" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 8}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick_text(value)}'
            "</text>"
        )
    for x, value in marks:
        end = "end" if x > _WIDTH - 24 else "middle"
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 10}" text-anchor="{end}">{tick_text(value)}'
            "</text>"
        )
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{html.escape(label)}">{"".join(parts)}{body}</svg>'
    )
