"""The demo's frame: a line per result, a log, and what happens when a command fails."""

import importlib.util
from pathlib import Path

import pytest

from starmill import cli

PATH = Path(__file__).resolve().parent.parent / "deploy/demo.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("demo", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_result_has_a_line_and_the_rest_is_in_the_log(demo, tmp_path, capsys):
    steps = [
        demo.Step("one", [["--version"]], tmp_path / "a", lambda: "first"),
        demo.Step("two", [["--version"], ["help"]], tmp_path / "b", lambda: "second"),
    ]
    assert demo.run(tmp_path / "out", steps) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["one", first.split()[1], "first", str(tmp_path / "a")]
    assert int(first.split()[1]) >= 0
    assert second.index("second") == head.index("what")
    log = (tmp_path / "out/log.txt").read_text()
    assert log.count("starmill 0.") == 2
    assert "usage: starmill" in log


def test_a_failure_shows_the_end_of_the_log_and_stops(demo, tmp_path, capsys):
    steps = [
        demo.Step("one", [["evalute"]], tmp_path / "a", lambda: "never"),
        demo.Step("two", [["--version"]], tmp_path / "b", lambda: "never"),
    ]
    assert demo.run(tmp_path / "out", steps) == 1
    out = capsys.readouterr().out
    assert "starmill evalute\nended with 2:" in out
    assert "never" not in out
    assert "starmill 0." not in (tmp_path / "out/log.txt").read_text()


def test_every_command_of_the_demo_is_accepted(demo, tmp_path):
    steps = demo.steps(tmp_path, games=2, frames=100)
    assert len(steps) == 5
    for step in steps:
        for name, *words in step.commands:
            args = cli.build_parser(name).parse_args(words)
            assert args is not None


def test_outcomes_are_those_of_the_watched_games(demo, tmp_path):
    rows = [
        "game,home,away,home_race,away_race,outcome,x",
        f"{demo.WATCHED[1]},bc,very_easy,zerg,zerg,0,1",
        f"{demo.WATCHED[0]},skirmish-bc,very_easy,zerg,zerg,1,1",
        "other,rush,very_easy,zerg,zerg,-1,1",
    ]
    path = tmp_path / "results.csv"
    path.write_text("\n".join(rows) + "\n")
    assert demo._outcomes(path) == "against very_easy skirmish-bc won, bc drew"
