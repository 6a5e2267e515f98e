"""Latents computed in advance, so that a frozen encoder encodes each step only once.

In: a network and batches, with latents in them or without. Out: the latents of frames and the functions that
are legal there. Latents are kept in half precision, and legal functions as bits.
"""

import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from starmill.learners import rollouts
from starmill.learners.networks import parameters, scoring
from starmill.learners.networks.parameters import AnyConfig, AnyNetwork, Params
from starmill.learners.rollouts import Batch
from starmill.schema.settings import ConverterSettings

# Columns of batches.
LATENT, LEGAL = "latent", "legal_functions"
_BOTH = frozenset({LATENT, LEGAL})
# All that losses on latents read of the dataset.
KEYS = ("action/delay", "action/function")


def of_batch(
    network: AnyNetwork, batch: Batch, functions: int
) -> tuple[jax.Array, jax.Array | None]:
    """Returns the latents [B * K, D] of rollouts, and the legal functions; None for all."""
    if LATENT not in batch:
        latent, _ = network.unroll(batch)
        return latent.vector, scoring.legal_functions(latent)
    frames = rollouts.flatten({name: batch[name] for name in batch if name in _BOTH})
    legal = None
    if LEGAL in frames:
        legal = jnp.unpackbits(frames[LEGAL], axis=-1, count=functions) == 1
    return frames[LATENT].astype(jnp.float32), legal


def encode(
    params: Params,
    config: AnyConfig,
    settings: ConverterSettings,
    windows: Iterable[Batch],
    starts: NDArray[np.int64],
    on_batch: Callable[[int], None] = lambda frames: None,
) -> dict[str, NDArray[np.generic]]:
    """Returns the columns of all steps, from windows that hold each of them.

    `starts` [N + 1] says where each episode's steps start among all steps. `on_batch` is called
    with the steps of each window.
    """
    run = jax.jit(functools.partial(_encode, config=config, settings=settings))
    columns: dict[str, NDArray[np.generic]] = {}
    for batch in windows:
        keep = batch["valid"].reshape(-1)
        episode, step = (batch[n].reshape(-1)[keep] for n in ("episode", "step"))
        for name, values in run(params, batch).items():
            frames = np.asarray(values)[keep]
            if name not in columns:
                shape = (int(starts[-1]), *frames.shape[1:])
                columns[name] = np.zeros(shape, frames.dtype)
            columns[name][starts[episode] + step] = frames
        on_batch(int(keep.sum()))
    return columns


def _encode(
    params: Params, batch: Batch, config: AnyConfig, settings: ConverterSettings
) -> dict[str, jax.Array]:
    network = parameters.merge(params, config, settings)
    latent, _ = network.unroll(batch)
    columns = {LATENT: latent.vector.astype(jnp.float16)}
    legal = scoring.legal_functions(latent)
    if legal is not None:
        columns[LEGAL] = jnp.packbits(legal, axis=-1)
    return columns
