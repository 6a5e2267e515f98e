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

import jax

from starmill.learners.algorithms import bc, contract, sarsa
from starmill.learners.algorithms.contract import Carry, LossOutput
from starmill.learners.losses import action_values
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(sarsa.Config):
    """How Q is learned; `sarsa.Config` has the other fields.

    Attributes:
        rank_weight: of the ranking term; 0 leaves plain behaviour value estimation.
        rank_margin: by how much the recorded function should be ahead.
        rank_temperature: how quickly the ranking weight falls with the outcome.
    """

    rank_weight: float = 0.01
    rank_margin: float = 0.05
    rank_temperature: float = 1.0


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a Q head; the carry is the target network."""
    return sarsa.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns cloning, SARSA and ranking losses; the key is unused."""
    forward = contract.forward(params, batch, config)
    q = forward.network.action_values(forward.latent.vector)  # [F, functions]
    error, metrics = sarsa.q_loss(q, forward, carry["target"], batch, config)
    cloning = bc.policy_loss(forward.scores, forward.weight, config).mean()
    total = cloning + config.q_weight * error
    if config.rank_weight:
        ranking = action_values.ranking(
            q,
            forward.action["function"],
            batch["outcome"].reshape(-1),
            margin=config.rank_margin,
            temperature=config.rank_temperature,
        )
        ranking = (ranking * forward.weight).mean()
        total += config.rank_weight * ranking
        metrics["ranking_loss"] = ranking
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    metrics |= contract.argument_metrics(forward.scores, forward.weight)
    metrics |= {"loss": total, "policy_loss": cloning}
    return total, (sarsa.next_carry(params, carry, config), metrics)
