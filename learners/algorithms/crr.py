"""Critic-regularised regression: cloning of what the critic approves.

In: rollouts. Q(s, function) is learnt as in `rbve` (the paper did so too); the policy clones the
recorded action with a weight that grows with its advantage Q(s, a) - E_pi Q(s, .).
Paper: "Offline RL methods using action values" (Wang et al. 2020).
"""

import dataclasses

import jax
import jax.numpy as jnp

from starmill.learners.algorithms import bc, contract, rbve
from starmill.learners.algorithms.contract import Carry, LossOutput, Params
from starmill.learners.rollouts import Batch
from starmill.schema import errors

WEIGHTS = ("exp", "binary")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(rbve.Config):
    """weighting: "exp", exp(advantage / temperature) cut at max_weight; or "binary"."""

    weighting: str = "exp"
    temperature: float = 1.0
    max_weight: float = 20.0

    def __post_init__(self) -> None:
        """Checks the weighting."""
        if self.weighting not in WEIGHTS:
            raise errors.ConfigError(
                f"crr: weighting: expected one of {WEIGHTS}, found {self.weighting!r}"
            )


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a Q head, and the target network."""
    return rbve.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns weighted cloning and SARSA losses; the key is not used."""
    done = contract.forward(params, batch, config)
    vector = done.latent.vector
    q = done.network.action_values(vector)
    sarsa, metrics = rbve.sarsa_loss(q, done, carry["target"], batch, config)
    weight = advantage_weight(
        q, done.network.policy.function_logits(vector), done.action["function"], config
    )
    cloning = (bc.policy_loss(done.scores, done.weight, config) * weight).mean()
    total = cloning + config.q_weight * sarsa
    metrics |= contract.argument_metrics(done.scores, done.weight)
    metrics |= {"loss": total, "policy_loss": cloning, "weight": weight.mean()}
    return total, (rbve.next_carry(params, carry, config), metrics)


def advantage_weight(
    q: jax.Array, logits: jax.Array, taken: jax.Array, config: Config
) -> jax.Array:
    """Returns each frame's weight [F]; no gradient flows through it."""
    own = jnp.take_along_axis(q, taken[:, None], axis=-1)[:, 0]
    advantage = own - (jax.nn.softmax(logits) * q).sum(-1)
    if config.weighting == "binary":
        weight = (advantage > 0).astype(q.dtype)
    else:
        weight = jnp.exp(advantage / config.temperature)
    return jax.lax.stop_gradient(jnp.minimum(weight, config.max_weight))
