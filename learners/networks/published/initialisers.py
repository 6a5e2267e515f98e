"""The published initialisers, in flax's form: functions of a key, a shape and a dtype.

In: a random key. Out: an array. They draw with numpy, seeded by the key, because XLA takes half a
minute to compile JAX's own for the 428 arrays of `lite`. Within a trace, where only shapes matter
(`nnx.eval_shape`), they return zeros.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from numpy.typing import NDArray

Initialiser = nnx.Initializer
# The standard deviation of a standard normal that is cut at two sigma.
_CUT_DEVIATION = 0.87962566103423978
_CUT = 2.0


def normal(stddev: float) -> Initialiser:
    """Returns a normal with mean 0."""
    return _drawn(lambda rng, shape: stddev * rng.standard_normal(shape, np.float32))


def truncated_normal(stddev: float) -> Initialiser:
    """Returns a normal cut at two sigma; `stddev` is that of the normal before the cut."""
    return _drawn(lambda rng, shape: stddev * _cut_normal(rng, shape))


def variance_fan_in() -> Initialiser:
    """Returns a normal cut at two sigma whose variance after the cut is 1 / fan-in."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
        stddev = 1 / np.sqrt(shape[0]) / _CUT_DEVIATION
        return np.float32(stddev) * _cut_normal(rng, shape)

    return _drawn(draw)


def _drawn(
    draw: Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float32]],
) -> Initialiser:
    def initialise(
        key: Any, shape: Any, dtype: Any = jnp.float32, out_sharding: Any = None
    ) -> jax.Array:
        if isinstance(key, jax.core.Tracer):
            return jnp.zeros(shape, dtype)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
        return jnp.asarray(draw(rng, tuple(shape)).astype(dtype))

    return initialise


def _cut_normal(
    rng: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    values = rng.standard_normal(shape, np.float32)
    while (outside := np.abs(values) > _CUT).any():
        values[outside] = rng.standard_normal(int(outside.sum()), np.float32)
    return values
