"""Operations on single units: create, change and remove them, their orders and their buffs.

In: the state and the row of a unit. Out: the changed state, with an entry in the log of events.
Every other kernel uses these. Knows the rule tables, but not how anything is played.
"""

import numpy as np

from starmill.engines.skirmish.simulation import ids, records
from starmill.engines.skirmish.simulation.accounts import (
    count_change,
    count_kill,
    count_made,
    is_player,
)
from starmill.engines.skirmish.simulation.records import (
    BLANK_ROW,
    CHANGED,
    ERRORS,
    EVENTS,
    FIELD_SLOTS,
    LOOP,
    MAX_ALERTS,
    MAX_BUFFS,
    MAX_ERRORS,
    MAX_EVENTS,
    MAX_ORDERS,
    MAX_UNITS,
    OCCUPIED_BUILT,
    OWNER_NEUTRAL,
    RNG,
    ROWS,
    STAGE_WAITING,
    TAG_SHIFT,
    State,
)
from starmill.schema.compilation import kernel
from starmill.schema.game_constants import ZERG

ALERT_PAUSE_LOOPS = 45  # about two seconds between two alerts of a kind
FLYING_HEIGHT = 3.75  # above the ground
FACING_SOUTH = 4.712388980384690  # 3/2 pi: towards the viewer, as in the game
STIM_SPEED, SLOW_SPEED, BOOST_SPEED, PRISMATIC_SPEED = 1.5, 0.5, 1.7, 0.6
CREEP_SPEED, QUEEN_CREEP_SPEED = 1.3, 2.6
SITE_HEALTH = 0.1  # share of its health that a new building site has


@kernel
def random_below(w: State, limit: int) -> int:
    """Returns the next random integer in [0, limit), by splitmix64 on the clock's state."""
    state = np.uint64(w.clock[RNG]) + np.uint64(0x9E3779B97F4A7C15)
    w.clock[RNG] = np.int64(state)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return int((z >> np.uint64(33)) % np.uint64(limit))


@kernel
def find(w: State, tag: int) -> int:
    """Returns the row of the living unit with this tag, or -1."""
    row = (tag >> TAG_SHIFT) - 1
    if row < 0 or row >= MAX_UNITS:
        return -1
    if w.units[row].tag != tag or w.units[row].alive == 0:
        return -1
    return row


@kernel
def follow_target(w: State, order: State) -> int:
    """Moves an order's point to its target unit; returns the unit's row, or -1 if it is gone."""
    target = find(w, order.target_tag)
    if target >= 0:
        order.x = w.units[target].x
        order.y = w.units[target].y
    return target


@kernel
def log_event(w: State, kind: int, row: int, other_tag: int) -> None:
    """Appends to the log of events. Once it is full, further events are dropped."""
    index = w.clock[EVENTS]
    if index >= MAX_EVENTS:
        return
    event = w.events[index]
    unit = w.units[row]
    event.loop = w.clock[LOOP]
    event.kind = kind
    event.tag = unit.tag
    event.other_tag = other_tag
    event.player = unit.owner
    event.unit_type = unit.unit_type
    event.x = unit.x
    event.y = unit.y
    w.clock[EVENTS] = index + 1


@kernel
def log_error(w: State, player: int, ability: int, tag: int, code: int) -> None:
    """Appends a refused command to the log. Once it is full, further ones are dropped."""
    index = w.clock[ERRORS]
    if index >= MAX_ERRORS:
        return
    error = w.errors[index]
    error.loop = w.clock[LOOP]
    error.player = player
    error.ability = ability
    error.tag = tag
    error.code = code
    w.clock[ERRORS] = index + 1


@kernel
def alert(w: State, player: int, kind: int, x: float, y: float) -> None:
    """Alerts a player, unless there was an alert of this kind in the last two seconds."""
    if not is_player(player):
        return
    loop = w.clock[LOOP]
    for k in range(MAX_ALERTS):
        old = w.alerts[player, k]
        if old.kind == kind and loop - old.loop < ALERT_PAUSE_LOOPS:
            return
    slot = w.players[player].alert_count % MAX_ALERTS
    entry = w.alerts[player, slot]
    entry.kind = kind
    entry.loop = loop
    entry.x = x
    entry.y = y
    w.players[player].alert_count += 1


@kernel
def add_buff(w: State, row: int, buff: int, loops: int, source: int) -> None:
    """Gives a unit a buff, or renews it. With 0 loops it stays until it is removed."""
    unit = w.units[row]
    for k in range(unit.buff_count):
        if w.buffs[row, k].id == buff:
            w.buffs[row, k].remain = loops
            w.buffs[row, k].duration = loops
            return
    if unit.buff_count >= MAX_BUFFS:
        return
    entry = w.buffs[row, unit.buff_count]
    entry.id = buff
    entry.remain = loops
    entry.duration = loops
    entry.source = source
    unit.buff_count += 1


@kernel
def has_buff(w: State, row: int, buff: int) -> bool:
    """Returns whether the unit has the buff."""
    held = False
    for k in range(w.units[row].buff_count):
        held = held or w.buffs[row, k].id == buff
    return held


@kernel
def remove_buff(w: State, row: int, buff: int) -> None:
    """Removes a buff and keeps the order of the others."""
    unit = w.units[row]
    kept = 0
    for k in range(unit.buff_count):
        if w.buffs[row, k].id != buff:
            if kept != k:
                w.buffs[row, kept] = w.buffs[row, k]
            kept += 1
    unit.buff_count = kept


@kernel
def clear_orders(w: State, row: int) -> None:
    """Removes all orders. Does not refund what was paid for them."""
    w.units[row].order_count = 0
    w.units[row].engaged = 0
    w.units[row].path_until = 0
    w.units[row].hold = 0
    w.orders[row, 0].stage = STAGE_WAITING


@kernel
def push_order(
    w: State, row: int, ability: int, target: int, tag: int, x: float, y: float
) -> int:
    """Appends an order and returns its index, or -1 if the unit has no room for it."""
    unit = w.units[row]
    if unit.order_count >= MAX_ORDERS:
        return -1
    k = unit.order_count
    order = w.orders[row, k]
    order.ability = ability
    order.target = target
    order.target_tag = tag
    order.x = x
    order.y = y
    order.progress = 0.0
    order.stage = STAGE_WAITING
    order.paid = 0
    order.product_row = -1
    unit.order_count = k + 1
    return k


@kernel
def drop_order(w: State, row: int, index: int) -> None:
    """Removes one order; those after it move up."""
    unit = w.units[row]
    for k in range(index, unit.order_count - 1):
        w.orders[row, k] = w.orders[row, k + 1]
    unit.order_count -= 1
    unit.path_until = 0
    unit.engaged = 0


@kernel
def _mark_footprint(w: State, row: int, built: bool) -> None:
    """Marks the cells under a structure as built on, or as free again."""
    unit = w.units[row]
    size = w.unit_rules[unit.unit_type].footprint
    if size == 0 or unit.flying:
        return
    x0 = int(np.floor(unit.x - size / 2.0 + 0.5))
    y0 = int(np.floor(unit.y - size / 2.0 + 0.5))
    for y in range(max(y0, 0), min(y0 + size, w.map_height)):
        for x in range(max(x0, 0), min(x0 + size, w.map_width)):
            if built:
                w.occupied[y, x] |= OCCUPIED_BUILT
            else:
                w.occupied[y, x] &= 255 - OCCUPIED_BUILT


@kernel
def cell_at(w: State, x: float, y: float) -> tuple[int, int]:
    """Returns row and column of the cell at a point; points outside go to the map's edge."""
    column = min(max(int(x), 0), w.map_width - 1)
    row = min(max(int(y), 0), w.map_height - 1)
    return row, column


@kernel
def ground_z(w: State, x: float, y: float) -> float:
    """Returns the terrain's height in world units at a point."""
    row, column = cell_at(w, x, y)
    return (w.height[row, column] - 127) / 8.0


@kernel
def _set_type(w: State, row: int, unit_type: int) -> None:
    """Sets the fields that follow from the type alone."""
    unit = w.units[row]
    rule = w.unit_rules[unit_type]
    unit.unit_type = unit_type
    unit.radius = rule.radius
    unit.flying = rule.flying
    unit.burrowed = rule.burrowed
    unit.cloaked = rule.cloaked
    unit.cargo_max = rule.capacity
    unit.energy_max = rule.energy_max
    unit.shield_max = rule.shield
    unit.z = ground_z(w, unit.x, unit.y) + (FLYING_HEIGHT if rule.flying else 0.0)


@kernel
def upgraded(w: State, owner: int, unit_type: int, stat: int, value: float) -> float:
    """Returns a statistic of a unit type, `value` without upgrades, with its owner's."""
    rule = w.unit_rules[unit_type]
    if not is_player(owner):
        return value
    if rule.up0_stat == stat and w.upgrades[owner, rule.up0]:
        value += rule.up0_amount
    if rule.up1_stat == stat and w.upgrades[owner, rule.up1]:
        value += rule.up1_amount
    return value


@kernel
def max_health(w: State, owner: int, unit_type: int) -> float:
    """Returns the full health of a unit of this type with its owner's upgrades."""
    health = w.unit_rules[unit_type].health
    return upgraded(w, owner, unit_type, ids.STAT_HEALTH, health)


@kernel
def _free_row(w: State) -> int:
    for row in range(w.clock[ROWS]):
        if w.units[row].alive == 0:
            return row
    if w.clock[ROWS] < MAX_UNITS:
        w.clock[ROWS] += 1
        return w.clock[ROWS] - 1
    return -1


@kernel
def spawn(
    w: State, unit_type: int, owner: int, x: float, y: float, progress: float
) -> int:
    """Creates a unit and returns its row, or -1 if there is no room.

    progress: 1 for a finished unit; less for a building site, which starts with little health.
    """
    row = _free_row(w)
    if row < 0:
        return -1
    unit = w.units[row]
    recycle = unit.recycle + 1
    w.units[row] = w.units[BLANK_ROW]
    unit.recycle = recycle
    unit.tag = ((row + 1) << TAG_SHIFT) | recycle
    unit.alive = 1
    unit.owner = owner
    unit.x = x
    unit.y = y
    unit.facing = FACING_SOUTH
    _set_type(w, row, unit_type)
    rule = w.unit_rules[unit_type]
    unit.health_max = max_health(w, owner, unit_type)
    unit.build_progress = progress
    start = 1.0 if progress >= 1.0 else SITE_HEALTH
    unit.health = unit.health_max * start
    unit.shield = unit.shield_max * start
    unit.energy = rule.energy_start
    unit.born_loop = w.clock[LOOP]
    if rule.structure:
        _mark_footprint(w, row, True)
        w.clock[CHANGED] = w.clock[LOOP]
    if progress >= 1.0:
        count_made(w, owner, unit_type, 1)
    log_event(
        w, records.EVENT_BORN if progress >= 1.0 else records.EVENT_STARTED, row, 0
    )
    return row


@kernel
def change_type(w: State, row: int, unit_type: int) -> None:
    """Turns a unit into another type; it keeps its tag, its place and its share of health."""
    unit = w.units[row]
    share = unit.health / unit.health_max if unit.health_max > 0 else 1.0
    _mark_footprint(w, row, False)
    before_energy = unit.energy_max
    if unit.build_progress >= 1.0:
        count_change(w, unit.owner, unit.unit_type, unit_type)
    _set_type(w, row, unit_type)
    unit.health_max = max_health(w, unit.owner, unit_type)
    unit.health = unit.health_max * share
    unit.shield = min(unit.shield, unit.shield_max)
    if before_energy == 0 and unit.energy_max > 0:
        unit.energy = w.unit_rules[unit_type].energy_start
    unit.path_until = 0
    _mark_footprint(w, row, True)
    log_event(w, records.EVENT_TYPE_CHANGED, row, 0)


@kernel
def _free(w: State, row: int) -> None:
    """Frees a unit's row, and removes the links to it."""
    unit = w.units[row]
    _mark_footprint(w, row, False)
    if unit.carrier >= 0:
        leave_carrier(w, row)
    if unit.addon >= 0:
        w.units[unit.addon].host = -1
    if unit.host >= 0 and w.units[unit.host].addon == row:
        w.units[unit.host].addon = -1
    unit.alive = 0
    unit.order_count = 0
    unit.buff_count = 0
    unit.selected = 0


@kernel
def leave_carrier(w: State, row: int) -> None:
    """Removes a passenger from its carrier and puts it where the carrier is."""
    unit = w.units[row]
    carrier = w.units[unit.carrier]
    kept = 0
    for k in range(carrier.cargo_count):
        if w.cargo[unit.carrier, k] != row:
            w.cargo[unit.carrier, kept] = w.cargo[unit.carrier, k]
            kept += 1
    carrier.cargo_count = kept
    carrier.cargo_used -= w.unit_rules[unit.unit_type].cargo
    unit.x = carrier.x
    unit.y = carrier.y
    unit.carrier = -1


@kernel
def remove(w: State, row: int) -> None:
    """Removes a unit that nobody killed: it was consumed, expired or merged."""
    log_event(w, records.EVENT_DIED, row, 0)
    _free(w, row)


@kernel
def _clear_rock(w: State, row: int) -> None:
    """Makes the ground under a destroyed rock walkable and discards all path fields."""
    cx, cy = int(w.units[row].x) // 2, int(w.units[row].y) // 2
    for y in range(cy - 1, cy + 1):
        w.walkable[y, cx] = 1
    for slot in range(FIELD_SLOTS):
        w.field_goals[slot] = -1


@kernel
def _die(w: State, row: int, killer: int) -> None:
    """Scores a death and frees the row."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    count_kill(w, row)
    if rule.rock:
        _clear_rock(w, row)
    w.clock[CHANGED] = w.clock[LOOP]
    log_event(w, records.EVENT_DIED, row, w.units[killer].tag if killer >= 0 else 0)
    _free(w, row)


@kernel
def kill(w: State, row: int, killer: int) -> None:
    """Kills a unit. Its passengers die with it, except that a bunker's crew gets out.

    killer: row of the unit that did it, or -1.
    """
    unit = w.units[row]
    structure = w.unit_rules[unit.unit_type].structure
    while unit.cargo_count > 0:
        passenger = w.cargo[row, 0]
        leave_carrier(w, passenger)
        if not structure:
            _die(w, passenger, killer)
    _die(w, row, killer)


@kernel
def is_enemy(w: State, row: int, other: int) -> bool:
    """Returns whether two units belong to different players. Neutral units have no enemies."""
    a = w.units[row].owner
    b = w.units[other].owner
    return a != b and a != OWNER_NEUTRAL and b != OWNER_NEUTRAL


@kernel
def distance(w: State, row: int, other: int) -> float:
    """Returns the distance between the edges of two units; negative if they overlap."""
    a = w.units[row]
    b = w.units[other]
    dx = a.x - b.x
    dy = a.y - b.y
    return np.sqrt(dx * dx + dy * dy) - a.radius - b.radius


@kernel
def _speed_factor(buff: int) -> float:
    """Returns the factor by which a buff changes a unit's speed."""
    if buff == ids.BUFF_STIM or buff == ids.BUFF_STIM_MARAUDER:
        return STIM_SPEED
    if buff == ids.BUFF_SLOW:
        return SLOW_SPEED
    if buff == ids.BUFF_AFTERBURNERS or buff == ids.BUFF_CHARGE:
        return BOOST_SPEED
    if buff == ids.BUFF_PRISMATIC_ALIGNMENT:
        return PRISMATIC_SPEED
    return 1.0


@kernel
def speed_of(w: State, row: int) -> float:
    """Returns how far the unit moves in a loop, including upgrades, buffs and creep."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    speed = upgraded(w, unit.owner, unit.unit_type, ids.STAT_SPEED, rule.speed)
    if rule.race == ZERG and not rule.flying and not rule.worker:
        line, column = cell_at(w, unit.x, unit.y)
        if w.creep[line, column]:
            queen = unit.unit_type == ids.UNIT_QUEEN
            speed *= QUEEN_CREEP_SPEED if queen else CREEP_SPEED
    for k in range(unit.buff_count):
        speed *= _speed_factor(w.buffs[row, k].id)
    return speed
