"""The units of an observation as wire bytes, written in one pass.

In: the game's state and a `View`. Out: bytes of ObservationRaw's repeated field `units`. Which
fields are set follows the notes in the protocol: enemies have no orders, snapshots have no health,
and so on. Setting the fields of 300 units on message objects takes 8 ms, this 0.1 ms; a test
compares the two.
"""

import numpy as np

from starmill.engines.skirmish.observation.visible_units import (
    ALLIANCE_SELF,
    CLOAKED,
    DISPLAY_VISIBLE,
    View,
)
from starmill.engines.skirmish.simulation.records import (
    MAX_BUFFS,
    MAX_CARGO,
    MAX_ORDERS,
    OWNER_NEUTRAL,
    TARGET_NONE,
    TARGET_POINT,
    TARGET_UNIT,
    State,
)
from starmill.schema.compilation import entry, kernel

# Wire types of protobuf.
_VARINT, _LENGTH, _FIXED32 = 0, 2, 5
_POINT_BYTES = 15  # three tagged floats
# Fields of the protocol's Unit.
_DISPLAY_TYPE, _ALLIANCE, _TAG, _UNIT_TYPE, _OWNER, _POS, _FACING = range(1, 8)
_RADIUS, _BUILD_PROGRESS, _CLOAK, _IS_SELECTED, _IS_ON_SCREEN, _IS_BLIP = range(8, 14)
_HEALTH, _HEALTH_MAX, _SHIELD, _ENERGY = range(14, 18)
_MINERAL_CONTENTS, _VESPENE_CONTENTS, _IS_FLYING, _IS_BURROWED = range(18, 22)
_ORDERS, _ADD_ON_TAG, _PASSENGERS, _CARGO_TAKEN, _CARGO_MAX = range(22, 27)
_BUFF_IDS, _ASSIGNED_HARVESTERS, _IDEAL_HARVESTERS, _WEAPON_COOLDOWN = range(27, 31)
_DETECT_RANGE = 31
_ENGAGED_TARGET_TAG, _IS_POWERED, _SHIELD_MAX, _ENERGY_MAX = range(34, 38)
_IS_HALLUCINATION, _IS_ACTIVE = 38, 39
_ATTACK_LEVEL, _ARMOR_LEVEL, _SHIELD_LEVEL = range(40, 43)
_BUFF_REMAIN, _BUFF_MAX, _RALLY_TARGETS = range(43, 46)
# Fields of UnitOrder.
_ORDER_ABILITY, _ORDER_POINT, _ORDER_TAG, _ORDER_PROGRESS = range(1, 5)
# Fields of PassengerUnit.
_RIDER_TAG, _RIDER_HEALTH, _RIDER_HEALTH_MAX, _RIDER_SHIELD = range(1, 5)
_RIDER_ENERGY, _RIDER_TYPE, _RIDER_SHIELD_MAX, _RIDER_ENERGY_MAX = range(5, 9)
# Fields of RallyTarget.
_RALLY_POINT, _RALLY_TAG = 1, 2
_PART_BYTES = 128  # room for one order, passenger or rally point
# The most bytes that a unit takes: 45 fields of a two-byte tag and at most ten bytes, orders of
# 45, passengers of 75, buffs of 12, and the rally point.
MAX_UNIT_BYTES = 45 * 12 + MAX_ORDERS * 45 + MAX_CARGO * 75 + MAX_BUFFS * 12 + 40


@kernel
def _varint(out: np.ndarray, at: int, value: int) -> int:
    """Writes an integer at `at` and returns where it ends, as all functions here do.

    A negative one is written as its 64-bit complement.
    """
    rest = np.uint64(value)
    while rest > np.uint64(0x7F):
        out[at] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@kernel
def _integer(out: np.ndarray, at: int, number: int, value: int) -> int:
    return _varint(out, _varint(out, at, number << 3 | _VARINT), value)


@kernel
def _float(out: np.ndarray, at: int, number: int, value: float) -> int:
    at = _varint(out, at, number << 3 | _FIXED32)
    bits = np.float32(value).view(np.uint32)
    for k in range(4):
        out[at + k] = np.uint8(bits >> np.uint32(8 * k))
    return at + 4


@kernel
def _point(out: np.ndarray, at: int, number: int, x: float, y: float, z: float) -> int:
    at = _varint(out, at, number << 3 | _LENGTH)
    at = _varint(out, at, _POINT_BYTES)
    at = _float(out, at, 1, x)
    at = _float(out, at, 2, y)
    return _float(out, at, 3, z)


@kernel
def _framed(out: np.ndarray, at: int, number: int, body: np.ndarray, size: int) -> int:
    """Writes the first `size` bytes of `body` as a length-delimited field."""
    at = _varint(out, at, number << 3 | _LENGTH)
    at = _varint(out, at, size)
    out[at : at + size] = body[:size]
    return at + size


@kernel
def _orders(w: State, row: int, out: np.ndarray, at: int, part: np.ndarray) -> int:
    for slot in range(w.units[row].order_count):
        order = w.orders[row, slot]
        size = _integer(part, 0, _ORDER_ABILITY, order.ability)
        if order.target == TARGET_POINT:
            size = _point(part, size, _ORDER_POINT, order.x, order.y, 0.0)
        elif order.target == TARGET_UNIT:
            size = _integer(part, size, _ORDER_TAG, order.target_tag)
        if order.progress > 0:
            size = _float(part, size, _ORDER_PROGRESS, order.progress)
        at = _framed(out, at, _ORDERS, part, size)
    return at


@kernel
def _passengers(w: State, row: int, out: np.ndarray, at: int, part: np.ndarray) -> int:
    for slot in range(w.units[row].cargo_count):
        rider = w.units[w.cargo[row, slot]]
        size = _integer(part, 0, _RIDER_TAG, rider.tag)
        size = _float(part, size, _RIDER_HEALTH, rider.health)
        size = _float(part, size, _RIDER_HEALTH_MAX, rider.health_max)
        if rider.shield_max > 0:
            size = _float(part, size, _RIDER_SHIELD, rider.shield)
        if rider.energy_max > 0:
            size = _float(part, size, _RIDER_ENERGY, rider.energy)
        size = _integer(part, size, _RIDER_TYPE, rider.unit_type)
        if rider.shield_max > 0:
            size = _float(part, size, _RIDER_SHIELD_MAX, rider.shield_max)
        if rider.energy_max > 0:
            size = _float(part, size, _RIDER_ENERGY_MAX, rider.energy_max)
        at = _framed(out, at, _PASSENGERS, part, size)
    return at


@kernel
def _health(w: State, unit: State, out: np.ndarray, at: int) -> int:
    """Writes health, resources and layer of a unit whose condition the player knows."""
    rule = w.unit_rules[unit.unit_type]
    at = _float(out, at, _HEALTH, unit.health)
    at = _float(out, at, _HEALTH_MAX, unit.health_max)
    if unit.shield_max > 0:
        at = _float(out, at, _SHIELD, unit.shield)
    if unit.energy_max > 0:
        at = _float(out, at, _ENERGY, unit.energy)
    if unit.owner == OWNER_NEUTRAL and rule.mineral_field == 1:
        at = _integer(out, at, _MINERAL_CONTENTS, unit.minerals)
    if rule.geyser == 1 or rule.gas_mine == 1:
        at = _integer(out, at, _VESPENE_CONTENTS, unit.vespene)
    at = _integer(out, at, _IS_FLYING, unit.flying)
    return _integer(out, at, _IS_BURROWED, unit.burrowed)


@kernel
def _condition(w: State, unit: State, own: bool, out: np.ndarray, at: int) -> int:
    """Writes detection, power, maxima and levels of a unit whose condition the player knows."""
    detects = w.unit_rules[unit.unit_type].detects
    if unit.build_progress >= 1.0 and detects > 0:
        at = _float(out, at, _DETECT_RANGE, detects)
    at = _integer(out, at, _IS_POWERED, 1 if unit.powered == 1 else 0)
    if unit.shield_max > 0:
        at = _float(out, at, _SHIELD_MAX, unit.shield_max)
    if unit.energy_max > 0:
        at = _float(out, at, _ENERGY_MAX, unit.energy_max)
    if own or unit.hallucination:
        at = _integer(out, at, _IS_HALLUCINATION, unit.hallucination)
    at = _integer(out, at, _IS_ACTIVE, unit.active)
    at = _integer(out, at, _ATTACK_LEVEL, unit.attack_level)
    at = _integer(out, at, _ARMOR_LEVEL, unit.armor_level)
    return _integer(out, at, _SHIELD_LEVEL, unit.shield_level)


@kernel
def _work(
    w: State, unit: State, row: int, out: np.ndarray, at: int, part: np.ndarray
) -> int:
    """Writes what one of the player's units is doing and carrying."""
    at = _orders(w, row, out, at, part)
    if unit.addon >= 0:
        at = _integer(out, at, _ADD_ON_TAG, w.units[unit.addon].tag)
    at = _passengers(w, row, out, at, part)
    if unit.cargo_max > 0:
        at = _integer(out, at, _CARGO_TAKEN, unit.cargo_used)
        at = _integer(out, at, _CARGO_MAX, unit.cargo_max)
    return at


@kernel
def _harvesters_and_weapon(w: State, unit: State, out: np.ndarray, at: int) -> int:
    """Writes harvesters and weapon of one of the player's units."""
    rule = w.unit_rules[unit.unit_type]
    if rule.town_hall == 1 or rule.gas_mine == 1:
        at = _integer(out, at, _ASSIGNED_HARVESTERS, unit.assigned)
        at = _integer(out, at, _IDEAL_HARVESTERS, unit.ideal)
    at = _float(out, at, _WEAPON_COOLDOWN, max(unit.cooldown, 0.0))
    if unit.engaged != 0:
        at = _integer(out, at, _ENGAGED_TARGET_TAG, unit.engaged)
    return at


@kernel
def _timer_and_rally(unit: State, out: np.ndarray, at: int, part: np.ndarray) -> int:
    """Writes the timed buff and the rally point of one of the player's units."""
    if unit.buff_max > 0:
        at = _integer(out, at, _BUFF_REMAIN, unit.buff_remain)
        at = _integer(out, at, _BUFF_MAX, unit.buff_max)
    if unit.rally_kind <= TARGET_NONE:
        return at
    size = _point(part, 0, _RALLY_POINT, unit.rally_x, unit.rally_y, 0.0)
    if unit.rally_tag != 0:
        size = _integer(part, size, _RALLY_TAG, unit.rally_tag)
    return _framed(out, at, _RALLY_TARGETS, part, size)


@kernel
def _details(
    w: State,
    unit: State,
    row: int,
    known: bool,
    own: bool,
    out: np.ndarray,
    at: int,
    part: np.ndarray,
) -> int:
    """Writes the fields that not all units have.

    known: whether the player knows its condition. own: whether it is the player's, and in sight.
    part: room for a message inside the unit's.
    """
    if known:
        at = _health(w, unit, out, at)
    if own:
        at = _work(w, unit, row, out, at, part)
    if known:
        for slot in range(unit.buff_count):
            at = _integer(out, at, _BUFF_IDS, w.buffs[row, slot].id)
    if own:
        at = _harvesters_and_weapon(w, unit, out, at)
    if known:
        at = _condition(w, unit, own, out, at)
    if own:
        at = _timer_and_rally(unit, out, at, part)
    return at


@entry
def write_units(
    state: np.ndarray,
    view: View,
    on_screen: np.ndarray,
    number: int,
    out: np.ndarray,
) -> int:
    """Writes the units of a view as a repeated field and returns how many bytes that takes.

    on_screen: [N] whether each is on the screen. number: of the field. out: room for
    MAX_UNIT_BYTES a unit.
    """
    w = state[0]
    units, rows, display = view.units, view.rows, view.display
    alliance, cloak = view.alliance, view.cloak
    body = np.empty(MAX_UNIT_BYTES, np.uint8)
    part = np.empty(_PART_BYTES, np.uint8)
    end = 0
    for i in range(len(units)):
        unit = units[i]
        at = _integer(body, 0, _DISPLAY_TYPE, display[i])
        at = _integer(body, at, _ALLIANCE, alliance[i])
        at = _integer(body, at, _TAG, unit.tag)
        at = _integer(body, at, _UNIT_TYPE, unit.unit_type)
        at = _integer(body, at, _OWNER, unit.owner)
        at = _point(body, at, _POS, unit.x, unit.y, unit.z)
        at = _float(body, at, _FACING, unit.facing)
        at = _float(body, at, _RADIUS, unit.radius)
        at = _float(body, at, _BUILD_PROGRESS, unit.build_progress)
        at = _integer(body, at, _CLOAK, cloak[i])
        if alliance[i] == ALLIANCE_SELF:
            at = _integer(body, at, _IS_SELECTED, 1 if unit.selected == 1 else 0)
        at = _integer(body, at, _IS_ON_SCREEN, on_screen[i])
        at = _integer(body, at, _IS_BLIP, view.blip[i])
        visible = display[i] == DISPLAY_VISIBLE
        known = visible and cloak[i] != CLOAKED
        own = visible and alliance[i] == ALLIANCE_SELF
        at = _details(w, unit, rows[i], known, own, body, at, part)
        end = _framed(out, end, number, body, at)
    return end
