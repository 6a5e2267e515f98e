"""MuZero Supervised: behaviour cloning and a value, through a latent model.

In: rollouts. Out: the mean loss over the unrolled steps. Only the first step is encoded; the
latent model L predicts the others from the recorded actions:

    h[0] = E(s[0]),   h[k+1] = L(h[k], function[k], delay[k])

The first step has behaviour cloning's loss on all seven arguments. Later steps predict function
and delay from h[k]. Every step predicts the value. The search (`search`) only happens when acting.
Batches may bring values (`columns`), for example of models that did not see the game. They replace
the targets of the value.
Paper: sections "MuZero latent model" and "MuZero Supervised", appendix algorithm 5.
Departs: value targets are not discounted, so that they agree with the paper's L_MSE.
"""

import dataclasses

import chex
import jax
import jax.numpy as jnp

from starmill.learners import rollouts
from starmill.learners.algorithms import bc, contract
from starmill.learners.algorithms.contract import AlgorithmConfig, Carry, LossOutput
from starmill.learners.losses import cloning
from starmill.learners.networks import parameters
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch
from starmill.schema import episode


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """How far the model is unrolled, and what the value's target is.

    Attributes:
        rollout: steps of a rollout, [T].
        unroll: steps of the rollout that are predicted, including the encoded one.
        bootstrap: whether the target of a step's value is the target network's value of a later
            step. Otherwise, and for episodes that end before it, the target is the outcome.
        ahead: from a step to that later step (the paper's n). 0 for the rollout's last step, as
            in runs of earlier versions, which read all steps up to there.
        target_period: updates between copies of the parameters to the target network.
        value_weight: of the value's loss, as in behaviour cloning with a value.
        critic: the sha256 of values that replace the targets; empty for the targets above.
    """

    rollout: int = 6
    unroll: int = 6
    bootstrap: bool = False
    ahead: int = 0
    target_period: int = 100
    value_weight: float = 10.0
    critic: str = ""


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns parameters with a latent model; the carry is the target network, if any."""
    params = contract.start_params(seed, config, start)
    carry: Carry = {"calls": jnp.zeros((), jnp.int32)}
    if config.bootstrap:
        carry["target"] = jax.tree.map(jnp.copy, params)
    return params, carry


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns the mean loss over the unrolled steps; the key is unused."""
    batch = contract.add_target_return(batch, config)
    alive = still_alive(batch["step_type"]) * batch["valid"]  # [B, K]
    targets = _value_targets(carry, batch, alive, config)
    chex.assert_equal_shape([alive, targets])
    first = contract.forward(
        params,
        {
            name: value[:, :1]
            for name, value in batch.items()
            if not isinstance(value, dict)
        },
        config,
    )
    network, hidden = first.network, first.latent.vector
    total = bc.policy_loss(first.scores, first.weight, config)
    errors = [cloning.squared_error(network.value(hidden), targets[:, 0], alive[:, 0])]
    later = jnp.zeros_like(total)
    weights = bc.ARGUMENT_WEIGHTS
    for k in range(1, config.unroll):
        before = {n: batch[f"action/{n}"][:, k - 1] for n in ("function", "delay")}
        now = {n: batch[f"action/{n}"][:, k] for n in ("function", "delay")}
        hidden = network.dynamics(network.policy.embed(hidden, **before))
        trained = alive[:, k] * rollouts.policy_weight(batch["step_type"][:, k])
        trained *= contract.function_weight(now["function"], config)
        function, delay = network.policy.function_delay_log_probs(hidden, now)
        later -= trained * (weights["function"] * function + weights["delay"] * delay)
        value = network.value(hidden)
        errors.append(cloning.squared_error(value, targets[:, k], alive[:, k]))
    policy_loss = (total + later).mean() / config.unroll
    value_loss = jnp.stack(errors).sum(0).mean() / config.unroll
    result = policy_loss + config.value_weight * value_loss
    metrics = contract.argument_metrics(first.scores, first.weight)
    metrics |= {
        "loss": result,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "value_sign_accuracy": contract.sign_accuracy(
            network.value(first.latent.vector), batch["outcome"][:, 0]
        ),
    }
    return result, (_next_carry(params, carry, config), metrics)


def still_alive(step_type: jax.Array) -> jax.Array:
    """Returns 1.0 for the steps [B, K] of the episode that the rollout starts in."""
    ended = jnp.cumsum(step_type == episode.LAST, axis=1)
    before = jnp.concatenate([jnp.zeros_like(ended[:, :1]), ended[:, :-1]], axis=1)
    return (before == 0).astype(jnp.float32)


def _value_targets(
    carry: Carry, batch: Batch, alive: jax.Array, config: Config
) -> jax.Array:
    if contract.CRITIC_VALUES in batch:
        return batch[contract.CRITIC_VALUES]
    outcome = batch["outcome"].astype(jnp.float32)
    if not config.bootstrap:
        return outcome
    network = parameters.merge(carry["target"], config.network, config.settings)
    if config.ahead:
        later = contract.add_target_return(batch["ahead"], config)
        value = network.value(network.encode(rollouts.flatten(later)).vector)
        chex.assert_equal_size([value, outcome])
        # What is after the episode's end is padding.
        continues = later["valid"] & (later["step_type"] != episode.LAST)
        targets = jnp.where(continues, value.reshape(outcome.shape), outcome)
        return jax.lax.stop_gradient(targets)
    last = {name: value[:, -1] for name, value in batch.items()}
    value = network.value(network.encode(last).vector)
    continues = alive[:, -1] * rollouts.policy_weight(batch["step_type"][:, -1])
    targets = jnp.where(continues[:, None] > 0, value[:, None], outcome)
    return jax.lax.stop_gradient(targets)


def _next_carry(params: Params, carry: Carry, config: Config) -> Carry:
    calls = carry["calls"] + 1
    if "target" not in carry:
        return {"calls": calls}
    period = config.target_period * config.accumulate
    target = contract.next_target(params, carry["target"], calls, period)
    return {"calls": calls, "target": target}
