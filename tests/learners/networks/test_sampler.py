"""Every kind of policy draws function and delay first, and the rest given these."""

import jax
import numpy as np
import pytest

from starmill.learners.networks import layers, parameters, temperatures
from tests.factories import small_agents


@pytest.fixture(scope="module")
def policy():
    config = small_agents.NETWORK
    params = parameters.init(1, config, small_agents.SETTINGS)
    return parameters.merge(params, config, small_agents.SETTINGS).policy


def test_an_action_is_drawn_in_two_parts(policy):
    vector = jax.random.normal(jax.random.key(0), (3, small_agents.NETWORK.vector))
    key = jax.random.key(7)
    first, second = jax.random.split(key)
    function, delay = policy.sample_function_delay(vector, key, 1.0)
    expected = layers.choose(first, policy.function_logits(vector), 1.0)
    np.testing.assert_array_equal(function, expected)
    index = layers.choose(second, policy.delay_logits(vector, expected), 1.0)
    np.testing.assert_array_equal(delay, index + 1)


def test_function_and_delay_have_temperatures_of_their_own(policy):
    vector = jax.random.normal(jax.random.key(0), (3, small_agents.NETWORK.vector))
    cold = temperatures.with_changes(1.0, {"function": 1e-6, "delay": 1e-6})
    for seed in range(3):
        function, delay = policy.sample_function_delay(
            vector, jax.random.key(seed), cold
        )
        likeliest = policy.function_logits(vector).argmax(-1)
        np.testing.assert_array_equal(function, likeliest)
        expected = policy.delay_logits(vector, likeliest).argmax(-1) + 1
        np.testing.assert_array_equal(delay, expected)
