"""The heads that choose units: whole groups for unit_tags, targets, and anchors to aim by.

In: the action so far and units. Out: the log-probability of a given selection, or a sampled one. A
selection is drawn as

    p(first) * product over the player's other units u of p(u is in or out | first)

so that an army of any size takes two looks. A selection always has a unit, and only own units.
Departs: the paper points at one unit after another, with an end marker. 64 such steps rarely end
with the whole army.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.counts.states import TYPES
from starmill.learners.networks import layers
from starmill.learners.networks.compact.unit_stream import Facts

_NEAR = 32.0  # cells of the grid: within it, units are together
_RELATIONS = 5


class Members(NamedTuple):
    """A given selection.

    Attributes:
        rows: bool [F, U], the own units in it.
        first: int32 [F], one of them; 0 if there are none.
        total: int32 [F], how many there are.
    """

    rows: jax.Array
    first: jax.Array
    total: jax.Array


def members(tags: jax.Array, facts: Facts, turn: jax.Array) -> Members:
    """Returns the selection of unit_tags [F, S], of which rows that are not own units are dropped.

    `turn` [F] says which of the members is taken as the first; it should vary between frames.
    """
    selected = (facts.numbers[:, :, None] == tags[:, None, :]).any(-1) & facts.own
    count = selected.sum(-1)
    rank = jnp.cumsum(selected, axis=-1)
    number = turn % jnp.maximum(count, 1) + 1
    first = (selected & (rank == number[:, None])).argmax(-1)
    return Members(selected, first.astype(jnp.int32), count)


class Related(NamedTuple):
    """What units are to the first commanded one, as logits [F, U].

    Attributes:
        also: that the unit is commanded too.
        target: that it is the target.
        anchor: that the target point is near it.
    """

    also: jax.Array
    target: jax.Array
    anchor: jax.Array


class Selection(nnx.Module):
    """Points at one unit, and says of every other what it is to that one."""

    def __init__(
        self, *, vector: int, unit: int, functions: int, rngs: nnx.Rngs
    ) -> None:
        shape = (functions, TYPES)
        self.first_by_type = nnx.Param(jnp.zeros(shape))
        self.also_by_type = nnx.Param(jnp.zeros(shape))
        self.target_by_type = nnx.Param(jnp.zeros(shape))
        self.anchor_by_type = nnx.Param(jnp.zeros(shape))
        self.first_context = nnx.Linear(vector, unit, rngs=rngs)
        self.first = layers.MLP(unit, unit, 1, rngs=rngs)
        self.context = nnx.Linear(vector, unit, rngs=rngs)
        self.given_first = nnx.Linear(unit, unit, rngs=rngs)
        self.relation = nnx.Linear(_RELATIONS, unit, rngs=rngs)
        self.related = layers.MLP(unit, unit, len(Related._fields), rngs=rngs)

    def first_logits(
        self, context: jax.Array, function: jax.Array, units: jax.Array, facts: Facts
    ) -> jax.Array:
        """Returns the logits of the first unit, [F, U]; only own units are possible."""
        logits = self.first(units + self.first_context(context)[:, None])[..., 0]
        logits += self.first_by_type[...][function[:, None], facts.types]
        return jnp.where(facts.own, logits, layers.MASKED)

    def relate(
        self,
        context: jax.Array,
        function: jax.Array,
        units: jax.Array,
        facts: Facts,
        first: jax.Array,
        commanded: jax.Array,
    ) -> Related:
        """Returns what each unit is to the first one; `commanded` [F] says if there is one."""
        place = jnp.take_along_axis(facts.places, first[:, None, None], axis=1)
        offset = jnp.clip((facts.places - place) / _NEAR, -4, 4)
        distance = jnp.linalg.norm(offset + 1e-6, axis=-1)
        first_type = jnp.take_along_axis(facts.types, first[:, None], axis=1)
        relations = jnp.stack(
            [
                distance,
                jnp.minimum(distance, 0.5),
                jnp.exp(-4 * distance),
                (facts.types == first_type).astype(jnp.float32),
                facts.still.astype(jnp.float32),
            ],
            axis=-1,
        )
        there = commanded[:, None].astype(units.dtype)
        given = self.context(context) + self.given_first(picked(units, first) * there)
        relations = self.relation(relations) * there[:, None]
        logits = self.related(units + given[:, None] + relations)
        pair = function[:, None], facts.types
        tables = self.also_by_type, self.target_by_type, self.anchor_by_type
        return Related(*(logits[..., i] + t[...][pair] for i, t in enumerate(tables)))

    def sample_first(
        self,
        context: jax.Array,
        function: jax.Array,
        units: jax.Array,
        facts: Facts,
        key: jax.Array,
        temperature: jax.Array | float,
    ) -> jax.Array:
        """Samples first units, int32 [F]."""
        logits = self.first_logits(context, function, units, facts)
        return layers.choose(key, logits, temperature)


def sample_others(
    also: jax.Array,
    facts: Facts,
    first: jax.Array,
    key: jax.Array,
    temperature: jax.Array | float,
) -> Members:
    """Samples selections with the given first units."""
    chance = jax.nn.sigmoid(also / temperature)
    drawn = jax.random.uniform(key, chance.shape) < chance
    is_first = jnp.arange(also.shape[1]) == first[:, None]
    rows = (drawn | is_first) & facts.own
    return Members(rows, first, rows.sum(-1))


def picked(units: jax.Array, row: jax.Array) -> jax.Array:
    """Returns one unit's embedding of each frame: [F, U, d] and [F] -> [F, d]."""
    return jnp.take_along_axis(units, row[:, None, None], axis=1)[:, 0]


def log_prob(
    first_logits: jax.Array, also_logits: jax.Array, facts: Facts, given: Members
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns a bound on a selection's log-probability, its entropy, and whether it is likeliest.

    Any member could have been drawn first. The bound takes each as first equally often,

        log p(S) >= mean over u in S of log p(u) + log |S| + log p(the others | u)

    with the last term for the member in `given.first` alone, whose choice varies.
    """
    normal = jax.nn.log_softmax(first_logits)
    count = jnp.maximum(given.total, 1)
    first = jnp.where(given.rows, normal, 0.0).sum(-1) / count + jnp.log(count)
    is_first = jnp.arange(normal.shape[1]) == given.first[:, None]
    others = facts.own & ~is_first
    signed = jnp.where(given.rows, also_logits, -also_logits)
    also = jnp.where(others, jax.nn.log_sigmoid(signed), 0.0).sum(-1)
    chance = jax.nn.sigmoid(also_logits)
    doubt = jax.nn.softplus(also_logits) - chance * also_logits
    entropy = -(jnp.exp(normal) * jnp.maximum(normal, layers.MASKED)).sum(-1)
    entropy += jnp.where(others, doubt, 0.0).sum(-1)
    likeliest = jnp.take_along_axis(
        given.rows, first_logits.argmax(-1)[:, None], axis=1
    )[:, 0]
    agrees = (((also_logits > 0) == given.rows) | ~others).all(-1)
    return first + also, entropy, likeliest & agrees


def tags_of(rows: jax.Array, facts: Facts, slots: int, end: int) -> jax.Array:
    """Returns selected rows [F, U] as unit_tags [F, slots]: ascending, then end markers."""
    order = jnp.sort(jnp.where(rows, facts.numbers, end), axis=-1)[:, :slots]
    missing = max(0, slots - order.shape[1])
    padded = jnp.pad(order, ((0, 0), (0, missing)), constant_values=end)
    return padded.astype(jnp.int32)
