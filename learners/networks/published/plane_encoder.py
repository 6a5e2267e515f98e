"""The visual stream's input: seven minimap planes and the camera, added up.

In: planes [B, 128, 128] and the camera, [B, 256, 256] or its corners. Out: [B, 64, 64, channels].
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from starmill.learners.networks.published import layers
from starmill.learners.networks.published.sizes import WORLD
from starmill.learners.networks.published.vector_encoder import Arrays

HEIGHT = "height_map"
# How many values each of the other planes takes; a larger value counts as the last.
CATEGORIES = {
    "visibility_map": 4,
    "creep": 2,
    "player_relative": 5,
    "alerts": 2,
    "pathable": 2,
    "buildable": 2,
}
_KERNEL = 2
_PATCH = tuple((y, x) for y in range(_KERNEL) for x in range(_KERNEL))
_CAMERA_POOL = 4


class PlaneEncoder(nnx.Module):
    """Planes -> [B, 64, 64, channels]."""

    def __init__(self, channels: int, *, rngs: nnx.Rngs) -> None:
        counts = {HEIGHT: 1, **CATEGORIES}
        self.planes = nnx.Dict(
            {
                name: layers.Conv(count, channels, _KERNEL, _KERNEL, rngs=rngs)
                for name, count in counts.items()
            }
        )
        self.camera = layers.linear(1, channels, rngs=rngs)

    def __call__(self, observation: Arrays) -> jax.Array:
        """Returns the sum of all parts."""
        parts = self.parts(observation)
        return sum(parts.values(), start=jnp.zeros((), jnp.float32))

    def parts(self, observation: Arrays) -> Arrays:
        """Returns each part by name; their sum is the encoding."""
        parts = {}
        height = self.planes[HEIGHT]
        cells = observation[f"minimap_{HEIGHT}"].astype(jnp.float32) / 255
        kernel = height.kernel[...][:, :, 0]
        parts[HEIGHT] = height.bias[...] + sum(
            cells[:, y::_KERNEL, x::_KERNEL, None] * kernel[y, x] for y, x in _PATCH
        )
        for name, count in CATEGORIES.items():
            convolution = self.planes[name]
            plane = jnp.minimum(observation[f"minimap_{name}"], count - 1)
            words = _words(convolution.kernel[...])[_patch_index(plane, count)]
            parts[name] = words + convolution.bias[...]
        parts["camera"] = self.camera(_camera_share(observation)[..., None])
        return parts


def _words(kernel: jax.Array) -> jax.Array:
    """Returns what a kernel makes of every possible patch, [count ** 4, channels].

    A patch of 2x2 cells with `count` categories is one of count ** 4, at most 625. To look it
    up is faster than a convolution of one-hot vectors.
    """
    count = kernel.shape[2]
    digits = np.unravel_index(np.arange(count ** len(_PATCH)), (count,) * len(_PATCH))
    cells = [kernel[y, x][digit] for (y, x), digit in zip(_PATCH, digits, strict=True)]
    return sum(cells[1:], start=cells[0])


def _patch_index(plane: jax.Array, count: int) -> jax.Array:
    """Returns which of the possible patches each one is, [B, 64, 64]."""
    index = jnp.zeros((), jnp.int32)
    for y, x in _PATCH:
        index = index * count + plane[:, y::_KERNEL, x::_KERNEL].astype(jnp.int32)
    return index


def _camera_share(observation: Arrays) -> jax.Array:
    """Returns which share of each cell the camera shows, [B, 64, 64].

    `camera_corners` stands for a camera that is a rectangle: top, bottom, left and right, with
    the ends excluded.
    """
    if "camera_corners" not in observation:
        camera = observation["camera"].astype(jnp.float32)
        side = camera.shape[1] // _CAMERA_POOL
        pooled = camera.reshape(len(camera), side, _CAMERA_POOL, side, _CAMERA_POOL)
        return pooled.mean((2, 4))
    top, bottom, left, right = jnp.split(observation["camera_corners"], 4, axis=-1)
    start = jnp.arange(0, WORLD, _CAMERA_POOL)

    def share(low: jax.Array, high: jax.Array) -> jax.Array:
        inside = jnp.minimum(high, start + _CAMERA_POOL) - jnp.maximum(low, start)
        return jnp.maximum(inside, 0).astype(jnp.float32) / _CAMERA_POOL

    return share(top, bottom)[:, :, None] * share(left, right)[:, None, :]
