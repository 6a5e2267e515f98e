"""Rollouts: batches in the form that losses take, and how time becomes discounts.

In: a dataset's batch, a dict of arrays [B, K, ...] (`schema.episode` says what an index of time
means). Out: the same in the form that losses take, and small pure functions over it. What is
large and follows from a few numbers does not reach the device: the camera plane becomes its
rectangle, and rows of `raw_units` that no step of the batch uses are cut off.
Must not know: networks and losses.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from starmill.schema import episode, errors, specs
from starmill.schema.settings import ConverterSettings

Batch = dict[str, Any]

# Row counts that `units` are cut to. Each is compiled separately, so there are few.
UNIT_BUCKETS = (64, 128, 256, 512)
# Arguments of the previous action that are inputs. `world` is not: it made the paper's agents
# overfit. The units come as columns of `raw_units` (last_selected, last_targeted).
PREVIOUS = ("function", "queued", "repeat")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cut:
    """Which of the steps that were read become what losses take.

    Attributes:
        consecutive: whether rows continue where they ended, so that all begin at one step.
        burn_in: steps before each rollout that only fill the network's memory.
        ahead: whether the second half of each row is a stretch some way ahead of the first.
    """

    consecutive: bool = False
    burn_in: int = 0
    ahead: bool = False

    def steps_read(self, rollout: int) -> int:
        """Returns the steps that are read for a rollout of K steps, without those ahead."""
        return rollout + 1 + self.burn_in


PLAIN = Cut()


def prepare(
    arrays: Mapping[str, NDArray[Any]],
    settings: ConverterSettings,
    cut: Cut = PLAIN,
    *,
    first_row: int = 0,
    rows: int | None = None,
) -> Batch:
    """Returns a batch with K steps, as losses take it, from a dense or compact one with K + 1.

    The additional step supplies the previous action, and is dropped. It is the first step,
    with one exception: of the rollouts that begin an episode, those in even rows keep their
    first step and drop their last, so that the first step of episodes is trained on too.

    With `cut.burn_in`, each row has that many steps more, which become the batch `past`
    [B, burn_in, ...]. Rows that begin an episode then start at one of its first burn_in + 2
    steps in turn; what `past` holds from before an episode is without effect, because memory
    is reset where an episode starts. With `cut.ahead`, the stretch in the second half of each
    row becomes the batch `ahead` [B, K, ...]; it never keeps its first step.

    Args:
        arrays: what the dataset gave.
        settings: of the dataset.
        cut: which steps become what.
        first_row: of the whole batch, if this is a part of it.
        rows: unit rows to keep; None for the fewest that hold all units (`unit_rows`).
    """
    trimmed = trim_units(arrays, settings, rows)
    later: Batch = {}
    if cut.ahead:
        half = trimmed["step_type"].shape[1] // 2
        later = {key: value[:, half:] for key, value in trimmed.items()}
        trimmed = {key: value[:, :half] for key, value in trimmed.items()}
    dense = add_previous_action(trimmed)
    size, steps = dense["step_type"].shape
    count, usual = steps - 1 - cut.burn_in, cut.burn_in + 1
    start = np.full(size, usual)
    if not cut.consecutive:
        begins = dense["step_type"][:, 0] == episode.FIRST
        turn = (first_row + np.arange(size)) % (usual + 1)
        start = np.where(begins, turn, usual)
    out = _steps(dense, start, count)
    if cut.burn_in:
        out["past"] = _steps(dense, start - cut.burn_in, cut.burn_in)
    if cut.ahead:
        out["ahead"] = _steps(add_previous_action(later), np.ones(size, int), count)
    return out


def _steps(batch: Batch, start: NDArray[Any], count: int) -> Batch:
    """Returns `count` steps of each row from its start; before the row, its first step."""
    if (start == start[0]).all() and start[0] >= 0:
        return {key: value[:, start[0] :][:, :count] for key, value in batch.items()}
    index = np.maximum(start[:, None] + np.arange(count), 0)
    rows = np.arange(len(start))[:, None]
    return {key: value[rows, index] for key, value in batch.items()}


def add_previous_action(batch: Batch) -> Batch:
    """Adds `prev_function`, `prev_queued` and `prev_repeat` [B, K], from the step before.

    They are 0 at the start of an episode and on the first step of each row.
    """
    out = dict(batch)
    starts = batch["step_type"] == episode.FIRST
    for name in PREVIOUS:
        if f"action/{name}" not in batch:
            continue
        before = np.zeros_like(batch[f"action/{name}"])
        before[:, 1:] = batch[f"action/{name}"][:, :-1]
        out[f"prev_{name}"] = np.where(starts, 0, before)
    return out


def trim_units(
    arrays: Mapping[str, NDArray[Any]],
    settings: ConverterSettings,
    rows: int | None = None,
) -> Batch:
    """Returns a batch with `units` [..., U', C], `unit_count` [...], `camera_corners` [..., 4].

    U' is `rows`, or the smallest bucket that holds every row used. The batch may be dense or
    compact (`schema.loader.compact`), with any leading axes.
    """
    out = {key: np.asarray(value) for key, value in arrays.items()}
    if rows is None:
        rows = unit_rows(arrays, settings)
    if "raw_units" in out:
        units = out.pop("raw_units")
        out["unit_count"] = _used_rows(units)
        out["units"] = units[..., :rows, :]
    elif "units" in out:
        count, flat = out["unit_count"], out["units"]
        used = np.arange(rows) < count[..., None]
        units = np.zeros((*count.shape, rows, flat.shape[-1]), flat.dtype)
        units[used] = flat[: int(count.sum())]
        out["units"] = units
    if "camera" in out:
        out["camera_corners"] = camera_corners(out.pop("camera"))
    return out


def unit_rows(arrays: Mapping[str, NDArray[Any]], settings: ConverterSettings) -> int:
    """Returns the smallest bucket that holds every unit row used in a batch."""
    if "raw_units" in arrays:
        count = _used_rows(np.asarray(arrays["raw_units"]))
    else:
        count = np.asarray(arrays.get("unit_count", 0))
    return bucket(int(count.max(initial=0)), _max_units(settings))


def _used_rows(units: NDArray[Any]) -> NDArray[np.int32]:
    index = np.arange(1, units.shape[-2] + 1)
    used = np.where((units != 0).any(-1), index, 0).max(-1, initial=0)
    return np.asarray(used, np.int32)


def bucket(rows: int, maximum: int) -> int:
    """Returns how many unit rows to keep so that `rows` fit; at most `maximum`."""
    if rows > maximum:
        raise errors.SpecError(f"units: expected at most {maximum} rows, found {rows}")
    for size in UNIT_BUCKETS:
        if rows <= size < maximum:
            return size
    return maximum


def camera_corners(camera: NDArray[Any]) -> NDArray[np.int32]:
    """Returns the rectangle that a camera plane [..., R, R] marks, [..., 4].

    The numbers are top, bottom, left and right, with the ends excluded; all 0 if no cell is
    marked.
    """

    def ends(line: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
        first = line.argmax(-1)
        last = line.shape[-1] - line[..., ::-1].argmax(-1)
        return first, np.where(line.any(-1), last, 0)

    top, bottom = ends(np.asarray(camera.any(-1)))
    left, right = ends(np.asarray(camera.any(-2)))
    return np.stack([top, bottom, left, right], axis=-1).astype(np.int32)


def flatten(batch: Batch) -> Batch:
    """Merges the two leading axes, [B, K, ...] -> [B * K, ...]; other batches in it stay out."""
    return {
        key: value.reshape((value.shape[0] * value.shape[1], *value.shape[2:]))
        for key, value in batch.items()
        if not isinstance(value, dict)
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


def policy_weight(step_type: jax.Array) -> jax.Array:
    """Returns 1.0 where the action is trained on: on all but an episode's last step."""
    return (step_type != episode.LAST).astype(jnp.float32)


def discounts(delay: jax.Array, step_type: jax.Array, gamma: float) -> jax.Array:
    """Returns gamma[t], the discount from step t to step t + 1; all arrays are [K, B].

        gamma[t] = gamma ** delay[t], or 0 if step t or t + 1 is the last of its episode

    `gamma` is per game loop. The discount is 0 *into* the last step because nothing follows
    the reward that comes with it. gamma[K - 1] assumes that the episode continues, since the
    step after the rollout is unknown here.
    Departs: the paper defines game_loop_delta twice; this is the reading under which its
    value definition holds.
    """
    last = step_type == episode.LAST
    into_last = jnp.concatenate([last[1:], jnp.zeros_like(last[:1])])
    value = jnp.power(jnp.float32(gamma), delay.astype(jnp.float32))
    return jnp.where(last | into_last, 0.0, value)


def next_rewards(reward: jax.Array) -> jax.Array:
    """Returns reward[t + 1] at index t, [K, B]. It is 0, and unused, at the rollout's end."""
    return jnp.concatenate([reward[1:], jnp.zeros_like(reward[:1])])


@functools.cache
def _max_units(settings: ConverterSettings) -> int:
    (rows, _) = specs.observation_specs(settings)["raw_units"].shape
    return rows
