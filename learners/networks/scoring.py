"""Scores a given action by masked logits.

In: `Logits` of every argument, the action, and which arguments it has. Out: `Scores`. All of it is
arithmetic on arrays: nothing here has parameters. An argument that does not exist contributes
nothing: no probability and no gradient.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from starmill.learners.networks import layers
from starmill.schema import specs

# An action by argument: int32 [F], but unit_tags [F, S].
Action = dict[str, Any]
ARGUMENTS = specs.ACTION_ARGUMENTS
# Delays are chosen from 1..127; a longer recorded one counts as 127.
DELAYS = specs.MAX_DELAY


class Logits(NamedTuple):
    """Unnormalised log-probabilities; `layers.MASKED` where a choice is impossible.

    Attributes:
        function: [F, functions].
        delay: [F, 127], where index 0 is a delay of 1; [F, 128] in published networks, where
            the index is the delay.
        queued: [F, 2].
        repeat: [F, 3].
        unit_tags: [F, S, U + 1]; the last choice of each slot is the end marker.
        target_unit_tag: [F, U].
        world: [F, R * R], the cells of the grid by rows.
    """

    function: jax.Array
    delay: jax.Array
    queued: jax.Array
    repeat: jax.Array
    unit_tags: jax.Array
    target_unit_tag: jax.Array
    world: jax.Array


class Scores(NamedTuple):
    """What logits say of an action, by argument; every array is [F].

    Attributes:
        log_prob: 0 where the argument does not exist; for unit_tags, the sum over its slots.
        entropy: likewise, along the given action.
        correct: 1.0 where the likeliest choice is the given one (for unit_tags, in every slot).
        present: 1.0 where the argument exists and the given choice was possible.
        impossible: 1.0 where the argument exists and the mask forbids the given choice, which
            then contributes nothing to the fields above.
        slots: how many slots of unit_tags were scored.
    """

    log_prob: dict[str, jax.Array]
    entropy: dict[str, jax.Array]
    correct: dict[str, jax.Array]
    present: dict[str, jax.Array]
    impossible: dict[str, jax.Array]
    slots: jax.Array


def legal_functions(latent: Any) -> jax.Array | None:
    """Returns which functions are legal in the frames of a latent, bool [F, functions].

    None for networks that have no such mask, and where it is switched off.
    """
    standing = getattr(latent, "standing", None)
    return None if standing is None else standing.functions


def legal_only(logits: jax.Array, legal: jax.Array | None) -> jax.Array:
    """Returns logits in which choices that are not legal are masked."""
    return logits if legal is None else jnp.where(legal, logits, layers.MASKED)


def delay_index(delay: jax.Array) -> jax.Array:
    """Returns the index of a delay among its logits: 0 for 1, and 126 for 127 or more."""
    return jnp.clip(delay, 1, DELAYS) - 1


def score(logits: Logits, action: Action, present: dict[str, jax.Array]) -> Scores:
    """Returns what masked logits say of an action.

    All arguments are indices of their logits: `delay` as `delay_index` makes it or the delay
    itself, and unit_tags with the number of unit rows as the end marker.
    """
    log_prob, entropy, correct, there, impossible = {}, {}, {}, {}, {}
    slots = jnp.zeros((), jnp.float32)
    for name in ARGUMENTS:
        if name not in action:  # settings without repeat
            continue
        values = getattr(logits, name)
        target = action[name]
        chex.assert_equal_shape_prefix([values, target], target.ndim)
        exists = present[name].astype(jnp.float32)
        normal = jax.nn.log_softmax(values)
        inside = jnp.clip(target, 0, values.shape[-1] - 1)
        picked = jnp.take_along_axis(normal, inside[..., None], axis=-1)[..., 0]
        allowed = jnp.take_along_axis(values, inside[..., None], axis=-1)[..., 0]
        possible = (allowed > layers.MASKED / 2) & (target == inside)
        spread = -(jnp.exp(normal) * jnp.maximum(normal, layers.MASKED)).sum(-1)
        right = values.argmax(-1) == target
        if name == "unit_tags":
            used = used_slots(target, values.shape[-1] - 1)
            weight = used * possible * exists[:, None]
            slots = weight.sum(-1)
            log_prob[name] = jnp.where(weight > 0, picked, 0.0).sum(-1)
            entropy[name] = (spread * weight).sum(-1)
            correct[name] = (right | (used == 0)).all(-1) * exists
            there[name] = exists * (weight.sum(-1) > 0)
            impossible[name] = exists * (used * ~possible).any(-1)
        else:
            weight = exists * possible
            log_prob[name] = jnp.where(weight > 0, picked, 0.0)
            entropy[name] = spread * weight
            correct[name] = right * weight
            there[name] = weight
            impossible[name] = exists * ~possible
    return Scores(log_prob, entropy, correct, there, impossible, slots)


def used_slots(tags: jax.Array, end: int) -> jax.Array:
    """Returns 1.0 for the slots up to and including the first end marker, [F, S]."""
    ended = jnp.cumsum(tags == end, axis=-1) - (tags == end)
    return (ended == 0).astype(jnp.float32)
