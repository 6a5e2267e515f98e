"""The layers that every stream is built from: residual MLPs, attention, convolutions.

In: arrays. Out: arrays. Leading axes are free unless stated. Knows nothing of the game. The names
of the attributes are the paths of arrays in checkpoints.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

# Minus infinity in masked logits. It is finite so that no gradient becomes NaN.
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
                f"attention: {size} features do not divide into {heads} heads"
            )
        self.heads = heads
        self.query = nnx.Linear(size, size, rngs=rngs)
        self.key_value = nnx.Linear(size, 2 * size, rngs=rngs)
        self.out = nnx.Linear(size, size, rngs=rngs)

    def __call__(self, x: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
        """Returns [F, Q, size]; the mask [F, Q, N] says which keys each query attends to."""
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

    With `points` at 0, all items attend to each other, which takes N * N weights. Otherwise that
    many learned points attend to all items, and all items to the points, which takes
    2 * N * points (Set Transformer, 2019).
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
        """Returns the block's output; the mask [F, 1, N] says which items are attended to."""
        normal = self.norm(x)
        if not self.has_points:
            return self.mlp(x + self.attention(normal, normal, mask))
        points = self.points.embedding[...]
        points = jnp.broadcast_to(points, (len(x), *points.shape))
        gathered = points + self.gather(points, normal, mask)
        everything = jnp.ones((1, 1, 1), bool)
        return self.mlp(x + self.attention(normal, gathered, everything))


class ConvBlock(nnx.Module):
    """A residual pair of 3x3 convolutions: [F, H, W, C] -> [F, H, W, C]."""

    def __init__(self, channels: int, *, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(channels, rngs=rngs)
        self.first = nnx.Conv(channels, channels, (3, 3), rngs=rngs)
        self.second = nnx.Conv(channels, channels, (3, 3), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Adds the convolutions of the normalised input."""
        return x + self.second(jax.nn.relu(self.first(self.norm(x))))


def upsample(x: jax.Array, factor: int) -> jax.Array:
    """Repeats rows and columns: [F, H, W, C] -> [F, H * factor, W * factor, C]."""
    frames, height, width, channels = x.shape
    shape = (frames, height, factor, width, factor, channels)
    repeated = jnp.broadcast_to(x[:, :, None, :, None, :], shape)
    return repeated.reshape(frames, height * factor, width * factor, channels)


def mean_pool(planes: Sequence[jax.Array], factor: int) -> jax.Array:
    """Averages squares of cells: planes [F, H, W] -> float32 [F, H / factor, W / factor, C].

    Rows are added first, and columns by a matrix product. On a CPU this is faster than one
    reduction, and the planes need not be stacked at full size.
    """
    rows = []
    for plane in planes:
        frames, height, width = plane.shape
        split = plane.reshape(frames, height // factor, factor, width)
        # Unlike a reduction, an addition handles many columns at a time.
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

    Each sample takes one random number, where `choose` takes one for every logit. A search
    samples at every node, and would spend most of its time on those.
    """
    total = jnp.cumsum(jax.nn.softmax(logits), axis=-1)
    heights = jax.random.uniform(key, (*logits.shape[:-1], count)) * total[..., -1:]
    index = (total[..., None, :] <= heights[..., None]).sum(-1)
    return jnp.minimum(index, logits.shape[-1] - 1).astype(jnp.int32)
