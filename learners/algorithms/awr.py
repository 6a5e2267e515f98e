"""Advantage-weighted regression: cloning, weighted by how much better the game went than expected.

In: rollouts. Out: cloning and value losses. Each frame's cloning loss has the weight

    w = min(exp((z - V(s)) / temperature), max_weight)

with z the game's outcome. V is learned at the same time; no gradient flows through the weight.
Paper: "Additional offline RL baselines" (Peng et al. 2019).
"""

import dataclasses

import jax

from starmill.learners.algorithms import bc, contract
from starmill.learners.algorithms.contract import Carry, LossOutput
from starmill.learners.losses import advantages
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(bc.Config):
    """How advantages become weights.

    Attributes:
        value_weight: of the value's loss.
        weight_penalty: times half the sum of squared parameters.
        temperature: divides the advantage; higher values make the weights more alike.
        max_weight: the highest weight of a frame (Peng et al.: 20).
    """

    value_weight: float = 10.0
    weight_penalty: float = 0.0
    temperature: float = 1.0
    max_weight: float = 20.0


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns `start` or fresh parameters; nothing is carried."""
    return bc.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns weighted cloning and value losses; the key is unused."""
    forward = contract.forward(params, batch, config)
    value = forward.network.value(forward.latent.vector)
    weight = advantages.exponential_weight(
        batch["outcome"].reshape(-1) - value,
        temperature=config.temperature,
        highest=config.max_weight,
    )
    cloning = bc.policy_loss(forward.scores, forward.weight, config)
    cloning = (cloning * weight).mean()
    error, metrics = bc.value_loss(value, batch)
    total = cloning + config.value_weight * error.mean()
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    metrics |= contract.argument_metrics(forward.scores, forward.weight)
    metrics |= {"loss": total, "policy_loss": cloning, "weight": weight.mean()}
    return total, (carry, metrics)
