"""Two datasets side by side: facts counted here, and shares of each side."""

import re

import pytest

from starmill import cli
from starmill.schema.loader import dataset
from tests.factories import records


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("dataset")
    records.dataset(str(path))
    return path


def test_facts_and_shares_of_both(folder, tmp_path):
    out = tmp_path / "page.html"
    assert cli.main(["report", str(folder), str(folder), "--out", str(out)]) == 0
    page = out.read_text()
    opened = dataset.open_dataset(str(folder))
    cell = f"<td>{len(opened):,}</td>"
    assert f"<td>episodes</td>{cell}{cell}" in page
    assert "differs" not in re.findall(r'<tr class="(\w+)">', page)
    rows = opened.table.to_pylist()
    for name in {row["map_name"] for row in rows}:
        share = 100 * sum(row["map_name"] == name for row in rows) / len(rows)
        text = f"{share:.1f} / {share:.1f}"
        assert re.search(rf">{name}</th>.*?<td class=\"value\">{text}</td>", page)
    for title in ("MMR, %", "Game length in minutes", "Functions, %", "Delays in"):
        assert f"<h3>{title}" in page


def test_a_split_without_episodes_is_named(folder, tmp_path, capsys):
    out = ["--out", str(tmp_path / "x.html"), "--split", "nothing"]
    assert cli.main(["report", str(folder), str(folder), *out]) == 2
    assert "split 'nothing'" in capsys.readouterr().err
