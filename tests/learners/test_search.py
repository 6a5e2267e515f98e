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
        return actions, actions

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
    result = run(jax.random.key(0))
    choice = np.asarray(result.action == GOOD[0])
    assert choice.mean() > 0.5
    np.testing.assert_allclose(result.weights.sum(-1), 1.0, rtol=1e-5)
    # The improved policy gives the winning move more than the prior does.
    weight = (result.weights * (result.actions == GOOD[0])).sum(-1).mean()
    assert weight > 2 / ACTIONS


def test_one_move_ahead_it_is_the_best_sampled_action():
    """A bandit: the answer is the highest reward among the sampled slots, exactly.

    Each action is as likely as the next, and the rewards differ by more than chance gives an
    action of eight samples.
    """
    rewards = jnp.asarray([-1.0, 0.0, 1.0, -0.6, 0.5, -0.2])

    def sample(key, hidden, k):
        actions = jax.random.randint(key, (len(hidden), k), 0, ACTIONS)
        # Every sample counts as an action of its own, so that all priors are the same.
        return actions, jnp.broadcast_to(jnp.arange(k), actions.shape)

    def step(hidden, action):
        return hidden, rewards[action], jnp.zeros(len(hidden))

    model = search.Model(sample, lambda hidden: jnp.zeros(len(hidden)), step)
    config = search.SearchConfig(actions=8, simulations=64, noise=0.0)
    result = jax.jit(lambda key: search.search(key, jnp.zeros((32, 1)), model, config))(
        jax.random.key(3)
    )
    np.testing.assert_allclose(rewards[result.action], rewards[result.actions].max(-1))


def _bandit(prior, rewards):
    """One move decides; the policy and the true value of each action are known."""
    logits, rewards = jnp.log(jnp.asarray(prior)), jnp.asarray(rewards, jnp.float32)

    def sample(key, hidden, k):
        actions = jax.random.categorical(key, logits, shape=(len(hidden), k))
        return actions, actions

    def step(hidden, action):
        return hidden, rewards[action], jnp.zeros(len(hidden))

    return search.Model(sample, lambda hidden: jnp.zeros(len(hidden)), step)


def _choices(model, count=2000, **config):
    run = jax.jit(
        lambda key: search.search(
            key, jnp.zeros((count, 1)), model, search.SearchConfig(**config)
        )
    )
    return jax.tree.map(np.asarray, run(jax.random.key(7)))


def test_a_prior_is_not_overruled_by_a_difference_that_is_noise():
    """The likely action is worth 1e-5 less than the other two."""
    result = _choices(_bandit([0.9, 0.06, 0.04], [0.3, 0.30001, 0.30001]))
    shares = np.bincount(result.action, minlength=3) / len(result.action)
    # Within four standard errors of the policy's own shares.
    np.testing.assert_allclose(shares, [0.9, 0.06, 0.04], atol=4 * (0.09 / 2000) ** 0.5)
    likely = (result.weights * (result.actions == 0)).sum(-1)
    assert likely.mean() == pytest.approx(0.9, abs=0.01)
    greedy = _choices(
        _bandit([0.9, 0.06, 0.04], [0.3, 0.30001, 0.30001]), count=200, noise=0.0
    )
    assert (greedy.action == 0).mean() > 0.99


def test_a_difference_that_matters_overrules_the_prior():
    result = _choices(_bandit([0.6, 0.4], [-1.0, 1.0]), simulations=64)
    assert (result.action == 1).mean() > 0.95


def test_values_are_weighed_on_the_scale_from_loss_to_win():
    """By hand: 5 + 0.1 for each visit of the most visited action, on a scale of length 2."""
    config = {"actions": 12, "simulations": 12, "noise": 0.0}
    result = _choices(_bandit([0.5, 0.5], [0.1, 0.4]), count=64, **config)
    for row in range(64):
        slots = np.flatnonzero(result.priors[row])
        if len(slots) < 2:
            continue
        value = np.where(result.actions[row][slots] == 0, 0.1, 0.4)
        logit = np.log(result.weights[row][slots] / result.priors[row][slots])
        scale = (logit[1] - logit[0]) / (value[1] - value[0])
        # Twelve visits are shared by two actions: the most visited has six to twelve of them.
        assert (50 + 6) * 0.1 / 2 - 1e-3 <= scale <= (50 + 12) * 0.1 / 2 + 1e-3


def test_samples_of_one_label_are_one_slot_with_their_share():
    labels = jnp.asarray([[4, 2, 4, 4, 7], [1, 1, 1, 1, 1]])
    expected = [[0.6, 0.2, 0, 0, 0.2], [1, 0, 0, 0, 0]]
    np.testing.assert_allclose(search.merged_priors(labels), expected, rtol=1e-6)


def test_a_network_s_proposals_are_its_policy_at_the_temperature():
    config = dataclasses.replace(small_agents.NETWORK, latent_model=True)
    params = parameters.init(0, config, small_agents.SETTINGS)
    hidden = np.random.default_rng(0).normal(size=(1, config.vector)).astype(np.float32)

    @jax.jit
    def propose(temperature):
        network = parameters.merge(params, config, small_agents.SETTINGS)
        model = search.network_model(network, temperature)
        (function, delay), label = model.sample(
            jax.random.key(1), search.Hidden(hidden), 20_000
        )
        return function, delay, label, network.policy.function_logits(hidden)

    for temperature in (1.0, 0.5):
        function, delay, label, logits = map(np.asarray, propose(temperature))
        shares = np.exp(logits[0] / temperature)
        shares /= shares.sum()
        drawn = np.bincount(function[0], minlength=len(shares)) / function.size
        np.testing.assert_allclose(drawn, shares, atol=0.015)
        np.testing.assert_array_equal(label, function)
        assert delay.min() >= 1
        assert delay.max() <= 127


def test_a_search_needs_actions():
    with pytest.raises(errors.ConfigError, match="at least 1"):
        search.SearchConfig(actions=0)
