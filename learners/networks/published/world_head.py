"""world: a grid of 256x256 points, grown from the vector with the torso's planes added.

In: the vector stream and the planes. Out: logits [B, 65536], row by row.
"""

import jax
from flax import nnx

from starmill.learners.networks.published import layers
from starmill.learners.networks.published.sizes import Sizes

_START = 4  # cells a side at the start


class WorldHead(nnx.Module):
    """From 4x4 cells to 256x256 points, doubling the side six times."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        start, second = sizes.world_start
        fine, middle, coarse = sizes.planes
        last = sizes.world_last

        def doubling(entering: int, leaving: int) -> layers.PlaneLayer:
            deconv = layers.Deconv(entering, leaving, sizes.kernel, rngs=rngs)
            return layers.PlaneLayer(entering, deconv, rngs=rngs)

        self.start = layers.Layer(sizes.vector, start * _START**2, rngs=rngs)
        self.double_start = nnx.List(
            [doubling(start, second), doubling(second, coarse)]
        )
        self.blocks = nnx.List(
            layers.PlaneResidual(coarse, rngs=rngs) for _ in range(sizes.plane_blocks)
        )
        self.double_coarse = doubling(coarse, middle)
        self.double_middle = doubling(middle, fine)
        self.double_fine = doubling(fine, last)
        if sizes.world_depth_to_space:
            convolution = layers.Conv(last, 4, 1, rngs=rngs)
            self.out = layers.PlaneLayer(last, convolution, rngs=rngs)
        else:
            self.out = layers.PlaneLayer(
                last, layers.Deconv(last, 1, 2, rngs=rngs), rngs=rngs
            )
        self.spreads = sizes.world_depth_to_space

    def logits(
        self, vector: jax.Array, planes: tuple[jax.Array, jax.Array, jax.Array]
    ) -> jax.Array:
        """Returns unmasked logits; planes are those of the torso, finest first."""
        fine, middle, coarse = planes
        x = self.start(vector)
        x = x.reshape(len(x), _START, _START, -1)
        for double in self.double_start:
            x = double(x)
        x = x + coarse
        for block in self.blocks:
            x = block(x)
        x = self.double_coarse(x) + middle
        x = self.double_middle(x) + fine
        x = self.out(self.double_fine(x))
        if self.spreads:
            x = layers.depth_to_space(x, 2)
        return x.reshape(len(x), -1)
