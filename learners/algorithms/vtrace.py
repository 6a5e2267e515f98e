"""V-trace: off-policy corrected value targets and advantages, with a fixed critic.

In: time-major arrays [K, B] of one rollout; index t as in `schema.episode`. Out: arrays
[K - 1, B]; the last step only serves as bootstrap. No gradients flow through any of it.

    delta[u] = r[u+1] + gamma[u] V[u+1] - V[u]
    v[t]     = V[t] + sum_{u >= t} (prod_{k=t}^{u-1} gamma[k] c[k]) rho[u] delta[u]
    A[t]     = rho[t] (r[t+1] + gamma[t] v[t+1] - V[t])

Paper: appendix "Offline Actor-Critic", algorithm 3. Departs: the printed sum for v[t+1] starts
at u = t; this is Espeholt et al. 2018. The sum runs to the end of the rollout, so the first
half of a rollout of 64 sees n between 32 and 64 steps, which is the paper's "mixed n".
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Output(NamedTuple):
    """targets: v [K - 1, B]. advantages: A [K - 1, B]."""

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
) -> Output:
    """Returns V-trace targets and advantages.

    Args:
        values: V [K, B].
        rewards: r[t + 1] at index t, [K, B] (`rollouts.next_rewards`).
        discounts: gamma[t], from t to t + 1, [K, B]; 0 where an episode ends.
        ratios: pi / mu of the recorded actions, unclipped, [K, B].
        rho_clip: of rho; the paper clips at 1.
        c_clip: of c; likewise.
    """
    shapes = {values.shape, rewards.shape, discounts.shape, ratios.shape}
    if len(shapes) != 1:
        raise ValueError(f"vtrace: expected four arrays [K, B], found {sorted(shapes)}")
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
    following = jnp.concatenate([targets[1:], values[-1:]])
    advantages = rho * (reward + gamma * following - values[:-1])
    return Output(jax.lax.stop_gradient(targets), jax.lax.stop_gradient(advantages))
