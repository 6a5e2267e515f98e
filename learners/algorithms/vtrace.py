"""V-trace: off-policy corrected value targets and advantages, with a fixed critic.

In: time-major arrays [K, B] of one rollout, with index t as in `schema.episode`. Out: arrays
[K - 1, B], because the last step only serves to bootstrap. No gradients flow through them.

    delta[u] = r[u+1] + gamma[u] V[u+1] - V[u]
    v[t]     = V[t] + sum_{u >= t} (prod_{k=t}^{u-1} gamma[k] c[k]) rho[u] delta[u]
    A[t]     = rho[t] (r[t+1] + gamma[t] v[t+1] - V[t])

The sum runs to the end of the rollout, so in the first half of a rollout of 64 steps n is
between 32 and 64. This is the paper's "mixed n".
Paper: appendix "Offline Actor-Critic", algorithm 3.
Departs: the printed sum for v[t+1] starts at u = t; this one follows Espeholt et al. 2018.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class Corrected(NamedTuple):
    """What V-trace returns.

    Attributes:
        targets: v, [K - 1, B].
        advantages: A, [K - 1, B].
    """

    targets: jax.Array
    advantages: jax.Array


def vtrace(
    values: jax.Array,
    rewards: jax.Array,
    discounts: jax.Array,
    ratios: jax.Array,
    *,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> Corrected:
    """Returns V-trace targets and advantages.

    Args:
        values: V, [K, B].
        rewards: r[t + 1] at index t, [K, B] (`rollouts.next_rewards`).
        discounts: gamma[t], from step t to t + 1, [K, B]; 0 where an episode ends.
        ratios: pi / mu of the recorded actions, unclipped, [K, B].
        rho_clip: the highest rho; the paper clips at 1.
        c_clip: the highest c; the paper clips at 1.
    """
    chex.assert_rank(values, 2)
    chex.assert_equal_shape([values, rewards, discounts, ratios])
    gamma, reward = discounts[:-1], rewards[:-1]
    rho = jnp.minimum(ratios[:-1], rho_clip)
    trace = gamma * jnp.minimum(ratios[:-1], c_clip)
    delta = rho * (reward + gamma * values[1:] - values[:-1])

    def backwards(
        later: jax.Array, step: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        now = step[0] + step[1] * later
        return now, now

    _, excess = jax.lax.scan(
        backwards, jnp.zeros_like(values[0]), (delta, trace), reverse=True
    )
    targets = values[:-1] + excess
    next_targets = jnp.concatenate([targets[1:], values[-1:]])
    advantages = rho * (reward + gamma * next_targets - values[:-1])
    return Corrected(jax.lax.stop_gradient(targets), jax.lax.stop_gradient(advantages))
