"""The torso: vector, units and planes inform each other and become the latent.

In: the three encoded streams. Out: `Streams`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks.published import attention, initialisers, layers
from starmill.learners.networks.published.sizes import UNITS, Sizes

_CELL = 4  # grid units of a cell of the 64x64 planes
_SIDE = 64
_COARSE = 16


class Streams(NamedTuple):
    """What the torso makes of B steps.

    Attributes:
        vector: the latent, [B, vector].
        units: [B, 512, unit]; rows without a unit are 0.
        planes: [B, 64, 64, C], [B, 32, 32, C] and [B, 16, 16, C].
    """

    vector: jax.Array
    units: jax.Array
    planes: tuple[jax.Array, jax.Array, jax.Array]


class Attention(nnx.Module):
    """One layer of attention among units, added to them: [B, U, size] -> [B, U, size]."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        size, heads = sizes.unit, sizes.attention_heads
        init = initialisers.variance_fan_in()

        def linear(entering: int, leaving: int) -> nnx.Linear:
            return layers.linear(entering, leaving, rngs=rngs, init=init)

        self.heads = heads
        self.norm = layers.norm(size, rngs=rngs)
        self.query = linear(size, heads * sizes.attention_key)
        self.key = linear(size, heads * sizes.attention_key)
        self.value = linear(size, heads * sizes.attention_value)
        self.out = linear(heads * sizes.attention_value, size)

    def __call__(self, x: jax.Array, present: jax.Array) -> jax.Array:
        """Adds what each unit attends to; present [B, U] says which rows are units."""
        hidden = jax.nn.relu(self.norm(x))
        query, key, value = (
            linear(hidden).reshape((*x.shape[:2], self.heads, -1)).swapaxes(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        mixed = attention.attend(query, key, value, present).swapaxes(1, 2)
        return x + self.out(mixed.reshape((*x.shape[:2], -1))) * present[..., None]


class UnitTransformer(nnx.Module):
    """Residual blocks, attention, residual blocks: [B, U, size] -> [B, U, size]."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        def resnet() -> layers.Resnet:
            return layers.Resnet(
                sizes.unit, sizes.unit_blocks, hidden=sizes.unit_hidden, rngs=rngs
            )

        self.before = resnet()
        self.attention = nnx.List(
            Attention(sizes, rngs=rngs) for _ in range(sizes.attention_layers)
        )
        self.after = resnet()

    def __call__(self, x: jax.Array, present: jax.Array) -> jax.Array:
        """Applies the transformer; rows without a unit leave as 0."""
        x = self.before(x)
        for layer in self.attention:
            x = layer(x, present)
        return self.after(x) * present[..., None]


class Scatter(nnx.Module):
    """Adds units to the cells of the planes where they are."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        self.units = layers.Layer(sizes.unit, sizes.scatter, rngs=rngs)
        convolution = layers.Conv(sizes.scatter, sizes.planes[0], 3, rngs=rngs)
        self.planes = layers.PlaneLayer(sizes.scatter, convolution, rngs=rngs)

    def __call__(
        self, units: jax.Array, present: jax.Array, x: jax.Array, y: jax.Array
    ) -> jax.Array:
        """Returns [B, 64, 64, planes[0]]; x and y [B, U] are grid positions."""
        values = self.units(units) * present[..., None]
        column = jnp.clip(x // _CELL, 0, _SIDE - 1)
        row = jnp.clip(y // _CELL, 0, _SIDE - 1)

        def one(value: jax.Array, cell: jax.Array) -> jax.Array:
            return jnp.zeros((_SIDE * _SIDE, value.shape[-1])).at[cell].add(value)

        grid = jax.vmap(one)(values, row * _SIDE + column)
        return self.planes(grid.reshape(len(units), _SIDE, _SIDE, -1))


class PlanesToVector(nnx.Module):
    """Halving convolutions, flattened: [B, 16, 16, C] -> [B, vector]."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        channels = (sizes.planes[2], *sizes.planes_to_vector)
        self.halvings = nnx.List(
            layers.PlaneLayer(
                a, layers.Conv(a, b, sizes.kernel, 2, rngs=rngs), rngs=rngs
            )
            for a, b in zip(channels, channels[1:], strict=False)
        )
        side = _COARSE // 2 ** len(self.halvings)
        self.out = layers.Layer(side * side * channels[-1], sizes.vector, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns what the planes say to the vector."""
        for halving in self.halvings:
            x = halving(x)
        return self.out(x.reshape(len(x), -1))


class UnitsToVector(nnx.Module):
    """The mean over all 512 rows, empty ones included: [B, U, unit] -> [B, vector]."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        self.units = layers.Layer(sizes.unit, sizes.units_to_vector, rngs=rngs)
        self.out = layers.Layer(sizes.units_to_vector, sizes.vector, rngs=rngs)

    def __call__(self, units: jax.Array) -> jax.Array:
        """Returns what the units say to the vector."""
        # Batches may leave out trailing empty rows, which are all alike.
        missing = UNITS - units.shape[1]
        total = self.units(units).sum(1)
        if missing:
            total += missing * self.units(jnp.zeros_like(units[:, 0]))
        return self.out(total / UNITS)


class Torso(nnx.Module):
    """Encoded streams -> `Streams`."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        fine, middle, coarse = sizes.planes

        def halving(entering: int, leaving: int) -> layers.PlaneLayer:
            convolution = layers.Conv(entering, leaving, sizes.kernel, 2, rngs=rngs)
            return layers.PlaneLayer(entering, convolution, rngs=rngs)

        before, after = sizes.vector_blocks
        self.vector_before = layers.Resnet(sizes.vector, before, rngs=rngs)
        self.units = UnitTransformer(sizes, rngs=rngs)
        self.scatter = Scatter(sizes, rngs=rngs)
        self.halve_fine = halving(fine, middle)
        self.halve_middle = halving(middle, coarse)
        self.plane_blocks = nnx.List(
            layers.PlaneResidual(coarse, rngs=rngs) for _ in range(sizes.plane_blocks)
        )
        self.planes_to_vector = PlanesToVector(sizes, rngs=rngs)
        self.units_to_vector = UnitsToVector(sizes, rngs=rngs)
        self.merge = layers.Merge(
            (sizes.vector,) * 3, sizes.vector, gate=sizes.vector, rngs=rngs
        )
        self.vector_after = layers.Resnet(sizes.vector, after, rngs=rngs)

    def __call__(
        self,
        vector: jax.Array,
        units: jax.Array,
        planes: jax.Array,
        *,
        present: jax.Array,
        x: jax.Array,
        y: jax.Array,
    ) -> Streams:
        """Returns the streams after the torso.

        Args:
            vector: [B, vector].
            units: [B, U, unit].
            planes: [B, 64, 64, planes[0]].
            present: bool [B, U], which rows are units.
            x: the units' columns of the grid, int [B, U].
            y: the units' rows of the grid, int [B, U].
        """
        vector = self.vector_before(vector)
        units = self.units(units, present)
        fine = planes + self.scatter(units, present, x, y)
        middle = self.halve_fine(fine)
        coarse = self.halve_middle(middle)
        for block in self.plane_blocks:
            coarse = block(coarse)
        merged = self.merge(
            vector, self.units_to_vector(units), self.planes_to_vector(coarse)
        )
        return Streams(self.vector_after(merged), units, (fine, middle, coarse))
