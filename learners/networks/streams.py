"""The three input streams: vector features, units and map planes.

In: frames of a batch [F, ...], as `rollouts` gives them. Out: one array for each stream. `network`
decides how the streams inform each other. All inputs of the paper's appendix are here. Features of
the opponent in the dataset are not, because a player does not see them.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from starmill.learners.counts import states
from starmill.learners.networks import layers
from starmill.learners.rollouts import Batch
from starmill.schema import specs, vocab
from starmill.schema.game_constants import LOOPS_PER_SECOND
from starmill.schema.settings import ConverterSettings

# Ladder ratings end below 8000; a bucket is about as wide as a league.
MMR_STEP, MMR_BUCKETS = 500, 16
# Periods of the clock features in game loops: from a second (22.4) to an hour.
CLOCK_PERIODS = tuple(LOOPS_PER_SECOND * 2**k for k in range(13))
RACES = 5
# Values of target_return: 0 for unknown, then loss, draw and win.
RETURNS = 4
# Unit columns are divided by these; columns that are not listed are flags.
_SCALED = {
    "build_progress": 100,
    "health_ratio": 255,
    "shield_ratio": 255,
    "energy_ratio": 255,
    "order_progress_0": 100,
    "order_progress_1": 100,
    "facing": 7,
    "radius": 13,
    "x": 256,
    "y": 256,
    "attack_upgrade_level": 3,
    "armor_upgrade_level": 3,
    "shield_upgrade_level": 3,
    "owner": 16,
}
_LOGARITHMIC = (
    "health",
    "shield",
    "energy",
    "cargo_space_taken",
    "cargo_space_max",
    "mineral_contents",
    "vespene_contents",
    "assigned_harvesters",
    "ideal_harvesters",
    "weapon_cooldown",
    "order_length",
    "buff_duration_remain",
    "buff_duration_max",
)
_CATEGORIES = {"alliance": 5, "display_type": 5, "cloak": 5}
# Size of the table of buffs. That of orders follows from the settings.
_BUFFS = 64
_SKIPPED = ("tag", "unit_type", "addon_unit_type", "buff_id_0", "buff_id_1")


def log_scale(x: jax.Array) -> jax.Array:
    """Returns log(1 + x) of a count; negative counts are taken as 0."""
    return jnp.log1p(jnp.maximum(x, 0).astype(jnp.float32))


class VectorInputs(nnx.Module):
    """Global features and the previous action -> [F, size].

    Departs: ratings have 16 classes of 500 and are a number as well; the published network has 7
    classes of 1000. Ratings of embedded games span less than one of those.
    """

    def __init__(
        self,
        settings: ConverterSettings,
        size: int,
        *,
        condition_return: bool,
        rngs: nnx.Rngs,
    ) -> None:
        self.settings = settings
        self.condition_return = condition_return
        width = 32
        self.delay = nnx.Embed(specs.MAX_DELAY + 1, width, rngs=rngs)
        self.function = nnx.Embed(settings.num_action_types, width, rngs=rngs)
        count = (
            2 * (len(specs.PLAYER_COLUMNS) - 1)
            + settings.num_unit_types
            + settings.num_upgrade_types
            + 2
            + 3 * RACES
            + MMR_BUCKETS
            + 1
            + 2 * len(CLOCK_PERIODS)
            + 1
            + 2  # camera position
            + 2 * width
            + 2  # queued
            + 3  # repeat
            + (RETURNS if condition_return else 0)
        )
        self.out = nnx.Linear(count, size, rngs=rngs)

    def __call__(self, frames: Batch) -> jax.Array:
        """Returns the embedded vector features."""
        return self.out(jnp.concatenate(self._features(frames), axis=-1))

    def _features(self, frames: Batch) -> list[jax.Array]:
        settings = self.settings
        player = frames["player"][:, 1:]
        loop = frames["game_loop"].astype(jnp.float32)[:, None]
        phase = loop * (2 * math.pi / np.asarray(CLOCK_PERIODS, np.float32))
        upgrades = jax.nn.one_hot(
            frames["upgrades_fixed_length"], settings.num_upgrade_types + 2
        )
        mmr = frames["mmr"].astype(jnp.float32)[:, None]
        league = jnp.clip(frames["mmr"] // MMR_STEP, 0, MMR_BUCKETS - 1)
        camera = frames.get("camera_position")
        if camera is None:
            camera = jnp.zeros((len(loop), 2), jnp.int32)
        parts = [
            log_scale(player),
            # Also linear: whether the player can pay for something is a threshold.
            jnp.clip(player / 200.0, 0, 10),
            log_scale(frames["unit_counts_bow"]),
            upgrades.sum(-2).at[:, 0].set(0.0),
            jax.nn.one_hot(frames["home_race_requested"], RACES),
            jax.nn.one_hot(frames["away_race_requested"], RACES),
            jax.nn.one_hot(frames["away_race_observed"], RACES),
            jax.nn.one_hot(league, MMR_BUCKETS),
            mmr / (MMR_STEP * MMR_BUCKETS),
            jnp.sin(phase),
            jnp.cos(phase),
            loop / 20_000.0,  # a game has about 15,000 loops (paper, section 3)
            camera / 256.0,
            self.delay(jnp.clip(frames["prev_delay"], 0, specs.MAX_DELAY)),
            self.function(
                jnp.clip(frames["prev_function"], 0, settings.num_action_types - 1)
            ),
            jax.nn.one_hot(frames["prev_queued"], 2),
            jax.nn.one_hot(frames.get("prev_repeat", frames["prev_queued"] * 0), 3),
        ]
        if self.condition_return:
            parts.append(jax.nn.one_hot(frames["target_return"], RETURNS))
        return parts


class UnitInputs(nnx.Module):
    """Rows of `units` [F, U, C] -> embeddings [F, U, size]. Empty rows are embedded too."""

    def __init__(
        self,
        settings: ConverterSettings,
        size: int,
        *,
        orders: int,
        rngs: nnx.Rngs,
    ) -> None:
        self.columns = specs.unit_columns(settings)
        self.order_columns = tuple(f"order_id_{k}" for k in range(orders))
        self.functions = settings.num_action_types
        self.types = nnx.Embed(states.TYPES, size, rngs=rngs)
        self.orders = nnx.Embed(self.functions, size, rngs=rngs)
        self.buffs = nnx.Embed(_BUFFS, size, rngs=rngs)
        skipped = {*_SKIPPED, *(name for name in self.columns if "order_id" in name)}
        self.plain = tuple(
            name
            for name in self.columns
            if name not in skipped and name not in _CATEGORIES
        )
        # x and y are also given as bits, because the world argument is a single cell.
        count = len(self.plain) + 16 + sum(_CATEGORIES.values()) + 1
        self.out = nnx.Linear(count, size, rngs=rngs)

    def __call__(self, units: jax.Array) -> jax.Array:
        """Returns one embedding for each row."""
        column = {name: units[..., i] for i, name in enumerate(self.columns)}
        plain = [self._scaled(name, column[name]) for name in self.plain]
        bits = [
            (column[name] >> k & 1).astype(jnp.float32)
            for name in ("x", "y")
            for k in range(8)
        ]
        categories = [
            jax.nn.one_hot(column[name], size) for name, size in _CATEGORIES.items()
        ]
        # The converter stores an add-on's unit type as a raw id.
        raw_types = jnp.asarray(np.maximum(vocab.raw_to_dense("unit_types"), 0))
        addon = jnp.clip(column["addon_unit_type"], 0, len(raw_types) - 1)
        has_addon = (addon > 0).astype(jnp.float32)
        features = jnp.concatenate(
            [jnp.stack([*plain, *bits, has_addon], axis=-1), *categories], axis=-1
        )
        out = self.out(features)
        out += self.types(jnp.clip(column["unit_type"], 0, states.TYPES - 1))
        out += self.types(raw_types[addon]) * has_addon[..., None]
        for name in self.order_columns:
            out += self.orders(jnp.clip(column[name], 0, self.functions - 1))
        out += self.buffs(jnp.clip(column["buff_id_0"], 0, _BUFFS - 1))
        return jax.nn.relu(out)

    def _scaled(self, name: str, value: jax.Array) -> jax.Array:
        if name in _LOGARITHMIC:
            return log_scale(value)
        scaled = value.astype(jnp.float32) / _SCALED.get(name, 1)
        return jnp.clip(scaled, -1.0, 4.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlaneInputs:
    """Minimap planes and the camera -> [F, H, W, channels], with H the minimap's side / pool.

    Attributes:
        settings: the converter settings, which say which planes there are.
        pool: minimap cells averaged, per side.
    """

    settings: ConverterSettings
    pool: int

    @property
    def channels(self) -> int:
        """Returns how many channels come out: categories, the camera, row and column."""
        names = self.settings.minimap_features
        return sum(self._depth(name) for name in names) + 1 + 2

    @property
    def side(self) -> int:
        """Returns H."""
        return self.settings.minimap[0] // self.pool

    def __call__(self, frames: Batch) -> jax.Array:
        """Returns the pooled planes, with one channel for each category."""
        parts = []
        for name in self.settings.minimap_features:
            plane = frames[f"minimap_{name}"]
            if self._depth(name) > 1:
                parts += [plane == value for value in range(self._depth(name))]
            else:
                parts.append(plane.astype(jnp.float32) / (specs.PLANES[name] or 255))
        parts.append(self._camera(frames))
        pooled = layers.mean_pool(parts, self.pool)
        return jnp.concatenate([pooled, self._position(pooled)], axis=-1)

    def _depth(self, name: str) -> int:
        top = specs.PLANES[name]
        return top + 1 if top is not None and 1 < top <= 16 else 1

    def _camera(self, frames: Batch) -> jax.Array:
        size = self.settings.minimap[0]
        raw = self.settings.raw_settings
        if "camera_corners" not in frames or raw is None:
            return jnp.zeros((len(frames["game_loop"]), size, size), bool)
        # A minimap cell is in view if any grid cell within it is.
        edges = jnp.arange(size + 1) * raw.resolution[0] // size
        low, high = edges[:-1], edges[1:]
        top, bottom, left, right = jnp.split(frames["camera_corners"], 4, axis=-1)
        rows = (low < bottom) & (high > top)
        columns = (low < right) & (high > left)
        return rows[:, :, None] & columns[:, None, :]

    @staticmethod
    def _position(x: jax.Array) -> jax.Array:
        line = jnp.linspace(-1.0, 1.0, x.shape[1], dtype=jnp.float32)
        grid = jnp.stack(jnp.meshgrid(line, line, indexing="ij"), axis=-1)
        return jnp.broadcast_to(grid, (len(x), *grid.shape))


def scatter_units(
    values: jax.Array, units: jax.Array, *, x: int, y: int, scale: float, size: int
) -> jax.Array:
    """Sums unit values [F, U, C] into the cells where the units are: [F, size, size, C].

    `x` and `y` are the columns of `units` with grid positions; `scale` is cells per grid unit.
    Units off the grid are left out.
    """
    column = jnp.floor(units[..., x] * scale).astype(jnp.int32)
    row = jnp.floor(units[..., y] * scale).astype(jnp.int32)
    inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
    cell = jnp.where(inside, row * size + column, size * size)

    def one(value: jax.Array, index: jax.Array) -> jax.Array:
        flat = jnp.zeros((size * size, value.shape[-1]), value.dtype)
        return flat.at[index].add(value, mode="drop")

    return jax.vmap(one)(values, cell).reshape(len(units), size, size, -1)
