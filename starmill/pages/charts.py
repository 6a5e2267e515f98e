"""Small charts as inline SVG and HTML: no script, no font, no colour of their own.

Colours come from the page's CSS variables, so one chart serves light and dark.
"""

import html
from collections.abc import Sequence

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 380, 190, 46, 28


def count_text(value: float) -> str:
    """Returns a number as people read it: 12,400 or 3.4 M."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.1f} M"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def histogram(
    edges: Sequence[float], counts: Sequence[float], *, unit: str, label: str
) -> str:
    """Returns a histogram: `edges` has one entry more than `counts`."""
    top = max([*counts, 1])
    plot_width, plot_height = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - 10
    width = plot_width / max(len(counts), 1)
    bars = []
    for index, count in enumerate(counts):
        height = plot_height * count / top
        x, y = _LEFT + index * width, 10 + plot_height - height
        title = f"{edges[index]:g} to {edges[index + 1]:g} {unit}: {count_text(count)}"
        bars.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{max(width - 1, 0.5):.1f}" '
            f'height="{height:.1f}"><title>{html.escape(title)}</title></rect>'
        )
    step = -(-len(counts) // 6) or 1
    ticks = [
        f'<text x="{_LEFT + index * width:.1f}" y="{_HEIGHT - 10}" '
        f'text-anchor="middle">{edges[index]:g}</text>'
        for index in range(0, len(edges), step)
    ]
    return _frame("".join(bars + ticks), top, label)


def line(points: Sequence[tuple[float, float]], *, unit: str, label: str) -> str:
    """Returns a line through (x, y) points, x ascending."""
    if not points:
        return "<p>no data</p>"
    top = max([y for _, y in points] + [1])
    last = max(points[-1][0], 1e-9)
    plot_width, plot_height = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - 10

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + plot_width * x / last, 10 + plot_height * (1 - y / top)

    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in (place(x, y) for x, y in points))
    dots = [
        f'<circle class="dot" cx="{place(x, y)[0]:.1f}" cy="{place(x, y)[1]:.1f}" r="3">'
        f"<title>{x:g} {html.escape(unit)}: {y:.1f}</title></circle>"
        for x, y in points
    ]
    step = -(-len(points) // 6) or 1
    ticks = [
        f'<text x="{place(x, 0)[0]:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">{x:g}'
        "</text>"
        for x, _ in points[::step]
    ]
    body = f'<polyline class="line" points="{path}"/>' + "".join(dots + ticks)
    return _frame(body, top, label)


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


def _frame(body: str, top: float, label: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{html.escape(label)}">'
        f'<line class="axis" x1="{_LEFT}" y1="{_HEIGHT - _BOTTOM}" x2="{_WIDTH - 8}" '
        f'y2="{_HEIGHT - _BOTTOM}"/>'
        f'<text x="{_LEFT - 6}" y="18" text-anchor="end">{count_text(top)}</text>'
        f'<text x="{_LEFT - 6}" y="{_HEIGHT - _BOTTOM}" text-anchor="end">0</text>'
        f"{body}</svg>"
    )
