"""Deep offline Q-learning: the best that any function could do, learned from what players did.

In: rollouts. Out: the cloning loss, and that of Q(s, function) against a target network:

    (Q(s, a) - r' - gamma max_b Q_target(s', b))^2 / 2

When acting, `function` is the one with the highest Q; the clone chooses the other arguments. The
maximum is over functions that no player chose in such a state as well, which is why this fails.
Paper: "Deep Offline Q-Learning" in the section on baselines (Agarwal et al. 2020).
Departs: the paper predicts Q and policy with one output layer; here they have a head each, as for
the other baselines, since the clone must choose the other arguments anyway.
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
        double: whether the trained network chooses the function that the target network
            values (double Q-learning). The paper tried both.
    """

    double: bool = False


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a Q head; the carry is the target network."""
    return sarsa.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns cloning and Q-learning losses; the key is unused."""
    forward = contract.forward(params, batch, config)
    q = forward.network.action_values(forward.latent.vector)
    target = sarsa.run_target(carry["target"], batch, config).q
    later = action_values.best(target, q if config.double else target)
    error, metrics = sarsa.mean_error(q, later, forward, batch, config)
    cloning = bc.policy_loss(forward.scores, forward.weight, config).mean()
    total = cloning + config.q_weight * error
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    metrics |= contract.argument_metrics(forward.scores, forward.weight)
    metrics |= {"loss": total, "policy_loss": cloning}
    return total, (sarsa.next_carry(params, carry, config), metrics)
