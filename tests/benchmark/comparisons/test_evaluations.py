"""Two evaluations side by side: numbers of both, and a warning where ratings do not compare."""

import dataclasses
import json
import re

import pytest

from starmill import cli
from starmill.benchmark.comparisons import evaluations
from starmill.benchmark.ratings import results
from starmill.benchmark.reports import report
from starmill.schema import errors
from tests.benchmark.reports.test_report import make


@pytest.fixture
def folder(tmp_path):
    """Makes an evaluation's folder, with changes to the games' rows."""

    def build(name, **changes):
        out = tmp_path / name
        out.mkdir()
        content = make(out)
        rows = [dataclasses.replace(game, **changes) for game in content.games]
        report.write_json(content, out / "report.json")
        with results.Store(out / "results.csv") as store:
            for row in rows:
                store.append(row)
        return out

    return build


def test_both_sides_numbers_are_shown(folder, tmp_path):
    first, second = folder("before"), folder("after", map_name="Elsewhere")
    path = tmp_path / "page.html"
    assert cli.main(["report", str(first), str(second), "--out", str(path)]) == 0
    page = path.read_text()
    assert "not comparable" not in page
    data = json.loads((first / "report.json").read_text())
    elo = data["agents"]["bc"]["elo"]
    (cells,) = re.findall(r"<td>bc</td><td>(.*?)</td><td>(.*?)</td>", page)
    assert cells[0] == cells[1]
    assert cells[0].startswith(f"{elo:,.0f} (")
    assert "Elsewhere" in page
    assert "0.0 / 100.0" in page
    assert "<oac>" not in page


def test_other_anchors_are_a_warning(folder):
    first, second = folder("before"), folder("after")
    path = second / "report.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "anchor": "bc"}))
    assert "not comparable: their anchors differ" in evaluations.render(first, second)


def test_damaged_reports_are_named(folder):
    first, second = folder("before"), folder("after")
    for text in ("{", "[]", '{"agents": {}}'):
        (second / "report.json").write_text(text)
        with pytest.raises(errors.FormatError, match=r"after/report\.json"):
            evaluations.render(first, second)
