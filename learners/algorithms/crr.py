"""Critic-regularised regression: clones what the critic approves of.

In: rollouts. Out: cloning and Q losses. Q(s, function) is learned as in `rbve`, as the paper does.
The cloning loss of a frame grows with the advantage of its recorded function:

    A = Q(s, a) - E_{b ~ pi} Q(s, b)
    w = min(exp(A / temperature), max_weight), or w = [A > 0]

Paper: "Offline RL methods using action values" (Wang et al. 2020).
"""

import dataclasses

import chex
import jax
import jax.numpy as jnp

from starmill.learners.algorithms import bc, contract, rbve
from starmill.learners.algorithms.contract import Carry, LossOutput
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch
from starmill.schema import errors

WEIGHTINGS = ("exp", "binary")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(rbve.Config):
    """How advantages become weights; `rbve.Config` has the fields of Q.

    Attributes:
        weighting: "exp" or "binary"; see the module.
        temperature: divides the advantage; only for "exp".
        max_weight: the highest weight of a frame; only for "exp".
    """

    weighting: str = "exp"
    temperature: float = 1.0
    max_weight: float = 20.0

    def __post_init__(self) -> None:
        """Checks the weighting."""
        if self.weighting not in WEIGHTINGS:
            raise errors.ConfigError(
                f"crr: weighting: expected one of {WEIGHTINGS}, "
                f"found {self.weighting!r}"
            )


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a Q head; the carry is the target network."""
    return rbve.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns weighted cloning and SARSA losses; the key is unused."""
    forward = contract.forward(params, batch, config)
    vector = forward.latent.vector
    q = forward.network.action_values(vector)
    sarsa, metrics = rbve.sarsa_loss(q, forward, carry["target"], batch, config)
    weight = advantage_weight(
        q,
        forward.network.policy.function_logits(vector),
        forward.action["function"],
        config,
    )
    cloning = bc.policy_loss(forward.scores, forward.weight, config)
    cloning = (cloning * weight).mean()
    total = cloning + config.q_weight * sarsa
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    metrics |= contract.argument_metrics(forward.scores, forward.weight)
    metrics |= {"loss": total, "policy_loss": cloning, "weight": weight.mean()}
    return total, (rbve.next_carry(params, carry, config), metrics)


def advantage_weight(
    q: jax.Array, logits: jax.Array, function: jax.Array, config: Config
) -> jax.Array:
    """Returns each frame's weight [F]; no gradient flows through it.

    q and logits are [F, functions]; function [F] is the recorded one.
    """
    chex.assert_equal_shape([q, logits])
    chex.assert_shape(function, q.shape[:1])
    own = jnp.take_along_axis(q, function[:, None], axis=-1)[:, 0]
    advantage = own - (jax.nn.softmax(logits) * q).sum(-1)
    if config.weighting == "binary":
        weight = (advantage > 0).astype(q.dtype)
    else:
        weight = jnp.exp(advantage / config.temperature)
    return jax.lax.stop_gradient(jnp.minimum(weight, config.max_weight))
