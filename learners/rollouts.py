"""Rollouts: what a batch is to a learner, and how time turns into discounts.

In: a dataset's batch, a dict of arrays [B, K, ...] (see `schema.episode` for what an index of
time means). Out: the same in the form that learners take, and small pure functions over it.
Dense planes that follow from a few numbers never reach the device: the camera becomes its
rectangle, and rows of `raw_units` that no step of the batch uses are cut off.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from starmill.schema import episode as episode_lib
from starmill.schema import errors, specs
from starmill.schema import settings as settings_lib

Batch = dict[str, Any]

# Row counts of `units` that batches are cut to. Each is one compilation, so there are few.
UNIT_BUCKETS = (64, 128, 256, 512)
# The previous action is an input, but not its `world`: it made the paper's agents overfit.
# Its units come with the units (columns last_selected, last_targeted).
PREVIOUS = ("function", "queued", "repeat")


def compact(
    arrays: Mapping[str, NDArray[Any]], settings: settings_lib.ConverterSettings
) -> Batch:
    """Returns a dense batch in the learners' form; leading axes are kept as they are.

    raw_units [..., U, C] -> units [..., U', C] and unit_count [...]; U' is the smallest bucket
    that holds every row used. camera [..., R, R] -> camera_box [..., 4] (top, bottom, left,
    right; ends excluded; all 0 where nothing is seen). Other arrays pass unchanged.
    """
    out = {key: np.asarray(value) for key, value in arrays.items()}
    if "raw_units" in out:
        units = out.pop("raw_units")
        used = (units != 0).any(-1)
        index = np.arange(1, used.shape[-1] + 1)
        count = np.max(np.where(used, index, 0), axis=-1).astype(np.int32)
        out["units"] = units
        out["unit_count"] = count
    if "units" in out:
        rows = bucket(int(out["unit_count"].max(initial=0)), _max_units(settings))
        out["units"] = _fit_rows(out["units"], rows)
    if "camera" in out:
        out["camera_box"] = camera_box(out.pop("camera"))
    return out


def bucket(rows: int, maximum: int) -> int:
    """Returns how many unit rows to keep so that `rows` fit, at most `maximum`."""
    if rows > maximum:
        raise errors.SpecError(f"units: expected at most {maximum} rows, found {rows}")
    for size in UNIT_BUCKETS:
        if rows <= size < maximum:
            return size
    return maximum


def camera_box(camera: NDArray[Any]) -> NDArray[np.int32]:
    """Returns the rectangle that a camera plane marks; planes [..., R, R] -> [..., 4]."""

    def ends(line: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
        first = line.argmax(-1)
        last = line.shape[-1] - line[..., ::-1].argmax(-1)
        return first, np.where(line.any(-1), last, 0)

    top, bottom = ends(np.asarray(camera.any(-1)))
    left, right = ends(np.asarray(camera.any(-2)))
    return np.stack([top, bottom, left, right], axis=-1).astype(np.int32)


def flatten(batch: Batch) -> Batch:
    """Merges the two leading axes, [B, K, ...] -> [B * K, ...]."""
    return {
        key: value.reshape((value.shape[0] * value.shape[1], *value.shape[2:]))
        for key, value in batch.items()
    }


def time_major(value: jax.Array, batch_size: int) -> jax.Array:
    """Turns frames [B * K, ...] into [K, B, ...]."""
    shaped = value.reshape((batch_size, -1, *value.shape[1:]))
    return jnp.swapaxes(shaped, 0, 1)


def action(batch: Batch) -> Batch:
    """Returns the recorded action by argument, without the `action/` prefix."""
    return {
        key.removeprefix("action/"): value
        for key, value in batch.items()
        if key.startswith("action/")
    }


def with_previous_action(batch: Batch) -> Batch:
    """Adds `prev_function`, `prev_queued`, `prev_repeat` [B, K] where they are missing.

    Within a rollout they are the step before's; at its first step they are zero, as at an
    episode's start. A loader that knows the step before the rollout gives them itself.
    """
    out = dict(batch)
    for name in PREVIOUS:
        taken = batch.get(f"action/{name}")
        if f"prev_{name}" in batch or taken is None:
            continue
        before = jnp.concatenate([jnp.zeros_like(taken[:, :1]), taken[:, :-1]], axis=1)
        first = batch["step_type"] == episode_lib.FIRST
        out[f"prev_{name}"] = jnp.where(first, 0, before)
    return out


def policy_weight(step_type: jax.Array) -> jax.Array:
    """Returns 1.0 where the action is trained on: everywhere but on an episode's last step."""
    return (step_type != episode_lib.LAST).astype(jnp.float32)


def discounts(delay: jax.Array, step_type: jax.Array, gamma: float) -> jax.Array:
    """Returns gamma[t], the discount from step t to step t + 1; shape as `delay`, [K, B].

    gamma ** delay[t], `gamma` being per game loop; but 0 from the last step of an episode, and 0
    *into* it: the reward that comes with the last step is all that follows. (What follows the
    rollout's own last step is not known here, so gamma[K - 1] takes it to go on.)
    Departs: the paper defines game_loop_delta twice; this is the reading under which its
    value definition holds.
    """
    last = step_type == episode_lib.LAST
    into_last = jnp.concatenate([last[1:], jnp.zeros_like(last[:1])])
    value = jnp.power(jnp.float32(gamma), delay.astype(jnp.float32))
    return jnp.where(last | into_last, 0.0, value)


def next_rewards(reward: jax.Array) -> jax.Array:
    """Returns reward[t + 1] at t, [K, B] -> [K, B]; 0 at the rollout's end, never used there."""
    return jnp.concatenate([reward[1:], jnp.zeros_like(reward[:1])])


def _fit_rows(units: NDArray[Any], rows: int) -> NDArray[Any]:
    have = units.shape[-2]
    if have >= rows:
        return units[..., :rows, :]
    padding = [(0, 0)] * units.ndim
    padding[-2] = (0, rows - have)
    return np.pad(units, padding)


def _max_units(settings: settings_lib.ConverterSettings) -> int:
    (rows, _) = specs.observation_specs(settings)["raw_units"].shape
    return rows
