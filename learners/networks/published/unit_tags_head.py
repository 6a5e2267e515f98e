"""unit_tags: 64 choices of a unit each, one after the other, or of the end.

In: the vector stream, the units, and which units may be chosen. Out: logits [B, 64, U + 1],
with U rows of units and the end as the last class.
The state is a query and the set of chosen units. With a teacher's choices the set is known in
advance, so that only the query goes through a loop, and logits follow for all slots at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks.published import layers
from starmill.learners.networks.published.sizes import END, SLOTS, UNITS, Sizes

MASKED = -1e10


class Selection(NamedTuple):
    """What unit_tags does to the streams.

    Attributes:
        logits: masked logits, [B, 64, U + 1]; the last class is the end.
        mask: which classes each slot allows, bool [B, 64, U + 1].
        selected: which units were chosen, bool [B, U].
        query: the query after the last slot, [B, vector].
    """

    logits: jax.Array
    mask: jax.Array
    selected: jax.Array
    query: jax.Array


class _Drawing(NamedTuple):
    """A selection while it is being drawn.

    Attributes:
        slot: the next slot, a scalar.
        query: its query, [B, vector].
        tags: the choices so far, [B, 64]; the end in slots to come.
        selected: which units were chosen, bool [B, U].
        ended: whether the end was chosen, bool [B].
    """

    slot: jax.Array
    query: jax.Array
    tags: jax.Array
    selected: jax.Array
    ended: jax.Array


class UnitTagsHead(nnx.Module):
    """The pointer network over units."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        size, unit = sizes.vector, sizes.unit
        self.resnet = layers.Resnet(size, sizes.tag_blocks, rngs=rngs)
        self.keys = layers.Layers(unit, *sizes.tag_keys, rngs=rngs)
        self.small = layers.Layers(unit, *sizes.tag_small, rngs=rngs)
        self.large = layers.Layers(unit, *sizes.tag_large, rngs=rngs)
        self.query = layers.Layer(size, sizes.tag_keys[-1], rngs=rngs)
        self.end = layers.linear(size, 1, rngs=rngs)
        small, large = sizes.tag_small[-1], sizes.tag_large[-1]
        self.next_query = layers.Merge((size, small), size, gate=0, rngs=rngs)
        self.merge = layers.Merge((size, large), size, gate=1, rngs=rngs)
        self.merge_units = layers.Merge((unit, 1), unit, gate=1, rngs=rngs)

    def teach(
        self, vector: jax.Array, units: jax.Array, allowed: jax.Array, tags: jax.Array
    ) -> Selection:
        """Returns the logits of every slot given the choices before it.

        Args:
            vector: [B, vector].
            units: [B, U, unit].
            allowed: which units may be chosen at all, bool [B, U].
            tags: the teacher's choices, int [B, 64]; 512 is the end.
        """
        rows = units.shape[1]
        queries, last = self._queries(self.resnet(vector), self._embedded(units, tags))
        # The slot in which each unit is chosen, and that of the first end; 64 for never.
        slot = jnp.arange(SLOTS)
        number = jnp.broadcast_to(slot, tags.shape)
        frame = jnp.arange(len(tags))[:, None]
        when = jnp.full((len(tags), rows), SLOTS)
        when = when.at[frame, tags].min(number, mode="drop")
        end = jnp.where(tags == END, number, SLOTS).min(1, keepdims=True)
        free = allowed[:, None] & (slot[:, None] <= when[:, None])
        started = jnp.broadcast_to(slot > 0, tags.shape)
        mask = _mask(free, started, slot > end)
        logits = jnp.where(mask, self._logits(queries, self.keys(units)), MASKED)
        return Selection(logits, mask, when < SLOTS, last)

    def draw(
        self,
        vector: jax.Array,
        units: jax.Array,
        allowed: jax.Array,
        used: jax.Array,
        choose: Callable[[jax.Array, jax.Array], jax.Array],
    ) -> tuple[jax.Array, jax.Array]:
        """Returns drawn choices [B, 64], 512 from the end on, and the units chosen [B, U].

        Args:
            vector: [B, vector].
            units: [B, U, unit].
            allowed: which units may be chosen at all, bool [B, U].
            used: which frames choose units; the others end at once, bool [B].
            choose: draws a class [B] from logits [B, U + 1] in the given slot.
        """
        rows = units.shape[1]
        keys = self.keys(units)
        is_row = jnp.arange(rows)

        def more(now: _Drawing) -> jax.Array:
            # After the end all slots are the end, so nothing is left to draw.
            return (now.slot < SLOTS) & ~now.ended.all()

        def step(now: _Drawing) -> _Drawing:
            free = (allowed & ~now.selected)[:, None]
            started = jnp.broadcast_to(now.slot > 0, now.ended.shape)
            mask = _mask(free, started[:, None], now.ended[:, None])[:, 0]
            logits = self._logits(now.query[:, None], keys)[:, 0]
            tag = choose(now.slot, jnp.where(mask, logits, MASKED))
            ended = now.ended | (tag == rows)
            tag = jnp.where(ended, END, tag).astype(jnp.int32)
            choices = self._embedded(units, tag[:, None])[:, 0]
            return _Drawing(
                slot=now.slot + 1,
                query=self.next_query(now.query, choices),
                tags=now.tags.at[:, now.slot].set(tag),
                selected=now.selected | (is_row == tag[:, None]),
                ended=ended,
            )

        start = _Drawing(
            slot=jnp.int32(0),
            query=self.resnet(vector),
            tags=jnp.full((len(vector), SLOTS), END, jnp.int32),
            selected=jnp.zeros(allowed.shape, bool),
            # Where no unit may be chosen, the published code draws one of the masked rows.
            ended=~used | ~allowed.any(-1),
        )
        end = jax.lax.while_loop(more, step, start)
        return end.tags, end.selected

    def given(
        self, vector: jax.Array, units: jax.Array, selected: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns vector and units with the chosen units merged into them."""
        bits = selected.astype(units.dtype)
        embedded = jnp.einsum("bu,bud->bd", bits, self.large(units))
        return self.merge(vector, embedded), self.merge_units(units, bits[..., None])

    def _embedded(self, units: jax.Array, tags: jax.Array) -> jax.Array:
        """Returns the small embeddings of choices; the end has that of row 511."""
        small, last = self.small(units), units.shape[1] - 1
        if last < UNITS - 1:
            # Row 511 is among those that this batch left out, and they are all 0.
            empty = self.small(jnp.zeros_like(units[:, :1]))
            small, last = jnp.concatenate([small, empty], axis=1), last + 1
        index = jnp.clip(tags, 0, last)
        return jnp.take_along_axis(small, index[..., None], axis=1)

    def _queries(
        self, query: jax.Array, choices: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns each slot's query, [B, 64, vector], and the one after the last slot.

        choices: small embeddings of the choices, [B, 64, s].
        """
        first, second = self.next_query.images
        norms = self.next_query.norms
        # What a choice adds does not depend on the query: one product for all slots.
        added = second(jax.nn.relu(norms[1](choices))).swapaxes(0, 1)

        def step(query: jax.Array, more: jax.Array) -> tuple[jax.Array, jax.Array]:
            return first(jax.nn.relu(norms[0](query))) + more, query

        last, queries = jax.lax.scan(step, query, added)
        return queries.swapaxes(0, 1), last

    def _logits(self, queries: jax.Array, keys: jax.Array) -> jax.Array:
        """Returns unmasked logits [B, N, U + 1] of N slots' queries [B, N, vector]."""
        pointed = jnp.einsum("bnp,bup->bnu", self.query(queries), keys)
        return jnp.concatenate([pointed, self.end(jax.nn.relu(queries))], axis=-1)


def selectable(column: dict[str, jax.Array]) -> jax.Array:
    """Returns which rows an action may select: one's own units outside of transports."""
    return (
        (column["tag"] > 0) & (column["alliance"] == 1) & (column["is_in_cargo"] == 0)
    )


def _mask(free: jax.Array, started: jax.Array, ended: jax.Array) -> jax.Array:
    """Returns which classes slots allow, bool [B, N, U + 1].

    Args:
        free: units that may be chosen and were not chosen before, bool [B, N, U].
        started: whether anything was chosen before, bool [B, N].
        ended: whether the end was chosen before, bool [B, N].
    """
    end = started[..., None] | ended[..., None]
    return jnp.concatenate([free & ~ended[..., None], end], axis=-1)
