"""Two training runs side by side, or one by itself: settings that differ, and learning curves.

In: the runs' folders. Out: an HTML page. Knows the files that `train` writes, and loads no network.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starmill.benchmark.comparisons import page
from starmill.benchmark.comparisons.page import Points, Sides
from starmill.learners import journal, run_folder
from starmill.schema import errors
from starmill.schema.archives import json_text

_AXES = ("update", "frames")
# Points of a curve: more than a chart has pixels would only make the page large.
_MOST_POINTS = 400


def render(first: Path, second: Path | None = None) -> str:
    """Returns the page of two runs, or of one."""
    folders = [first] if second is None else [first, second]
    sides = Sides(*_names(folders))
    settings = [_settings(folder) for folder in folders]
    rows = [journal.read_rows(folder / journal.CSV) for folder in folders]
    if second is None:
        settings.append({})
        rows.append([])
    sections = [
        page.section("Learning curves over frames", *_charts(sides, rows[0], rows[1])),
    ]
    if second is not None:
        different = [
            (name, settings[0].get(name, "-"), settings[1].get(name, "-"))
            for name in sorted({*settings[0], *settings[1]})
            if settings[0].get(name) != settings[1].get(name)
        ]
        table = page.facts("Settings that differ", sides, different)
        sections.insert(
            0,
            page.section("Settings", table)
            if different
            else '<p class="note">Both runs have the same settings.</p>',
        )
    measured = [
        f"{name}: {row[-1]['frames']:,.0f} frames"
        if row
        else f"{name}: no measurements"
        for name, row in zip(sides[: len(folders)], rows, strict=False)
    ]
    title = sides.first if second is None else f"{sides.first} and {sides.second}"
    return page.render(title, "; ".join(measured), sides, sections)


def _names(folders: Sequence[Path]) -> tuple[str, str]:
    names = [folder.resolve().name for folder in folders]
    if len(names) == 1:
        return names[0], ""
    if names[0] == names[1]:
        names = [str(folder) for folder in folders]
    return names[0], names[1]


def _settings(folder: Path) -> dict[str, str]:
    """Returns the run's settings by their path in run.json."""
    path = folder / run_folder.RUN
    try:
        content = json_text.parse(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise errors.FormatError(
            f"{path}: expected a run's settings as `starmill train` writes them, found {error}"
        ) from error
    return dict(_flat(content, ""))


def _flat(value: Any, name: str) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [
            pair
            for key, inner in value.items()
            for pair in _flat(inner, f"{name}.{key}" if name else str(key))
        ]
    return [(name, value if isinstance(value, str) else json.dumps(value))]


def _charts(
    sides: Sides, first: Sequence[journal.Row], second: Sequence[journal.Row]
) -> list[str]:
    names = dict.fromkeys(
        name for row in (*first, *second) for name in row if name not in _AXES
    )
    return [
        page.curves(name, sides, _points(first, name), _points(second, name), "frames")
        for name in names
    ]


def _points(rows: Sequence[journal.Row], name: str) -> Points:
    points = [
        (row["frames"], row[name])
        for row in rows
        if name in row and "frames" in row and math.isfinite(row[name])
    ]
    stride = -(-len(points) // _MOST_POINTS) or 1
    # The last point is the one that people compare.
    return points[::stride] + (points[-1:] if (len(points) - 1) % stride else [])
