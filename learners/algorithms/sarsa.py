"""Offline SARSA, also behaviour value estimation: Q of the players in the data.

In: rollouts. Out: the cloning loss, and that of Q(s, function) against a target network:

    (Q(s, a) - r' - gamma Q_target(s', a'))^2 / 2

When acting, `function` is the one with the highest Q; the clone chooses the other arguments.
Paper: section on baselines (Rummery and Niranjan 1994; "BVE" in Gulcehre et al. 2021).
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from starmill.learners import rollouts
from starmill.learners.algorithms import bc, contract
from starmill.learners.algorithms.contract import (
    AlgorithmConfig,
    Carry,
    Forward,
    LossOutput,
    Metrics,
)
from starmill.learners.losses import action_values
from starmill.learners.networks import parameters
from starmill.learners.networks.parameters import AnyLatent, Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """How Q is learned.

    Attributes:
        rollout: steps of a rollout, [T].
        gamma: discount per game loop.
        q_weight: of Q's loss.
        target_period: updates between copies of the parameters to the target network.
        weight_penalty: times half the sum of squared parameters.
    """

    rollout: int = 8
    gamma: float = 0.99995
    q_weight: float = 10.0
    target_period: int = 100
    weight_penalty: float = 0.0


class Target(NamedTuple):
    """What the target network says of a batch's frames.

    Attributes:
        q: Q of every function, [F, functions].
        logits: of `function`, [F, functions].
    """

    q: jax.Array
    logits: jax.Array


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a Q head; the carry is the target network."""
    params = contract.start_params(seed, config, start)
    target = jax.tree.map(jnp.copy, params)
    return params, {"target": target, "calls": jnp.zeros((), jnp.int32)}


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns cloning and SARSA losses; the key is unused."""
    forward = contract.forward(params, batch, config)
    q = forward.network.action_values(forward.latent.vector)
    error, metrics = q_loss(q, forward, carry["target"], batch, config)
    cloning = bc.policy_loss(forward.scores, forward.weight, config).mean()
    total = cloning + config.q_weight * error
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    metrics |= contract.argument_metrics(forward.scores, forward.weight)
    metrics |= {"loss": total, "policy_loss": cloning}
    return total, (next_carry(params, carry, config), metrics)


def q_loss(
    q: jax.Array, forward: Forward, target: Params, batch: Batch, config: Config
) -> tuple[jax.Array, Metrics]:
    """Returns the mean of (Q(s, a) - r' - gamma Q_target(s', a'))^2 / 2, and metrics."""
    later = action_values.of_action(
        run_target(target, batch, config).q, forward.action["function"]
    )
    return mean_error(q, later, forward, batch, config)


def run_target(target: Params, batch: Batch, config: Config) -> Target:
    """Returns what the target network says of the batch's frames."""
    network = parameters.merge(target, config.network, config.settings)
    latent: AnyLatent
    latent, _ = network.unroll(contract.add_target_return(batch, config))
    logits = network.policy.function_logits(latent.vector)
    return Target(network.action_values(latent.vector), logits)


def mean_error(
    q: jax.Array, later: jax.Array, forward: Forward, batch: Batch, config: Config
) -> tuple[jax.Array, Metrics]:
    """Returns the mean error of Q [F, functions] given what frames are worth [F], and metrics."""
    size = len(batch["step_type"])
    step_type = batch["step_type"].T
    taken = action_values.of_action(q, forward.action["function"])
    now = rollouts.time_major(taken, size)
    errors = action_values.td_errors(
        now,
        rollouts.time_major(later, size),
        rollouts.next_rewards(batch["reward"].T),
        rollouts.discounts(batch["action/delay"].T, step_type, config.gamma),
    )
    weight = rollouts.policy_weight(step_type)[:-1]
    error = (errors * weight).sum() / step_type.size
    return error, {
        "q_loss": error,
        "q_sign_accuracy": contract.sign_accuracy(now, batch["outcome"].T),
    }


def next_carry(params: Params, carry: Carry, config: Config) -> Carry:
    """Returns the carry, with the target network renewed when it is due."""
    calls = carry["calls"] + 1
    period = config.target_period * config.accumulate
    target = contract.next_target(params, carry["target"], calls, period)
    return {"target": target, "calls": calls}
