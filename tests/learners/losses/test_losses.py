"""Losses on arrays beside slow versions of them, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners.losses import (
    action_values,
    advantages,
    cloning,
    policy_gradient,
)
from tests.reference import offline_rl

STEPS, ROWS, ACTIONS = 7, 3, 5


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def _discounts(rng):
    values = rng.uniform(0.5, 1.0, (STEPS, ROWS))
    values[3, 0] = 0.0  # an episode ends
    return values


def test_generalised_advantages(rng):
    values, rewards = rng.standard_normal((2, STEPS, ROWS))
    discounts = _discounts(rng)
    ours = advantages.generalised(*map(jnp.asarray, (values, rewards, discounts)), 0.9)
    assert ours.shape == (STEPS - 1, ROWS)
    for row in range(ROWS):
        expected = offline_rl.gae(
            values[:, row], rewards[:, row], discounts[:, row], 0.9
        )
        np.testing.assert_allclose(ours[:, row], expected, rtol=1e-4, atol=1e-5)


def test_td_errors_and_where_gradients_flow(rng):
    now, later, rewards = rng.standard_normal((3, STEPS, ROWS)).astype(np.float32)
    discounts = _discounts(rng).astype(np.float32)
    ours = action_values.td_errors(now, later, rewards, discounts)
    for t in range(STEPS - 1):
        goal = rewards[t] + discounts[t] * later[t + 1]
        np.testing.assert_allclose(ours[t], 0.5 * (now[t] - goal) ** 2, rtol=1e-5)

    def total(now, later):
        return action_values.td_errors(now, later, rewards, discounts).sum()

    to_now, to_later = jax.grad(total, argnums=(0, 1))(now, later)
    assert np.any(to_now)
    assert not np.any(to_later)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_best_among_the_likely(rng, threshold):
    q, target, logits = rng.standard_normal((3, 20, ACTIONS)).astype(np.float32)
    chooser = action_values.likely_only(q, logits, threshold)
    ours = action_values.best(target, chooser)
    for frame in range(20):
        expected = (
            offline_rl.bcq_value(
                q[frame], target[frame], logits[frame], None, threshold
            )
            if threshold
            else target[frame][q[frame].argmax()]
        )
        assert float(ours[frame]) == pytest.approx(expected)


def test_double_q_learning_values_what_the_trained_network_chooses():
    target, q = jnp.array([[1.0, 5.0]]), jnp.array([[3.0, 2.0]])
    assert float(action_values.best(target, target)[0]) == 5.0
    assert float(action_values.best(target, q)[0]) == 1.0


def test_the_critic_weighs_the_policy(rng):
    logits, q = rng.standard_normal((2, ACTIONS))
    ours = jax.nn.softmax(action_values.critic_weighted(logits, q, 0.5))
    np.testing.assert_allclose(
        ours, offline_rl.critic_weighted(logits, q, 0.5), rtol=1e-5
    )


def test_ranking(rng):
    q = rng.standard_normal((8, ACTIONS))
    action, outcome = rng.integers(0, ACTIONS, 8), rng.integers(-1, 2, 8)
    ours = action_values.ranking(
        jnp.asarray(q),
        jnp.asarray(action),
        jnp.asarray(outcome),
        margin=0.4,
        temperature=0.7,
    )
    expected = [
        offline_rl.ranking(q[i], action[i], outcome[i], 0.4, 0.7) for i in range(8)
    ]
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_advantages_and_weights(rng):
    q, logits = rng.standard_normal((2, 8, ACTIONS))
    action = rng.integers(0, ACTIONS, 8)
    ours = advantages.of_policy(*map(jnp.asarray, (q, logits, action)))
    expected = np.array(
        [offline_rl.policy_advantage(q[i], logits[i], action[i]) for i in range(8)]
    )
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    weight = advantages.exponential_weight(ours, temperature=0.5, highest=2.0)
    np.testing.assert_allclose(
        weight, np.minimum(np.exp(expected / 0.5), 2.0), rtol=1e-4
    )
    np.testing.assert_array_equal(advantages.binary_weight(ours), expected > 0)


def test_the_clipped_surrogate(rng):
    ratio, advantage = np.exp(rng.standard_normal(30)), rng.standard_normal(30)
    ours = policy_gradient.clipped_surrogate(
        jnp.asarray(ratio), jnp.asarray(advantage), 0.2
    )
    expected = [
        offline_rl.clipped_surrogate(r, a, 0.2)
        for r, a in zip(ratio, advantage, strict=True)
    ]
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
    # A good action gains nothing beyond 1 + epsilon.
    slope = jax.grad(
        lambda r: policy_gradient.clipped_surrogate(r, jnp.float32(1), 0.2)
    )
    assert float(slope(jnp.float32(1.1))) == -1.0
    assert float(slope(jnp.float32(1.3))) == 0.0


def test_cloning_weighs_arguments_and_frames():
    log_probs = {"function": jnp.array([-1.0, -2.0]), "world": jnp.array([-4.0, 0.0])}
    ours = cloning.weighted_cross_entropy(
        log_probs, {"function": 40.0, "world": 11.0}, jnp.array([1.0, 0.0])
    )
    np.testing.assert_allclose(ours, [84.0, 0.0])
    np.testing.assert_allclose(
        cloning.squared_error(
            jnp.array([1.0, 0.5]), jnp.array([-1, 1]), jnp.array([1.0, 1.0])
        ),
        [2.0, 0.125],
    )


def test_shapes_that_would_broadcast_are_refused():
    with pytest.raises(AssertionError):
        action_values.of_action(jnp.zeros((4, 3)), jnp.zeros((4, 1), int))
    with pytest.raises(AssertionError):
        cloning.squared_error(jnp.zeros(4), jnp.zeros((4, 1)), jnp.zeros(4))
