"""The whole published network: observations to masked logits, given a teacher's action.

In: observations [B, ...], the previous action and step types. Out: `Output`.
The value head and the latent model of the paper are not part of it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks.published import sizes, tables
from starmill.learners.networks.published.heads import ScalarHead, TargetHead
from starmill.learners.networks.published.plane_encoder import PlaneEncoder
from starmill.learners.networks.published.sizes import Sizes
from starmill.learners.networks.published.torso import Streams, Torso
from starmill.learners.networks.published.unit_encoder import COLUMNS, UnitEncoder
from starmill.learners.networks.published.unit_tags_head import (
    MASKED,
    UnitTagsHead,
    selectable,
)
from starmill.learners.networks.published.vector_encoder import (
    Arrays,
    VectorEncoder,
    arguments_used,
)
from starmill.learners.networks.published.world_head import WorldHead

# The scalar arguments in the order in which they are chosen, and their classes.
SCALARS = {
    "function": sizes.FUNCTIONS,
    "delay": sizes.DELAYS,
    "queued": sizes.QUEUED,
    "repeat": sizes.REPEATS,
}
ARGUMENTS = (*SCALARS, "unit_tags", "target_unit_tag", "world")


class Output(NamedTuple):
    """What the network says of B steps, given the teacher's action.

    Attributes:
        logits: by argument, [B, classes] (unit_tags [B, 64, 513]); -1e10 where masked.
        masks: by argument, which classes are allowed; absent where all are.
        action: the teacher's action, limited to the classes.
        used: by argument, whether the function uses it, bool [B].
        latent: the vector stream after the torso, [B, vector].
    """

    logits: Arrays
    masks: Arrays
    action: Arrays
    used: Arrays
    latent: jax.Array


class Conditions(NamedTuple):
    """What decides which choices B steps allow.

    Attributes:
        step_type: 0 for an episode's first step, int [B].
        exists: rows with a unit that can be named, bool [B, U].
        selectable: rows that unit_tags may name, bool [B, U].
        seen: rows on the screen, and one's own, bool [B, U].
        camera: points within the camera, bool [B, 65536].
    """

    step_type: jax.Array
    exists: jax.Array
    selectable: jax.Array
    seen: jax.Array
    camera: jax.Array


class Network(nnx.Module):
    """Encoders, torso and heads."""

    def __init__(self, sizes: Sizes, *, rngs: nnx.Rngs) -> None:
        self.vector = VectorEncoder(sizes.vector, rngs=rngs)
        self.units = UnitEncoder(sizes.unit, rngs=rngs)
        self.planes = PlaneEncoder(sizes.planes[0], rngs=rngs)
        self.torso = Torso(sizes, rngs=rngs)
        self.scalars = nnx.Dict(
            {
                name: ScalarHead(sizes, classes, blocks, rngs=rngs)
                for (name, classes), blocks in zip(
                    SCALARS.items(), sizes.head_blocks, strict=True
                )
            }
        )
        self.unit_tags = UnitTagsHead(sizes, rngs=rngs)
        self.target = TargetHead(sizes, rngs=rngs)
        self.world = WorldHead(sizes, rngs=rngs)

    def encode(
        self,
        observation: Arrays,
        previous: Arrays,
        step_type: jax.Array,
        extra: jax.Array | None = None,
    ) -> Streams:
        """Returns the streams after the torso; every step stands by itself.

        `raw_units` may lack trailing rows that are empty in all steps. `extra` [B, vector] is
        added to the encoded vector; the published network has nothing of the kind.
        """
        rows = observation["raw_units"]
        units, present = self.units(rows)
        vector = self.vector(observation, previous, step_type)
        return self.torso(
            vector if extra is None else vector + extra,
            units,
            self.planes(observation),
            present=present,
            x=rows[..., COLUMNS.index("x")],
            y=rows[..., COLUMNS.index("y")],
        )

    def __call__(
        self,
        observation: Arrays,
        previous: Arrays,
        step_type: jax.Array,
        action: Arrays,
    ) -> Output:
        """Returns the logits of every argument, given the arguments before it."""
        streams = self.encode(observation, previous, step_type)
        return self.teach(streams, conditions(observation, step_type), action)

    def teach(self, streams: Streams, conditions: Conditions, action: Arrays) -> Output:
        """Returns the logits of the heads for streams that are encoded already."""
        action = limited(action)
        function = action["function"]
        used = arguments_used(function, conditions.step_type)
        vector = streams.vector
        logits: Arrays = {}
        masks: Arrays = {}
        # By our own order: flax sorts the names of a Dict.
        for name in SCALARS:
            head = self.scalars[name]
            logits[name] = head.logits(vector)
            vector = head.given(vector, action[name], used[name])
        selection = self.unit_tags.teach(
            vector, streams.units, conditions.selectable, action["unit_tags"]
        )
        logits["unit_tags"], masks["unit_tags"] = selection.logits, selection.mask
        vector, units = self.unit_tags.given(vector, streams.units, selection.selected)
        masks["target_unit_tag"] = targetable(conditions, function)
        masks["world"] = reachable(conditions, function)
        for name, values in {
            "target_unit_tag": self.target.logits(vector, units),
            "world": self.world.logits(vector, streams.planes),
        }.items():
            logits[name] = jnp.where(masks[name], values, MASKED)
        return Output(logits, masks, action, used, streams.vector)


def conditions(observation: Arrays, step_type: jax.Array) -> Conditions:
    """Returns what decides which choices are allowed."""
    column = {name: observation["raw_units"][..., i] for i, name in enumerate(COLUMNS)}
    return Conditions(
        step_type=step_type,
        exists=column["tag"] > 0,
        selectable=selectable(column),
        seen=(column["is_on_screen"] == 1) | (column["alliance"] == 1),
        camera=camera_points(observation),
    )


def limited(action: Arrays) -> Arrays:
    """Returns an action whose choices are at most the last class."""
    last = {
        **{name: classes - 1 for name, classes in SCALARS.items()},
        "unit_tags": sizes.END,
        "target_unit_tag": sizes.UNITS - 1,
        "world": sizes.WORLD**2 - 1,
    }
    return {name: jnp.minimum(action[name], last[name]) for name in ARGUMENTS}


def targetable(conditions: Conditions, function: jax.Array) -> jax.Array:
    """Returns which rows a function may target, bool [B, U]."""
    anywhere = ~jnp.asarray(tables.camera_only_unit_functions())[function]
    return conditions.exists & (conditions.seen | anywhere[:, None])


def reachable(conditions: Conditions, function: jax.Array) -> jax.Array:
    """Returns which points a function may target, bool [B, 65536]."""
    anywhere = ~jnp.asarray(tables.camera_only_point_functions())[function]
    return conditions.camera | anywhere[:, None]


def camera_points(observation: Arrays) -> jax.Array:
    """Returns which points the camera shows, bool [B, 65536]."""
    if "camera_corners" not in observation:
        camera = observation["camera"]
        return camera.reshape(len(camera), -1) != 0
    top, bottom, left, right = jnp.split(observation["camera_corners"], 4, axis=-1)
    line = jnp.arange(sizes.WORLD)
    rows = (top <= line) & (line < bottom)
    columns = (left <= line) & (line < right)
    return (rows[:, :, None] & columns[:, None, :]).reshape(len(top), -1)
