"""The compact network: units as a set, a vector of everything, and the compact policy.

In: frames [F, ...] as `rollouts` gives them. Out: a `CompactLatent`, and from it values and actions, by
the same methods as `networks.network`. The names of the attributes are the paths of arrays in
checkpoints.
Departs: the paper's units attend to each other, and its planes go through convolutions. On two
cores these cost most of an update and decide little: here the vector attends to the units, and
planes are only seen around the places that may be aimed at.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners import rollouts
from starmill.learners.counts import states
from starmill.learners.networks import layers, memory, streams
from starmill.learners.networks.compact import aim, unit_stream
from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.compact.policy import CompactLatent, CompactPolicy
from starmill.learners.networks.network import LatentModel
from starmill.learners.rollouts import Batch
from starmill.schema import specs
from starmill.schema.settings import ConverterSettings

_PREVIOUS = ("prev_function", "prev_queued", "prev_repeat", "prev_delay")
# Cells of the minimap are averaged in squares of this side, where planes are an input.
_POOL = 8


class CompactNetwork(nnx.Module):
    """Streams, policy and value, and the parts that some algorithms add."""

    def __init__(
        self, config: CompactConfig, settings: ConverterSettings, *, rngs: nnx.Rngs
    ) -> None:
        self.config, self.settings = config, settings
        size = config.vector
        self.vector_in = streams.VectorInputs(
            settings, size, condition_return=config.condition_return, rngs=rngs
        )
        self.counts_in = nnx.Linear(unit_stream.KINDS * states.TYPES, size, rngs=rngs)
        self.unit_stream = unit_stream.UnitStream(
            settings,
            size=config.unit,
            hidden=config.unit_hidden,
            vector=size,
            queries=config.queries,
            rngs=rngs,
        )
        if config.minimap:
            pool = min(_POOL, settings.minimap[0])
            self.planes = streams.PlaneInputs(settings=settings, pool=pool)
            cells = self.planes.side**2 * self.planes.channels
            self.planes_in = nnx.Linear(cells, size, rngs=rngs)
        self.vector_blocks = nnx.List(
            layers.Residual(size, 2 * size, rngs=rngs)
            for _ in range(config.vector_blocks)
        )
        self.vector_norm = nnx.LayerNorm(size, rngs=rngs)
        self.memory = memory.build(config.memory, size, config.memory_length, rngs=rngs)
        self.policy = CompactPolicy(settings, config, rngs=rngs)
        self.value_head = layers.MLP(size, size, 1, rngs=rngs)
        if config.action_values:
            self.action_value_head = layers.MLP(
                size, size, settings.num_action_types, rngs=rngs
            )
        if config.latent_model:
            self.dynamics = LatentModel(size, rngs=rngs)

    def encode(self, frames: Batch) -> CompactLatent:
        """Returns the latent of frames, each on its own."""
        frames = unit_stream.nearest_rows(frames, self.settings, self.config.rows)
        known = unit_stream.facts(frames, self.settings)
        units = self.unit_stream.embed(frames, known)
        vector = self.vector_in(self._vector_frames(frames))
        vector += self.counts_in(unit_stream.counts(frames, known, self.settings))
        vector += self.unit_stream.summary(units, known)
        if self.config.minimap:
            planes = self.planes(frames)
            vector += self.planes_in(planes.reshape(len(planes), -1))
        vector = jax.nn.relu(vector)
        for block in self.vector_blocks:
            vector = block(vector)
        vector = self.vector_norm(vector)
        # Any number will do that depends on the frame alone.
        turn = frames["game_loop"] + frames["player"].sum(-1)
        standing = None
        if self.config.legal_actions:
            standing = self.policy.legal.standing(frames, known)
        return CompactLatent(
            vector=vector,
            units=self.unit_stream.given(units, vector),
            facts=known,
            planes=aim.surroundings(frames, self.settings),
            turn=jnp.abs(turn),
            standing=standing,
        )

    def unroll(
        self, batch: Batch, state: memory.State | None = None
    ) -> tuple[CompactLatent, memory.State]:
        """Returns the latent of rollouts [B, K, ...] as frames [B * K, ...], with memory."""
        size, steps = batch["game_loop"].shape
        latent = self.encode(rollouts.flatten(batch))
        if self.config.memory == "none":
            return latent, {} if state is None else state
        line = latent.vector.reshape(size, steps, -1).swapaxes(0, 1)
        first = (batch["step_type"] == 0).T
        if state is None and "past" in batch:
            _, state = self.unroll(batch["past"], self.memory.initial(size))
            state = jax.lax.stop_gradient(state)
        elif state is None:
            state = self.memory.initial(size)
        remembered, state = self.memory(line, first, state)
        vector = remembered.swapaxes(0, 1).reshape(size * steps, -1)
        return latent._replace(vector=vector), state

    def value(self, vector: jax.Array) -> jax.Array:
        """Returns the expected outcome of latents [..., D], shape [...]."""
        return self.value_head(vector)[..., 0]

    def action_values(self, vector: jax.Array) -> jax.Array:
        """Returns Q(s, function), [..., functions]."""
        return self.action_value_head(vector)

    def _vector_frames(self, frames: Batch) -> Batch:
        if self.config.previous_action:
            return frames
        hidden: dict[str, Any] = {
            name: jnp.zeros_like(frames[name]) for name in _PREVIOUS if name in frames
        }
        return {**frames, **hidden}


def keys_without_use(
    config: CompactConfig, settings: ConverterSettings
) -> frozenset[str]:
    """Returns the stored arrays that the network never reads, so that none need be loaded."""
    names = {f"minimap_{name}" for name in settings.minimap_features}
    if config.minimap:
        return frozenset()
    read = {f"minimap_{name}" for name in aim.planes_of(settings)}
    opponent = {k for k in specs.episode_specs(settings) if k.startswith("opponent_")}
    return frozenset((names - read) | {"camera"} | opponent)
