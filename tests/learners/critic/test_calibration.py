"""Errors by minute of the game, by hand."""

import numpy as np
import pytest

from starmill.learners.critic import calibration

MINUTE = 22.4 * 60


def test_errors_are_shares_of_the_variance_by_minute():
    outcome = np.array([1, -1, 1, -1, 0, 0], np.float32)
    values = np.array([1, -1, 0, 1, 0.5, 0], np.float32)
    loop = (np.array([1, 1, 4, 4, 13, 50]) * MINUTE).astype(np.int32)
    result = calibration.measure(values, outcome, loop)
    variance = outcome.var()
    squares = np.square(values - outcome)
    assert result["all"]["error"] == pytest.approx(squares.mean() / variance)
    # Draws have no sign to be right about.
    assert result["all"]["sign"] == 2 / 4
    minutes = result["minutes"]
    assert minutes["0"]["error"] == 0
    assert minutes["3"]["error"] == pytest.approx(2.5 / variance)
    assert minutes["3"]["steps"] == 2
    assert np.isnan(minutes["6"]["error"])
    assert minutes["12"]["error"] == pytest.approx(0.125 / variance)
    assert minutes["12"]["value"] == pytest.approx(0.25)


def test_the_table_has_a_line_for_each_kind_of_values():
    loop = np.array([0, 9000], np.int32)
    outcome = np.array([1, -1], np.float32)
    measured = {
        "known": calibration.measure(outcome, outcome, loop),
        "nothing": calibration.measure(np.zeros(2, np.float32), outcome, loop),
    }
    lines = calibration.table_lines(measured)
    assert lines[2].startswith("| known | 0.000 (1.00) |")
    assert lines[3].startswith("| nothing | 1.000 (0.00) |")
    assert len({line.count("|") for line in lines}) == 1
