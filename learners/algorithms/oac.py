"""Offline actor-critic: a V-trace policy gradient against a fixed critic.

In: rollouts of K steps. Out: the policy-gradient loss

    L = -mean(A[t] log pi(function[t], delay[t])) over the first `trained` steps

where the advantages A come from `vtrace`. The critic and the behaviour policy mu are the network
that behaviour cloning left. They are carried and never change. Only `function` and `delay` are
improved: when acting, mu chooses the other arguments too, so their ratio pi / mu is 1. The later
steps of a rollout only serve to bootstrap.
Batches may bring values and latents (`columns`). Values replace the critic's; they can come from
models that did not see the game. Latents are mu's; then only the heads are trained.
Paper: section "Offline Actor-Critic", appendix algorithm 3.
Departs: the paper prints descent on +A grad log pi; this is ascent.
"""

import dataclasses
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from starmill.learners import rollouts
from starmill.learners.algorithms import contract, vtrace
from starmill.learners.algorithms.contract import (
    AlgorithmConfig,
    Carry,
    LossOutput,
    Metrics,
)
from starmill.learners.losses import policy_gradient
from starmill.learners.networks import latents, layers, parameters, scoring
from starmill.learners.networks.parameters import AnyNetwork, Params
from starmill.learners.rollouts import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(AlgorithmConfig):
    """How the advantages are made. Defaults are the paper's.

    Attributes:
        rollout: steps of a rollout, [T].
        trained: leading steps of the rollout that the loss is on.
        gamma: discount per game loop.
        rho_clip: where V-trace clips the ratios of the temporal differences.
        c_clip: where V-trace clips the ratios of the trace.
        kl_limit: how far pi's functions may be from mu's, as their mean KL divergence, before
            the loss pulls them back; 0 for no limit, as in the paper.
        kl_weight: of the divergence beyond the limit.
        critic: the sha256 of the values that replace the critic's; empty for the critic.
        frozen_encoder: whether only the heads are trained, on latents that are computed once.
    """

    rollout: int = 64
    trained: int = 32
    gamma: float = 0.99995
    rho_clip: float = 1.0
    c_clip: float = 1.0
    kl_limit: float = 0.0
    kl_weight: float = 10.0
    critic: str = ""
    frozen_encoder: bool = False


class Evaluation(NamedTuple):
    """What both policies and the critic say of a batch, time-major [K, B].

    Attributes:
        log_pi: of the recorded function and delay under the policy that is trained. It is the
            only part that gradients flow through.
        log_mu: the same under the behaviour policy.
        values: the critic's.
        rewards: r[t + 1] at index t.
        discounts: from each step to the next.
        weight: 1.0 where the action is trained on.
        divergence: KL(mu, pi) of the function.
    """

    log_pi: jax.Array
    log_mu: jax.Array
    values: jax.Array
    rewards: jax.Array
    discounts: jax.Array
    weight: jax.Array
    divergence: jax.Array


class Terms(NamedTuple):
    """The parts of the policy gradient, time-major [K, B].

    Attributes:
        log_prob: of the recorded function and delay under the policy that is trained. It is the
            only part that gradients flow through.
        ratio: pi / mu, unclipped.
        advantage: 0 at the rollout's last step.
        discount: from each step to the next.
        weight: 1.0 where the action is trained on; 0 on the bootstrap steps.
        pull: what the loss has for divergence beyond the limit, a number.
    """

    log_prob: jax.Array
    ratio: jax.Array
    advantage: jax.Array
    discount: jax.Array
    weight: jax.Array
    pull: jax.Array


def init(seed: int, config: Config, start: Params | None) -> tuple[Params, Carry]:
    """Returns the first parameters, and a frozen copy of them as the behaviour policy."""
    params = contract.start_params(seed, config, start)
    return params, {"behaviour": jax.tree.map(jnp.copy, params)}


def loss(
    params: Params, carry: Carry, batch: Batch, key: jax.Array, config: Config
) -> LossOutput:
    """Returns the policy-gradient loss; the key is unused."""
    parts, metrics = terms(params, carry["behaviour"], batch, config)
    total = policy_gradient.score_function(
        parts.log_prob, parts.advantage, parts.weight
    ).sum()
    total = total / (config.trained * parts.weight.shape[1]) + parts.pull
    return total, (carry, {"loss": total, **metrics})


def terms(
    params: Params, behaviour: Params, batch: Batch, config: Config
) -> tuple[Terms, Metrics]:
    """Returns the parts of the gradient, and metrics."""
    both = evaluate(params, behaviour, batch, config, config.gamma)
    ratio = jnp.exp(jax.lax.stop_gradient(both.log_pi) - both.log_mu)
    corrected = vtrace.vtrace(
        both.values,
        both.rewards,
        both.discounts,
        ratio,
        rho_clip=config.rho_clip,
        c_clip=config.c_clip,
    )
    last = jnp.zeros_like(both.values[:1])
    advantage = jnp.concatenate([corrected.advantages, last])
    early = jnp.arange(len(ratio)) < config.trained
    weight = both.weight * early[:, None]
    divergence = (both.divergence * both.weight).sum()
    divergence /= jnp.maximum(both.weight.sum(), 1.0)
    pull = jnp.zeros(())
    if config.kl_limit:
        pull = config.kl_weight * jax.nn.relu(divergence - config.kl_limit)
    outcome = batch["outcome"].T
    metrics = {
        "rho": jnp.minimum(ratio, config.rho_clip).mean(),
        "clipped": (ratio > config.rho_clip).mean(),
        "kl": divergence,
        "value_error": jnp.square(both.values - outcome).mean(),
        "advantage": (advantage * weight).sum() / jnp.maximum(weight.sum(), 1.0),
        "value_sign_accuracy": contract.sign_accuracy(both.values, outcome),
    }
    parts = Terms(both.log_pi, ratio, advantage, both.discounts, weight, pull)
    return parts, metrics


def evaluate(
    params: Params,
    behaviour: Params,
    batch: Batch,
    config: AlgorithmConfig,
    gamma: float,
) -> Evaluation:
    """Returns what the trained policy, the behaviour policy and the critic say of a batch."""
    batch = contract.add_target_return(batch, config)
    size, steps = batch["step_type"].shape
    action = rollouts.action(rollouts.flatten(batch))

    def run(params: Params) -> tuple[AnyNetwork, jax.Array, jax.Array, jax.Array]:
        network = parameters.merge(params, config.network, config.settings)
        vector, legal = latents.of_batch(
            network, batch, config.settings.num_action_types
        )
        heads = network.policy
        function, delay = heads.function_delay_log_probs(vector, action, legal)
        logits = scoring.legal_only(heads.function_logits(vector), legal)
        normal = jax.nn.log_softmax(logits)
        return network, vector, rollouts.time_major(function + delay, size), normal

    _, _, log_pi, ours = run(params)
    critic, vector, log_mu, theirs = run(jax.lax.stop_gradient(behaviour))
    # Of what neither does, the difference may not be a number.
    terms = jnp.where(theirs > layers.MASKED / 2, jnp.exp(theirs) * (theirs - ours), 0)
    step_type = batch["step_type"].T
    values = batch.get(contract.CRITIC_VALUES)
    if values is None:
        values = critic.value(vector).reshape(size, steps)
    # The masks of legal actions forbid a few recorded ones. Nothing is learned from them.
    possible = log_mu > layers.MASKED / 2
    evaluation = Evaluation(
        log_pi=jnp.where(possible, log_pi, 0.0),
        log_mu=jnp.where(possible, log_mu, 0.0),
        values=values.T,
        rewards=rollouts.next_rewards(batch["reward"].T),
        discounts=rollouts.discounts(batch["action/delay"].T, step_type, gamma),
        weight=rollouts.policy_weight(step_type) * possible,
        divergence=rollouts.time_major(terms.sum(-1), size),
    )
    chex.assert_shape([*evaluation], (steps, size))
    return evaluation
