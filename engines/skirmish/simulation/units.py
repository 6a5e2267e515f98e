"""Units come, change and go: rows, tags, orders, buffs, and the log of what happened.

Compiled primitives over the world's arrays that every other kernel uses. Knows the tables of
the rules, but no rule of play.
"""

import numpy as np

from starmill.engines.skirmish.simulation import ids, records
from starmill.engines.skirmish.simulation.records import (
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
    OWNER_NEUTRAL,
    RNG,
    ROWS,
    TAG_SHIFT,
    State,
)
from starmill.schema.compilation import kernel


@kernel
def random_below(w: State, limit: int) -> int:
    """Returns the next random integer in [0, limit): splitmix64 over the clock's state."""
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
def log_event(w: State, kind: int, row: int, other_tag: int) -> None:
    """Appends to the event log; when it is full, further events are dropped."""
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
    """Appends a refused command; when the log is full, further ones are dropped."""
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
    """Tells a player something; one alert of a kind per two seconds."""
    if player != 1 and player != 2:
        return
    loop = w.clock[LOOP]
    for k in range(MAX_ALERTS):
        old = w.alerts[player, k]
        if old.kind == kind and loop - old.loop < 45:
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
    """Gives a unit a buff, or renews it. loops 0: until removed."""
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
    found = False
    for k in range(w.units[row].buff_count):
        found = found or w.buffs[row, k].id == buff
    return found


@kernel
def remove_buff(w: State, row: int, buff: int) -> None:
    """Takes a buff away, keeping the order of the others."""
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
    """Forgets all orders. What was paid for them must be given back before."""
    w.units[row].order_count = 0
    w.units[row].engaged = 0
    w.units[row].path_until = 0
    w.units[row].hold = 0
    w.orders[row, 0].stage = 0


@kernel
def push_order(
    w: State, row: int, ability: int, target: int, tag: int, x: float, y: float
) -> int:
    """Appends an order and returns its index, or -1 if the queue is full."""
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
    order.stage = 0
    order.paid = 0
    order.product_row = -1
    unit.order_count = k + 1
    return k


@kernel
def drop_order(w: State, row: int, index: int) -> None:
    """Removes one order; those behind it move up."""
    unit = w.units[row]
    for k in range(index, unit.order_count - 1):
        w.orders[row, k] = w.orders[row, k + 1]
    unit.order_count -= 1
    unit.path_until = 0
    unit.engaged = 0


@kernel
def _footprint(w: State, row: int, value: int) -> None:
    """Marks the cells under a structure as taken (1) or free (0)."""
    unit = w.units[row]
    size = w.unit_rules[unit.unit_type].footprint
    if size == 0 or unit.flying:
        return
    x0 = int(np.floor(unit.x - size / 2.0 + 0.5))
    y0 = int(np.floor(unit.y - size / 2.0 + 0.5))
    for y in range(max(y0, 0), min(y0 + size, w.map_height)):
        for x in range(max(x0, 0), min(x0 + size, w.map_width)):
            if value:
                w.occupied[y, x] |= 1
            else:
                w.occupied[y, x] &= 254


@kernel
def ground_z(w: State, x: float, y: float) -> float:
    """Returns the terrain's height in world units at a point."""
    column = min(max(int(x), 0), w.map_width - 1)
    row = min(max(int(y), 0), w.map_height - 1)
    return (w.height[row, column] - 127) / 8.0


@kernel
def _set_type(w: State, row: int, unit_type: int) -> None:
    """Writes what follows from the type alone."""
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
    unit.z = ground_z(w, unit.x, unit.y) + (3.75 if rule.flying else 0.0)


@kernel
def max_health(w: State, owner: int, unit_type: int) -> float:
    """Returns the health of a unit of this type with its owner's upgrades."""
    rule = w.unit_rules[unit_type]
    health = rule.health
    if owner == 1 or owner == 2:
        if rule.up0_stat == 3 and w.upgrades[owner, rule.up0]:
            health += rule.up0_amount
        if rule.up1_stat == 3 and w.upgrades[owner, rule.up1]:
            health += rule.up1_amount
    return health


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

    progress: 1 for a finished unit; less for a building site, which starts weak.
    """
    row = _free_row(w)
    if row < 0:
        return -1
    unit = w.units[row]
    recycle = unit.recycle + 1
    w.units[row] = w.units[MAX_UNITS]  # the blank row
    unit.recycle = recycle
    unit.tag = ((row + 1) << TAG_SHIFT) | recycle
    unit.alive = 1
    unit.owner = owner
    unit.x = x
    unit.y = y
    unit.facing = 4.712388980384690  # towards the viewer, as in the game
    _set_type(w, row, unit_type)
    rule = w.unit_rules[unit_type]
    unit.health_max = max_health(w, owner, unit_type)
    unit.build_progress = progress
    start = 1.0 if progress >= 1.0 else 0.1
    unit.health = unit.health_max * start
    unit.shield = unit.shield_max * start
    unit.energy = rule.energy_start
    unit.born_loop = w.clock[LOOP]
    if rule.structure:
        _footprint(w, row, 1)
        w.clock[CHANGED] = w.clock[LOOP]
    log_event(
        w, records.EVENT_BORN if progress >= 1.0 else records.EVENT_STARTED, row, 0
    )
    return row


@kernel
def change_type(w: State, row: int, unit_type: int) -> None:
    """Turns a unit into another type, keeping its share of health, its tag and its place."""
    unit = w.units[row]
    share = unit.health / unit.health_max if unit.health_max > 0 else 1.0
    _footprint(w, row, 0)
    before_energy = unit.energy_max
    _set_type(w, row, unit_type)
    unit.health_max = max_health(w, unit.owner, unit_type)
    unit.health = unit.health_max * share
    unit.shield = min(unit.shield, unit.shield_max)
    if before_energy == 0 and unit.energy_max > 0:
        unit.energy = w.unit_rules[unit_type].energy_start
    unit.path_until = 0
    _footprint(w, row, 1)
    log_event(w, records.EVENT_TYPE_CHANGED, row, 0)


@kernel
def _forget(w: State, row: int) -> None:
    """Frees a row and the links to it."""
    unit = w.units[row]
    _footprint(w, row, 0)
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
    """Takes a passenger off its carrier's list. It stays where the carrier is."""
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
    """Takes a unit out of the game without anybody's doing (consumed, expired, merged)."""
    log_event(w, records.EVENT_DIED, row, 0)
    _forget(w, row)


@kernel
def _open_way(w: State, row: int) -> None:
    """Makes the ground under a destroyed rock passable; known ways are found anew."""
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
    if unit.hallucination == 0 and (unit.owner == 1 or unit.owner == 2):
        loser = w.players[unit.owner]
        loser.lost_minerals += rule.minerals
        loser.lost_vespene += rule.vespene
        winner = w.players[3 - unit.owner]
        winner.killed_minerals += rule.minerals
        winner.killed_vespene += rule.vespene
        if rule.structure:
            winner.killed_structures += 1
        else:
            winner.killed_units += 1
    if rule.rock:
        _open_way(w, row)
    w.clock[CHANGED] = w.clock[LOOP]
    log_event(w, records.EVENT_DIED, row, w.units[killer].tag if killer >= 0 else 0)
    _forget(w, row)


@kernel
def kill(w: State, row: int, killer: int) -> None:
    """A unit dies by another's hand; its passengers die too, but a bunker's crew gets out."""
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
    """Returns whether the two units belong to different players (neutral is nobody's enemy)."""
    a = w.units[row].owner
    b = w.units[other].owner
    return a != b and a != OWNER_NEUTRAL and b != OWNER_NEUTRAL


@kernel
def distance(w: State, row: int, other: int) -> float:
    """Returns the distance between two units' edges; negative when they overlap."""
    a = w.units[row]
    b = w.units[other]
    dx = a.x - b.x
    dy = a.y - b.y
    return np.sqrt(dx * dx + dy * dy) - a.radius - b.radius


@kernel
def _pace(buff: int) -> float:
    """Returns what a buff multiplies a unit's speed by."""
    if buff == ids.BUFF_STIM or buff == ids.BUFF_STIM_MARAUDER:
        return 1.5
    if buff == ids.BUFF_SLOW:
        return 0.5
    if buff == ids.BUFF_AFTERBURNERS or buff == ids.BUFF_CHARGE:
        return 1.7
    if buff == ids.BUFF_PRISMATIC_ALIGNMENT:
        return 0.6
    return 1.0


@kernel
def speed_of(w: State, row: int) -> float:
    """Returns how far the unit moves in a loop, with upgrades, buffs and creep."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    speed = rule.speed
    if unit.owner == 1 or unit.owner == 2:
        if rule.up0_stat == 1 and w.upgrades[unit.owner, rule.up0]:
            speed += rule.up0_amount
        if rule.up1_stat == 1 and w.upgrades[unit.owner, rule.up1]:
            speed += rule.up1_amount
    if rule.race == 2 and not rule.flying and not rule.worker:
        column = min(max(int(unit.x), 0), w.map_width - 1)
        line = min(max(int(unit.y), 0), w.map_height - 1)
        if w.creep[line, column]:
            speed *= 2.6 if unit.unit_type == ids.UNIT_QUEEN else 1.3
    for k in range(unit.buff_count):
        speed *= _pace(w.buffs[row, k].id)
    return speed
