"""Logs of decisions: what is noted is read back, and damaged files are named."""

import json

import numpy as np
import pytest

from starmill.benchmark.statistics import decisions
from starmill.benchmark.statistics.decisions import DecisionLog, GameDecisions
from starmill.schema import errors
from starmill.schema.agent import Likely


def log(steps=3, value=0.5):
    out = DecisionLog()
    for step in range(steps):
        out.note(
            {"game_loop": np.asarray(10 * step)},
            {"function": np.asarray(step + 1), "delay": np.asarray(7)},
            value,
            [Likely(step + 1, 2 / 3), Likely(0, 1 / 3)],
        )
    return out


def test_noted_steps_are_read_back(tmp_path):
    written = GameDecisions(home=log(), away=log(steps=1, value=None))
    decisions.write(tmp_path, "a-vs-b-0000", written)
    assert decisions.read(tmp_path, "a-vs-b-0000") == written
    content = json.loads((tmp_path / "decisions/a-vs-b-0000.json").read_text())
    assert content["players"]["home"] == {
        "loops": [0, 10, 20],
        "functions": [1, 2, 3],
        "delays": [7, 7, 7],
        "values": [0.5, 0.5, 0.5],
        "likely": [[[n, 0.6667], [0, 0.3333]] for n in (1, 2, 3)],
    }
    assert content["players"]["away"]["values"] == [None]


def test_a_game_without_a_file_has_no_logs(tmp_path):
    assert decisions.read(tmp_path, "x") == GameDecisions()
    both = GameDecisions(home=log())
    assert both.swapped() == GameDecisions(away=log())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": 2, "players": {}}',
        '{"format": 1, "players": {"home": null}}',
        '{"format": 1, "players": {"home": {"loops": [1]}, "away": null}}',
        '{"format": 1, "players": {"home": {"loops": [1], "functions": [], "delays": [], '
        '"values": [], "likely": []}, "away": null}}',
    ],
)
def test_damaged_files_are_named(tmp_path, text):
    (tmp_path / "decisions").mkdir()
    (tmp_path / "decisions/x.json").write_text(text)
    with pytest.raises(
        errors.FormatError, match=r"x\.json: expected a game's decisions"
    ):
        decisions.read(tmp_path, "x")
