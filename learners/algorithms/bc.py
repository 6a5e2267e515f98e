"""Behaviour cloning, with an optional value function; and fine-tuning, which is the same loss.

In: rollouts. Loss: the weighted cross-entropy of the seven arguments, the mean squared error
of the value against the undiscounted outcome, and a penalty on the parameters.
Paper: section "Behavior cloning", appendix algorithms 1 and 2. Return-conditioned behaviour
cloning is this with `network.condition_return`.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from starmill.learners.algorithms import contract
from starmill.learners.algorithms.contract import (
    Carry,
    LossOutput,
    Metrics,
    Params,
)
from starmill.learners.networks import network, policy
from starmill.learners.rollouts import Batch

# The published configuration's loss weights; unit_tags is a mean over its slots.
ARGUMENT_WEIGHTS: Mapping[str, float] = {
    "function": 40.0,
    "delay": 9.0,
    "queued": 1.0,
    "repeat": 0.1,
    "unit_tags": 320.0,
    "target_unit_tag": 30.0,
    "world": 11.0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(contract.Config):
    """value_weight: of the value's loss; 0 trains none, 10 is what OAC starts from.

    weight_penalty: times the sum of squared parameters (paper: 1e-5; 0 with a value).
    """

    value_weight: float = 0.0
    weight_penalty: float = 1e-5


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns fresh parameters, or those given; nothing is carried."""
    if start is None:
        start = network.init(seed, config.network, config.settings)
    return start, {}


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns the loss of a batch; the key is not used."""
    done = contract.forward(params, batch, config)
    total = policy_loss(done.scores, done.weight, config).mean()
    metrics = contract.argument_metrics(done.scores, done.weight)
    metrics["policy_loss"] = total
    if config.value_weight:
        value = done.network.value(done.latent.vector)
        error, more = value_loss(value, batch)
        total += config.value_weight * error.mean()
        metrics |= more
    if config.weight_penalty:
        squares = sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(params))
        total += config.weight_penalty * squares
    return total, (carry, {"loss": total, **metrics})


def policy_loss(
    scores: policy.Scores, weight: jax.Array, config: contract.Config
) -> jax.Array:
    """Returns each frame's weighted cross-entropy, [F]."""
    total = jnp.zeros_like(weight)
    for name, log_prob in scores.log_prob.items():
        scale = ARGUMENT_WEIGHTS[name]
        if name == "unit_tags":
            raw = config.settings.raw_settings
            scale /= raw.max_unit_selection_size if raw else 1
        total -= scale * log_prob
    return total * weight


def value_loss(value: jax.Array, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Returns half the squared error of each frame, [F] (0 in padding), and metrics."""
    outcome = batch["outcome"].reshape(-1)
    error = 0.5 * jnp.square(value - outcome) * batch["valid"].reshape(-1)
    return error, {
        "value_loss": error.mean(),
        "value_sign_accuracy": contract.sign_accuracy(value, outcome),
    }
