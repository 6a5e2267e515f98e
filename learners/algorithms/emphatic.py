"""N-step emphatic traces over consecutive minibatches.

    F[t] = F[t-N] * prod_{p=1}^{N} gamma[t-p] rho[t-p] + 1

In: gamma * rho of a rollout's steps, [K, B], and what the rollout before it left. Out: F [K, B],
and what to give to the next. A fresh stream, and the first N steps of an episode, have F = 1:
gamma is 0 where an episode ends, so the product is.
Paper: appendix "Emphatic Offline Actor-Critic"; gamma[t-p+1] there is the discount into
t-p+1, which is gamma[t-p] here.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class State(NamedTuple):
    """The last N steps before a rollout, oldest first.

    factors: gamma * rho, [N, B]. traces: F, [N, B].
    """

    factors: jax.Array
    traces: jax.Array


def initial(steps: int, batch_size: int) -> State:
    """Returns the state of streams that just began."""
    shape = (steps, batch_size)
    return State(jnp.zeros(shape, jnp.float32), jnp.ones(shape, jnp.float32))


def emphatic(factors: jax.Array, state: State) -> tuple[jax.Array, State]:
    """Returns F of each step [K, B], and the state after the rollout."""

    def step(state: State, factor: jax.Array) -> tuple[State, jax.Array]:
        trace = state.traces[0] * jnp.prod(state.factors, axis=0) + 1.0
        return State(
            jnp.concatenate([state.factors[1:], factor[None]]),
            jnp.concatenate([state.traces[1:], trace[None]]),
        ), trace

    state, traces = jax.lax.scan(step, state, jax.lax.stop_gradient(factors))
    return traces, state
