"""Training runs side by side, and one alone: settings that differ and curves of every metric."""

import json

import pytest

from starmill import cli
from starmill.benchmark.comparisons import runs


def make(folder, *, seed, losses):
    folder.mkdir()
    settings = {"run": {"seed": seed, "agent": "bc"}, "name": "<b>"}
    (folder / "run.json").write_text(json.dumps(settings))
    lines = [f"{i},{100 * i},{loss}" for i, loss in enumerate(losses)]
    (folder / "metrics.csv").write_text(
        "\n".join(["update,frames,loss", *lines]) + "\n"
    )
    return folder


def test_settings_that_differ_and_curves(tmp_path):
    first = make(tmp_path / "a", seed=1, losses=[4, 3, 2])
    second = make(tmp_path / "b", seed=2, losses=[5, 4])
    path = tmp_path / "page.html"
    assert cli.main(["report", str(first), str(second), "--out", str(path)]) == 0
    page = path.read_text()
    assert "<td>run.seed</td><td>1</td><td>2</td>" in page
    assert "run.agent" not in page
    assert "<h3>loss</h3>" in page
    assert page.count("<polyline") == 2
    assert "a: 200 frames; b: 100 frames" in page
    assert "<h3>frames</h3>" not in page


def test_one_run_alone_has_its_curves(tmp_path):
    page = runs.render(make(tmp_path / "a", seed=1, losses=[4, float("nan"), 2]))
    assert page.count("<polyline") == 1
    assert page.count("<circle") == 2  # what is not a number has no place
    assert "Settings" not in page


def test_long_curves_are_thinned_and_keep_their_end(tmp_path):
    page = runs.render(make(tmp_path / "a", seed=1, losses=range(1, 5002)))
    (points,) = [part.split('"')[0] for part in page.split('points="')[1:]]
    assert len(points.split()) <= 402
    assert points.split()[-1].startswith("372.0,")


def test_what_does_not_go_together_is_named(tmp_path, capsys):
    run = make(tmp_path / "a", seed=1, losses=[1])
    evaluation = tmp_path / "e"
    evaluation.mkdir()
    (evaluation / "results.csv").write_text("game\n")
    out = ["--out", str(tmp_path / "x.html")]
    assert cli.main(["report", str(run), str(evaluation), *out]) == 2
    assert "expected two of a kind" in capsys.readouterr().err
    assert cli.main(["report", str(evaluation), *out]) == 2
    assert "has a report already" in capsys.readouterr().err
    (run / "run.json").write_text("{")
    assert cli.main(["report", str(run), *out]) == 2
    assert "expected a run's settings" in capsys.readouterr().err


@pytest.mark.parametrize("same", [True, False])
def test_equal_settings_are_said_to_be_equal(tmp_path, same):
    first = make(tmp_path / "a", seed=1, losses=[1])
    second = make(tmp_path / "b", seed=1 if same else 2, losses=[1])
    assert ("have the same settings" in runs.render(first, second)) == same
