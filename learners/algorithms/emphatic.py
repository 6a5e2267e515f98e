"""N-step emphatic traces over consecutive minibatches.

    F[t] = F[t-N] * prod_{p=1}^{N} gamma[t-p] rho[t-p] + 1

In: gamma * rho of a rollout's steps, [K, B], and the state after the rollout before it. Out: F of
the same steps, and the state for the rollout after it. F is 1 on the first N steps of a stream,
and also on the first N steps of an episode, because gamma is 0 where the one before it ends.
Paper: appendix "Emphatic Offline Actor-Critic". Its gamma[t-p+1] is the discount into step
t-p+1, which is gamma[t-p] here.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class TraceState(NamedTuple):
    """The last N steps before a rollout, oldest first.

    Attributes:
        factors: gamma * rho, [N, B].
        traces: F, [N, B].
    """

    factors: jax.Array
    traces: jax.Array


def initial(steps: int, batch_size: int) -> TraceState:
    """Returns the state of streams that just began; `steps` is N."""
    shape = (steps, batch_size)
    return TraceState(jnp.zeros(shape, jnp.float32), jnp.ones(shape, jnp.float32))


def emphatic(factors: jax.Array, state: TraceState) -> tuple[jax.Array, TraceState]:
    """Returns F of each step [K, B], and the state after the rollout."""
    chex.assert_rank(factors, 2)
    chex.assert_shape([*state], (None, factors.shape[1]))

    def step(state: TraceState, factor: jax.Array) -> tuple[TraceState, jax.Array]:
        trace = state.traces[0] * jnp.prod(state.factors, axis=0) + 1.0
        return TraceState(
            jnp.concatenate([state.factors[1:], factor[None]]),
            jnp.concatenate([state.traces[1:], trace[None]]),
        ), trace

    state, traces = jax.lax.scan(step, state, jax.lax.stop_gradient(factors))
    return traces, state
