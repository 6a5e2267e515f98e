"""One game loop: every unit works on its first order, then the world is updated.

In: the state. Out: the state a loop later. The order within a loop is fixed: units act in the
order of their rows, units that overlap are pushed apart, area effects act, and counts are taken.
Every few loops, creep, power, vision and the counts of workers are updated.
"""

from starmill.engines.skirmish.simulation import action_results, ids
from starmill.engines.skirmish.simulation.accounts import keep_score
from starmill.engines.skirmish.simulation.combat import (
    attack_order,
    defend,
    fire_from_bunker,
    look_around,
)
from starmill.engines.skirmish.simulation.economy import (
    HOMEBOUND,
    count_harvesters,
    gather_order,
    make_larvae,
    recount,
)
from starmill.engines.skirmish.simulation.effects import (
    charge,
    run_effects,
    spell_order,
    tend,
    upkeep,
)
from starmill.engines.skirmish.simulation.movement import push_apart, walk, walk_to
from starmill.engines.skirmish.simulation.orders import unload_passenger
from starmill.engines.skirmish.simulation.production import (
    SITE_PROGRESS,
    add_on_order,
    archon_order,
    build_order,
    grow,
    hatch_order,
    land_order,
    morph_order,
    work_queue,
)
from starmill.engines.skirmish.simulation.records import (
    LOOP,
    MAX_CARGO,
    OWNER_NEUTRAL,
    ROWS,
    STAGE_STARTED,
    STAGE_WAITING,
    TARGET_NONE,
    TARGET_POINT,
    TARGET_UNIT,
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
    follow_target,
    has_buff,
    push_order,
    random_below,
    spawn,
)
from starmill.engines.skirmish.simulation.vision import VISION_LOOPS, refresh_vision
from starmill.schema.compilation import kernel
from starmill.schema.game_constants import ZERG

CREEP_LOOPS = 32
HARVEST_LOOPS = 16
REPAIR_PER_LOOP = 0.6
REPAIR_GAP = 0.3  # at which a worker can repair
REPAIR_PAY_LOOPS = 16  # a mineral each
AUTOCAST_WARP_GATE = 3  # its bit in a gateway's `autocast`: set means switched off
BOARD_GAP = 0.5  # at which a unit can get into a transport
UNLOAD_LOOPS = 11  # one passenger each half second
UNLOAD_STOP = 0.3
ARRIVE_STOP = 0.1
FOLLOW_GAP, FOLLOW_STOP = 0.8, 0.5
# A unit this near to its goal for so long has arrived.
CROWD_RADIUS, CROWD_LOOPS = 1.5, 30
PATROL_REACH, PATROL_STOP = 4.0, 0.5
PATROL_TO_POINT, PATROL_BACK = 1, 2  # stages of a patrol
TEND_REACH, TEND_REACH_IDLE = 7.0, 6.0
WANDER_CHANCE, WANDER_CELLS = 200, 9  # a critter moves once in so many loops, so far


@kernel
def _board(w: State, row: int, carrier: int) -> bool:
    """Puts a unit into a transport that it has reached. Returns False if there is no room."""
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
    """Walks to a transport for one loop. Returns True when the order is done."""
    carrier = find(w, w.orders[row, 0].target_tag)
    if carrier < 0 or w.units[carrier].cargo_max == 0:
        return True
    walk(w, row, w.units[carrier].x, w.units[carrier].y, ARRIVE_STOP)
    if distance(w, row, carrier) > BOARD_GAP:
        return False
    _board(w, row, carrier)
    return True


@kernel
def _load_order(w: State, row: int) -> bool:
    """Lets a transport fetch a unit for one loop. Returns True when the order is done."""
    passenger = find(w, w.orders[row, 0].target_tag)
    if passenger < 0 or w.units[passenger].carrier >= 0:
        return True
    if w.unit_rules[w.units[row].unit_type].speed > 0.0:
        walk(w, row, w.units[passenger].x, w.units[passenger].y, ARRIVE_STOP)
    else:
        walk(w, passenger, w.units[row].x, w.units[row].y, ARRIVE_STOP)
    if distance(w, row, passenger) > BOARD_GAP:
        return False
    _board(w, passenger, row)
    return True


@kernel
def _unload_order(w: State, row: int) -> bool:
    """Flies to a point and unloads there, for one loop. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == STAGE_WAITING:
        if not walk(w, row, order.x, order.y, UNLOAD_STOP):
            return False
        order.stage = STAGE_STARTED
    if unit.cargo_count == 0:
        return True
    if (w.clock[LOOP] + row) % UNLOAD_LOOPS:
        return False
    return not unload_passenger(w, row, unit.cargo_count - 1)


@kernel
def _move_order(w: State, row: int) -> bool:
    """Moves to a point, or follows a unit, for one loop. Returns True when the order is done."""
    order = w.orders[row, 0]
    if order.target == TARGET_UNIT:
        target = follow_target(w, order)
        if target < 0:
            return True
        stop = w.units[target].radius + w.units[row].radius + FOLLOW_STOP
        walk(w, row, order.x, order.y, stop)
        return w.unit_rules[w.units[target].unit_type].speed <= 0.0 and (
            distance(w, row, target) < FOLLOW_GAP
        )
    # Units sent to one point would push each other for ever: being near for a while is enough.
    unit = w.units[row]
    dx, dy = order.x - unit.x, order.y - unit.y
    near = dx * dx + dy * dy < CROWD_RADIUS * CROWD_RADIUS
    if near and unit.flying == 0 and unit.order_count == 1:
        order.stage += 1  # counts loops
        if order.stage > CROWD_LOOPS:
            return True
    return walk_to(w, row, order.x, order.y)


@kernel
def _patrol_order(w: State, row: int) -> bool:
    """Patrols for one loop between the order's point and where the patrol began.

    Keeps the latter in the rally point. Returns True when another order is waiting.
    """
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == STAGE_WAITING:
        unit.rally_x = unit.x
        unit.rally_y = unit.y
        order.stage = PATROL_TO_POINT
    x, y = unit.rally_x, unit.rally_y
    if order.stage == PATROL_TO_POINT:
        x, y = order.x, order.y
    target = look_around(w, row, PATROL_REACH)
    if target >= 0:
        defend(w, row)
    elif walk(w, row, x, y, PATROL_STOP):
        outward = order.stage == PATROL_BACK
        order.stage = PATROL_TO_POINT if outward else PATROL_BACK
        unit.path_until = 0
        return unit.order_count > 1
    return False


@kernel
def _repair_order(w: State, row: int) -> bool:
    """Repairs for one loop. Returns True when the order is done."""
    target = find(w, w.orders[row, 0].target_tag)
    if target < 0:
        return True
    friend = w.units[target]
    if friend.health >= friend.health_max:
        return True
    if distance(w, row, target) > REPAIR_GAP:
        walk(w, row, friend.x, friend.y, ARRIVE_STOP)
        return False
    health = min(friend.health + REPAIR_PER_LOOP, friend.health_max)
    player = w.players[w.units[row].owner]
    player.healed[0] += health - friend.health
    friend.health = health
    if w.clock[LOOP] % REPAIR_PAY_LOOPS == 0 and player.minerals > 0:
        player.minerals -= 1
        player.spent_minerals += 1
    return False


@kernel
def _tumor_order(w: State, row: int) -> bool:
    """Works on an order to plant a creep tumor for one loop. Returns True when it is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    if not walk(w, row, order.x, order.y, rule.range):
        return w.unit_rules[unit.unit_type].speed <= 0.0
    x, y = snap(1, order.x), snap(1, order.y)
    if placement_error(w, unit.owner, rule.makes, x, y) != action_results.SUCCESS:
        return True
    if unit.unit_type == ids.UNIT_CREEP_TUMOR_BURROWED:
        if unit.wait > 0.0:  # a tumor spreads once
            return True
        unit.wait = 1.0
    elif unit.energy < rule.energy:
        return True
    unit.energy = max(unit.energy - rule.energy, 0.0)
    spawn(w, rule.makes, unit.owner, x, y, SITE_PROGRESS)
    return True


@kernel
def _return_order(w: State, row: int) -> bool:
    """Works on an order to carry a load home for one loop; the worker then goes on gathering.

    Returns True when the order is done.
    """
    order = w.orders[row, 0]
    if order.stage != HOMEBOUND:
        unit = w.units[row]
        if unit.carry_minerals + unit.carry_vespene == 0:
            return True
        order.stage = HOMEBOUND
        order.target = TARGET_UNIT
    return gather_order(w, row)


@kernel
def _attack_order(w: State, row: int) -> bool:
    """Attacks for one loop; unarmed units move, and medivacs heal on the way.

    Returns True when the order is done.
    """
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if unit.unit_type == ids.UNIT_ZEALOT and w.upgrades[unit.owner, ids.UPGRADE_CHARGE]:
        charge(w, row)
    if rule.ground_damage <= 0 and rule.air_damage <= 0:
        if unit.unit_type == ids.UNIT_MEDIVAC and tend(w, row, TEND_REACH, False):
            return False
        return _move_order(w, row)
    return attack_order(w, row, rule.speed > 0.0)


@kernel
def _work_on_making(w: State, row: int, kind: int) -> bool:
    """Works on an order that makes or becomes something. Returns True when it is done."""
    if kind == ids.KIND_BUILD:
        return build_order(w, row)
    if kind == ids.KIND_MORPH:
        return morph_order(w, row)
    if kind == ids.KIND_HATCH:
        return hatch_order(w, row)
    if kind == ids.KIND_ADD_ON:
        return add_on_order(w, row)
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
def _work_on_errand(w: State, row: int, kind: int) -> bool:
    """Works on an order to go somewhere and do something. Returns True when it is done."""
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
def _is_errand(kind: int) -> bool:
    """Returns whether `_work_on_errand` works on orders of this kind."""
    transport = (
        kind == ids.KIND_LOAD or kind == ids.KIND_SMART or kind == ids.KIND_UNLOAD_AT
    )
    other = kind == ids.KIND_PATROL or kind == ids.KIND_REPAIR or kind == ids.KIND_SPELL
    return transport or other


@kernel
def _act(w: State, row: int) -> None:
    """Works on the unit's first order for one loop."""
    kind = w.ability_rules[w.orders[row, 0].ability].kind
    tag = w.units[row].tag
    if kind == ids.KIND_GATHER:
        done = gather_order(w, row)
    elif kind == ids.KIND_MOVE:
        done = _move_order(w, row)
    elif kind == ids.KIND_ATTACK:
        done = _attack_order(w, row)
    elif kind == ids.KIND_RETURN:
        done = _return_order(w, row)
    elif _is_errand(kind):
        done = _work_on_errand(w, row, kind)
    else:
        done = _work_on_making(w, row, kind)
    # The order may have used the unit up: a drone becomes a building.
    same = w.units[row].alive and w.units[row].tag == tag
    if done and same and w.units[row].order_count > 0:
        drop_order(w, row, 0)


@kernel
def _idle(w: State, row: int) -> None:
    """Lets a unit without orders fight, heal, or turn into a warp gate."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.ground_damage > 0 or rule.air_damage > 0:
        if rule.needs_power == 0 or unit.powered:
            defend(w, row)
    elif unit.unit_type == ids.UNIT_MEDIVAC:
        tend(w, row, TEND_REACH_IDLE, False)
    elif unit.unit_type == ids.UNIT_SHIELD_BATTERY and unit.powered:
        tend(w, row, TEND_REACH_IDLE, True)
    elif unit.unit_type == ids.UNIT_GATEWAY and unit.powered:
        automatic = unit.autocast & (1 << AUTOCAST_WARP_GATE) == 0
        if automatic and w.upgrades[unit.owner, ids.UPGRADE_WARP_GATE]:
            ability = ids.ABILITY_MORPH_WARP_GATE
            push_order(w, row, ability, TARGET_NONE, 0, 0.0, 0.0)


@kernel
def _wander(w: State, row: int) -> None:
    """Lets a critter walk about."""
    unit = w.units[row]
    if unit.order_count == 0 and random_below(w, WANDER_CHANCE) == 0:
        x = unit.x + random_below(w, WANDER_CELLS) - WANDER_CELLS // 2
        y = unit.y + random_below(w, WANDER_CELLS) - WANDER_CELLS // 2
        push_order(w, row, ids.ABILITY_MOVE, TARGET_POINT, 0, x, y)
    if unit.order_count > 0:
        _act(w, row)


@kernel
def _live(w: State, row: int) -> None:
    """Plays one loop of one unit."""
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
    if rule.town_hall and rule.race == ZERG:
        make_larvae(w, row)
    tag = unit.tag
    unit.cooldown = max(unit.cooldown - 1.0, -1.0)
    upkeep(w, row)
    if unit.alive == 0 or has_buff(w, row, ids.BUFF_GRAVITON_BEAM):
        return
    if unit.unit_type == ids.UNIT_BUNKER:
        fire_from_bunker(w, row)
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
    push_apart(w)
    run_effects(w)
    recount(w)
    loop = w.clock[LOOP] + 1
    w.clock[LOOP] = loop
    keep_score(w)
    if loop % CREEP_LOOPS == 0:
        draw_creep(w)
    if loop % VISION_LOOPS == 0:
        draw_power(w)
        refresh_vision(w)
    if loop % HARVEST_LOOPS == 0:
        count_harvesters(w)


@kernel
def advance(w: State, loops: int) -> int:
    """Plays up to `loops` loops, and stops after one in which a player loses the last building.

    Returns how many loops were played.
    """
    for played in range(loops):
        _one_loop(w)
        if w.players[1].building_count == 0 or w.players[2].building_count == 0:
            return played + 1
    return loops


@kernel
def prepare(w: State) -> None:
    """Sets counts, creep and power of a new world from its units."""
    recount(w)
    draw_creep(w)
    draw_power(w)
    count_harvesters(w)
