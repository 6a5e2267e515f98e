"""Surrogates whose gradient is a policy gradient.

In: ratios or log-probabilities of recorded actions, and advantages. Out: a loss of each step.
"""

import chex
import jax
import jax.numpy as jnp


def clipped_surrogate(
    ratio: jax.Array, advantage: jax.Array, epsilon: float
) -> jax.Array:
    """Returns -min(r A, clip(r, 1 - epsilon, 1 + epsilon) A) (Schulman et al. 2017).

    Gradients flow through the ratio r = pi / mu alone.
    """
    chex.assert_equal_shape([ratio, advantage])
    advantage = jax.lax.stop_gradient(advantage)
    clipped = jnp.clip(ratio, 1 - epsilon, 1 + epsilon)
    return -jnp.minimum(ratio * advantage, clipped * advantage)


def score_function(
    log_prob: jax.Array, advantage: jax.Array, weight: jax.Array
) -> jax.Array:
    """Returns -weight A log pi, whose gradient is the policy gradient's."""
    chex.assert_equal_shape([log_prob, advantage, weight])
    return -jax.lax.stop_gradient(advantage) * log_prob * weight
