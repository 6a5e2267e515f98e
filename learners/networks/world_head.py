"""The head of the world argument: planes, upsampled to the grid of target points.

In: latent planes and the action so far. Out: features of the finest plane; from them, the
log-probabilities of all grid cells or of given ones, or a sampled cell.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks import layers


class WorldHead(nnx.Module):
    """The distribution of the world argument, as a cell of the finest plane and a place in it.

    A cell of the finest plane covers factor x factor cells of the grid. A grid cell's
    probability is that of its cell times that of the place within it; with a factor of 1 this is
    one softmax. Scoring a known target takes the places of one cell, not all R * R of them.
    """

    def __init__(
        self,
        vector: int,
        channels: tuple[int, ...],
        cells: int,
        side: int,
        blocks: int,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        self.side, self.factor = side, round(cells**0.5) // side
        self.context = nnx.Linear(vector, channels[-1], rngs=rngs)
        self.mix = nnx.Linear(channels[-1], channels[-1], rngs=rngs)
        self.up = nnx.List(
            nnx.Linear(b, a, rngs=rngs)
            for a, b in zip(channels, channels[1:], strict=False)
        )
        self.blocks = nnx.List(
            layers.ConvBlock(channels[0], rngs=rngs) for _ in range(blocks)
        )
        self.gain = nnx.Linear(vector, channels[0], rngs=rngs)
        self.cell = nnx.Linear(channels[0], 1, rngs=rngs)
        self.place = nnx.Linear(channels[0], self.factor**2, rngs=rngs)

    def features(self, context: jax.Array, planes: tuple[jax.Array, ...]) -> jax.Array:
        """Returns the finest plane given the action so far, [F, cells, C]."""
        x = planes[-1] + self.context(context)[:, None, None]
        x = jax.nn.relu(self.mix(x))
        for level in reversed(range(len(self.up))):
            x = jax.nn.relu(planes[level] + layers.upsample(self.up[level](x), 2))
        for block in self.blocks:
            x = block(x)
        x *= 1 + self.gain(context)[:, None, None]
        return x.reshape(len(x), -1, x.shape[-1])

    def logits(self, features: jax.Array) -> jax.Array:
        """Returns the log-probability of every grid cell, [F, R * R]."""
        cell = jax.nn.log_softmax(self.cell(features)[..., 0])
        place = jax.nn.log_softmax(self.place(features))
        both = cell[..., None] + place
        split = both.reshape(-1, self.side, self.side, self.factor, self.factor)
        return split.transpose(0, 1, 3, 2, 4).reshape(len(features), -1)

    def log_prob(self, features: jax.Array, world: jax.Array) -> jax.Array:
        """Returns the log-probability of the given grid cells, [F]."""
        row, column = jnp.divmod(world, self.side * self.factor)
        cell = row // self.factor * self.side + column // self.factor
        place = row % self.factor * self.factor + column % self.factor

        def pick(logits: jax.Array, index: jax.Array) -> jax.Array:
            normal = jax.nn.log_softmax(logits)
            return jnp.take_along_axis(normal, index[:, None], axis=-1)[:, 0]

        own = jnp.take_along_axis(features, cell[:, None, None], axis=1)[:, 0]
        return pick(self.cell(features)[..., 0], cell) + pick(self.place(own), place)

    def sample(
        self, features: jax.Array, key: jax.Array, temperature: jax.Array | float
    ) -> jax.Array:
        """Samples grid cells from softmax(logits / temperature), int32 [F].

        It samples a cell by the weight of all its places, and then the place. This is the same
        distribution with one random number for each cell instead of one for each place.
        """
        first, second = jax.random.split(key)
        cell = jax.nn.log_softmax(self.cell(features)[..., 0]) / temperature
        place = jax.nn.log_softmax(self.place(features)) / temperature
        index = layers.choose(first, cell + jax.nn.logsumexp(place, axis=-1), 1.0)
        own = jnp.take_along_axis(place, index[:, None, None], axis=1)[:, 0]
        inner = layers.choose(second, own, 1.0)
        row = index // self.side * self.factor + inner // self.factor
        column = index % self.side * self.factor + inner % self.factor
        return row * (self.side * self.factor) + column
