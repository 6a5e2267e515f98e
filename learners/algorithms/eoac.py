"""Emphatic offline actor-critic: OAC whose gradients the emphatic trace weighs.

In: consecutive rollouts, row b of a batch continuing row b of the batch before (with
accumulation: of the batch `accumulate` calls before). The carry holds OAC's, and the traces.
Paper: section "Emphatic Offline Actor-Critic", appendix algorithm 4.
Departs: F is printed for the first K - N steps only, yet F[t-N] at the next rollout's start
is among the others; it is kept for every step, and the loss uses the first.
"""

import dataclasses

import jax
import jax.numpy as jnp

from starmill.learners.algorithms import emphatic, oac
from starmill.learners.algorithms.contract import Carry, LossOutput, Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(oac.Config):
    """n: steps that a trace looks back.

    overlap: steps that a rollout shares with the next (the paper reads K + 1, goes on at K).
    clip_trace: ratios in the trace are clipped at rho_clip, like those in V-trace.
    """

    rollout: int = 65
    n: int = 32
    overlap: int = 1
    clip_trace: bool = True


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns OAC's parameters and carry, and traces for streams that just began."""
    params, carry = oac.init(seed, config, start)
    states = [
        emphatic.initial(config.n, config.batch_size) for _ in range(config.accumulate)
    ]
    carry["traces"] = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    carry["turn"] = jnp.zeros((), jnp.int32)
    return params, carry


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns OAC's loss, each step weighted by its trace."""
    found, metrics = oac.terms(params, carry["behaviour"], batch, config)
    rho = found.ratio
    if config.clip_trace:
        rho = jnp.minimum(rho, config.rho_clip)
    turn = carry["turn"]
    state = jax.tree.map(lambda leaf: leaf[turn], carry["traces"])
    factors = found.discount * rho
    kept = len(factors) - config.overlap
    trace, state = emphatic.emphatic(factors[:kept], state)
    # A shared last step belongs to the next rollout, and is never in the loss.
    trace = jnp.concatenate([trace, jnp.zeros_like(found.weight[kept:])])
    total = -(trace * found.advantage * found.log_prob * found.weight).sum()
    total /= config.trained * found.weight.shape[1]
    traces = jax.tree.map(
        lambda leaf, new: leaf.at[turn].set(new), carry["traces"], state
    )
    carry = {**carry, "traces": traces, "turn": (turn + 1) % config.accumulate}
    metrics = {"loss": total, "emphatic_trace": trace[:kept].mean(), **metrics}
    return total, (carry, metrics)
