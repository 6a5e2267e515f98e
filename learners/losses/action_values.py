"""Learning Q(s, function): temporal differences, what they bootstrap from, and ranking.

In: Q of every function [..., A], and arrays [K, B] over time with index t as in `schema.episode`. Out: an
error of each step. The step after the last is unknown, so errors are [K - 1, B].

    error[t] = (Q[t] - r[t+1] - gamma[t] next[t+1])^2 / 2

with `next` the target network's Q of the recorded function (SARSA), the best of all functions
(Q-learning), or the best of the likely ones (BCQ). No gradient flows through `next`.
"""

import chex
import jax
import jax.numpy as jnp


def of_action(q: jax.Array, action: jax.Array) -> jax.Array:
    """Returns the Q of given actions: q [..., A] and action [...] -> [...]."""
    chex.assert_shape(action, q.shape[:-1])
    return jnp.take_along_axis(q, action[..., None], axis=-1)[..., 0]


def td_errors(
    now: jax.Array, later: jax.Array, rewards: jax.Array, discounts: jax.Array
) -> jax.Array:
    """Returns half the squared temporal difference of each step, [K - 1, B].

    Args:
        now: Q of the recorded action, [K, B].
        later: what each step is worth to the step before it, [K, B].
        rewards: r[t + 1] at index t, [K, B].
        discounts: gamma[t], from step t to t + 1, [K, B]; 0 where an episode ends.
    """
    chex.assert_rank(now, 2)
    chex.assert_equal_shape([now, later, rewards, discounts])
    goal = rewards[:-1] + discounts[:-1] * later[1:]
    return 0.5 * jnp.square(now[:-1] - jax.lax.stop_gradient(goal))


def best(target_q: jax.Array, chooser: jax.Array) -> jax.Array:
    """Returns the target network's Q of the action with the highest `chooser`, [...].

    Both are [..., A]. With `chooser` the target's own Q this is Q-learning, with the trained
    network's Q it is double Q-learning (van Hasselt et al. 2016).
    """
    chex.assert_equal_shape([target_q, chooser])
    return of_action(target_q, chooser.argmax(-1))


def likely_only(values: jax.Array, logits: jax.Array, threshold: float) -> jax.Array:
    """Returns the values [..., A] with minus infinity for unlikely actions.

    Those are less likely than `threshold` times the likeliest; 0 keeps all of them (discrete
    BCQ, Fujimoto et al. 2019).
    """
    chex.assert_equal_shape([values, logits])
    if threshold <= 0:
        return values
    floor = logits.max(-1, keepdims=True) + jnp.log(threshold)
    return jnp.where(logits >= floor, values, -jnp.inf)


def critic_weighted(
    logits: jax.Array, values: jax.Array, temperature: float
) -> jax.Array:
    """Returns the logits [..., A] of pi(a) exp(Q(a) / temperature) (Wang et al. 2020)."""
    chex.assert_equal_shape([logits, values])
    return jax.nn.log_softmax(logits) + values / temperature


def ranking(
    q: jax.Array,
    action: jax.Array,
    outcome: jax.Array,
    *,
    margin: float,
    temperature: float,
) -> jax.Array:
    """Returns by how much others' Q is above the recorded action's, [F].

        sum_{b != a} max(Q(b) - Q(a) + margin, 0)^2 exp((outcome - 1) / temperature)

    q is [F, A]; action and outcome are [F]. The weight grows with the outcome, since the choices
    of a lost game need not rank first (Gulcehre et al. 2021).
    """
    chex.assert_rank(q, 2)
    chex.assert_shape([action, outcome], q.shape[:1])
    above = jnp.square(jnp.maximum(q - of_action(q, action)[:, None] + margin, 0.0))
    # The sum includes the recorded action itself, which contributes the margin.
    others = above.sum(-1) - margin**2
    return others * jnp.exp((outcome - 1) / temperature)
