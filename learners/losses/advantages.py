"""Advantages, and the weights that cloning gives to frames because of them.

In: values, Q and outcomes as arrays. Out: arrays of the same leading shape, through which no
gradient flows.
"""

import chex
import jax
import jax.numpy as jnp


def of_policy(q: jax.Array, logits: jax.Array, action: jax.Array) -> jax.Array:
    """Returns Q(a) - E_{b ~ pi} Q(b), [...]; q and logits are [..., A]."""
    chex.assert_equal_shape([q, logits])
    chex.assert_shape(action, q.shape[:-1])
    own = jnp.take_along_axis(q, action[..., None], axis=-1)[..., 0]
    return jax.lax.stop_gradient(own - (jax.nn.softmax(logits) * q).sum(-1))


def exponential_weight(
    advantage: jax.Array, *, temperature: float, highest: float
) -> jax.Array:
    """Returns min(exp(advantage / temperature), highest)."""
    weight = jnp.minimum(jnp.exp(advantage / temperature), highest)
    return jax.lax.stop_gradient(weight)


def binary_weight(advantage: jax.Array) -> jax.Array:
    """Returns 1.0 where the advantage is positive."""
    return (advantage > 0).astype(advantage.dtype)


def generalised(
    values: jax.Array, rewards: jax.Array, discounts: jax.Array, decay: float
) -> jax.Array:
    """Returns generalised advantage estimates, [K - 1, B] (Schulman et al. 2016).

        A[t] = delta[t] + gamma[t] decay A[t+1],  delta[t] = r[t+1] + gamma[t] V[t+1] - V[t]

    All arrays are [K, B], with r[t + 1] at index t of `rewards`.
    """
    chex.assert_rank(values, 2)
    chex.assert_equal_shape([values, rewards, discounts])
    delta = rewards[:-1] + discounts[:-1] * values[1:] - values[:-1]

    def backwards(
        later: jax.Array, step: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        now = step[0] + step[1] * decay * later
        return now, now

    start = jnp.zeros_like(values[0])
    _, estimates = jax.lax.scan(backwards, start, (delta, discounts[:-1]), reverse=True)
    return jax.lax.stop_gradient(estimates)
