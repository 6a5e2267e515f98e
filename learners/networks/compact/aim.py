"""The head of the world argument: a unit to aim by, and an offset from it.

In: the action so far, units and the minimap around them. Out: the log-probability of given target
points, or sampled ones. The distribution is a mixture,

    p(point) = sum over units u of p(u) p(point - place of u | u)  +  p(area) p(area of point) / |area|

where p(u) is the anchor's probability, offsets reach `reach` cells each way, and areas serve the
points that are near no unit. Which units are good anchors (buildings and resources rather than passing
workers, say) is learned, not told.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.counts import states
from starmill.learners.networks import layers
from starmill.learners.networks.compact.legal import Spacing
from starmill.learners.networks.compact.unit_stream import Facts
from starmill.schema import errors
from starmill.schema.settings import ConverterSettings

# Planes of the minimap that an anchor's surroundings show, as far as the settings have them, each
# as whether a cell has the value: seen now, creep, ground to build on and to walk on.
_SURROUNDINGS = {"visibility_map": 2, "creep": 1, "buildable": 1, "pathable": 1}
# Units without orders and units with orders are drawn in planes of their own.
_UNIT_PLANES = 2


def planes_of(settings: ConverterSettings) -> tuple[str, ...]:
    """Returns the minimap planes that surroundings show."""
    return tuple(n for n in settings.minimap_features if n in _SURROUNDINGS)


def valued_planes(settings: ConverterSettings) -> list[tuple[str, int]]:
    """Returns the minimap planes that surroundings show, each with the value that is shown."""
    return [(name, _SURROUNDINGS[name]) for name in planes_of(settings)]


def surroundings(
    frames: dict[str, jax.Array], settings: ConverterSettings
) -> jax.Array:
    """Returns the planes that surroundings are cut from, bool [F, side, side, planes]."""
    shown = [
        frames[f"minimap_{name}"] == _SURROUNDINGS[name] for name in planes_of(settings)
    ]
    if not shown:
        side = settings.minimap[0] or 1
        return jnp.zeros((len(frames["game_loop"]), side, side, 0), bool)
    return jnp.stack(shown, axis=-1)


class Scene(NamedTuple):
    """What a target point depends on.

    Attributes:
        context: [F, D], the latent given the arguments before.
        first_unit: [F, d], the embedding of the first unit that is commanded.
        anchor: [F, U], the logit of each unit as anchor.
        units: [F, U, d], embeddings.
        facts: of the units.
        planes: bool [F, side, side, planes].
        forbidden: bool [F, features, 2], the features of the ground that points must not have
            (`counts.states.ground_features`); None to allow all ground.
        spacing: how far from units points must be; None for no such limits.
    """

    context: jax.Array
    first_unit: jax.Array
    anchor: jax.Array
    units: jax.Array
    facts: Facts
    planes: jax.Array
    forbidden: jax.Array | None = None
    spacing: Spacing | None = None


class Aim(nnx.Module):
    """The mixture of anchors with offsets, and of areas."""

    def __init__(
        self,
        settings: ConverterSettings,
        *,
        vector: int,
        unit: int,
        anchors: int,
        reach: int,
        patch: int,
        hidden: int,
        areas: int,
        resolution: int,
        rngs: nnx.Rngs,
    ) -> None:
        if resolution % areas:
            raise errors.ConfigError(
                f"compact network: areas {areas} does not divide the resolution {resolution}"
            )
        self.anchors, self.reach, self.areas = anchors, reach, areas
        self.resolution = resolution
        self.scale = settings.minimap[0] / resolution
        # Minimap cells from an anchor to the edge of its surroundings.
        self.margin = max(1, round(reach * self.scale))
        self.offsets = (2 * reach + 1) ** 2
        cells = (2 * self.margin + 1) ** 2
        planes = len(planes_of(settings)) + _UNIT_PLANES
        self.no_anchor = nnx.Linear(vector, 1, rngs=rngs)
        self.area = layers.MLP(vector, vector, areas**2, rngs=rngs)
        self.patch = nnx.Linear(cells * planes, patch, rngs=rngs)
        self.offset_context = nnx.Linear(vector, hidden, rngs=rngs)
        self.offset_units = nnx.Linear(2 * unit + patch, hidden, rngs=rngs)
        self.offset = nnx.Linear(hidden, self.offsets, rngs=rngs)

    def anchor_logits(self, scene: Scene) -> jax.Array:
        """Returns the log-probability of each unit as anchor, and last of none, [F, U + 1]."""
        logits = jnp.where(scene.facts.valid, scene.anchor, layers.MASKED)
        none = self.no_anchor(scene.context)
        return jax.nn.log_softmax(jnp.concatenate([logits, none], axis=-1))

    def log_prob(self, scene: Scene, world: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the log-probability of given cells [F], and whether each is the likeliest.

        Only the nearest `anchors` units are counted, so that the probability is a little less
        than the mixture's. "Likeliest" is the likeliest cell of the likeliest anchor.
        """
        anchor = self.anchor_logits(scene)
        row, column = jnp.divmod(world, self.resolution)
        point = jnp.stack([column, row], axis=-1)
        places = jnp.round(scene.facts.places).astype(jnp.int32)
        offset = point[:, None] - places  # [F, U, 2]
        distance = jnp.abs(offset).max(-1)
        nearest = jnp.where(scene.facts.valid, distance, 1 << 20)
        count = min(self.anchors, nearest.shape[1])
        _, index = jax.lax.top_k(-nearest, count)  # [F, N]
        near = jnp.take_along_axis(nearest, index, axis=1) <= self.reach
        there = jnp.take_along_axis(offset, index[..., None], axis=1) + self.reach
        cell = there[..., 1] * (2 * self.reach + 1) + there[..., 0]
        logits = self._offset_logits(scene, index)  # [F, N, offsets]
        inside = jnp.clip(cell, 0, self.offsets - 1)[..., None]
        given = jnp.take_along_axis(logits, inside, axis=-1)[..., 0]
        given += jnp.take_along_axis(anchor, index, axis=1)
        parts = jnp.where(near, given, layers.MASKED)
        area = jax.nn.log_softmax(self.area(scene.context))
        own_area = jnp.take_along_axis(area, self._area(point)[:, None], axis=1)
        own_area += anchor[:, -1:] - 2 * jnp.log(self.resolution / self.areas)
        total = jax.nn.logsumexp(jnp.concatenate([parts, own_area], axis=1), axis=1)
        best = anchor.argmax(-1)
        is_best = (index == best[:, None]) & near & (logits.argmax(-1) == cell)
        return total, is_best.any(-1)

    def sample(
        self, scene: Scene, key: jax.Array, temperature: jax.Array | float
    ) -> jax.Array:
        """Samples cells of the grid, int32 [F]; anchor, area and offset at the temperature."""
        keys = jax.random.split(key, 4)
        rows = scene.units.shape[1]
        anchor = layers.choose(keys[0], self.anchor_logits(scene), temperature)
        index = jnp.minimum(anchor, rows - 1)[:, None]
        logits = self._offset_logits(scene, index)[:, 0]
        cell = layers.choose(keys[1], logits, temperature)
        y, x = jnp.divmod(cell, 2 * self.reach + 1)
        place = jnp.take_along_axis(scene.facts.places, index[..., None], axis=1)[:, 0]
        near = jnp.round(place).astype(jnp.int32) + jnp.stack([x, y], -1) - self.reach
        area = layers.choose(keys[2], self.area(scene.context), temperature)
        width = self.resolution // self.areas
        corner = jnp.stack([area % self.areas, area // self.areas], -1) * width
        far = corner + jax.random.randint(keys[3], corner.shape, 0, width)
        point = jnp.where((anchor == rows)[:, None], far, near)
        point = jnp.clip(point, 0, self.resolution - 1)
        return (point[:, 1] * self.resolution + point[:, 0]).astype(jnp.int32)

    def _area(self, point: jax.Array) -> jax.Array:
        width = self.resolution // self.areas
        x, y = point[..., 0] // width, point[..., 1] // width
        return jnp.clip(y * self.areas + x, 0, self.areas**2 - 1)

    def _offset_logits(self, scene: Scene, index: jax.Array) -> jax.Array:
        """Returns the log-probability of each offset from the anchors [F, N]: [F, N, offsets].

        Offsets that lead off the grid are impossible.
        """
        anchors = jnp.take_along_axis(scene.units, index[..., None], axis=1)
        places = jnp.take_along_axis(scene.facts.places, index[..., None], axis=1)
        commanded = jnp.broadcast_to(scene.first_unit[:, None], anchors.shape)
        patches = self._patches(scene, places)
        flat_patches = patches.reshape(*patches.shape[:2], -1).astype(jnp.float32)
        around = jax.nn.relu(self.patch(flat_patches))
        given = self.offset_units(
            jnp.concatenate([anchors, commanded, around], axis=-1)
        )
        hidden = jax.nn.relu(given + self.offset_context(scene.context)[:, None])
        step = jnp.arange(-self.reach, self.reach + 1)
        line = jnp.round(places)[..., None] + step  # [F, N, 2, 2 * reach + 1]
        inside = (line >= 0) & (line < self.resolution)
        allowed = inside[..., 1, :, None] & inside[..., 0, None, :]
        if scene.forbidden is not None:
            legal = allowed & self._legal(scene.forbidden, patches, places, line)
            if scene.spacing is not None:
                legal &= _spaced(scene.spacing, scene.facts.places, line)
            some = legal.any((-2, -1), keepdims=True)
            allowed = jnp.where(some, legal, allowed)
        flat = allowed.reshape(*allowed.shape[:2], -1)
        return jax.nn.log_softmax(
            jnp.where(flat, self.offset(hidden), layers.MASKED), axis=-1
        )

    def _patches(self, scene: Scene, places: jax.Array) -> jax.Array:
        """Returns the surroundings of places [F, N, 2], bool [F, N, rows, columns, planes]."""
        margin, side = self.margin, 2 * self.margin + 1
        corners = jnp.floor(places * self.scale).astype(
            jnp.int32
        )  # in the padded planes
        edge = ((margin, margin), (margin, margin), (0, 0))

        def cut(planes: jax.Array, corners: jax.Array) -> jax.Array:
            padded = jnp.pad(planes, edge)
            size = (side, side, planes.shape[-1])

            def one(corner: jax.Array) -> jax.Array:
                start = (corner[1], corner[0], 0)
                return jax.lax.dynamic_slice(padded, start, size)

            return jax.vmap(one)(corners)

        planes = jnp.concatenate([scene.planes, self._unit_planes(scene)], axis=-1)
        return jax.vmap(cut)(planes, corners)

    def _legal(
        self,
        forbidden: jax.Array,
        patches: jax.Array,
        places: jax.Array,
        line: jax.Array,
    ) -> jax.Array:
        """Returns which offsets lead to ground that is not forbidden, bool [F, N, rows, columns].

        line: [F, N, 2, 2 * reach + 1], the cells of the grid that the offsets lead to.
        """
        planes, still = patches[..., :-_UNIT_PLANES], patches[..., -_UNIT_PLANES]
        around = ~_spread(~planes, 1)
        near = [_spread(still[..., None], distance) for distance in states.NEAR]
        features = jnp.concatenate([planes, around, *near], axis=-1)
        never_one = (features & forbidden[:, None, None, None, :, 1]).any(-1)
        never_zero = (~features & forbidden[:, None, None, None, :, 0]).any(-1)
        legal = ~(never_one | never_zero)
        # From the grid's cells to those of the patch.
        cells = jnp.floor(line * self.scale) - jnp.floor(places * self.scale)[..., None]
        index = jnp.clip(cells.astype(jnp.int32) + self.margin, 0, 2 * self.margin)
        rows = jnp.take_along_axis(legal, index[..., 1, :, None], axis=2)
        return jnp.take_along_axis(rows, index[..., 0, None, :], axis=3)

    def _unit_planes(self, scene: Scene) -> jax.Array:
        """Returns where units are that have orders, and that have none: [F, side, side, 2]."""
        side = scene.planes.shape[1]
        cells = jnp.floor(scene.facts.places * self.scale).astype(jnp.int32)
        inside = ((cells >= 0) & (cells < side)).all(-1) & scene.facts.valid
        flat = jnp.where(inside, cells[..., 1] * side + cells[..., 0], side**2)
        kinds = jnp.stack([scene.facts.still, ~scene.facts.still], -1)

        def draw(cells: jax.Array, kinds: jax.Array) -> jax.Array:
            empty = jnp.zeros((side**2, _UNIT_PLANES), bool)
            return empty.at[cells].max(kinds, mode="drop")

        return jax.vmap(draw)(flat, kinds).reshape(-1, side, side, _UNIT_PLANES)


def _spaced(spacing: Spacing, places: jax.Array, line: jax.Array) -> jax.Array:
    """Returns which offsets keep their distances to units, bool [F, N, rows, columns].

    places: [F, U, 2], of the units; line: [F, N, 2, 2 * reach + 1], the cells that the offsets lead to.
    """
    away = jnp.abs(line[..., None] - places.swapaxes(1, 2)[:, None, :, None])

    def reached(distance: jax.Array) -> jax.Array:
        """Returns which cells have a unit nearer than its distance [F, U]."""
        near = (away < distance[:, None, None, None]).astype(jnp.float32)
        both = jnp.einsum("fncu,fnru->fnrc", near[:, :, 0], near[:, :, 1])
        return both > 0.5

    is_free = (spacing.near == 0).all(-1)[:, None, None, None]
    return ~reached(spacing.apart) & (is_free | reached(spacing.near))


def _spread(planes: jax.Array, distance: int) -> jax.Array:
    """Returns where planes [..., rows, columns, P] are set within a distance in both axes."""
    for axis in (-3, -2):
        size = planes.shape[axis]
        edge = [(0, 0)] * planes.ndim
        edge[axis] = (distance, distance)
        padded = jnp.pad(planes, edge)
        shifts = [
            jax.lax.slice_in_dim(padded, k, k + size, axis=planes.ndim + axis)
            for k in range(2 * distance + 1)
        ]
        planes = functools.reduce(jnp.logical_or, shifts)
    return planes
