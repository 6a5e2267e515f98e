"""The vector stream's input: twelve embeddings of global features, added up.

In: an observation [B, ...] and the previous action. Out: [B, vector].
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from starmill.learners.networks.published import layers, sizes, tables

Arrays = dict[str, jax.Array]
FIRST = 0  # step_type of an episode's first step
_RACES, _MMR_CLASSES = 5, 7
# The inputs that know of the previous action, and how many classes each has.
PREVIOUS = {
    "function": sizes.FUNCTIONS,
    "delay": sizes.DELAYS,
    "queued": sizes.QUEUED,
    "repeat": sizes.REPEATS,
}


class VectorEncoder(nnx.Module):
    """Clock, counts, ratings, races, upgrades and the previous action -> [B, vector]."""

    def __init__(self, size: int, *, rngs: nnx.Rngs) -> None:
        clock = 2 * len(tables.clock_frequencies())
        self.game_loop = layers.linear(clock, size, rngs=rngs)
        self.unit_counts = layers.linear(sizes.UNIT_TYPES, size, rngs=rngs)
        self.player = layers.linear(sizes.PLAYER_NUMBERS, size, rngs=rngs)
        self.mmr = layers.embedding(_MMR_CLASSES, size, rngs=rngs)
        self.home_race_requested = layers.embedding(_RACES, size, rngs=rngs)
        self.away_race_requested = layers.embedding(_RACES, size, rngs=rngs)
        self.away_race_observed = layers.embedding(_RACES, size, rngs=rngs)
        self.upgrades = layers.linear(sizes.UPGRADES, size, rngs=rngs)
        self.previous = nnx.Dict(
            {
                name: layers.embedding(count, size, rngs=rngs)
                for name, count in PREVIOUS.items()
            }
        )

    def __call__(
        self, observation: Arrays, previous: Arrays, step_type: jax.Array
    ) -> jax.Array:
        """Returns the sum of all parts."""
        parts = self.parts(observation, previous, step_type)
        return sum(parts.values(), start=jnp.zeros((), jnp.float32))

    def parts(
        self, observation: Arrays, previous: Arrays, step_type: jax.Array
    ) -> Arrays:
        """Returns each part by name, [B, vector]; their sum is the encoding."""
        counts = observation["unit_counts_bow"].astype(jnp.float32)
        player = observation["player"].astype(jnp.float32)
        mmr = jnp.trunc(observation["mmr"].astype(jnp.float32) * 0.001)
        races = ("home_race_requested", "away_race_requested", "away_race_observed")
        parts = {
            "game_loop": self.game_loop(_clock(observation["game_loop"])),
            "unit_counts_bow": self.unit_counts(jnp.sqrt(counts)),
            "player": self.player(jnp.log1p(player)),
            "mmr": lookup(self.mmr, mmr.astype(jnp.int32)),
        }
        for name in races:
            parts[name] = lookup(getattr(self, name), observation[name])
        present = set_of_ids(observation["upgrades_fixed_length"], sizes.UPGRADES)
        parts["upgrades"] = self.upgrades(present)
        used = arguments_used(previous["function"], step_type)
        for name in PREVIOUS:
            table = self.previous[name]
            parts[f"previous_{name}"] = (
                lookup(table, previous[name]) * used[name][:, None]
            )
        return parts


def lookup(table: nnx.Embed, index: jax.Array) -> jax.Array:
    """Returns the embeddings of indices, the last one for an index that is too large.

    Negative indices count from the end, as the published code's lookups do.
    """
    count = table.num_embeddings
    index = jnp.minimum(index, count - 1)
    return table(jnp.where(index < 0, jnp.clip(index + count, 0), index))


def arguments_used(function: jax.Array, step_type: jax.Array) -> Arrays:
    """Returns which arguments a function uses, bool [B]; none on an episode's first step."""
    index = jnp.clip(function, 0, sizes.FUNCTIONS - 1)
    names = (*PREVIOUS, "unit_tags", "target_unit_tag", "world")
    inside = step_type != FIRST
    return {
        name: jnp.asarray(tables.argument_used(name))[index] & inside for name in names
    }


def set_of_ids(ids: jax.Array, count: int) -> jax.Array:
    """Returns which ids occur in [B, N], as [B, count] of 0.0 and 1.0."""
    return jax.nn.one_hot(jnp.minimum(ids, count - 1), count).max(-2)


def _clock(loop: jax.Array) -> jax.Array:
    phase = loop.astype(jnp.float32)[:, None] * np.asarray(tables.clock_frequencies())
    return jnp.concatenate([jnp.sin(phase), jnp.cos(phase)], axis=-1)
