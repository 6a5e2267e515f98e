"""Unit rows: `raw_units`, the bag of own unit types, and the enemy's race.

In: a message's `Columns`. Out: integers in the reference's layout, quirks included; the
columns' names and order are `specs.UNIT_COLUMNS`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.converters import camera, geometry, message_fields
from starmill.converters.columns import Columns
from starmill.schema import errors, specs, vocab
from starmill.schema.compilation import bare_compiled, bare_kernel
from starmill.schema.settings import ConverterSettings

_COLUMN = {name: index for index, (name, _) in enumerate(specs.UNIT_COLUMNS)}
# What masked enemies have in the type column.
MASKED_TYPE = 254
_ENEMY, _CLOAKED = 4, 1
# Columns that masking clears, as far as they exist; the two extra columns included, which
# the reference forgot to step over.
_MASKED_COLUMNS = np.array(
    [*range(2, 10), 14, 16, *range(19, 29), *range(30, 35), *range(36, 46)], np.int64
)
_TAG_COLUMN = _COLUMN["tag"]
_CARGO_COLUMN = _COLUMN["is_in_cargo"]
# The features that masking knows. With more, the reference crashes on a masked enemy.
MAX_FEATURES = len(specs.UNIT_COLUMNS)


class Layout(NamedTuple):
    """The settings that shape the rows, and lookup tables, as the kernels take them.

    Attributes:
        features: columns of raw_units without the two extra ones.
        unit_types: number of dense unit types that `unit_counts_bow` counts.
        mask: whether enemies out of view are masked.
        cargo: whether passengers have rows.
        effects: whether effects have rows.
        virtual: whether the virtual camera decides what is in view.
        types: dense id by raw unit type, -1 if unknown, int32.
        buffs: dense id by raw buff, -1 if unknown, int32.
        orders: function id by ability id, 0 if unknown or not offered, int32.
    """

    features: int
    unit_types: int
    mask: bool
    cargo: bool
    effects: bool
    virtual: bool
    types: NDArray[np.int32]
    buffs: NDArray[np.int32]
    orders: NDArray[np.int32]


def make_layout(settings: ConverterSettings) -> Layout:
    """Returns the layout that the settings ask for."""
    raw = specs.raw_settings(settings)
    orders = vocab.order_functions().copy()
    orders[orders >= settings.num_action_types] = 0
    return Layout(
        features=raw.num_unit_features,
        unit_types=settings.num_unit_types,
        mask=raw.mask_offscreen_enemies,
        cargo=raw.add_cargo_to_units,
        effects=raw.add_effects_to_units,
        virtual=raw.use_virtual_camera,
        types=vocab.raw_to_dense("unit_types"),
        buffs=vocab.raw_to_dense("buffs"),
        orders=orders,
    )


@bare_kernel
def _ratio(value, high):  # type: ignore[no-untyped-def]
    """A float32 quotient, spread over a byte in double."""
    if high > np.float32(0):
        return geometry.trunc(np.float64(value / high) * 255.0)
    return np.int64(0)


@bare_kernel
def _percent(value):  # type: ignore[no-untyped-def]
    return geometry.trunc(np.float64(value) * 100.0)


@bare_kernel
def _order(ability, orders):  # type: ignore[no-untyped-def]
    return orders[ability] if 0 <= ability < len(orders) else 0


@bare_kernel
def _fill_vitals(out, floats):  # type: ignore[no-untyped-def]
    """Health, shield and energy, and their ratios; units and passengers alike."""
    for k in range(3):
        out[2 + k] = geometry.trunc(floats[k])
        out[7 + k] = _ratio(floats[k], floats[3 + k])


@bare_kernel
def _add_on_type(tag, columns):  # type: ignore[no-untyped-def]
    """The raw type of the last unit with this tag; 0 if none."""
    for i in range(columns.counts[message_fields.UNITS] - 1, -1, -1):
        if columns.units[i, message_fields.TAG] == tag:
            return columns.units[i, message_fields.UNIT_TYPE]
    return 0


@bare_kernel
def _fill_unit(out, unit, floats, grid, layout):  # type: ignore[no-untyped-def]
    """Everything that follows from the unit alone."""
    out[0] = unit[message_fields.UNIT_TYPE]
    out[1] = unit[message_fields.ALLIANCE]
    _fill_vitals(out, floats)
    out[5] = unit[message_fields.CARGO_SPACE_TAKEN]
    out[6] = _percent(floats[message_fields.BUILD_PROGRESS])
    out[10] = unit[message_fields.DISPLAY_TYPE]
    out[11] = unit[message_fields.OWNER]
    out[12] = geometry.column(grid, floats[message_fields.X])
    out[13] = geometry.row(grid, floats[message_fields.Y])
    out[14] = geometry.trunc(floats[message_fields.FACING])
    out[15] = geometry.trunc(floats[message_fields.RADIUS] * grid.scale)
    out[16] = unit[message_fields.CLOAK]
    out[17] = unit[message_fields.IS_SELECTED]
    out[18] = unit[message_fields.IS_BLIP]
    out[19] = unit[message_fields.IS_POWERED]
    out[20] = unit[message_fields.MINERAL_CONTENTS]
    out[21] = unit[message_fields.VESPENE_CONTENTS]
    out[22] = unit[message_fields.CARGO_SPACE_MAX]
    out[23] = unit[message_fields.ASSIGNED_HARVESTERS]
    out[24] = unit[message_fields.IDEAL_HARVESTERS]
    out[25] = geometry.trunc(floats[message_fields.WEAPON_COOLDOWN])
    out[26] = unit[message_fields.ORDERS]
    out[27] = _order(unit[message_fields.ORDER_0], layout.orders)
    out[28] = _order(unit[message_fields.ORDER_1], layout.orders)
    out[29] = unit[message_fields.TAG]
    out[30] = unit[message_fields.IS_HALLUCINATION]
    out[31] = unit[message_fields.BUFF_0]
    out[32] = unit[message_fields.BUFF_1]
    out[34] = unit[message_fields.IS_ACTIVE]
    if layout.features >= 40:
        out[36] = _percent(floats[message_fields.PROGRESS_0])
        out[37] = _percent(floats[message_fields.PROGRESS_1])
        out[38] = _order(unit[message_fields.ORDER_2], layout.orders)
        out[39] = _order(unit[message_fields.ORDER_3], layout.orders)
    if layout.features >= 46:
        out[41] = unit[message_fields.BUFF_DURATION_REMAIN]
        out[42] = unit[message_fields.BUFF_DURATION_MAX]
        out[43] = unit[message_fields.ATTACK_UPGRADE_LEVEL]
        out[44] = unit[message_fields.ARMOR_UPGRADE_LEVEL]
        out[45] = unit[message_fields.SHIELD_UPGRADE_LEVEL]


@bare_kernel
def _mask(out, unit):  # type: ignore[no-untyped-def]
    """Hides what a player cannot see of an enemy out of view."""
    if unit[message_fields.CLOAK] == _CLOAKED:
        tag = out[_TAG_COLUMN]
        out[:] = 0
        out[_TAG_COLUMN] = tag
    if unit[message_fields.DISPLAY_TYPE] == message_fields.VISIBLE:
        out[0] = MASKED_TYPE
        for column in _MASKED_COLUMNS:
            if column < len(out):
                out[column] = 0


@bare_kernel
def _contains(ordered, value):  # type: ignore[no-untyped-def]
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < len(ordered) and ordered[low] == value


@bare_kernel
def _fill_passengers(out, row, columns, grid):  # type: ignore[no-untyped-def]
    for i in range(columns.counts[message_fields.PASSENGERS]):
        if row == len(out):
            break
        carrier = columns.units[columns.passengers[i, message_fields.CARRIER]]
        place = columns.unit_floats[columns.passengers[i, message_fields.CARRIER]]
        out[row, 0] = columns.passengers[i, message_fields.PASSENGER_TYPE]
        out[row, 1] = carrier[message_fields.ALLIANCE]
        _fill_vitals(out[row], columns.passenger_floats[i])
        out[row, 11] = carrier[message_fields.OWNER]
        out[row, 12] = geometry.column(grid, place[message_fields.X])
        out[row, 13] = geometry.row(grid, place[message_fields.Y])
        out[row, _TAG_COLUMN] = columns.passengers[i, message_fields.PASSENGER_TAG]
        out[row, _CARGO_COLUMN] = 1
        row += 1
    return row


@bare_kernel
def _fill_effects(out, row, columns, grid, unit_types):  # type: ignore[no-untyped-def]
    for i in range(columns.counts[message_fields.EFFECTS]):
        if row == len(out):
            break
        floats = columns.effect_floats[i]
        out[row, 0] = columns.effects[i, message_fields.EFFECT_ID] + unit_types
        out[row, 1] = columns.effects[i, message_fields.EFFECT_ALLIANCE]
        out[row, 11] = columns.effects[i, message_fields.EFFECT_OWNER]
        out[row, 12] = geometry.column(grid, floats[message_fields.EFFECT_X])
        out[row, 13] = geometry.row(grid, floats[message_fields.EFFECT_Y])
        out[row, 15] = geometry.trunc(floats[message_fields.EFFECT_RADIUS])
        row += 1
    return row


@bare_kernel
def _translate(out, units, passengers, layout):  # type: ignore[no-untyped-def]
    """Raw ids to dense ones, after masking; returns (kind, id) of the first unknown one.

    kind: 0 none, 1 a unit type, 2 a buff.
    """
    for i in range(passengers):
        kind = out[i, 0]
        rider = i >= units and layout.features > 40
        if rider or (out[i, 10] > 0 and kind != MASKED_TYPE):
            if kind < 0 or kind >= len(layout.types) or layout.types[kind] < 0:
                return 1, kind
            out[i, 0] = layout.types[kind]
        for column in (31, 32):
            buff = out[i, column]
            if buff < 0 or buff >= len(layout.buffs) or layout.buffs[buff] < 0:
                return 2, buff
            out[i, column] = layout.buffs[buff]
    return 0, 0


@bare_compiled
def _fill(out, columns, grid, layout, view, selected, target):  # type: ignore[no-untyped-def]
    """Fills the whole matrix; returns (kind, id) as `_translate`.

    kind is 3 where a masked enemy has more features than masking knows.
    """
    out[:] = 0
    units = min(columns.counts[message_fields.UNITS], len(out))
    features = layout.features
    for i in range(units):
        unit, floats, row = columns.units[i], columns.unit_floats[i], out[i]
        _fill_unit(row, unit, floats, grid, layout)
        if unit[message_fields.HAS_ADD_ON_TAG]:
            row[33] = _add_on_type(unit[message_fields.ADD_ON_TAG], columns)
        seen = unit[message_fields.IS_ON_SCREEN] != 0
        if layout.virtual:
            x, y = floats[message_fields.X], floats[message_fields.Y]
            seen = view.left <= x <= view.right and view.top <= y <= view.bottom
        row[35] = seen
        row[features] = _contains(selected, unit[message_fields.TAG])
        row[features + 1] = target == unit[message_fields.TAG]
        if layout.mask and not seen and unit[message_fields.ALLIANCE] == _ENEMY:
            _mask(row, unit)
            if (
                features > MAX_FEATURES
                and unit[message_fields.DISPLAY_TYPE] == message_fields.VISIBLE
            ):
                return 3, np.int32(features)
    end = units
    if layout.cargo:
        end = _fill_passengers(out, units, columns, grid)
    if layout.effects:
        _fill_effects(out, end, columns, grid, layout.unit_types)
    return _translate(out, units, end, layout)


def fill_rows(
    out: NDArray[np.int32],
    columns: Columns,
    grid: geometry.Grid,
    layout: Layout,
    view: camera.View,
    selected: NDArray[np.int64],
    target: np.int64,
) -> None:
    """Writes `raw_units`: units, then passengers, then effects, then zero rows.

    Args:
        out: int32 [U, features + 2].
        columns: the message.
        grid: the map's.
        layout: from the settings.
        view: what the virtual camera sees; not looked at without one.
        selected: tags of the last command's units, ascending.
        target: tag of its target, or `actions.NO_TARGET`.
    """
    kind, unknown = _fill(out, columns, grid, layout, view, selected, target)
    if kind == 3:
        raise errors.ConverterError(
            f"num_unit_features: masking knows {MAX_FEATURES} columns, found {unknown}"
        )
    if kind:
        name = "unit type" if kind == 1 else "buff"
        table = "unit_types" if kind == 1 else "buffs"
        raise errors.ConverterError(
            f"{name} {int(unknown) & 0xFFFFFFFF} is not in table {table}"
        )


@bare_compiled
def _count(units, count, types, seen, out):  # type: ignore[no-untyped-def]
    """Counts own units by dense type; returns an unknown raw type, or -1.

    Where two raw types share a dense id the larger count wins.
    """
    seen[:] = 0
    out[:] = 0
    for i in range(count):
        if units[i, message_fields.ALLIANCE] != message_fields.SELF:
            continue
        raw = units[i, message_fields.UNIT_TYPE]
        if raw >= len(types) or types[raw] < 0:
            return raw
        seen[raw] += 1
        index = types[raw] - 1
        if 0 <= index < len(out):
            out[index] = max(out[index], seen[raw])
    return -1


def fill_counts(
    out: NDArray[np.int32], columns: Columns, layout: Layout, seen: NDArray[np.int32]
) -> None:
    """Writes `unit_counts_bow`.

    Args:
        out: int32 [num_unit_types].
        columns: the message.
        layout: from the settings.
        seen: int32 scratch as long as `layout.types`.
    """
    count = columns.counts[message_fields.UNITS]
    unknown = _count(columns.units, count, layout.types, seen, out)
    if unknown >= 0:
        raise errors.ConverterError(f"unit type {unknown} is not in table unit_types")


@bare_compiled
def _upgrades(upgrades, count, dense, out):  # type: ignore[no-untyped-def]
    """Translates upgrades up to the cap; returns the first unknown one, or -1."""
    out[:] = 0
    for i in range(min(count, len(out))):
        raw = upgrades[i]
        if raw >= len(dense) or dense[raw] < 0:
            return raw
        out[i] = dense[raw]
    return np.int64(-1)


def fill_upgrades(out: NDArray[np.int32], columns: Columns) -> None:
    """Writes `upgrades_fixed_length`: dense ids in message order, zero padded."""
    dense, count = (
        vocab.raw_to_dense("upgrades"),
        columns.counts[message_fields.UPGRADES],
    )
    unknown = _upgrades(columns.upgrades, count, dense, out)
    if unknown >= 0:
        raise errors.ConverterError(f"upgrade {unknown} is not in table upgrades")


@bare_compiled
def _first_enemy_type(columns):  # type: ignore[no-untyped-def]
    for i in range(columns.counts[message_fields.UNITS]):
        if columns.units[i, message_fields.ALLIANCE] == _ENEMY:
            return columns.units[i, message_fields.UNIT_TYPE]
    return -1


def enemy_race(columns: Columns) -> int | None:
    """Returns the race of the first enemy in the message; None without enemies."""
    raw = int(_first_enemy_type(columns))
    if raw < 0:
        return None
    races = vocab.unit_races()
    if raw not in races:
        raise errors.ConverterError(f"unit type {raw} is not in table unit_race")
    return races[raw]
