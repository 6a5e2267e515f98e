"""V-trace against a double loop, and where it equals something simpler."""

import numpy as np
import pytest

from starmill.learners.algorithms import vtrace
from tests.reference import offline_rl


def _rollout(seed, steps=9, rows=3):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(steps, rows))
    rewards = np.zeros((steps, rows))
    rewards[4, 0], rewards[7, 1] = 1.0, -1.0
    discounts = rng.uniform(0.8, 1.0, (steps, rows))
    discounts[4, 0] = discounts[5, 0] = discounts[7, 1] = 0.0
    ratios = rng.lognormal(sigma=0.7, size=(steps, rows))
    return [x.astype(np.float32) for x in (values, rewards, discounts, ratios)]


@pytest.mark.parametrize(("rho_clip", "c_clip"), [(1.0, 1.0), (2.0, 1.0), (1.0, 0.5)])
def test_equals_the_double_loop(rho_clip, c_clip):
    values, rewards, discounts, ratios = _rollout(0)
    result = vtrace.vtrace(
        values, rewards, discounts, ratios, rho_clip=rho_clip, c_clip=c_clip
    )
    for row in range(values.shape[1]):
        inputs = [x[:, row].astype(float) for x in (values, rewards, discounts, ratios)]
        np.testing.assert_allclose(
            result.targets[:, row],
            offline_rl.vtrace_targets(*inputs, rho_clip, c_clip),
            rtol=2e-5,
            atol=2e-5,
        )
        np.testing.assert_allclose(
            result.advantages[:, row],
            offline_rl.vtrace_advantages(*inputs, rho_clip, c_clip),
            rtol=2e-5,
            atol=2e-5,
        )


def test_on_policy_it_is_the_n_step_return():
    values, rewards, discounts, _ = _rollout(1)
    result = vtrace.vtrace(values, rewards, discounts, np.ones_like(values))
    expected = values[-1]
    for t in reversed(range(len(values) - 1)):
        expected = rewards[t] + discounts[t] * expected
        np.testing.assert_allclose(result.targets[t], expected, rtol=2e-5, atol=2e-5)


def test_a_worked_example():
    # Two steps worked out by hand; only the first ratio is clipped.
    values = np.array([[0.5], [0.0], [0.2]], np.float32)
    rewards = np.array([[0.0], [1.0], [0.0]], np.float32)
    discounts = np.array([[0.9], [0.0], [1.0]], np.float32)
    ratios = np.array([[2.0], [0.5], [1.0]], np.float32)
    result = vtrace.vtrace(values, rewards, discounts, ratios)
    # The second target: half of the reward; the first: a delta of -0.5, then 0.9 times it.
    np.testing.assert_allclose(result.targets[:, 0], [0.45, 0.5], rtol=1e-6)
    np.testing.assert_allclose(result.advantages[:, 0], [-0.05, 0.5], rtol=1e-6)


def test_shapes_must_agree():
    with pytest.raises(AssertionError, match="equal_shape"):
        vtrace.vtrace(
            np.zeros((3, 2)), np.zeros((2, 2)), np.zeros((3, 2)), np.zeros((3, 2))
        )
