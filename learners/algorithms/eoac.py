"""Emphatic offline actor-critic: OAC with each step weighted by its emphatic trace.

In: consecutive rollouts: row b of a batch continues row b of the batch before, or with
accumulation, of the batch `accumulate` calls before. Out: OAC's loss with A[t] replaced by
F[t] A[t], where F is from `emphatic`. The carry holds OAC's, and the traces.
Paper: section "Emphatic Offline Actor-Critic", appendix algorithm 4.
Departs: the paper prints F for the first K - N steps only, yet F[t-N] at the start of the next
rollout is among the others. F is therefore kept for every step, and the loss uses the first.
"""

import dataclasses

import jax
import jax.numpy as jnp

from starmill.learners.algorithms import emphatic, oac
from starmill.learners.algorithms.contract import Carry, LossOutput
from starmill.learners.losses import policy_gradient
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(oac.Config):
    """How the traces are made; `oac.Config` has the fields of the advantages.

    Attributes:
        rollout: steps of a rollout, [T].
        n: steps that a trace looks back.
        overlap: steps that a rollout shares with the next one. The paper reads K + 1 steps and
            continues at step K, which is an overlap of 1.
        clip_trace: whether the trace's ratios are clipped at rho_clip, as V-trace's are.
    """

    rollout: int = 65
    n: int = 32
    overlap: int = 1
    clip_trace: bool = True


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns OAC's parameters and carry, with traces for streams that just began."""
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
    """Returns OAC's loss with each step weighted by its trace; the key is unused."""
    parts, metrics = oac.terms(params, carry["behaviour"], batch, config)
    rho = parts.ratio
    if config.clip_trace:
        rho = jnp.minimum(rho, config.rho_clip)
    turn = carry["turn"]
    state = jax.tree.map(lambda leaf: leaf[turn], carry["traces"])
    factors = parts.discount * rho
    # The steps of the overlap belong to the next rollout, and are never in the loss.
    owned = len(factors) - config.overlap
    trace, state = emphatic.emphatic(factors[:owned], state)
    trace = jnp.concatenate([trace, jnp.zeros_like(parts.weight[owned:])])
    total = policy_gradient.score_function(
        parts.log_prob, trace * parts.advantage, parts.weight
    ).sum()
    total = total / (config.trained * parts.weight.shape[1]) + parts.pull
    traces = jax.tree.map(
        lambda leaf, new: leaf.at[turn].set(new), carry["traces"], state
    )
    carry = {**carry, "traces": traces, "turn": (turn + 1) % config.accumulate}
    metrics = {"loss": total, "emphatic_trace": trace[:owned].mean(), **metrics}
    return total, (carry, metrics)
