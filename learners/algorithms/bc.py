"""Behaviour cloning, with an optional value function. Fine-tuning has the same loss.

In: rollouts. Out: the weighted cross-entropy of the seven arguments, plus half the mean squared
error of the value against the undiscounted outcome, plus a penalty on the parameters:

    L = mean(-sum_a w_a log pi(a)) + w_V mean((V - z)^2) / 2 + w_2 sum(theta^2) / 2

With `network.condition_return` this is return-conditioned behaviour cloning.
Paper: section "Behavior cloning", appendix algorithms 1 and 2.
"""

import dataclasses
from collections.abc import Mapping

import jax

from starmill.learners.algorithms import contract
from starmill.learners.algorithms.contract import (
    AlgorithmConfig,
    Carry,
    LossOutput,
    Metrics,
)
from starmill.learners.losses import cloning
from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.parameters import Params
from starmill.learners.networks.scoring import Scores
from starmill.learners.rollouts import Batch

# Paper: the published configuration's loss weights. unit_tags is a mean over its slots.
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
class Config(AlgorithmConfig):
    """How much the parts of the loss weigh.

    Attributes:
        value_weight: of the value's loss; 0 trains no value, and OAC starts from 10.
        weight_penalty: times half the sum of squared parameters (paper: 1e-5; 0 with a value).
    """

    value_weight: float = 0.0
    weight_penalty: float = 1e-5


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns `start` or fresh parameters; nothing is carried."""
    return contract.start_params(seed, config, start), {}


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns the loss of a batch; the key is unused."""
    forward = contract.forward(params, batch, config)
    total = policy_loss(forward.scores, forward.weight, config).mean()
    metrics = contract.argument_metrics(forward.scores, forward.weight)
    metrics["policy_loss"] = total
    if config.value_weight:
        value = forward.network.value(forward.latent.vector)
        error, value_metrics = value_loss(value, batch)
        total += config.value_weight * error.mean()
        metrics |= value_metrics
    if config.weight_penalty:
        total += contract.weight_penalty(params, config.weight_penalty)
    return total, (carry, {"loss": total, **metrics})


def policy_loss(
    scores: Scores, weight: jax.Array, config: AlgorithmConfig
) -> jax.Array:
    """Returns each frame's weighted cross-entropy, [F]."""
    raw = config.settings.raw_settings
    slots = raw.max_unit_selection_size if raw else 1
    tag_weight = ARGUMENT_WEIGHTS["unit_tags"] / slots
    if isinstance(config.network, CompactConfig):
        tag_weight = config.network.tag_weight
    weights = {**ARGUMENT_WEIGHTS, "unit_tags": tag_weight}
    return cloning.weighted_cross_entropy(scores.log_prob, weights, weight)


def value_loss(value: jax.Array, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Returns half the squared error of each frame, [F] (0 in padding), and metrics."""
    outcome, valid = batch["outcome"].reshape(-1), batch["valid"].reshape(-1)
    error = cloning.squared_error(value, outcome, valid)
    return error, {
        "value_loss": error.mean(),
        "value_sign_accuracy": contract.sign_accuracy(value, outcome),
    }
