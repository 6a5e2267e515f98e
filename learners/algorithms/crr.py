"""Critic-regularised regression: clones what the critic approves of.

In: rollouts. Out: cloning and Q losses. Q(s, function) is learned as in `sarsa`, as the paper does.
The cloning loss of a frame grows with the advantage of its recorded function:

    A = Q(s, a) - E_{b ~ pi} Q(s, b)
    w = min(exp(A / temperature), max_weight), or w = [A > 0]

Paper: "Offline RL methods using action values" (Wang et al. 2020).
"""

import dataclasses

import jax

from starmill.learners.algorithms import bc, contract, sarsa
from starmill.learners.algorithms.contract import Carry, LossOutput
from starmill.learners.losses import advantages
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch
from starmill.schema import errors

WEIGHTINGS = ("exp", "binary")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(sarsa.Config):
    """How advantages become weights; `sarsa.Config` has the fields of Q.

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
    return sarsa.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns weighted cloning and SARSA losses; the key is unused."""
    forward = contract.forward(params, batch, config)
    vector = forward.latent.vector
    q = forward.network.action_values(vector)
    error, metrics = sarsa.q_loss(q, forward, carry["target"], batch, config)
    logits = forward.network.policy.function_logits(vector)
    advantage = advantages.of_policy(q, logits, forward.action["function"])
    if config.weighting == "binary":
        weight = advantages.binary_weight(advantage)
    else:
        weight = advantages.exponential_weight(
            advantage, temperature=config.temperature, highest=config.max_weight
        )
    cloning = bc.policy_loss(forward.scores, forward.weight, config)
    cloning = (cloning * weight).mean()
    total = cloning + config.q_weight * error
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    metrics |= contract.argument_metrics(forward.scores, forward.weight)
    metrics |= {"loss": total, "policy_loss": cloning, "weight": weight.mean()}
    return total, (sarsa.next_carry(params, carry, config), metrics)
