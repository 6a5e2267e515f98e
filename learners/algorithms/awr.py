"""Advantage-weighted regression: cloning, weighted by how the game went against expectation.

In: rollouts. Weight: exp((outcome - V(s)) / temperature), cut; V is learnt beside it.
Paper: "Additional offline RL baselines" (Peng et al. 2019).
"""

import dataclasses

import jax
import jax.numpy as jnp

from starmill.learners.algorithms import bc, contract
from starmill.learners.algorithms.contract import Carry, LossOutput, Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(bc.Config):
    """temperature: of the weight. max_weight: where it is cut (Peng et al.: 20)."""

    value_weight: float = 10.0
    weight_penalty: float = 0.0
    temperature: float = 1.0
    max_weight: float = 20.0


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns fresh parameters, or those given; nothing is carried."""
    return bc.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns weighted cloning and value losses; the key is not used."""
    done = contract.forward(params, batch, config)
    value = done.network.value(done.latent.vector)
    outcome = batch["outcome"].reshape(-1)
    advantage = outcome - jax.lax.stop_gradient(value)
    weight = jnp.exp(advantage / config.temperature)
    weight = jnp.minimum(weight, config.max_weight)
    cloning = (bc.policy_loss(done.scores, done.weight, config) * weight).mean()
    error, metrics = bc.value_loss(value, batch)
    total = cloning + config.value_weight * error.mean()
    metrics |= contract.argument_metrics(done.scores, done.weight)
    metrics |= {"loss": total, "policy_loss": cloning, "weight": weight.mean()}
    return total, (carry, metrics)
