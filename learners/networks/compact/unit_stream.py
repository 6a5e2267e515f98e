"""Rows of units: who they belong to, how many there are of each kind, and their embeddings.

In: `units` [F, U, C] of frames. Out: `Facts` that need no parameters, and embeddings. A base is an own
unit that the game gives an ideal number of harvesters; nothing else is assumed of unit types.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.counts.states import ENEMY, OWN, TYPES
from starmill.learners.networks import layers, streams
from starmill.learners.rollouts import Batch
from starmill.schema import specs
from starmill.schema.settings import ConverterSettings

# Own finished, own unfinished, own without orders, and enemy units are counted apart.
KINDS = 4
_NEAR = 64.0  # cells of the grid: distances are in about the width of a base


class Facts(NamedTuple):
    """What an observation shows of each unit, before any network.

    Attributes:
        types: int32 [F, U], unit types.
        places: float32 [F, U, 2], x and y on the grid of target points.
        own: bool [F, U].
        enemy: bool [F, U].
        still: bool [F, U], units without orders, which are likely to stay where they are.
        valid: bool [F, U], which rows are units.
        numbers: int32 [F, U], which row of the observation each of these rows is.
    """

    types: jax.Array
    places: jax.Array
    own: jax.Array
    enemy: jax.Array
    still: jax.Array
    valid: jax.Array
    numbers: jax.Array


def nearest_rows(frames: Batch, settings: ConverterSettings, limit: int) -> Batch:
    """Returns frames with at most `limit` rows of units, and `unit_index`, where they were.

    Own units come first, then enemies, and then all others by their distance to the middle of
    the player's own. Most rows of a game are resources far from anybody.
    """
    units, count = frames["units"], frames["unit_count"]
    rows = units.shape[1]
    order = jnp.broadcast_to(jnp.arange(rows), units.shape[:2])
    if rows <= limit:
        return {**frames, "unit_index": order}
    column = {name: i for i, name in enumerate(specs.unit_columns(settings))}
    valid = order < count[:, None]
    alliance = units[..., column["alliance"]]
    own = valid & (alliance == OWN)
    places = units[..., column["x"] : column["y"] + 1].astype(jnp.float32)
    distance = jnp.abs(places - _mean(places, own)[:, None]).max(-1)
    # Distances on the grid are below these steps.
    urgency = jnp.where(own, 2e5, jnp.where(alliance == ENEMY, 1e5, 0.0)) - distance
    _, index = jax.lax.top_k(jnp.where(valid, urgency, -1e6), limit)
    index = jnp.sort(index, axis=-1)
    return {
        **frames,
        "units": jnp.take_along_axis(units, index[..., None], axis=1),
        "unit_count": jnp.minimum(count, limit),
        "unit_index": index,
    }


def facts(frames: Batch, settings: ConverterSettings) -> Facts:
    """Returns the facts of frames that `nearest_rows` returned."""
    units = frames["units"]
    column = {name: i for i, name in enumerate(specs.unit_columns(settings))}
    valid = jnp.arange(units.shape[1]) < frames["unit_count"][:, None]
    alliance = units[..., column["alliance"]]
    return Facts(
        types=jnp.clip(units[..., column["unit_type"]], 0, TYPES - 1),
        places=units[..., column["x"] : column["y"] + 1].astype(jnp.float32),
        own=valid & (alliance == OWN),
        enemy=valid & (alliance == ENEMY),
        still=valid & (units[..., column["order_length"]] == 0),
        valid=valid,
        numbers=frames["unit_index"],
    )


def counts(frames: Batch, known: Facts, settings: ConverterSettings) -> jax.Array:
    """Returns log(1 + how many units of each kind and type there are), [F, KINDS * TYPES]."""
    column = {name: i for i, name in enumerate(specs.unit_columns(settings))}
    is_finished = frames["units"][..., column["build_progress"]] >= 100
    kinds = (
        known.own & is_finished,
        known.own & ~is_finished,
        known.own & is_finished & known.still,
        known.enemy,
    )

    def one(types: jax.Array, weights: jax.Array) -> jax.Array:
        empty = jnp.zeros((TYPES, KINDS), jnp.float32)
        return empty.at[types].add(weights)

    weights = jnp.stack(kinds, axis=-1).astype(jnp.float32)
    table = jax.vmap(one)(known.types, weights)
    return jnp.log1p(table).reshape(len(table), -1)


class UnitStream(nnx.Module):
    """Embeds units, first each on its own, and then each given the whole situation."""

    def __init__(
        self,
        settings: ConverterSettings,
        *,
        size: int,
        hidden: int,
        vector: int,
        queries: int,
        rngs: nnx.Rngs,
    ) -> None:
        self.settings = settings
        columns = specs.unit_columns(settings)
        self.bases = columns.index("ideal_harvesters")
        self.columns = streams.UnitInputs(settings, size, orders=1, rngs=rngs)
        self.relative = nnx.Linear(9, size, rngs=rngs)
        self.alone = layers.Residual(size, hidden, rngs=rngs)
        self.query = nnx.Linear(size, queries, rngs=rngs)
        self.pool = nnx.Linear((3 + queries) * size, vector, rngs=rngs)
        self.situation = nnx.Linear(vector, size, rngs=rngs)
        self.together = layers.Residual(size, hidden, rngs=rngs)
        self.norm = nnx.LayerNorm(size, rngs=rngs)

    def embed(self, frames: Batch, known: Facts) -> jax.Array:
        """Returns each unit's embedding on its own, [F, U, size]."""
        units = self.columns(frames["units"]) + self.relative(
            self._relative(frames, known)
        )
        return self.alone(jax.nn.relu(units))

    def summary(self, units: jax.Array, known: Facts) -> jax.Array:
        """Returns what the units are to the vector stream, [F, vector]."""
        neutral = known.valid & ~known.own & ~known.enemy
        means = [_mean(units, group) for group in (known.own, known.enemy, neutral)]
        logits = jnp.where(known.valid[..., None], self.query(units), layers.MASKED)
        weights = jax.nn.softmax(logits, axis=1)
        looks = jnp.einsum("fuq,fud->fqd", weights, units).reshape(len(units), -1)
        return self.pool(jnp.concatenate([*means, looks], axis=-1))

    def given(self, units: jax.Array, vector: jax.Array) -> jax.Array:
        """Returns the units' embeddings given the latent vector, [F, U, size]."""
        return self.norm(self.together(units + self.situation(vector)[:, None]))

    def _relative(self, frames: Batch, known: Facts) -> jax.Array:
        """Returns where each unit is, from the player's bases, units and enemies: [F, U, 9]."""
        is_base = known.own & (frames["units"][..., self.bases] > 0)
        parts = []
        for group in (is_base, known.own, known.enemy):
            offset = (known.places - _mean(known.places, group)[:, None]) / _NEAR
            offset = jnp.where(group.any(-1)[:, None, None], offset, 0.0)
            parts += [offset, jnp.linalg.norm(offset + 1e-6, axis=-1, keepdims=True)]
        return jnp.clip(jnp.concatenate(parts, axis=-1), -4.0, 4.0)


def _mean(values: jax.Array, group: jax.Array) -> jax.Array:
    """Returns the mean of values [F, U, D] over the units in `group`; 0 without any."""
    count = jnp.maximum(group.sum(-1, keepdims=True), 1)
    return jnp.einsum("fud,fu->fd", values, group.astype(values.dtype)) / count
