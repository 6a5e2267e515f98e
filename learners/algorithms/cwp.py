"""The critic-weighted policy: a clone whose choices a critic weighs when it acts.

In: rollouts. Out: the cloning loss, and that of Q(s, function), which is learned as in `sarsa`. When
acting, `function` is drawn from

    pi(a | s) exp(Q(s, a) / temperature)

and the clone chooses the other arguments.
Paper: "Offline RL methods using action values" (Wang et al. 2020).
"""

import dataclasses

import jax

from starmill.learners.algorithms import sarsa
from starmill.learners.algorithms.contract import Carry, LossOutput
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(sarsa.Config):
    """How Q is learned: `sarsa.Config` has all fields."""


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a Q head; the carry is the target network."""
    return sarsa.init(seed, config, start)


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns cloning and SARSA losses; the key is unused."""
    return sarsa.loss(params, carry, batch, key, config)
