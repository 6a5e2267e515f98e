"""The heads of function, delay, queued, repeat and target_unit_tag.

In: the vector stream. Out: logits, and the vector with the chosen argument merged into it.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks.published import layers
from starmill.learners.networks.published.sizes import Sizes
from starmill.learners.networks.published.vector_encoder import lookup


class ScalarHead(nnx.Module):
    """An argument with few classes: [B, vector] -> logits [B, classes]."""

    def __init__(
        self, sizes: Sizes, classes: int, blocks: int, *, rngs: nnx.Rngs
    ) -> None:
        size = sizes.vector
        gate = size if sizes.pointwise_gates else 1
        self.resnet = layers.Resnet(size, blocks, rngs=rngs)
        self.out = layers.Layer(size, classes, rngs=rngs)
        self.embedding = layers.embedding(classes, size, rngs=rngs)
        self.merge = layers.Merge((size, size), size, gate=gate, rngs=rngs)

    def logits(self, vector: jax.Array) -> jax.Array:
        """Returns the logits; no class is ever masked."""
        return self.out(self.resnet(vector))

    def given(self, vector: jax.Array, choice: jax.Array, used: jax.Array) -> jax.Array:
        """Returns the vector with a choice [B] merged into it; used: bool [B].

        In place of [B], vector, choice and used may have any leading axes.
        """
        embedded = lookup(self.embedding, choice) * used[..., None]
        return self.merge(vector, embedded)


class TargetHead(nnx.Module):
    """target_unit_tag: a query of the vector over the units' keys."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        self.resnet = layers.Resnet(sizes.vector, sizes.target_blocks, rngs=rngs)
        self.query = layers.Layer(sizes.vector, sizes.target_key, rngs=rngs)
        widths = (sizes.unit,) * sizes.target_layers
        self.keys = layers.Layers(*widths, sizes.target_key, rngs=rngs)

    def logits(self, vector: jax.Array, units: jax.Array) -> jax.Array:
        """Returns unmasked logits, [B, U]."""
        query = self.query(self.resnet(vector))
        return jnp.einsum("bp,bup->bu", query, self.keys(units))
