"""Softmax attention in blocks of queries, which keeps its weights in the processor's cache.

In: queries, keys and values of each head, and which keys count. Out: mixed values. All 512 x 512
weights of a batch at once would be written to memory and read back several times, forward and
backward. Here a block of queries is finished before the next one begins, and the backward pass
computes the weights again (Rabe and Staats 2021; Dao et al. 2022).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

MASKED_KEY = -1e30
# Queries in a block on a CPU. Accelerators compute all of them at once.
CPU_BLOCK = 32

Residuals = tuple[jax.Array, ...]


def attend(
    query: jax.Array, key: jax.Array, value: jax.Array, present: jax.Array
) -> jax.Array:
    """Returns what each query attends to, [B, H, U, v].

    Args:
        query: [B, H, U, k].
        key: [B, H, U, k].
        value: [B, H, U, v].
        present: which keys count, bool [B, U].
    """
    rows = query.shape[-2]
    block = CPU_BLOCK if jax.default_backend() == "cpu" else rows
    bias = jnp.where(present, 0.0, MASKED_KEY).astype(query.dtype)[:, None, None]
    scaled = query / np.sqrt(query.shape[-1]).astype(query.dtype)
    return _attend(block if rows % block == 0 else rows, scaled, key, value, bias)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(
    block: int, query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array
) -> jax.Array:
    return _forward(block, query, key, value, bias)[0]


def _forward(
    block: int, query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array
) -> tuple[jax.Array, Residuals]:
    keys = key.swapaxes(-1, -2)
    # A column of ones sums the weights in the same product.
    values = jnp.concatenate([value, jnp.ones_like(value[..., :1])], axis=-1)

    def one(query: jax.Array) -> tuple[jax.Array, jax.Array]:
        logits = query @ keys + bias
        top = logits.max(-1, keepdims=True)
        mixed = jnp.exp(logits - top) @ values
        total = mixed[..., -1:]
        return mixed[..., :-1] / total, top + jnp.log(total)

    out, scale = jax.lax.map(one, _split(query, block))
    return _join(out), (query, key, value, bias, _join(out), _join(scale))


def _backward(
    block: int, residuals: Residuals, gradient: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    query, key, value, bias, out, scale = residuals
    keys, values = key.swapaxes(-1, -2), value.swapaxes(-1, -2)
    share = (gradient * out).sum(-1, keepdims=True)

    def one(
        totals: tuple[jax.Array, jax.Array], rows: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        query, gradient, share, scale = rows
        weights = jnp.exp(query @ keys + bias - scale)
        logits = weights * (gradient @ values - share)
        keys_total = totals[0] + logits.swapaxes(-1, -2) @ query
        values_total = totals[1] + weights.swapaxes(-1, -2) @ gradient
        return (keys_total, values_total), logits @ key

    rows = tuple(_split(x, block) for x in (query, gradient, share, scale))
    start = (jnp.zeros_like(key), jnp.zeros_like(value))
    (key_gradient, value_gradient), query_gradient = jax.lax.scan(one, start, rows)
    return _join(query_gradient), key_gradient, value_gradient, jnp.zeros_like(bias)


_attend.defvjp(_forward, _backward)


def _split(x: jax.Array, block: int) -> jax.Array:
    """Turns [B, H, U, n] into [U / block, B, H, block, n]."""
    blocks = x.reshape((*x.shape[:2], -1, block, x.shape[-1]))
    return jnp.moveaxis(blocks, 2, 0)


def _join(x: jax.Array) -> jax.Array:
    """Undoes `_split`."""
    blocks = jnp.moveaxis(x, 0, 2)
    return blocks.reshape((*blocks.shape[:2], -1, x.shape[-1]))
