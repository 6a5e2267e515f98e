"""Regularised behaviour value estimation: Q of the data's own policy, acted on greedily.

In: rollouts. Q(s, function) is learnt by SARSA against a target network; a ranking term pushes
the recorded function's Q above the others', the more the better the game went. The policy
is cloned beside it for the other arguments. When acting, `function` is Q's best among
those that the policy finds likely.
Paper: "Offline RL methods using action values" (Gulcehre et al. 2021).
"""

import dataclasses

import jax
import jax.numpy as jnp

from starmill.learners import rollouts
from starmill.learners.algorithms import bc, contract
from starmill.learners.algorithms.contract import (
    Carry,
    LossOutput,
    Metrics,
    Params,
)
from starmill.learners.networks import network as networks
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(contract.Config):
    """gamma: per game loop. q_weight: of the SARSA error.

    rank_weight, rank_margin, rank_temperature: of the ranking term; 0 leaves plain BVE.
    target_period: updates between copies to the target network.
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
    """Returns parameters with a Q head, and the target network."""
    if start is None:
        start = networks.init(seed, config.network, config.settings)
    target = jax.tree.map(jnp.copy, start)
    return start, {"target": target, "calls": jnp.zeros((), jnp.int32)}


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns cloning, SARSA and ranking losses; the key is not used."""
    done = contract.forward(params, batch, config)
    q = done.network.action_values(done.latent.vector)  # [F, functions]
    sarsa, metrics = sarsa_loss(q, done, carry["target"], batch, config)
    cloning = bc.policy_loss(done.scores, done.weight, config).mean()
    total = cloning + config.q_weight * sarsa
    if config.rank_weight:
        ranking = ranking_loss(
            q, done.action["function"], batch["outcome"].reshape(-1), config
        )
        ranking = (ranking * done.weight).mean()
        total += config.rank_weight * ranking
        metrics["ranking_loss"] = ranking
    metrics |= contract.argument_metrics(done.scores, done.weight)
    metrics |= {"loss": total, "policy_loss": cloning}
    return total, (next_carry(params, carry, config), metrics)


def sarsa_loss(
    q: jax.Array, done: contract.Forward, target: Params, batch: Batch, config: Config
) -> tuple[jax.Array, Metrics]:
    """Returns the mean of (Q(s, a) - r' - gamma Q_target(s', a'))^2 / 2, and metrics."""
    size = len(batch["step_type"])
    taken = done.action["function"]
    network = networks.merge(target, config.network, config.settings)
    latent, _ = network.unroll(contract.inputs(batch, config))

    def of_taken(values: jax.Array) -> jax.Array:
        picked = jnp.take_along_axis(values, taken[:, None], axis=-1)[:, 0]
        return rollouts.time_major(picked, size)

    now, ahead = of_taken(q), of_taken(network.action_values(latent.vector))
    step_type = batch["step_type"].T
    gamma = rollouts.discounts(batch["action/delay"].T, step_type, config.gamma)
    reward = rollouts.next_rewards(batch["reward"].T)
    aim = jax.lax.stop_gradient(reward[:-1] + gamma[:-1] * ahead[1:])
    error = 0.5 * jnp.square(now[:-1] - aim)
    error = (error * rollouts.policy_weight(step_type)[:-1]).sum() / step_type.size
    return error, {
        "sarsa_loss": error,
        "q_sign_accuracy": contract.sign_accuracy(now, batch["outcome"].T),
    }


def ranking_loss(
    q: jax.Array, taken: jax.Array, outcome: jax.Array, config: Config
) -> jax.Array:
    """Returns sum over other functions of max(Q(s, b) - Q(s, a) + margin, 0)^2, weighted, [F].

    The weight grows with the outcome: a lost game's choices need not rank first.
    """
    own = jnp.take_along_axis(q, taken[:, None], axis=-1)
    above = jnp.square(jnp.maximum(q - own + config.rank_margin, 0.0))
    others = above.sum(-1) - config.rank_margin**2  # the recorded one itself
    return others * jnp.exp((outcome - 1) / config.rank_temperature)


def next_carry(params: Params, carry: Carry, config: Config) -> Carry:
    """Returns the carry with the target network renewed when it is due."""
    calls = carry["calls"] + 1
    due = calls % (config.target_period * config.accumulate) == 0
    target = jax.tree.map(
        lambda new, old: jnp.where(due, new, old),
        jax.lax.stop_gradient(params),
        carry["target"],
    )
    return {"target": target, "calls": calls}
