"""The visual stream's input: seven minimap planes and the camera, added up.

In: planes [B, 128, 128] and the camera [B, 256, 256]. Out: [B, 64, 64, channels].
"""

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks.layers import space_to_depth
from starmill.learners.networks.published import layers
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
        for name in (HEIGHT, *CATEGORIES):
            convolution = self.planes[name]
            plane = observation[f"minimap_{name}"]
            if name == HEIGHT:
                x = plane.astype(jnp.float32)[..., None] / 255
            else:
                count = CATEGORIES[name]
                x = jax.nn.one_hot(jnp.minimum(plane, count - 1), count)
            parts[name] = convolution(x)
        camera = observation["camera"].astype(jnp.float32)[..., None]
        parts["camera"] = self.camera(
            space_to_depth(camera, _CAMERA_POOL).mean(-1, keepdims=True)
        )
        return parts
