"""The agents' table: names, and what each record refers to."""

import dataclasses

import pytest

from starmill.benchmark.opponents import shipped
from starmill.learners import agents
from starmill.learners.learner import State
from starmill.learners.networks.network import NetworkConfig
from starmill.learners.optimizer import OptimizerConfig
from starmill.learners.runs import Run
from starmill.schema import errors
from tests.factories import small_agents


def _fields(record):
    return {field.name for field in dataclasses.fields(record)}


def test_names_and_aliases_lead_to_one_agent_each():
    assert len(set(agents.NAMES)) == len(agents.NAMES)
    assert agents.find("eoac") is agents.find("e-oac") is agents.AGENTS["e-oac"]
    with pytest.raises(errors.ConfigError, match="expected one of .*'e-oac'"):
        agents.find("dreamer")


@pytest.mark.parametrize("record", agents.AGENTS.values(), ids=lambda one: one.name)
def test_a_record_names_what_exists(record):
    known = _fields(record.config) | _fields(OptimizerConfig) | _fields(Run)
    assert set(record.full) <= known
    assert set(record.tiny) <= known
    assert set(record.network) <= _fields(NetworkConfig)
    assert record.starts_from is None or record.starts_from in agents.AGENTS
    ways = (agents.POLICY, agents.ACTION_VALUES, agents.WEIGHTED_POLICY)
    assert record.function_from in ways
    assert 0 <= record.likely <= 1
    chooses_by_q = record.function_from != agents.POLICY
    assert not chooses_by_q or record.network == {"action_values": True}


@pytest.mark.parametrize("record", agents.AGENTS.values(), ids=lambda one: one.name)
def test_a_behaviour_policy_is_in_the_carry_of_those_who_have_one(record):
    run = small_agents.run(record.name)
    _, carry = record.algorithm.init(0, run.algorithm, None)
    assert ("behaviour" in carry) == record.has_behaviour


def test_states_are_stored_in_this_order():
    """`checkpoint.PARAMETERS` and `checkpoint.BEHAVIOUR` are positions in it."""
    assert State._fields == ("params", "optimizer", "carry")


def test_the_agents_that_ship_are_agents():
    for name, one in shipped.AGENTS.items():
        assert one.file in agents.AGENTS
        assert name.removesuffix("-mcts") == one.file
