"""Behaviour cloning's losses: a weighted cross-entropy, and a value's squared error.

In: log-probabilities by argument, or values and outcomes. Out: a loss of each frame.
"""

from collections.abc import Mapping

import chex
import jax
import jax.numpy as jnp


def weighted_cross_entropy(
    log_probs: Mapping[str, jax.Array],
    weights: Mapping[str, float],
    frame_weight: jax.Array,
) -> jax.Array:
    """Returns minus the weighted sum of the arguments' log-probabilities, [F].

    log_probs are [F], 0 where an argument does not exist; frame_weight [F] is 0 where the action
    is not trained on.
    """
    total = jnp.zeros_like(frame_weight)
    for name, log_prob in log_probs.items():
        chex.assert_equal_shape([log_prob, frame_weight])
        total -= weights[name] * log_prob
    return total * frame_weight


def squared_error(value: jax.Array, outcome: jax.Array, weight: jax.Array) -> jax.Array:
    """Returns half the squared error times the weight; all arrays have one shape."""
    chex.assert_equal_shape([value, outcome, weight])
    return 0.5 * jnp.square(value - outcome) * weight
