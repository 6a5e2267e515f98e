"""unit_tags: 64 choices of a unit each, one after the other, or of the end.

In: the vector stream, the units, and which units may be chosen. Out: logits [B, 64, 513].
The state is a query and the set of chosen units. With a teacher's choices the set is known in
advance, so that only the query goes through a loop, and logits follow for all slots at once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks.published import layers
from starmill.learners.networks.published.sizes import END, Sizes

MASKED = -1e10


class Selection(NamedTuple):
    """What unit_tags does to the streams.

    Attributes:
        logits: masked logits, [B, 64, 513].
        mask: which classes each slot allows, bool [B, 64, 513].
        selected: which units were chosen, bool [B, U].
    """

    logits: jax.Array
    mask: jax.Array
    selected: jax.Array


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
        small = self.small(units)
        queries = self._queries(self.resnet(vector), _rows(small, tags))
        logits = self._logits(queries, self.keys(units))
        chosen = tags[..., None] == jnp.arange(rows)
        before = jnp.cumsum(chosen, axis=1) - chosen
        ended = jnp.cumsum(tags == END, axis=1) - (tags == END) > 0
        mask = _mask(allowed[:, None], before > 0, ended)
        return Selection(jnp.where(mask, logits, MASKED), mask, chosen.any(1))

    def given(
        self, vector: jax.Array, units: jax.Array, selected: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns vector and units with the chosen units merged into them."""
        embedded = jnp.einsum(
            "bu,bud->bd", selected.astype(jnp.float32), self.large(units)
        )
        bits = selected.astype(jnp.float32)[..., None]
        return self.merge(vector, embedded), self.merge_units(units, bits)

    def _queries(self, query: jax.Array, chosen: jax.Array) -> jax.Array:
        """Returns each slot's query, [B, 64, vector]; chosen: small embeddings [B, 64, s]."""
        first, second = self.next_query.images
        norms = self.next_query.norms
        # What a choice adds does not depend on the query: one product for all slots.
        added = second(jax.nn.relu(norms[1](chosen))).swapaxes(0, 1)

        def step(query: jax.Array, more: jax.Array) -> tuple[jax.Array, jax.Array]:
            return first(jax.nn.relu(norms[0](query))) + more, query

        _, queries = jax.lax.scan(step, query, added)
        return queries.swapaxes(0, 1)

    def _logits(self, queries: jax.Array, keys: jax.Array) -> jax.Array:
        """Returns unmasked logits [B, N, 513] of N slots' queries [B, N, vector]."""
        pointed = jnp.einsum("bnp,bup->bnu", self.query(queries), keys)
        missing = END - keys.shape[1]
        pointed = jnp.pad(pointed, ((0, 0), (0, 0), (0, missing)))
        return jnp.concatenate([pointed, self.end(jax.nn.relu(queries))], axis=-1)


def selectable(column: dict[str, jax.Array]) -> jax.Array:
    """Returns which rows an action may select: one's own units outside of transports."""
    return (
        (column["tag"] > 0) & (column["alliance"] == 1) & (column["is_in_cargo"] == 0)
    )


def _rows(small: jax.Array, tags: jax.Array) -> jax.Array:
    """Returns the embeddings of the choices; the end has that of the last row, 511."""
    index = jnp.clip(tags, 0, small.shape[1] - 1)
    return jnp.take_along_axis(small, index[..., None], axis=1)


def _mask(allowed: jax.Array, chosen: jax.Array, ended: jax.Array) -> jax.Array:
    """Returns which classes slots allow, bool [B, N, 513].

    Args:
        allowed: units that may be chosen at all, bool [B, 1, U].
        chosen: units chosen before, bool [B, N, U].
        ended: whether the end was chosen before, bool [B, N].
    """
    units = allowed & ~chosen & ~ended[..., None]
    missing = END - units.shape[-1]
    units = jnp.pad(units, ((0, 0), (0, 0), (0, missing)))
    end = chosen.any(-1, keepdims=True) | ended[..., None]
    return jnp.concatenate([units, end], axis=-1)
