"""The contract of an algorithm, and the forward pass that all algorithms share.

An algorithm is a module with `Config`, `init` and `loss`. `loss` is pure: parameters, the carry
(what outlives an update), a batch of rollouts and a random key come in; a scalar, the new carry
and metrics go out. Optimizers, devices and files are the business of `learner` and `training`.

A loss is the mean over all B * K frames of the batch, to which absent frames contribute zero.
Accumulating batches and splitting them over devices are therefore exact.
"""

import dataclasses
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp

from starmill.learners import rollouts
from starmill.learners.counts import step_weights
from starmill.learners.networks import parameters
from starmill.learners.networks.network import NetworkConfig
from starmill.learners.networks.parameters import (
    AnyConfig,
    AnyLatent,
    AnyNetwork,
    Params,
)
from starmill.learners.networks.scoring import Action, Scores
from starmill.learners.rollouts import Batch
from starmill.schema.settings import UNPLUGGED, ConverterSettings

Carry = dict[str, Any]
Metrics = dict[str, jax.Array]
LossOutput = tuple[jax.Array, tuple[Carry, Metrics]]

# The column of batches (`columns`) with values that replace those of a run's own critic.
CRITIC_VALUES = "critic_values"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlgorithmConfig:
    """What every algorithm needs to know. Each module's `Config` adds its own fields.

    Attributes:
        network: sizes of the network.
        settings: how the dataset was converted, which fixes the shapes of observations.
        batch_size: B, the rollouts in a batch.
        rollout: K, the steps of a rollout as `loss` sees it.
        accumulate: batches in one update.
        burn_in: steps before each rollout that only fill the network's memory. Without them
            memory is empty where a rollout starts, as it never is when the agent acts.
        step_weights: how much a step counts in cloning, by the name of its function; 1 for
            functions that are not listed (`counts.step_weights`).
    """

    network: AnyConfig = dataclasses.field(default_factory=NetworkConfig)
    settings: ConverterSettings = UNPLUGGED
    batch_size: int = 32
    rollout: int = 1
    accumulate: int = 1
    burn_in: int = 0
    step_weights: dict[str, float] = dataclasses.field(default_factory=dict)


ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig, contravariant=True)


class Algorithm(Protocol[ConfigT]):
    """The shape of the modules in this package. mypy checks them where `agents` lists them."""

    def init(
        self, seed: int, config: ConfigT, start: Params | None
    ) -> tuple[Params, Carry]:
        """Returns the first parameters (`start`, or fresh ones) and the first carry."""

    def loss(
        self,
        params: Params,
        carry: Carry,
        batch: Batch,
        key: jax.Array,
        config: ConfigT,
    ) -> LossOutput:
        """Returns the loss of a batch, the next carry and metrics."""


class Forward(NamedTuple):
    """One pass of the network over a batch; F = B * K frames, with time running fastest.

    Attributes:
        network: the network with the parameters in it.
        latent: what it makes of the frames.
        action: the recorded actions by argument, [F, ...].
        scores: how likely the policy finds the recorded actions.
        weight: [F], the weight of the action's function; 0 where it is not trained on.
    """

    network: AnyNetwork
    latent: AnyLatent
    action: Action
    scores: Scores
    weight: jax.Array


def forward(params: Params, batch: Batch, config: AlgorithmConfig) -> Forward:
    """Runs the network over rollouts [B, K, ...] and scores the recorded actions.

    Departs: our own network is also trained on an episode's first step, because an agent has to
    begin its games. Published networks are not, as in the published code: no argument exists
    there (`PublishedPolicy.score`).
    """
    batch = add_target_return(batch, config)
    network = parameters.merge(params, config.network, config.settings)
    latent: AnyLatent
    latent, _ = network.unroll(batch)
    action = rollouts.action(rollouts.flatten(batch))
    scores = network.policy.score(latent, action)  # type: ignore[arg-type]  # its own latent
    weight = rollouts.policy_weight(batch["step_type"]).reshape(-1)
    weight *= function_weight(action["function"], config)
    return Forward(network, latent, action, scores, weight)


def function_weight(function: jax.Array, config: AlgorithmConfig) -> jax.Array:
    """Returns how much steps with these functions count, in the functions' shape."""
    functions = config.settings.num_action_types
    return jnp.asarray(step_weights.table(config.step_weights, functions))[function]


def start_params(seed: int, config: AlgorithmConfig, start: Params | None) -> Params:
    """Returns the parameters to start from, or fresh ones if there are none."""
    if start is not None:
        return start
    return parameters.init(seed, config.network, config.settings)


def add_target_return(batch: Batch, config: AlgorithmConfig) -> Batch:
    """Adds `target_return` [B, K] if the network is told the outcome: 1 loss, 2 draw, 3 win."""
    if config.network.condition_return and "target_return" not in batch:
        return {**batch, "target_return": batch["outcome"] + 2}
    return batch


def next_target(
    params: Params, target: Params, calls: jax.Array, period: jax.Array | int
) -> Params:
    """Returns the target network: `params` at each `period`-th call, else `target`."""
    due = calls % period == 0
    return jax.tree.map(
        lambda new, old: jnp.where(due, new, old), jax.lax.stop_gradient(params), target
    )


def weight_penalty(params: Params, scale: float) -> jax.Array:
    """Returns half of `scale` times the sum of the squared parameters.

    Its gradient is `scale` times the parameters, as in the published training code.
    """
    trained = parameters.trained_only(params)
    squares = [jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(trained)]
    return 0.5 * scale * jnp.asarray(sum(squares))


def argument_metrics(scores: Scores, weight: jax.Array) -> Metrics:
    """Returns each argument's mean cross-entropy over the actions that have it, and more.

    Accuracy and entropy are only of function and delay: on a CPU, those of unit_tags and
    world would cost as much as their loss. `prediction` measures all of them.
    """
    metrics = {}
    for name, log_prob in scores.log_prob.items():
        present = scores.present[name] * weight
        count = jnp.maximum(present.sum(), 1.0)
        metrics[f"cross_entropy/{name}"] = -(log_prob * weight).sum() / count
        if name in ("function", "delay"):
            metrics[f"accuracy/{name}"] = (scores.correct[name] * weight).sum() / count
            metrics[f"entropy/{name}"] = (scores.entropy[name] * weight).sum() / count
    impossible = sum((x * weight).sum() for x in scores.impossible.values())
    metrics["impossible_arguments"] = jnp.asarray(impossible)
    return metrics


def sign_accuracy(values: jax.Array, outcome: jax.Array) -> jax.Array:
    """Returns the share of steps of decided games whose value has the outcome's sign."""
    decided = outcome != 0
    right = (jnp.sign(values) == jnp.sign(outcome)) & decided
    return right.sum() / jnp.maximum(decided.sum(), 1)
