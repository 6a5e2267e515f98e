"""The few layers that every stream is built from: residual MLP, attention, convolutions.

Arrays in, arrays out; nothing here knows the game. Leading axes are free unless stated.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

# Stands for minus infinity in masked logits: finite, so that no gradient becomes NaN.
MASKED = -1e9


class MLP(nnx.Module):
    """Linear, relu, linear: [..., size] -> [..., out]."""

    def __init__(self, size: int, hidden: int, out: int, *, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(size, hidden, rngs=rngs)
        self.second = nnx.Linear(hidden, out, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the two layers."""
        return self.second(jax.nn.relu(self.first(x)))


class Residual(nnx.Module):
    """A pre-normalised residual MLP: [..., size] -> [..., size]."""

    def __init__(self, size: int, hidden: int, *, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(size, rngs=rngs)
        self.mlp = MLP(size, hidden, size, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Adds the MLP of the normalised input."""
        return x + self.mlp(self.norm(x))


class Attention(nnx.Module):
    """Multi-head attention: queries [F, Q, size] over keys [F, N, size]."""

    def __init__(self, size: int, heads: int, *, rngs: nnx.Rngs) -> None:
        if size % heads:
            raise ValueError(
                f"attention: {size} features do not split in {heads} heads"
            )
        self.heads = heads
        self.query = nnx.Linear(size, size, rngs=rngs)
        self.key_value = nnx.Linear(size, 2 * size, rngs=rngs)
        self.out = nnx.Linear(size, size, rngs=rngs)

    def __call__(self, x: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
        """Returns [F, Q, size]; mask, broadcast to [F, Q, N], says who may look at whom."""
        query = self._split(self.query(x))
        key, value = jnp.split(self.key_value(y), 2, axis=-1)
        logits = jnp.einsum("fhqd,fhnd->fhqn", query, self._split(key))
        logits = logits / np.sqrt(query.shape[-1])
        bias = jnp.where(mask, 0.0, MASKED)[:, None]
        weights = jax.nn.softmax(logits + bias)
        mixed = jnp.einsum("fhqn,fhnd->fhqd", weights, self._split(value))
        return self.out(mixed.swapaxes(1, 2).reshape(x.shape))

    def _split(self, x: jax.Array) -> jax.Array:
        return x.reshape((*x.shape[:-1], self.heads, -1)).swapaxes(1, 2)


class TransformerBlock(nnx.Module):
    """Attention, then a residual MLP: [F, N, size] -> [F, N, size].

    points: 0 lets everyone look at everyone, N * N weights. Otherwise so many learned points
    look at everyone, and everyone at the points: 2 * N * points (Set Transformer, 2019).
    """

    def __init__(
        self, size: int, heads: int, hidden: int, *, points: int = 0, rngs: nnx.Rngs
    ) -> None:
        self.norm = nnx.LayerNorm(size, rngs=rngs)
        self.attention = Attention(size, heads, rngs=rngs)
        self.mlp = Residual(size, hidden, rngs=rngs)
        self.has_points = points > 0
        if points:
            self.points = nnx.Embed(points, size, rngs=rngs)
            self.gather = Attention(size, heads, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        """Returns the block's output; mask [F, 1, N] says who may be looked at."""
        normal = self.norm(x)
        if not self.has_points:
            return self.mlp(x + self.attention(normal, normal, mask))
        points = self.points.embedding[...]
        points = jnp.broadcast_to(points, (len(x), *points.shape))
        seen = points + self.gather(points, normal, mask)
        anyone = jnp.ones((1, 1, 1), bool)
        return self.mlp(x + self.attention(normal, seen, anyone))


class ConvBlock(nnx.Module):
    """A residual pair of 3x3 convolutions: [F, H, W, C] -> [F, H, W, C]."""

    def __init__(self, channels: int, *, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(channels, rngs=rngs)
        self.first = nnx.Conv(channels, channels, (3, 3), rngs=rngs)
        self.second = nnx.Conv(channels, channels, (3, 3), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Adds what the two convolutions make of the normalised input."""
        return x + self.second(jax.nn.relu(self.first(self.norm(x))))


def upsample(x: jax.Array, factor: int) -> jax.Array:
    """Repeats rows and columns: [F, H, W, C] -> [F, H * factor, W * factor, C]."""
    frames, height, width, channels = x.shape
    shape = (frames, height, factor, width, factor, channels)
    repeated = jnp.broadcast_to(x[:, :, None, :, None, :], shape)
    return repeated.reshape(frames, height * factor, width * factor, channels)


def mean_pool(planes: Sequence[jax.Array], factor: int) -> jax.Array:
    """Averages squares of cells: planes [F, H, W] -> float32 [F, H / factor, W / factor, C].

    In two goes, since on a CPU a sum over neighbours in memory is slow, and the planes
    stacked at full size are too much of it: rows are added, then columns by a product.
    """
    rows = []
    for plane in planes:
        frames, height, width = plane.shape
        split = plane.reshape(frames, height // factor, factor, width)
        # One by one: unlike a reduction, additions are done many columns at a time.
        lines = [split[:, :, k].astype(jnp.float32) for k in range(factor)]
        rows.append(functools.reduce(jnp.add, lines))
    columns = np.kron(np.eye(width // factor), np.full((factor, 1), factor**-2))
    pooled = jnp.stack(rows, axis=1) @ jnp.asarray(columns, jnp.float32)
    return jnp.moveaxis(pooled, 1, -1)


def space_to_depth(x: jax.Array, factor: int) -> jax.Array:
    """Gathers squares of cells: [F, H, W, C] -> [F, H / factor, W / factor, factor² C]."""
    frames, height, width, channels = x.shape
    split = x.reshape(
        frames, height // factor, factor, width // factor, factor, channels
    )
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(
        frames, height // factor, width // factor, -1
    )


def choose(
    key: jax.Array, logits: jax.Array, temperature: jax.Array | float
) -> jax.Array:
    """Samples from softmax(logits / temperature); int32 [...]."""
    return jax.random.categorical(key, logits / temperature).astype(jnp.int32)


def choose_many(key: jax.Array, logits: jax.Array, count: int) -> jax.Array:
    """Samples `count` times from softmax(logits), with repeats: [..., N] -> int32 [..., count].

    By one random number each, where `choose` takes one for every logit: in a search, which
    draws at every node, those were most of the time.
    """
    total = jnp.cumsum(jax.nn.softmax(logits), axis=-1)
    drawn = jax.random.uniform(key, (*logits.shape[:-1], count)) * total[..., -1:]
    index = (total[..., None, :] <= drawn[..., None]).sum(-1)
    return jnp.minimum(index, logits.shape[-1] - 1).astype(jnp.int32)
