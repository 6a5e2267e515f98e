"""Batch-constrained Q-learning: the best of the functions that players are likely to choose.

In: rollouts. Out: the cloning loss, and that of Q(s, function) against a target network:

    (Q(s, a) - r' - gamma Q_target(s', b*))^2 / 2,   b* = argmax_b Q(s', b)
                                                     over pi(b) >= threshold max_c pi(c)

When acting, `function` is b*; the clone chooses the other arguments.
Paper: "Offline RL methods using action values" (Fujimoto et al. 2019, for discrete actions).
"""

import dataclasses

import jax

from starmill.learners.algorithms import bc, contract, sarsa
from starmill.learners.algorithms.contract import Carry, LossOutput
from starmill.learners.losses import action_values
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch
from starmill.schema import errors

# Fujimoto et al. 2019 (discrete BCQ). Acting has the same one: `agents.AgentRecord.likely`.
THRESHOLD = 0.3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(sarsa.Config):
    """How Q is learned; `sarsa.Config` has the other fields.

    Attributes:
        threshold: how likely a function must be, relative to the likeliest, to be considered.
    """

    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        """Checks the threshold."""
        if not 0 <= self.threshold <= 1:
            raise errors.ConfigError(
                f"bcq: threshold: expected 0 to 1, found {self.threshold}"
            )


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a Q head; the carry is the target network."""
    return sarsa.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns cloning and constrained Q-learning losses; the key is unused."""
    forward = contract.forward(params, batch, config)
    vector = forward.latent.vector
    q = forward.network.action_values(vector)
    target = sarsa.run_target(carry["target"], batch, config).q
    chooser = action_values.likely_only(
        q, forward.network.policy.function_logits(vector), config.threshold
    )
    later = action_values.best(target, chooser)
    error, metrics = sarsa.mean_error(q, later, forward, batch, config)
    cloning = bc.policy_loss(forward.scores, forward.weight, config).mean()
    total = cloning + config.q_weight * error
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    metrics |= contract.argument_metrics(forward.scores, forward.weight)
    metrics |= {"loss": total, "policy_loss": cloning}
    return total, (sarsa.next_carry(params, carry, config), metrics)
