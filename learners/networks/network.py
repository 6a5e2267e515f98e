"""Our own network: three streams that inform each other, with a policy and a value on top.

In: frames [F, ...] as `rollouts` gives them. Out: a `Latent`, from which `policy` chooses
actions and the value head predicts the outcome. `parameters` makes networks and their
parameters. The names of the attributes are the paths of arrays in checkpoints.
Paper: section "Architecture" and its figure.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners import rollouts
from starmill.learners.networks import layers, memory, policy, streams
from starmill.learners.networks.additions import Additions
from starmill.learners.networks.policy import Latent
from starmill.learners.rollouts import Batch
from starmill.schema import errors, specs
from starmill.schema.settings import ConverterSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig(Additions):
    """Sizes of our own network (the preset `tiny`).

    Attributes:
        vector: width of the vector stream, and of the latent.
        vector_blocks: residual MLPs in the vector stream.
        unit: width of the transformer over units.
        unit_blocks: blocks of that transformer.
        unit_heads: attention heads of each block.
        unit_hidden: hidden width of the blocks' MLPs.
        unit_points: learned points through which units attend to each other; 0 if directly.
        unit_orders: how many of a unit's four orders are embedded.
        plane_pool: minimap cells averaged (per side) before units are scattered.
        plane_patch: side of the first convolution's patches. The finest level has
            minimap / plane_pool / plane_patch cells a side.
        plane_channels: channels of each level, finest first; each level halves the side.
        plane_blocks: residual blocks at the coarsest level.
        world_blocks: residual blocks at the finest level, for the world argument.
        scatter: channels in which units enter the planes.
        pointer: size of the keys that unit_tags and target_unit_tag point at.
        memory: as in `Additions`.
        memory_length: as in `Additions`.
        condition_return: as in `Additions`.
        action_values: as in `Additions`.
        latent_model: as in `Additions`.
        compute: as in `Additions`.
        remat: as in `Additions`.
    """

    vector: int = 128
    vector_blocks: int = 1
    unit: int = 32
    unit_blocks: int = 1
    unit_heads: int = 1
    unit_hidden: int = 64
    unit_points: int = 0
    unit_orders: int = 1
    plane_pool: int = 4
    plane_patch: int = 2
    plane_channels: tuple[int, ...] = (16, 32)
    plane_blocks: int = 1
    world_blocks: int = 0
    scatter: int = 8
    pointer: int = 32

    def _problems(self) -> list[str]:
        problems = super()._problems()
        if self.unit % self.unit_heads:
            problems.append(
                f"unit: {self.unit} does not divide into {self.unit_heads} heads"
            )
        if not self.plane_channels:
            problems.append("plane_channels: expected at least one level, found none")
        return problems


class Network(nnx.Module):
    """Streams, memory, policy and value, and the parts that some algorithms add."""

    def __init__(
        self,
        config: NetworkConfig,
        settings: ConverterSettings,
        *,
        rngs: nnx.Rngs,
    ) -> None:
        _check(config, settings)
        self.config = config
        columns = specs.unit_columns(settings)
        self.x, self.y = columns.index("x"), columns.index("y")
        size, unit = config.vector, config.unit
        self.inputs = streams.PlaneInputs(settings=settings, pool=config.plane_pool)
        self.cells_per_unit = self.inputs.side / _resolution(settings)

        self.vector_in = streams.VectorInputs(
            settings, size, condition_return=config.condition_return, rngs=rngs
        )
        self.unit_in = streams.UnitInputs(
            settings, unit, orders=config.unit_orders, rngs=rngs
        )
        self.unit_blocks = nnx.List(
            layers.TransformerBlock(
                unit,
                config.unit_heads,
                config.unit_hidden,
                points=config.unit_points,
                rngs=rngs,
            )
            for _ in range(config.unit_blocks)
        )
        self.unit_norm = nnx.LayerNorm(unit, rngs=rngs)
        self.scatter = nnx.Linear(unit, config.scatter, rngs=rngs)

        channels = config.plane_channels
        entering = self.inputs.channels + config.scatter
        # A strided convolution whose patches do not overlap is a reshape and a product.
        self.plane_in = nnx.Linear(
            entering * config.plane_patch**2, channels[0], rngs=rngs
        )
        self.down = nnx.List(
            nnx.Linear(4 * a, b, rngs=rngs)
            for a, b in zip(channels, channels[1:], strict=False)
        )
        self.plane_blocks = nnx.List(
            layers.ConvBlock(channels[-1], rngs=rngs)
            for _ in range(config.plane_blocks)
        )
        # Planes reach the vector as a 4x4 picture, and the vector reaches them as one.
        finest = self.inputs.side // config.plane_patch
        coarse = finest // 2 ** len(self.down)
        self.stride = max(1, coarse // 4)
        self.picture = nnx.Linear(
            channels[-1] * self.stride**2, channels[-1], rngs=rngs
        )
        cells = (coarse // self.stride) ** 2
        self.planes_to_vector = nnx.Linear(cells * channels[-1], size, rngs=rngs)
        self.units_to_vector = nnx.Linear(unit, size, rngs=rngs)
        self.vector_to_planes = nnx.Linear(size, cells * channels[-1], rngs=rngs)
        self.vector_blocks = nnx.List(
            layers.Residual(size, size, rngs=rngs) for _ in range(config.vector_blocks)
        )
        self.vector_norm = nnx.LayerNorm(size, rngs=rngs)
        self.memory = memory.build(config.memory, size, config.memory_length, rngs=rngs)
        self.policy = policy.Policy(
            settings,
            vector=size,
            unit=unit,
            pointer=config.pointer,
            channels=channels,
            side=finest,
            world_blocks=config.world_blocks,
            rngs=rngs,
        )
        self.value_head = layers.MLP(size, size, 1, rngs=rngs)
        if config.action_values:
            self.action_value_head = layers.MLP(
                size, size, settings.num_action_types, rngs=rngs
            )
        if config.latent_model:
            self.dynamics = LatentModel(size, rngs=rngs)

    def encode(self, frames: Batch) -> Latent:
        """Returns the latent of frames, each on its own; memory is not applied."""
        rows = frames["units"].shape[1]
        valid = jnp.arange(rows) < frames["unit_count"][:, None]
        units = self._units(frames["units"], valid)
        planes = self._planes(frames, units, valid)
        vector = self.vector_in(frames)
        mean = _masked_mean(units, valid)
        patches = layers.space_to_depth(planes[-1], self.stride)
        picture = jax.nn.relu(self.picture(patches))
        vector += self.units_to_vector(mean)
        vector += self.planes_to_vector(picture.reshape(len(vector), -1))
        for block in self.vector_blocks:
            vector = block(vector)
        back = self.vector_to_planes(jax.nn.relu(vector)).reshape(picture.shape)
        broadcast = layers.upsample(back, self.stride)
        planes = (*planes[:-1], planes[-1] + broadcast)
        return Latent(self.vector_norm(vector), units, valid, planes)

    def unroll(
        self, batch: Batch, state: memory.State | None = None
    ) -> tuple[Latent, memory.State]:
        """Returns the latent of rollouts [B, K, ...] as frames [B * K, ...], with memory.

        `state` is the memory before the rollout. Without one, it is what the steps in
        `batch["past"]` leave in an empty memory; no gradient flows into them. The memory after
        the rollout is returned too.
        """
        size = len(batch["game_loop"])
        latent = self.encode(rollouts.flatten(batch))
        if state is None and "past" in batch and self.config.memory != "none":
            _, state = self.unroll(batch["past"], self.memory.initial(size))
            state = jax.lax.stop_gradient(state)
        vector, state = memory.remember(
            self.memory, latent.vector, batch["step_type"], state
        )
        return latent._replace(vector=vector), state

    def value(self, vector: jax.Array) -> jax.Array:
        """Returns the expected outcome of latents [..., D], shape [...]."""
        return self.value_head(vector)[..., 0]

    def action_values(self, vector: jax.Array) -> jax.Array:
        """Returns Q(s, function), [..., functions]."""
        return self.action_value_head(vector)

    def _units(self, rows: jax.Array, valid: jax.Array) -> jax.Array:
        units = self.unit_in(rows)
        for block in self.unit_blocks:
            units = block(units, valid[:, None, :])
        return self.unit_norm(units) * valid[..., None]

    def _planes(
        self, frames: Batch, units: jax.Array, valid: jax.Array
    ) -> tuple[jax.Array, ...]:
        values = self.scatter(units) * valid[..., None]
        scattered = streams.scatter_units(
            values,
            frames["units"],
            x=self.x,
            y=self.y,
            scale=self.cells_per_unit,
            size=self.inputs.side,
        )
        x = jnp.concatenate([self.inputs(frames), scattered], axis=-1)
        patches = layers.space_to_depth(x, self.config.plane_patch)
        levels = [jax.nn.relu(self.plane_in(patches))]
        for linear in self.down:
            patches = layers.space_to_depth(levels[-1], 2)
            levels.append(jax.nn.relu(linear(patches)))
        for block in self.plane_blocks:
            levels[-1] = block(levels[-1])
        return tuple(levels)


class LatentModel(nnx.Module):
    """MuZero's L: the latent after an action, given its function and delay.

    Departs: the paper embeds the full action at the root, and function and delay below it. Here
    both have one embedding, so that training and search agree.
    """

    def __init__(self, size: int, *, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List(
            layers.Residual(size, 2 * size, rngs=rngs) for _ in range(2)
        )
        self.norm = nnx.LayerNorm(size, rngs=rngs)

    def __call__(self, embedded: jax.Array) -> jax.Array:
        """Returns the next latent, given one to which function and delay were added."""
        for block in self.blocks:
            embedded = block(embedded)
        return self.norm(embedded)


def _masked_mean(x: jax.Array, valid: jax.Array) -> jax.Array:
    count = jnp.maximum(valid.sum(-1, keepdims=True), 1)
    return (x * valid[..., None]).sum(-2) / count


def _resolution(settings: ConverterSettings) -> int:
    if settings.raw_settings is None:
        raise errors.ConfigError("settings: expected raw_settings, found none")
    return settings.raw_settings.resolution[0]


def _check(config: NetworkConfig, settings: ConverterSettings) -> None:
    width, height = settings.minimap
    resolution = _resolution(settings)
    finest = config.plane_pool * config.plane_patch
    step = finest * 2 ** (len(config.plane_channels) - 1)
    # The coarsest level becomes a picture of 4x4 cells, unless it is smaller.
    step *= 4 if width > 4 * step else 1
    if width != height or width % step or resolution % (width // finest):
        raise errors.ConfigError(
            f"network: expected a square minimap whose side is a multiple of {step} and"
            f" divides the resolution; found {settings.minimap} and {resolution}"
        )
