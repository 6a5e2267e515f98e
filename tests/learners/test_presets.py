"""Presets: the paper's numbers, and names that do not exist."""

import pytest

from starmill.engines.skirmish import ladder
from starmill.learners import presets
from starmill.learners.algorithms import bc
from starmill.schema import errors


@pytest.mark.parametrize(
    ("agent", "frames_per_update", "expected"),
    [
        ("bc", 32768, {"learning_rate": 5e-4, "frames": 10**10, "clip": "before"}),
        ("ft-bc", 32768, {"learning_rate": 1e-5, "frames": 10**9, "ramp_in": 10**8}),
        # The paper names no rate for these two: 5e-4 "unless specified otherwise".
        (
            "oac",
            512 * 64,
            {
                "learning_rate": 5e-4,
                "frames": 10**9,
                "clip": "after",
                "clip_norm": 10.0,
            },
        ),
        (
            "e-oac",
            512 * 65,
            {"learning_rate": 5e-4, "frames": 10**9, "clip": "after"},
        ),
        ("mzs", 512 * 6, {"learning_rate": 1e-3, "frames": 10**10}),
    ],
)
def test_full_presets_are_the_papers(agent, frames_per_update, expected):
    run = presets.run(agent, "full")
    assert run.frames_per_update == frames_per_update
    assert {name: getattr(run.optim, name) for name in expected} == expected
    assert (run.optim.b1, run.optim.b2, run.optim.eps) == (0.9, 0.98, 1e-8)


def test_papers_other_numbers():
    assert presets.run("bc", "full").algorithm.weight_penalty == 1e-5
    tuned = presets.run("ft-bc", "full")
    assert (tuned.mmr_above, tuned.outcome) == (6200, 1)
    for name in ("oac", "e-oac"):
        config = presets.run(name, "full").algorithm
        assert (config.gamma, config.rho_clip, config.c_clip) == (0.99995, 1.0, 1.0)
        assert config.trained == 32
    assert presets.run("e-oac", "full").algorithm.n == 32
    mzs = presets.run("mzs", "full").algorithm
    assert (mzs.bootstrap, mzs.target_period, mzs.ahead) == (True, 100, 512)
    assert dict(bc.ARGUMENT_WEIGHTS) == {
        "function": 40,
        "delay": 9,
        "queued": 1,
        "repeat": 0.1,
        "unit_tags": 320,
        "target_unit_tag": 30,
        "world": 11,
    }


def test_unknown_presets_are_refused():
    with pytest.raises(errors.ConfigError, match="preset"):
        presets.run("bc", "huge")
    with pytest.raises(errors.ConfigError, match="agent"):
        presets.run("dreamer", "tiny")


def test_tiny_fine_tuning_is_on_the_best_winners():
    run = presets.run("ft-bc", "tiny")
    low, high = ladder.RATINGS
    assert run.outcome == 1
    assert low + (high - low) / 2 < run.mmr_above < high
