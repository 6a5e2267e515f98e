"""The unit stream's input: each row of `raw_units` by itself, as a sum of linear layers.

In: rows [B, 512, 48]. Out: embeddings [B, 512, unit], and which rows are units.
Inputs are one-hot vectors, counts of slots, bits of the position, and ratios.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from numpy.typing import NDArray

from starmill.learners.networks.published import layers, tables
from starmill.schema import specs
from starmill.schema.settings import UNPLUGGED

COLUMNS = specs.unit_columns(UNPLUGGED)
_BITS = 8


class Feature(NamedTuple):
    """One feature among the counted ones.

    Attributes:
        column: the column of `raw_units`, or the name of a derived value.
        size: how many slots it has. A larger value falls into the next feature's slots, as in
            the published code, unless `transform` limits it.
        transform: "plain", "cap", "sqrt", or a divisor.
        share: whether it uses the slots of the feature before it.
    """

    column: str
    size: int
    transform: str | int = "plain"
    share: bool = False


FEATURES = (
    Feature("alliance", 5),
    Feature("health", 39, "sqrt"),
    Feature("shield", 32, "sqrt"),
    Feature("energy", 15, "sqrt"),
    Feature("cargo_space_taken", 9, "cap"),
    Feature("display_type", 5),
    Feature("cloak", 5),
    Feature("is_powered", 2),
    Feature("mineral_contents", 19, 100),
    Feature("vespene_contents", 26, 100),
    Feature("mined_minerals", 43, "sqrt"),
    Feature("mined_vespene", 51, "sqrt"),
    Feature("cargo_space_max", 9, "cap"),
    Feature("assigned_harvesters", 25, "cap"),
    Feature("ideal_harvesters", 17, "cap"),
    Feature("weapon_cooldown", 33, "cap"),
    Feature("order_length", 9, "cap"),
    Feature("addon_class", 7),
    Feature("hallucination", 2),
    Feature("buff_id_0", 46),
    Feature("buff_id_1", 46, share=True),
    Feature("active", 2),
    Feature("is_on_screen", 2),
    Feature("is_blip", 2),
    Feature("order_progress_0", 11, 10),
    Feature("order_progress_1", 11, 10),
    Feature("is_in_cargo", 2),
    Feature("buff_duration_remain", 16, "sqrt"),
    Feature("attack_upgrade_level", 5),
    Feature("armor_upgrade_level", 5),
    Feature("shield_upgrade_level", 5),
    Feature("last_selected", 2),
    Feature("last_targeted", 2),
)
SLOTS = sum(feature.size for feature in FEATURES if not feature.share)
_RATIOS = {
    "build_progress": 100,
    "health_ratio": 255,
    "shield_ratio": 255,
    "energy_ratio": 255,
    "order_progress_0": 100,
    "order_progress_1": 100,
}
# The published code reads the fourth order twice.
_LATER_ORDERS = ("order_id_1", "order_id_2", "order_id_3", "order_id_3")


class UnitEncoder(nnx.Module):
    """Rows -> embeddings; rows without a unit become 0."""

    def __init__(self, size: int, *, rngs: nnx.Rngs) -> None:
        first, later = tables.order_class_counts()
        attributes = tables.unit_attributes().shape[1]

        def linear(count: int) -> nnx.Linear:
            return layers.linear(count, size, rngs=rngs)

        self.unit_type = linear(tables.TYPE_SLOTS)
        self.attributes = linear(attributes)
        self.x, self.y = linear(_BITS), linear(_BITS)
        self.ratios = linear(len(_RATIOS))
        self.order = linear(first)
        self.later_orders = nnx.List(linear(later) for _ in _LATER_ORDERS)
        self.counts = linear(SLOTS)

    def __call__(self, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns embeddings [B, U, size] and which rows are units, bool [B, U]."""
        column = _columns(rows)
        present = column["alliance"] != 0
        ratios = jnp.stack(
            [column[name].astype(jnp.float32) / top for name, top in _RATIOS.items()],
            axis=-1,
        )
        types = column["unit_type"]
        out = self.ratios(ratios)
        out += _rows(self.unit_type, types)
        # Products with the attributes and the bits are sums of few rows: one row of a table
        # that holds all sums.
        attributes = jnp.asarray(tables.unit_attributes()) @ self.attributes.kernel[...]
        out += _at(attributes, types)
        for name, linear in (("x", self.x), ("y", self.y)):
            sums = jnp.asarray(_all_bits()) @ linear.kernel[...]
            out += sums[column[name] & (2**_BITS - 1)]
        out += _rows(self.order, _at(tables.order_classes(), column["order_id_0"]))
        for name, linear in zip(_LATER_ORDERS, self.later_orders, strict=True):
            out += _rows(linear, _at(tables.queue_classes(), column[name]))
        for feature, offset in zip(FEATURES, offsets(), strict=True):
            value = _transformed(column[feature.column], feature)
            out += _rows(self.counts, offset + value)
        for linear in (
            self.unit_type,
            self.attributes,
            self.x,
            self.y,
            self.order,
            *self.later_orders,
            self.counts,
        ):
            # Flax allows for layers without a bias; these have one.
            out += 0.0 if linear.bias is None else linear.bias[...]
        # The barrier keeps XLA from looking the rows up again in each place that uses the sum.
        return jax.lax.optimization_barrier(out * present[..., None]), present


def _rows(linear: nnx.Linear, index: jax.Array) -> jax.Array:
    """Returns rows of the kernel: what a one-hot vector times the kernel would be.

    An index outside of the kernel gives 0. On a CPU a product with one-hot vectors takes more
    than ten times as long.
    """
    kernel = linear.kernel[...]
    index = jnp.where(index < 0, len(kernel), index)
    return jnp.take(kernel, index, axis=0, mode="fill", fill_value=0)


def offsets() -> list[int]:
    """Returns where each feature's slots begin."""
    starts, end, start = [], 0, 0
    for feature in FEATURES:
        if not feature.share:
            start, end = end, end + feature.size
        starts.append(start)
    return starts


def _transformed(value: jax.Array, feature: Feature) -> jax.Array:
    top = feature.size - 1
    if feature.transform == "plain":
        return value
    if feature.transform == "sqrt":
        root = jnp.floor(jnp.sqrt(jnp.maximum(value, 0).astype(jnp.float32)))
        return jnp.minimum(root.astype(jnp.int32), top)
    if feature.transform == "cap":
        return jnp.minimum(value, top)
    return jnp.minimum(value // int(feature.transform), top)


def _columns(rows: jax.Array) -> dict[str, jax.Array]:
    """Returns the columns by name, and the values that are derived from them."""
    column = {name: rows[..., i] for i, name in enumerate(COLUMNS)}
    column["last_selected"], column["last_targeted"] = rows[..., -2], rows[..., -1]
    initial = _at(tables.initial_resources(), column["unit_type"])
    for name in ("minerals", "vespene"):
        contents = "mineral_contents" if name == "minerals" else "vespene_contents"
        column[f"mined_{name}"] = initial - column[contents]
    column["addon_class"] = _at(tables.addon_classes(), column["addon_unit_type"])
    return column


def _at(table: NDArray[Any] | jax.Array, index: jax.Array) -> jax.Array:
    """Returns the table's entries; an index that is too large means the last entry."""
    index = jnp.minimum(index, len(table) - 1)
    index = jnp.where(index < 0, jnp.clip(index + len(table), 0), index)
    return jnp.asarray(table)[index]


def _all_bits() -> NDArray[np.float32]:
    """Returns the lowest 8 bits of all numbers of 8 bits, least significant first."""
    numbers = np.arange(2**_BITS)[:, None]
    return (numbers >> np.arange(_BITS) & 1).astype(np.float32)
