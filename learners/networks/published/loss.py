"""The published supervised loss: a weighted cross-entropy over the seven arguments.

In: the network's output and step types. Out: losses by argument and step. Pure functions of
arrays; step type 2 is an episode's last step.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from starmill.learners.networks.published.network import ARGUMENTS, Output
from starmill.learners.networks.published.vector_encoder import Arrays

LAST = 2
WEIGHTS = {
    "function": 40.0,
    "delay": 9.0,
    "queued": 1.0,
    "repeat": 0.1,
    "unit_tags": 320.0,  # the mean over 64 slots
    "target_unit_tag": 30.0,
    "world": 11.0,
}


class Loss(NamedTuple):
    """The loss of B steps, and what it is made of.

    Attributes:
        log_prob: by argument, of the teacher's choice, [B] (unit_tags [B, 64]).
        target_mask: by argument, whether the mask allows that choice; the same shapes.
        loss_mask: by argument, whether the step counts for it, bool [B].
        by_argument: weighted losses, [B].
        per_step: their sum, [B].
        mean: over all steps, those that count for nothing included; scalar.
    """

    log_prob: Arrays
    target_mask: Arrays
    loss_mask: Arrays
    by_argument: Arrays
    per_step: jax.Array
    mean: jax.Array


def supervised(output: Output, step_type: jax.Array) -> Loss:
    """Returns the loss of a teacher's actions.

    A choice that the mask forbids counts for nothing: the data contradicts itself there.
    """
    log_prob, target_mask, loss_mask, by_argument = {}, {}, {}, {}
    for name in ARGUMENTS:
        choice = output.action[name]
        log_prob[name] = log_prob_of(output.logits[name], choice)
        mask = output.masks.get(name)
        target_mask[name] = (
            jnp.ones_like(choice, bool) if mask is None else _pick(mask, choice)
        )
        loss_mask[name] = output.used[name] & (step_type != LAST)
        entropy = jnp.where(target_mask[name], -log_prob[name], 0.0)
        if entropy.ndim == 2:
            entropy = entropy.mean(-1)
        by_argument[name] = WEIGHTS[name] * jnp.where(loss_mask[name], entropy, 0.0)
    per_step = sum(by_argument.values(), start=jnp.zeros((), jnp.float32))
    return Loss(
        log_prob, target_mask, loss_mask, by_argument, per_step, per_step.mean()
    )


def log_prob_of(logits: jax.Array, choice: jax.Array) -> jax.Array:
    """Returns the log-probability of choices [...] under logits [..., classes]."""
    return _pick(logits, choice) - jax.nn.logsumexp(logits, axis=-1)


def _pick(values: jax.Array, choice: jax.Array) -> jax.Array:
    return jnp.take_along_axis(values, choice[..., None], axis=-1)[..., 0]
