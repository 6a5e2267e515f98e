"""Regularised behaviour value estimation: Q of the players in the data, acted on greedily.

In: rollouts. Out: the sum of three losses. The policy is cloned. Q(s, function) is learned by SARSA
against a target network:

    (Q(s, a) - r' - gamma Q_target(s', a'))^2 / 2

A ranking term pushes the recorded function's Q above that of the others, more so the better the
game went:

    sum_{b != a} max(Q(s, b) - Q(s, a) + margin, 0)^2 exp((z - 1) / temperature)

When acting, `function` is the one with the highest Q among those that the policy finds likely.
Paper: "Offline RL methods using action values" (Gulcehre et al. 2021).
"""

import dataclasses

import chex
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
from starmill.learners.networks import parameters
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """How Q is learned.

    Attributes:
        rollout: steps of a rollout, [T].
        gamma: discount per game loop.
        q_weight: of the SARSA loss.
        rank_weight: of the ranking term; 0 leaves plain behaviour value estimation.
        rank_margin: by how much the recorded function should be ahead.
        rank_temperature: how quickly the ranking weight falls with the outcome.
        target_period: updates between copies of the parameters to the target network.
        weight_penalty: times the sum of squared parameters.
    """

    rollout: int = 8
    gamma: float = 0.99995
    q_weight: float = 10.0
    rank_weight: float = 0.01
    rank_margin: float = 0.05
    rank_temperature: float = 1.0
    target_period: int = 100
    weight_penalty: float = 0.0


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a Q head; the carry is the target network."""
    params = contract.start_params(seed, config, start)
    target = jax.tree.map(jnp.copy, params)
    return params, {"target": target, "calls": jnp.zeros((), jnp.int32)}


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns cloning, SARSA and ranking losses; the key is unused."""
    forward = contract.forward(params, batch, config)
    q = forward.network.action_values(forward.latent.vector)  # [F, functions]
    sarsa, metrics = sarsa_loss(q, forward, carry["target"], batch, config)
    cloning = bc.policy_loss(forward.scores, forward.weight, config).mean()
    total = cloning + config.q_weight * sarsa
    if config.rank_weight:
        ranking = ranking_loss(
            q, forward.action["function"], batch["outcome"].reshape(-1), config
        )
        ranking = (ranking * forward.weight).mean()
        total += config.rank_weight * ranking
        metrics["ranking_loss"] = ranking
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    metrics |= contract.argument_metrics(forward.scores, forward.weight)
    metrics |= {"loss": total, "policy_loss": cloning}
    return total, (next_carry(params, carry, config), metrics)


def sarsa_loss(
    q: jax.Array, forward: Forward, target: Params, batch: Batch, config: Config
) -> tuple[jax.Array, Metrics]:
    """Returns the mean of (Q(s, a) - r' - gamma Q_target(s', a'))^2 / 2, and metrics."""
    size = len(batch["step_type"])
    function = forward.action["function"]
    network = parameters.merge(target, config.network, config.settings)
    latent, _ = network.unroll(contract.add_target_return(batch, config))

    def of_recorded(values: jax.Array) -> jax.Array:
        picked = jnp.take_along_axis(values, function[:, None], axis=-1)[:, 0]
        return rollouts.time_major(picked, size)

    now = of_recorded(q)
    later = of_recorded(network.action_values(latent.vector))
    step_type = batch["step_type"].T
    chex.assert_equal_shape([now, later, step_type])
    gamma = rollouts.discounts(batch["action/delay"].T, step_type, config.gamma)
    reward = rollouts.next_rewards(batch["reward"].T)
    goal = jax.lax.stop_gradient(reward[:-1] + gamma[:-1] * later[1:])
    error = 0.5 * jnp.square(now[:-1] - goal)
    error = (error * rollouts.policy_weight(step_type)[:-1]).sum() / step_type.size
    return error, {
        "sarsa_loss": error,
        "q_sign_accuracy": contract.sign_accuracy(now, batch["outcome"].T),
    }


def ranking_loss(
    q: jax.Array, function: jax.Array, outcome: jax.Array, config: Config
) -> jax.Array:
    """Returns the ranking term of each frame, [F].

    q is [F, functions]; function [F] is the recorded one. The weight grows with the outcome,
    since the choices of a lost game need not rank first.
    """
    chex.assert_rank(q, 2)
    chex.assert_shape([function, outcome], q.shape[:1])
    own = jnp.take_along_axis(q, function[:, None], axis=-1)
    above = jnp.square(jnp.maximum(q - own + config.rank_margin, 0.0))
    # The sum includes the recorded function itself, which contributes the margin.
    others = above.sum(-1) - config.rank_margin**2
    return others * jnp.exp((outcome - 1) / config.rank_temperature)


def next_carry(params: Params, carry: Carry, config: Config) -> Carry:
    """Returns the carry, with the target network renewed when it is due."""
    calls = carry["calls"] + 1
    period = config.target_period * config.accumulate
    target = contract.next_target(params, carry["target"], calls, period)
    return {"target": target, "calls": calls}
