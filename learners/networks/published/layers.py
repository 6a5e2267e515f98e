"""Layers of the published network: pre-activation blocks, gated merges, convolutions.

Arrays in, arrays out. A layer is "norm, relu, linear" in this order. Vectors and units are
normalised over their last axis; planes [B, y, x, channel] over y, x and channel together.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from starmill.learners.networks.layers import space_to_depth
from starmill.learners.networks.published import initialisers
from starmill.learners.networks.published.initialisers import Initialiser

EPSILON = 1e-5
# The last layer of a residual block, and gates, begin near zero.
NEAR_ZERO = initialisers.normal(0.005)


def fan_in(count: int) -> Initialiser:
    """Returns the published initialiser: a normal cut at two sigma, sigma 1 / sqrt(count)."""
    return initialisers.truncated_normal(float(1 / np.sqrt(count)))


def linear(
    size: int,
    out: int,
    *,
    rngs: nnx.Rngs,
    init: Initialiser | None = None,
) -> nnx.Linear:
    """Returns a linear layer with the published initialiser, or another."""
    return nnx.Linear(size, out, kernel_init=init or fan_in(size), rngs=rngs)


def embedding(count: int, size: int, *, rngs: nnx.Rngs) -> nnx.Embed:
    """Returns a table of `count` embeddings."""
    init = initialisers.truncated_normal(1.0)
    return nnx.Embed(count, size, embedding_init=init, rngs=rngs)


def norm(size: int, *, rngs: nnx.Rngs, planes: bool = False) -> nnx.LayerNorm:
    """Returns a layer norm over the last axis, or over y, x and channel of planes."""
    return nnx.LayerNorm(
        size,
        epsilon=EPSILON,
        use_fast_variance=False,
        reduction_axes=(-3, -2, -1) if planes else -1,
        rngs=rngs,
    )


class Layer(nnx.Module):
    """Norm, relu, linear: [..., size] -> [..., out]."""

    def __init__(
        self,
        size: int,
        out: int,
        *,
        rngs: nnx.Rngs,
        init: Initialiser | None = None,
    ) -> None:
        self.norm = norm(size, rngs=rngs)
        self.linear = linear(size, out, rngs=rngs, init=init)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the layer."""
        return self.linear(jax.nn.relu(self.norm(x)))


class Layers(nnx.Module):
    """Several layers, one after the other: [..., sizes[0]] -> [..., sizes[-1]]."""

    def __init__(self, *sizes: int, rngs: nnx.Rngs) -> None:
        pairs = zip(sizes, sizes[1:], strict=False)
        self.layers = nnx.List(Layer(a, b, rngs=rngs) for a, b in pairs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the layers."""
        for layer in self.layers:
            x = layer(x)
        return x


class Residual(nnx.Module):
    """x + layer(layer(x)): [..., size] -> [..., size]."""

    def __init__(self, size: int, hidden: int, *, rngs: nnx.Rngs) -> None:
        self.first = Layer(size, hidden, rngs=rngs)
        self.second = Layer(hidden, size, rngs=rngs, init=NEAR_ZERO)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the block."""
        return x + self.second(self.first(x))


class Resnet(nnx.Module):
    """Residual blocks: [..., size] -> [..., size]."""

    def __init__(
        self, size: int, blocks: int, *, rngs: nnx.Rngs, hidden: int | None = None
    ) -> None:
        self.blocks = nnx.List(
            Residual(size, hidden or size, rngs=rngs) for _ in range(blocks)
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the blocks."""
        for block in self.blocks:
            x = block(x)
        return x


class Merge(nnx.Module):
    """One vector of several: their linear images, weighted by gates that all of them decide.

    gate: 0 adds the images. 1 weights whole vectors. The output's size weights each number.
    """

    def __init__(
        self, sizes: Sequence[int], out: int, *, gate: int, rngs: nnx.Rngs
    ) -> None:
        self.gate = gate
        # With two inputs one weight decides; with three, each has a logit of its own.
        width = gate if len(sizes) == 2 else gate * len(sizes)
        self.norms = nnx.List(norm(size, rngs=rngs) for size in sizes)
        self.images = nnx.List(linear(size, out, rngs=rngs) for size in sizes)
        self.gates = nnx.List(
            linear(size, width, rngs=rngs, init=NEAR_ZERO)
            for size in (sizes if gate else ())
        )

    def __call__(self, *inputs: jax.Array) -> jax.Array:
        """Merges inputs [..., sizes[k]] into [..., out]."""
        hidden = [
            jax.nn.relu(norm(x)) for norm, x in zip(self.norms, inputs, strict=True)
        ]
        images = [image(h) for image, h in zip(self.images, hidden, strict=True)]
        if not self.gate:
            return sum(images[1:], start=images[0])
        scores = [gate(h) for gate, h in zip(self.gates, hidden, strict=True)]
        total = sum(scores[1:], start=scores[0])
        if len(images) == 2:
            weight = jax.nn.sigmoid(total)
            return weight * images[0] + (1 - weight) * images[1]
        logits = total.reshape((*total.shape[:-1], len(images), self.gate))
        weights = jax.nn.softmax(logits, axis=-2)
        return (weights * jnp.stack(images, axis=-2)).sum(-2)


class Conv(nnx.Module):
    """A convolution of planes with SAME padding: [B, H, W, size] -> [B, H/s, W/s, out]."""

    def __init__(
        self,
        size: int,
        out: int,
        kernel: int,
        stride: int = 1,
        *,
        rngs: nnx.Rngs,
        init: Initialiser | None = None,
    ) -> None:
        self.stride = stride
        shape = (kernel, kernel, size, out)
        init = init or fan_in(kernel * kernel * size)
        self.kernel = nnx.Param(init(rngs.params(), shape, jnp.float32))
        self.bias = nnx.Param(jnp.zeros(out))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the convolution."""
        kernel = self.kernel[...].astype(x.dtype)
        if kernel.shape[0] == self.stride:
            # Patches do not overlap: a reshape and a product, faster than a convolution.
            patches = space_to_depth(x, self.stride)
            return patches @ kernel.reshape(-1, kernel.shape[-1]) + self.bias[
                ...
            ].astype(x.dtype)
        stride = (self.stride, self.stride)
        dimensions = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, kernel, stride, "SAME", dimension_numbers=dimensions
        ) + self.bias[...].astype(x.dtype)


class Deconv(nnx.Module):
    """A transposed convolution: [B, H, W, size] -> [B, 2H, 2W, out].

    The kernel has shape [k, k, out, size] and is not flipped.
    """

    def __init__(self, size: int, out: int, kernel: int, *, rngs: nnx.Rngs) -> None:
        shape = (kernel, kernel, out, size)
        init = fan_in(kernel * kernel * size)
        self.kernel = nnx.Param(init(rngs.params(), shape, jnp.float32))
        self.bias = nnx.Param(jnp.zeros(out))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the transposed convolution."""
        kernel = self.kernel[...].astype(x.dtype)
        if kernel.shape[0] == 2:
            # Each cell becomes 2x2 cells of its own: a product and a reshape.
            flipped = kernel[::-1, ::-1].reshape(-1, kernel.shape[-1])
            return depth_to_space(x @ flipped.T, 2) + self.bias[...].astype(x.dtype)
        return jax.lax.conv_transpose(
            x, kernel.swapaxes(2, 3), (2, 2), "SAME"
        ) + self.bias[...].astype(x.dtype)


class PlaneLayer(nnx.Module):
    """Norm, relu, convolution (or transposed convolution) of planes."""

    def __init__(
        self, size: int, convolution: Conv | Deconv, *, rngs: nnx.Rngs
    ) -> None:
        self.norm = norm(size, rngs=rngs, planes=True)
        self.convolution = convolution

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the layer."""
        return self.convolution(jax.nn.relu(self.norm(x)))


class PlaneResidual(nnx.Module):
    """x + layer(layer(x)) with 3x3 convolutions: [B, H, W, size] -> the same shape."""

    def __init__(self, size: int, *, rngs: nnx.Rngs) -> None:
        self.first = PlaneLayer(size, Conv(size, size, 3, rngs=rngs), rngs=rngs)
        second = Conv(size, size, 3, rngs=rngs, init=NEAR_ZERO)
        self.second = PlaneLayer(size, second, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the block."""
        return x + self.second(self.first(x))


def depth_to_space(x: jax.Array, factor: int) -> jax.Array:
    """Spreads channels over squares of cells; the inverse of `space_to_depth`."""
    batch, height, width, channels = x.shape
    split = x.reshape(batch, height, width, factor, factor, -1)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(
        batch, height * factor, width * factor, channels // factor**2
    )
