"""What an algorithm is, and the forward pass that all of them share.

An algorithm is a module with `Config`, `init` and `loss`. `loss` is pure: parameters, what
outlives a step (`carry`), a batch of rollouts and a key go in; a scalar, the new carry and
metrics come out. `train` does everything else. Losses are means over all B * K frames of
the batch, absent ones counting as zero, so that gradient accumulation and sharding are exact.
"""

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from starmill.learners import rollouts
from starmill.learners.networks import network as networks
from starmill.learners.networks import policy
from starmill.learners.rollouts import Batch
from starmill.schema.settings import UNPLUGGED, ConverterSettings

Params = networks.Params
Carry = dict[str, Any]
Metrics = dict[str, jax.Array]
LossOutput = tuple[jax.Array, tuple[Carry, Metrics]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What every algorithm must know; each module's own `Config` adds to it.

    network, settings: what the parameters are for.
    batch_size, rollout: B and K of a batch as `loss` sees it.
    accumulate: how many such batches make an update.
    """

    network: networks.Config = dataclasses.field(default_factory=networks.Config)
    settings: ConverterSettings = UNPLUGGED
    batch_size: int = 32
    rollout: int = 1
    accumulate: int = 1


class Algorithm(Protocol):
    """The shape of `bc`, `oac`, ...: modules, checked by mypy where `train` lists them."""

    def init(
        self, seed: int, config: Any, start: Params | None
    ) -> tuple[Params, Carry]:
        """Returns parameters (fresh, or those given) and the first carry."""

    def loss(
        self, params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Any
    ) -> LossOutput:
        """Returns the loss of a batch, the next carry, and metrics."""


class Forward(NamedTuple):
    """One pass over a batch; F = B * K frames, time running fastest.

    scores: of the recorded actions. weight [F]: 1.0 where the action is trained on.
    """

    network: networks.Network
    latent: policy.Latent
    action: policy.Action
    scores: policy.Scores
    weight: jax.Array


def forward(params: Params, batch: Batch, config: Config) -> Forward:
    """Runs the network over rollouts [B, K, ...] and scores the recorded actions."""
    batch = inputs(batch, config)
    network = networks.merge(params, config.network, config.settings)
    latent, _ = network.unroll(batch)
    action = rollouts.action(rollouts.flatten(batch))
    scores = network.policy.score(latent, action)
    weight = rollouts.policy_weight(batch["step_type"]).reshape(-1)
    return Forward(network, latent, action, scores, weight)


def inputs(batch: Batch, config: Config) -> Batch:
    """Adds what the network takes and the batch may lack."""
    if config.network.condition_return and "target_return" not in batch:
        batch = {**batch, "target_return": batch["outcome"] + 2}  # 1 loss, 2, 3 win
    return batch


def argument_metrics(scores: policy.Scores, weight: jax.Array) -> Metrics:
    """Returns mean cross-entropy by argument, where it is present, and a few more."""
    out = {}
    for name, log_prob in scores.log_prob.items():
        present = scores.present[name] * weight
        count = jnp.maximum(present.sum(), 1.0)
        out[f"cross_entropy/{name}"] = -(log_prob * weight).sum() / count
        # Not of unit_tags and world: on a CPU these cost as much as their loss.
        # `evaluate` has them all.
        if name in ("function", "delay"):
            out[f"accuracy/{name}"] = (scores.correct[name] * weight).sum() / count
            out[f"entropy/{name}"] = (scores.entropy[name] * weight).sum() / count
    impossible = sum((x * weight).sum() for x in scores.impossible.values())
    out["impossible_arguments"] = jnp.asarray(impossible)
    return out


def sign_accuracy(values: jax.Array, outcome: jax.Array) -> jax.Array:
    """Returns the share of decided steps whose value has the outcome's sign."""
    decided = outcome != 0
    right = (jnp.sign(values) == jnp.sign(outcome)) & decided
    return right.sum() / jnp.maximum(decided.sum(), 1)
