import json

import numpy as np
import pytest

from starmill import cli
from starmill.pipelines.report import report, statistics
from starmill.schema import vocab
from starmill.schema.loader import dataset
from tests.factories import records


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("dataset")
    records.dataset(str(path))
    return path


def test_command_writes_the_same_page_twice(folder, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert cli.main(["report", str(folder), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["bytes"] == out.stat().st_size
    first = out.read_bytes()
    assert cli.main(["report", str(folder), "--out", str(out)]) == 0
    assert out.read_bytes() == first
    opened = dataset.open_dataset(str(folder))
    assert opened.reference in first.decode()
    assert not list(tmp_path.glob("*.tmp"))


def test_bad_requests_are_named(folder, tmp_path, capsys):
    missing = str(tmp_path / "nowhere" / "report.html")
    assert cli.main(["report", str(folder), "--out", missing]) == 2
    assert "its folder does not exist" in capsys.readouterr().err
    assert cli.main(["report", str(folder), "--shown", "0"]) == 2
    assert "--shown 0" in capsys.readouterr().err


def test_statistics_equal_a_slow_count(folder):
    opened = dataset.open_dataset(str(folder))
    rows = opened.table.to_pylist()
    episodes = [item.load() for item in opened]
    numbers = statistics.gather(rows, episodes)
    for race, (wins, draws, losses) in numbers.outcomes.items():
        results = [row["outcome"] for row in rows if row["race"] == race]
        assert (wins, draws, losses) == tuple(results.count(k) for k in (1, 0, -1))
    assert sum(numbers.mmr.counts) + numbers.unrated == len(rows)
    for low, high, count in zip(
        numbers.mmr.edges, numbers.mmr.edges[1:], numbers.mmr.counts, strict=False
    ):
        slow = [r for r in rows if r["mmr"] is not None and low <= r["mmr"] < high]
        assert count == len(slow)
    functions = np.concatenate([e.arrays["action/function"][:-1] for e in episodes])
    assert sum(count for _, count in numbers.functions) == len(functions)
    name, count = numbers.functions[0]
    most = next(f for f in vocab.functions() if f.name == name)
    assert count == (functions == most.id).sum() == np.bincount(functions).max()
    loops, steps = (sum(row[key] for row in rows) for key in ("game_loops", "steps"))
    assert numbers.delay_compression == pytest.approx(loops / steps)


def test_fields_cost_what_leaving_them_out_saves(folder):
    opened = dataset.open_dataset(str(folder))
    costs = report.field_bytes(opened, [0, 1])
    names = [name for name, _, _ in costs]
    assert {"raw_units", "camera", "minimap_visibility_map", "actions"} <= set(names)
    sizes = [stored for _, stored, _ in costs]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 0
