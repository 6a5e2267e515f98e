"""Runs and presets: JSON there and back, the paper's numbers, refusals."""

import json

import pytest

from starmill.learners import optimizer, presets, runs
from starmill.learners.algorithms import bc
from starmill.schema import errors


@pytest.mark.parametrize("agent", presets.AGENTS)
@pytest.mark.parametrize("size", ["tiny", "full"])
def test_json_there_and_back(agent, size):
    run = presets.run(agent, size)
    assert runs.from_json(json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize(
    ("agent", "frames_per_update", "expected"),
    [
        ("bc", 32768, {"learning_rate": 5e-4, "frames": 10**10, "clip": "before"}),
        ("ft-bc", 32768, {"learning_rate": 1e-5, "frames": 10**9, "ramp_in": 10**8}),
        ("oac", 512 * 64, {"frames": 10**9, "clip": "after", "clip_norm": 10.0}),
        ("eoac", 512 * 65, {"frames": 10**9, "clip": "after"}),
        ("mzs", 512 * 513, {"learning_rate": 1e-3, "frames": 10**10}),
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
    for name in ("oac", "eoac"):
        config = presets.run(name, "full").algorithm
        assert (config.gamma, config.rho_clip, config.c_clip) == (0.99995, 1.0, 1.0)
        assert config.trained == 32
    assert presets.run("eoac", "full").algorithm.n == 32
    mzs = presets.run("mzs", "full").algorithm
    assert (mzs.bootstrap, mzs.target_period, mzs.rollout - 1) == (True, 100, 512)
    assert dict(bc.ARGUMENT_WEIGHTS) == {
        "function": 40,
        "delay": 9,
        "queued": 1,
        "repeat": 0.1,
        "unit_tags": 320,
        "target_unit_tag": 30,
        "world": 11,
    }


def test_fields_are_found_wherever_they_are():
    run = presets.run("bc", "tiny")
    changed = runs.replace(run, seed=7, batch_size=2, learning_rate=0.25)
    assert (changed.seed, changed.algorithm.batch_size) == (7, 2)
    assert changed.optim.learning_rate == 0.25
    with pytest.raises(errors.ConfigError, match="'speed'"):
        runs.replace(run, speed=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": "ppo"}, "agent: expected one of"),
        ({"colour": 1}, "run: unknown keys"),
        ({"optim": {"colour": 1}}, "optim: unknown keys"),
        ({"algorithm": {"network": {"colour": 1}}}, "network: unknown keys"),
        ({"algorithm": 3}, "expected an object"),
        ({"log_every": 7}, "multiple of log_every"),
        ({"sampler": "consecutive"}, "only eoac"),
    ],
)
def test_nonsense_is_refused(change, message):
    data = {**presets.run("bc", "tiny").to_json(), **change}
    with pytest.raises(errors.ConfigError, match=message):
        runs.from_json(data)


def test_config_and_agent_must_agree():
    with pytest.raises(errors.ConfigError, match="oac takes"):
        runs.Run(agent="oac", algorithm=bc.Config(), optim=optimizer.Config())


def test_unknown_presets_are_refused():
    with pytest.raises(errors.ConfigError, match="preset"):
        presets.run("bc", "huge")
    with pytest.raises(errors.ConfigError, match="agent"):
        presets.run("ppo", "tiny")


def test_differences_name_the_place():
    ours, theirs = {"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2, "d": 4}
    assert runs.differences(ours, theirs) == ["a.b: 3 -> 1", "d: 4 -> None"]
