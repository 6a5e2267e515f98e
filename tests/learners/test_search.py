"""The search on a toy game whose answer is known, and on a network."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners import search
from starmill.learners.networks import parameters
from starmill.schema import errors
from tests.factories import small_agents

# A game of two moves among six: the reward comes after the second, and only for 4 then 2.
ACTIONS, GOOD = 6, (4, 2)


def _toy_model(logits):
    """A model whose hidden state [B, 2] is the moves so far and whether the first was good."""

    def sample(key, hidden, k):
        shape = (len(hidden), k)
        actions = jax.random.categorical(key, jnp.asarray(logits), shape=shape)
        return actions, jnp.zeros(shape)

    def step(hidden, action):
        moves, lucky = hidden[:, 0], hidden[:, 1]
        good = jnp.where(moves == 0, action == GOOD[0], action == GOOD[1])
        reward = jnp.where((moves == 1) & (lucky > 0) & good, 1.0, 0.0)
        goes_on = jnp.where(moves == 0, 1.0, 0.0)
        after = jnp.stack([moves + 1, jnp.where(moves == 0, good, lucky)], -1)
        return after.astype(jnp.float32), reward, goes_on

    return search.Model(sample, lambda hidden: jnp.zeros(len(hidden)), step)


def test_finds_the_one_line_that_wins():
    """Policy and value are uniform, so the policy alone would win one game in six."""
    config = search.SearchConfig(actions=12, simulations=150)
    model = _toy_model(np.zeros(ACTIONS))
    run = jax.jit(lambda key: search.search(key, jnp.zeros((64, 2)), model, config))
    found = run(jax.random.key(0))
    chosen = np.asarray(found.action == GOOD[0])
    assert chosen.mean() > 0.5
    np.testing.assert_allclose(found.weights.sum(-1), 1.0, rtol=1e-5)
    # The improved policy gives the winning move more than the prior does.
    weight = (found.weights * (found.actions == GOOD[0])).sum(-1).mean()
    assert weight > 2 / ACTIONS


def test_one_move_ahead_it_is_the_best_sampled_action():
    """A bandit: the answer is the highest reward among the sampled slots, exactly."""
    rewards = jnp.asarray(np.random.default_rng(0).normal(size=ACTIONS), jnp.float32)

    def sample(key, hidden, k):
        actions = jax.random.randint(key, (len(hidden), k), 0, ACTIONS)
        return actions, jnp.zeros(actions.shape)

    def step(hidden, action):
        return hidden, rewards[action], jnp.zeros(len(hidden))

    model = search.Model(sample, lambda hidden: jnp.zeros(len(hidden)), step)
    config = search.SearchConfig(actions=8, simulations=64)
    found = jax.jit(lambda key: search.search(key, jnp.zeros((32, 1)), model, config))(
        jax.random.key(3)
    )
    np.testing.assert_allclose(rewards[found.action], rewards[found.actions].max(-1))


def test_network_proposals_have_the_right_ratio():
    config = dataclasses.replace(small_agents.NETWORK, latent_model=True)
    params = parameters.init(0, config, small_agents.SETTINGS)
    hidden = np.random.default_rng(0).normal(size=(2, config.vector)).astype(np.float32)

    @jax.jit
    def propose(temperature):
        network = parameters.merge(params, config, small_agents.SETTINGS)
        model = search.network_model(network, temperature)
        (function, delay), log_ratio = model.sample(jax.random.key(1), hidden, 3)
        rows = jnp.repeat(hidden[:, None], 3, axis=1)
        first = network.policy.function_logits(rows)
        later = network.policy.delay_logits(rows, function)
        return function, delay, log_ratio, first, later

    def log_softmax(logits):
        return logits - np.logaddexp.reduce(logits)

    for temperature in (1.0, 0.5):
        function, delay, log_ratio, *both = map(np.asarray, propose(temperature))
        for at in np.ndindex(2, 3):
            expected = 0.0
            for logits, index in zip(both, (function[at], delay[at] - 1), strict=True):
                expected += log_softmax(logits[at])[index]
                expected -= log_softmax(logits[at] / temperature)[index]
            assert log_ratio[at] == pytest.approx(expected, abs=1e-4)


def test_a_search_needs_actions():
    with pytest.raises(errors.ConfigError, match="at least 1"):
        search.SearchConfig(actions=0)
