"""One game loop: every unit does the next bit of what it was told, then the world follows.

The order within a loop is fixed: units in order of their rows, then bodies part, effects act,
counts are taken, and every few loops the ground and the view are drawn anew.
"""

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.combat import (
    attack_order,
    crew_fires,
    defend,
    look_around,
)
from starmill.engines.skirmish.simulation.economy import (
    HOME,
    count_harvesters,
    gather_order,
    make_larvae,
    recount,
)
from starmill.engines.skirmish.simulation.effects import (
    charge,
    refresh,
    run_effects,
    spell_order,
    tend,
)
from starmill.engines.skirmish.simulation.movement import keep_apart, walk
from starmill.engines.skirmish.simulation.orders import put_down_passenger
from starmill.engines.skirmish.simulation.production import (
    archon_order,
    build_order,
    grow,
    hatch_order,
    land_order,
    morph_order,
    start_add_on,
    work_queue,
)
from starmill.engines.skirmish.simulation.records import (
    LOOP,
    MAX_CARGO,
    OWNER_NEUTRAL,
    ROWS,
    State,
)
from starmill.engines.skirmish.simulation.terrain import (
    draw_creep,
    draw_power,
    placement_error,
    snap,
)
from starmill.engines.skirmish.simulation.units import (
    distance,
    drop_order,
    find,
    push_order,
    random_below,
    spawn,
)
from starmill.engines.skirmish.simulation.vision import VISION_LOOPS
from starmill.engines.skirmish.simulation.vision import refresh as look
from starmill.schema.compilation import kernel

CREEP_LOOPS = 32
HARVEST_LOOPS = 16
REPAIR_PER_LOOP = 0.6
SUCCESS = 1
MORPH_WARP_GATE = 1518
AUTOCAST_WARP_GATE = 3


@kernel
def _board(w: State, row: int, carrier: int) -> bool:
    """A unit gets into a transport that it has reached. Returns False if there is no room."""
    transport = w.units[carrier]
    size = w.unit_rules[w.units[row].unit_type].cargo
    full = transport.cargo_used + size > transport.cargo_max
    if full or transport.cargo_count >= MAX_CARGO or size == 0:
        return False
    w.cargo[carrier, transport.cargo_count] = row
    transport.cargo_count += 1
    transport.cargo_used += size
    unit = w.units[row]
    unit.carrier = carrier
    unit.order_count = 0
    unit.engaged = 0
    unit.selected = 0
    return True


@kernel
def _board_order(w: State, row: int) -> bool:
    """One loop of walking to a transport. Returns True when the order is done."""
    carrier = find(w, w.orders[row, 0].target_tag)
    if carrier < 0 or w.units[carrier].cargo_max == 0:
        return True
    walk(w, row, w.units[carrier].x, w.units[carrier].y, 0.1)
    if distance(w, row, carrier) > 0.5:
        return False
    _board(w, row, carrier)
    return True


@kernel
def _load_order(w: State, row: int) -> bool:
    """One loop of a transport fetching a unit. Returns True when the order is done."""
    passenger = find(w, w.orders[row, 0].target_tag)
    if passenger < 0 or w.units[passenger].carrier >= 0:
        return True
    if w.unit_rules[w.units[row].unit_type].speed > 0.0:
        walk(w, row, w.units[passenger].x, w.units[passenger].y, 0.1)
    else:
        walk(w, passenger, w.units[row].x, w.units[row].y, 0.1)
    if distance(w, row, passenger) > 0.5:
        return False
    _board(w, passenger, row)
    return True


@kernel
def _unload_order(w: State, row: int) -> bool:
    """One loop of flying somewhere and putting the passengers down. True when done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == 0:
        if not walk(w, row, order.x, order.y, 0.3):
            return False
        order.stage = 1
    if unit.cargo_count == 0:
        return True
    if (w.clock[LOOP] + row) % 11:  # one passenger each half second
        return False
    return not put_down_passenger(w, row, unit.cargo_count - 1)


@kernel
def _move_order(w: State, row: int) -> bool:
    order = w.orders[row, 0]
    stop = 0.1
    if order.target == 2:
        target = find(w, order.target_tag)
        if target < 0:
            return True
        order.x = w.units[target].x
        order.y = w.units[target].y
        stop = w.units[target].radius + w.units[row].radius + 0.5
        walk(w, row, order.x, order.y, stop)
        return w.unit_rules[w.units[target].unit_type].speed <= 0.0 and (
            distance(w, row, target) < 0.8
        )
    # Many units sent to one point would jostle for ever: near and slow is good enough.
    unit = w.units[row]
    dx, dy = order.x - unit.x, order.y - unit.y
    if dx * dx + dy * dy < 2.25 and unit.flying == 0 and unit.order_count == 1:
        order.stage += 1
        if order.stage > 30:
            return True
    return walk(w, row, order.x, order.y, stop)


@kernel
def _patrol_order(w: State, row: int) -> bool:
    """One loop of patrolling between two points (the second kept in the rally point)."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == 0:
        unit.rally_x = unit.x
        unit.rally_y = unit.y
        order.stage = 1
    x, y = (order.x, order.y) if order.stage == 1 else (unit.rally_x, unit.rally_y)
    target = look_around(w, row, 4.0)
    if target >= 0:
        defend(w, row)
    elif walk(w, row, x, y, 0.5):
        order.stage = 3 - order.stage
        unit.path_until = 0
        return unit.order_count > 1
    return False


@kernel
def _repair_order(w: State, row: int) -> bool:
    target = find(w, w.orders[row, 0].target_tag)
    if target < 0:
        return True
    friend = w.units[target]
    if friend.health >= friend.health_max:
        return True
    if distance(w, row, target) > 0.3:
        walk(w, row, friend.x, friend.y, 0.1)
        return False
    friend.health = min(friend.health + REPAIR_PER_LOOP, friend.health_max)
    if w.clock[LOOP] % 16 == 0 and w.players[w.units[row].owner].minerals > 0:
        w.players[w.units[row].owner].minerals -= 1
    return False


@kernel
def _tumor_order(w: State, row: int) -> bool:
    """One loop of planting a creep tumor. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    if not walk(w, row, order.x, order.y, rule.range):
        return w.unit_rules[unit.unit_type].speed <= 0.0
    x, y = snap(1, order.x), snap(1, order.y)
    if placement_error(w, unit.owner, rule.makes, x, y) != SUCCESS:
        return True
    if unit.unit_type == ids.UNIT_CREEP_TUMOR_BURROWED:
        if unit.wait > 0.0:  # a tumor spreads once
            return True
        unit.wait = 1.0
    elif unit.energy < rule.energy:
        return True
    unit.energy = max(unit.energy - rule.energy, 0.0)
    spawn(w, rule.makes, unit.owner, x, y, 0.001)
    return True


@kernel
def _return_order(w: State, row: int) -> bool:
    """Carries a load home on its own order, then goes on gathering."""
    order = w.orders[row, 0]
    if order.stage != HOME:
        unit = w.units[row]
        if unit.carry_minerals + unit.carry_vespene == 0:
            return True
        order.stage = HOME
        order.target = 2
    return gather_order(w, row)


@kernel
def _go_fight(w: State, row: int) -> bool:
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if unit.unit_type == ids.UNIT_ZEALOT and w.upgrades[unit.owner, 86]:
        charge(w, row)
    if rule.ground_damage <= 0 and rule.air_damage <= 0:
        if unit.unit_type == ids.UNIT_MEDIVAC and tend(w, row, 7.0, False):
            return False
        return _move_order(w, row)
    return attack_order(w, row, rule.speed > 0.0)


@kernel
def _make_step(w: State, row: int, kind: int) -> bool:
    """The next loop of an order that makes or becomes something. True when it is done."""
    if kind == ids.KIND_BUILD:
        return build_order(w, row)
    if kind == ids.KIND_MORPH:
        return morph_order(w, row)
    if kind == ids.KIND_HATCH:
        return hatch_order(w, row)
    if kind == ids.KIND_ADD_ON:
        return start_add_on(w, row)
    if kind == ids.KIND_LAND:
        return land_order(w, row)
    if kind == ids.KIND_ARCHON:
        return archon_order(w, row)
    if kind == ids.KIND_TUMOR:
        return _tumor_order(w, row)
    if kind == ids.KIND_TRAIN or kind == ids.KIND_RESEARCH:
        work_queue(w, row)
        return False
    return True


@kernel
def _go_step(w: State, row: int, kind: int) -> bool:
    """The next loop of an order to go and do something. True when it is done."""
    if kind == ids.KIND_SPELL:
        return spell_order(w, row)
    if kind == ids.KIND_LOAD:
        return _load_order(w, row)
    if kind == ids.KIND_SMART:
        return _board_order(w, row)
    if kind == ids.KIND_UNLOAD_AT:
        return _unload_order(w, row)
    if kind == ids.KIND_PATROL:
        return _patrol_order(w, row)
    return _repair_order(w, row)


@kernel
def _goes_and_does(kind: int) -> bool:
    """Returns whether an order of this kind is carried out by `_go_step`."""
    transport = (
        kind == ids.KIND_LOAD or kind == ids.KIND_SMART or kind == ids.KIND_UNLOAD_AT
    )
    other = kind == ids.KIND_PATROL or kind == ids.KIND_REPAIR or kind == ids.KIND_SPELL
    return transport or other


@kernel
def _act(w: State, row: int) -> None:
    """The next loop of the unit's first order."""
    kind = w.ability_rules[w.orders[row, 0].ability].kind
    tag = w.units[row].tag
    if kind == ids.KIND_GATHER:
        done = gather_order(w, row)
    elif kind == ids.KIND_MOVE:
        done = _move_order(w, row)
    elif kind == ids.KIND_ATTACK:
        done = _go_fight(w, row)
    elif kind == ids.KIND_RETURN:
        done = _return_order(w, row)
    elif _goes_and_does(kind):
        done = _go_step(w, row, kind)
    else:
        done = _make_step(w, row, kind)
    # The unit may have died of its own order (a drone became a building).
    same = w.units[row].alive and w.units[row].tag == tag
    if done and same and w.units[row].order_count > 0:
        drop_order(w, row, 0)


@kernel
def _idle(w: State, row: int) -> None:
    """What a unit without orders does."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.ground_damage > 0 or rule.air_damage > 0:
        if rule.needs_power == 0 or unit.powered:
            defend(w, row)
    elif unit.unit_type == ids.UNIT_MEDIVAC:
        tend(w, row, 6.0, False)
    elif unit.unit_type == ids.UNIT_SHIELD_BATTERY and unit.powered:
        tend(w, row, 6.0, True)
    elif unit.unit_type == ids.UNIT_GATEWAY and unit.powered:
        wanted = unit.autocast & (1 << AUTOCAST_WARP_GATE) == 0
        if wanted and w.upgrades[unit.owner, ids.UPGRADE_WARP_GATE]:
            push_order(w, row, MORPH_WARP_GATE, 0, 0, 0.0, 0.0)


@kernel
def _wander(w: State, row: int) -> None:
    """A critter strolls about."""
    unit = w.units[row]
    if unit.order_count == 0 and random_below(w, 200) == 0:
        x = unit.x + random_below(w, 9) - 4.0
        y = unit.y + random_below(w, 9) - 4.0
        push_order(w, row, 16, 1, 0, x, y)
    if unit.order_count > 0:
        _act(w, row)


@kernel
def _live(w: State, row: int) -> None:
    """One loop in the life of one unit."""
    unit = w.units[row]
    if unit.owner == OWNER_NEUTRAL:
        if w.unit_rules[unit.unit_type].critter:
            _wander(w, row)
        return
    if unit.carrier >= 0:
        return
    if unit.build_progress < 1.0:
        grow(w, row)
        return
    rule = w.unit_rules[unit.unit_type]
    unit.active = 0
    if rule.town_hall and rule.race == 2:
        make_larvae(w, row)
    tag = unit.tag
    refresh(w, row)
    if unit.alive == 0:
        return
    unit.cooldown = max(unit.cooldown - 1.0, -1.0)
    if unit.unit_type == ids.UNIT_BUNKER:
        crew_fires(w, row)
    if unit.order_count > 0:
        _act(w, row)
    else:
        _idle(w, row)
    if unit.tag == tag and unit.order_count > 0 and not rule.structure:
        unit.active = 1


@kernel
def _one_loop(w: State) -> None:
    count = w.clock[ROWS]
    for row in range(count):
        if w.units[row].alive:
            _live(w, row)
    keep_apart(w)
    run_effects(w)
    recount(w)
    loop = w.clock[LOOP] + 1
    w.clock[LOOP] = loop
    if loop % CREEP_LOOPS == 0:
        draw_creep(w)
    if loop % VISION_LOOPS == 0:
        draw_power(w)
        look(w)
    if loop % HARVEST_LOOPS == 0:
        count_harvesters(w)


@kernel
def advance(w: State, loops: int) -> int:
    """Plays up to `loops` loops; stops after the one in which a player lost the last building.

    Returns how many were played.
    """
    for played in range(loops):
        _one_loop(w)
        if w.players[1].building_count == 0 or w.players[2].building_count == 0:
            return played + 1
    return loops


@kernel
def prepare(w: State) -> None:
    """Brings counts, creep and power of a new world into step with its units."""
    recount(w)
    draw_creep(w)
    draw_power(w)
    count_harvesters(w)
