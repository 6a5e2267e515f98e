"""Proximal policy optimisation on recorded games, against a fixed critic.

In: rollouts. Out: the clipped surrogate

    L = -mean(min(r A, clip(r, 1 - epsilon, 1 + epsilon) A)),   r = pi / mu

of the recorded function and delay. mu is the behaviour that cloning left, and A are generalised
advantage estimates with its value. Both are carried and never change. As in `oac`, mu chooses the
other arguments when acting.
Paper: section on baselines (Schulman et al. 2017).
Departs: PPO collects games with the policy that it improved last; here mu stays what played the
data, since there is nothing else to collect from.
"""

import dataclasses

import jax
import jax.numpy as jnp

from starmill.learners.algorithms import contract, oac
from starmill.learners.algorithms.contract import AlgorithmConfig, Carry, LossOutput
from starmill.learners.losses import advantages, policy_gradient
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """How the surrogate is made.

    Attributes:
        rollout: steps of a rollout, [T].
        gamma: discount per game loop.
        decay: of later temporal differences in an advantage (lambda; Schulman et al.: 0.95).
        epsilon: how far ratios count (Schulman et al.: 0.2).
        critic: the sha256 of the values that replace the critic's; empty for the critic.
    """

    rollout: int = 64
    gamma: float = 0.99995
    decay: float = 0.95
    epsilon: float = 0.2
    critic: str = ""


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns the first parameters, and a frozen copy of them as the behaviour policy."""
    params = contract.start_params(seed, config, start)
    return params, {"behaviour": jax.tree.map(jnp.copy, params)}


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns the clipped surrogate; the key is unused."""
    trained = oac.evaluate(params, carry["behaviour"], batch, config, config.gamma)
    advantage = advantages.generalised(
        trained.values, trained.rewards, trained.discounts, config.decay
    )
    ratio = jnp.exp(trained.log_pi - trained.log_mu)[:-1]
    surrogate = policy_gradient.clipped_surrogate(ratio, advantage, config.epsilon)
    total = (surrogate * trained.weight[:-1]).sum() / trained.weight.size
    clipped = jnp.abs(ratio - 1) > config.epsilon
    metrics = {
        "loss": total,
        "rho": ratio.mean(),
        "clipped": clipped.mean(),
        "advantage": advantage.mean(),
        "value_sign_accuracy": contract.sign_accuracy(
            trained.values, batch["outcome"].T
        ),
    }
    return total, (carry, metrics)
