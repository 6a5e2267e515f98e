"""Runs: a round trip through JSON, names of earlier versions, and refusals."""

import json

import pytest

from starmill.learners import agents, optimizer, presets, runs
from starmill.learners.algorithms import bc
from starmill.schema import errors


@pytest.mark.parametrize("agent", agents.AGENTS)
@pytest.mark.parametrize("size", ["tiny", "full"])
def test_json_there_and_back(agent, size):
    run = presets.run(agent, size)
    assert runs.from_json(json.loads(json.dumps(run.to_json()))) == run


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
        ({"agent": "dreamer"}, "agent: expected one of"),
        ({"colour": 1}, "run: unknown keys"),
        ({"optim": {"colour": 1}}, "optim: unknown keys"),
        ({"algorithm": {"network": {"colour": 1}}}, "network: unknown keys"),
        ({"algorithm": 3}, "expected an object"),
        ({"log_every": 7}, "multiple of log_every"),
        ({"sampler": "consecutive"}, "bc reads 'episode' rollouts"),
    ],
)
def test_nonsense_is_refused(change, message):
    data = {**presets.run("bc", "tiny").to_json(), **change}
    with pytest.raises(errors.ConfigError, match=message):
        runs.from_json(data)


def test_the_former_name_of_an_agent_is_read_and_not_written():
    run = presets.run("e-oac", "tiny")
    assert run.to_json()["agent"] == "e-oac"
    assert runs.from_json({**run.to_json(), "agent": "eoac"}) == run


def test_config_and_agent_must_agree():
    with pytest.raises(errors.ConfigError, match="oac takes"):
        runs.Run(agent="oac", algorithm=bc.Config(), optim=optimizer.OptimizerConfig())


def test_differences_name_the_place():
    ours, theirs = {"a": {"b": 1}, "c": 2}, {"a": {"b": 3}, "c": 2, "d": 4}
    assert runs.differences(ours, theirs) == ["a.b: 3 -> 1", "d: 4 -> None"]
