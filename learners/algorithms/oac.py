"""Offline actor-critic: V-trace policy gradient against a fixed behaviour critic.

In: rollouts of K steps. The carry holds the behaviour network, policy and value, as behaviour
cloning left it; it never changes. Only `function` and `delay` are improved: the ratio of the
other arguments is 1, since they come from the behaviour policy when acting too.
The loss is on the first steps (32 of 64), each bootstrapped from the rollout's end.
Paper: section "Offline Actor-Critic", appendix algorithm 3.
Departs: printed as descent on +advantage * grad log pi; it is ascent.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from starmill.learners import rollouts
from starmill.learners.algorithms import contract, vtrace
from starmill.learners.algorithms.contract import (
    Carry,
    LossOutput,
    Metrics,
    Params,
)
from starmill.learners.networks import network as networks
from starmill.learners.networks import policy
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(contract.Config):
    """gamma: discount per game loop.

    trained: leading steps of the rollout that the loss is on; the others only bootstrap.
    rho_clip, c_clip: of V-trace. Defaults are the paper's.
    """

    rollout: int = 64
    trained: int = 32
    gamma: float = 0.99995
    rho_clip: float = 1.0
    c_clip: float = 1.0


class Terms(NamedTuple):
    """What the policy gradient is made of; time-major [K, B].

    log_prob: of function and delay under the policy being trained; gradients flow here alone.
    ratio: pi / mu, unclipped. advantage: zero at the rollout's last step.
    weight: 1.0 where the action is trained on, the bootstrap steps excluded.
    """

    log_prob: jax.Array
    ratio: jax.Array
    advantage: jax.Array
    discount: jax.Array
    weight: jax.Array


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns the starting parameters, and a frozen copy of them as behaviour."""
    if start is None:
        start = networks.init(seed, config.network, config.settings)
    return start, {"behaviour": jax.tree.map(jnp.copy, start)}


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns the policy-gradient loss; the key is not used."""
    found, metrics = terms(params, carry["behaviour"], batch, config)
    total = -(found.advantage * found.log_prob * found.weight).sum()
    total /= config.trained * found.weight.shape[1]
    return total, (carry, {"loss": total, **metrics})


def terms(
    params: Params, behaviour: Params, batch: Batch, config: Config
) -> tuple[Terms, Metrics]:
    """Returns the parts of the gradient, and metrics."""
    batch = contract.inputs(batch, config)
    size, steps = batch["step_type"].shape
    action = rollouts.action(rollouts.flatten(batch))

    def run(params: Params) -> tuple[networks.Network, policy.Latent, jax.Array]:
        network = networks.merge(params, config.network, config.settings)
        latent, _ = network.unroll(batch)
        chosen = network.policy.function_delay_log_probs(latent.vector, action)
        return network, latent, chosen[0] + chosen[1]

    _, _, log_pi = run(params)
    frozen, latent, log_mu = run(jax.lax.stop_gradient(behaviour))
    values = rollouts.time_major(frozen.value(latent.vector), size)
    log_pi = rollouts.time_major(log_pi, size)
    ratio = jnp.exp(jax.lax.stop_gradient(log_pi) - rollouts.time_major(log_mu, size))
    step_type = batch["step_type"].T
    discount = rollouts.discounts(batch["action/delay"].T, step_type, config.gamma)
    found = vtrace.vtrace(
        values,
        rollouts.next_rewards(batch["reward"].T),
        discount,
        ratio,
        rho_clip=config.rho_clip,
        c_clip=config.c_clip,
    )
    advantage = jnp.concatenate([found.advantages, jnp.zeros((1, size))])
    early = jnp.arange(steps) < config.trained
    weight = rollouts.policy_weight(step_type) * early[:, None]
    metrics = {
        "rho": jnp.minimum(ratio, config.rho_clip).mean(),
        "advantage": (advantage * weight).sum() / jnp.maximum(weight.sum(), 1.0),
        "value_sign_accuracy": contract.sign_accuracy(values, batch["outcome"].T),
    }
    return Terms(log_pi, ratio, advantage, discount, weight), metrics
