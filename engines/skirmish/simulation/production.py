"""Making things: training, research, building, add-ons, morphing and hatching.

In: the row of a unit whose first order makes something. Out: its progress, and what it makes. An
order is paid when it is given, a building when the worker begins it. Food is checked when
training starts. A cancelled order is refunded in full, a building at three quarters.
"""

from starmill.engines.skirmish.simulation import action_results, ids, records
from starmill.engines.skirmish.simulation.accounts import (
    cheats,
    count_cancelled,
    count_made,
    count_upgrade,
)
from starmill.engines.skirmish.simulation.combat import set_levels
from starmill.engines.skirmish.simulation.economy import (
    has_food,
    pay,
    refund,
    refund_building,
)
from starmill.engines.skirmish.simulation.movement import exit_point, walk
from starmill.engines.skirmish.simulation.records import (
    CHANGED,
    CHEAT_FAST_BUILD,
    EVENTS,
    LOOP,
    ROWS,
    STAGE_STARTED,
    STAGE_WAITING,
    TARGET_NONE,
    TARGET_POINT,
    TARGET_UNIT,
    State,
)
from starmill.engines.skirmish.simulation.terrain import (
    geyser_at,
    placement_error,
    snap,
)
from starmill.engines.skirmish.simulation.units import (
    alert,
    change_type,
    clear_orders,
    distance,
    drop_order,
    find,
    has_buff,
    log_error,
    log_event,
    max_health,
    push_order,
    remove,
    spawn,
)
from starmill.schema.compilation import kernel
from starmill.schema.game_constants import TERRAN, ZERG

WARP_IN_LOOPS = 112.0  # five seconds, at every pylon
SITE_PROGRESS = 0.001  # of a building or warp-in when it begins
SITE_HEALTH_GAIN = 0.9  # share of its health that a building gains while it is built
CHRONO_RATE, CHEAT_RATE = 1.5, 10.0
REACH = 0.4  # gap at which a worker can begin a building
MERGE_GAP = 0.3  # gap at which two templars merge
ADD_ON_X, ADD_ON_Y = 2.5, -0.5  # of an add-on's centre, from its building's
FIRST_EXIT, ADD_ON_EXIT = 0, 7  # sides of a building for `exit_point`


@kernel
def send_to_rally(w: State, maker: int, row: int) -> None:
    """Orders a new unit to its maker's rally point: workers to gather there, others to move."""
    source = w.units[maker]
    if source.rally_kind == TARGET_NONE:
        return
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    target = find(w, source.rally_tag) if source.rally_kind == TARGET_UNIT else -1
    if target >= 0 and rule.worker:
        kind = w.unit_rules[w.units[target].unit_type]
        if kind.mineral_field or kind.gas_mine:
            push_order(w, row, rule.gather, TARGET_UNIT, source.rally_tag, 0.0, 0.0)
            return
    if rule.speed > 0.0:
        x, y = source.rally_x, source.rally_y
        push_order(w, row, ids.ABILITY_MOVE, TARGET_POINT, 0, x, y)


@kernel
def _alert_trained(w: State, owner: int, unit_type: int, x: float, y: float) -> None:
    worker = w.unit_rules[unit_type].worker
    kind = ids.ALERT_TRAIN_WORKER_COMPLETE if worker else ids.ALERT_TRAIN_UNIT_COMPLETE
    alert(w, owner, kind, x, y)


@kernel
def _finish_training(w: State, row: int, unit_type: int) -> None:
    """Puts a trained unit beside its building and sends it to the rally point."""
    unit = w.units[row]
    x, y = exit_point(w, row, ADD_ON_EXIT if unit.addon >= 0 else FIRST_EXIT)
    product = spawn(w, unit_type, unit.owner, x, y, 1.0)
    if product < 0:
        return
    w.clock[CHANGED] = w.clock[LOOP]
    set_levels(w, product)
    send_to_rally(w, row, product)
    _alert_trained(w, unit.owner, unit_type, x, y)


@kernel
def _finish_research(w: State, row: int, upgrade: int) -> None:
    """Gives the owner the upgrade and updates the units that it changes."""
    owner = w.units[row].owner
    w.upgrades[owner, upgrade] = 1
    w.researching[owner, upgrade] = 0
    w.clock[CHANGED] = w.clock[LOOP]
    _refresh_units(w, owner)
    log_event(w, records.EVENT_UPGRADED, row, 0)
    if w.clock[EVENTS] > 0:
        w.events[w.clock[EVENTS] - 1].unit_type = upgrade
    kind = ids.ALERT_UPGRADE_COMPLETE
    if w.unit_rules[w.units[row].unit_type].race == TERRAN:
        kind = ids.ALERT_RESEARCH_COMPLETE
    alert(w, owner, kind, w.units[row].x, w.units[row].y)


@kernel
def grant_upgrades(w: State, owner: int) -> None:
    """Gives a player all upgrades that exist, as a debug command does."""
    for ability in range(len(w.ability_rules)):
        upgrade = w.ability_rules[ability].upgrade_made
        if upgrade:
            w.upgrades[owner, upgrade] = 1
    _refresh_units(w, owner)


@kernel
def _refresh_units(w: State, owner: int) -> None:
    """Updates the units that a new upgrade of their owner changes."""
    for other in range(w.clock[ROWS]):
        unit = w.units[other]
        if unit.alive and unit.owner == owner:
            set_levels(w, other)
            health = max_health(w, owner, unit.unit_type)
            if health > unit.health_max and unit.build_progress >= 1.0:
                unit.health += health - unit.health_max
                unit.health_max = health


@kernel
def _start_training(w: State, row: int, index: int) -> bool:
    """Starts an order of the queue if it can. Returns whether the order has started."""
    order = w.orders[row, index]
    if order.stage == STAGE_STARTED:
        return True
    rule = w.ability_rules[order.ability]
    if rule.kind == ids.KIND_TRAIN:
        food = w.unit_rules[rule.makes].food_halves
        owner = w.units[row].owner
        if not has_food(w, owner, food):
            return False
        w.players[owner].food_used_halves += food
    order.stage = STAGE_STARTED
    return True


@kernel
def _rate(w: State, row: int) -> float:
    """Returns how many times as fast as usual a unit makes things."""
    rate = CHRONO_RATE if has_buff(w, row, ids.BUFF_CHRONO_BOOST) else 1.0
    if cheats(w, w.units[row].owner, CHEAT_FAST_BUILD):
        rate *= CHEAT_RATE
    return rate


@kernel
def work_queue(w: State, row: int) -> None:
    """Trains or researches for one loop: the first order, or the first two with a reactor."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.needs_power and unit.powered == 0:
        return
    at_a_time = 1
    if unit.addon >= 0 and w.units[unit.addon].build_progress >= 1.0:
        at_a_time = w.unit_rules[w.units[unit.addon].unit_type].add_on
    rate = _rate(w, row)
    index = 0
    for _ in range(at_a_time):
        if index >= unit.order_count:
            return
        order = w.orders[row, index]
        ability = w.ability_rules[order.ability]
        if ability.kind != ids.KIND_TRAIN and ability.kind != ids.KIND_RESEARCH:
            return
        if not _start_training(w, row, index):
            return
        unit.active = 1
        order.progress += rate / ability.loops
        if order.progress >= 1.0:
            researched = order.ability  # the next order takes this one's place
            drop_order(w, row, index)
            if ability.kind == ids.KIND_TRAIN:
                _finish_training(w, row, ability.makes)
            else:
                _finish_research(w, row, ability.upgrade_made)
                count_upgrade(w, unit.owner, researched)
        else:
            index += 1


@kernel
def _finish_building(w: State, row: int) -> None:
    """Turns a building site into a finished building, or a warp-in into a unit."""
    unit = w.units[row]
    unit.build_progress = 1.0
    rule = w.unit_rules[unit.unit_type]
    unit.born_loop = w.clock[LOOP]
    set_levels(w, row)
    count_made(w, unit.owner, unit.unit_type, 1)
    log_event(w, records.EVENT_FINISHED, row, 0)
    kind = ids.ALERT_ADD_ON_COMPLETE if rule.add_on else ids.ALERT_BUILDING_COMPLETE
    if not rule.structure:
        kind = ids.ALERT_WARP_IN_COMPLETE
    alert(w, unit.owner, kind, unit.x, unit.y)
    if (
        unit.unit_type == ids.UNIT_CREEP_TUMOR_QUEEN
        or unit.unit_type == ids.UNIT_CREEP_TUMOR
    ):
        change_type(w, row, ids.UNIT_CREEP_TUMOR_BURROWED)
        w.units[row].born_loop = w.clock[LOOP]


@kernel
def grow(w: State, row: int) -> None:
    """Builds an unfinished building, or warps in a unit, for one loop."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.race == TERRAN and rule.add_on == 0:
        # Terran buildings only grow while a worker builds them.
        if unit.engaged == 0:
            return
        builder = find(w, unit.engaged)
        if builder < 0 or w.units[builder].order_count == 0:
            unit.engaged = 0
            return
        order = w.orders[builder, 0]
        if order.stage != STAGE_STARTED or order.product_row != row:
            unit.engaged = 0
            return
    loops = rule.loops if rule.structure else WARP_IN_LOOPS
    before = unit.build_progress
    unit.build_progress = min(before + _rate(w, row) / loops, 1.0)
    gained = (unit.build_progress - before) * SITE_HEALTH_GAIN
    unit.health = min(unit.health + unit.health_max * gained, unit.health_max)
    unit.shield = min(unit.shield + unit.shield_max * gained, unit.shield_max)
    if unit.build_progress >= 1.0 - 1e-9:
        _finish_building(w, row)


@kernel
def _begin_building(w: State, row: int, ability: int, x: float, y: float) -> int:
    """Pays for a building and places its site; returns its row, or -1 and logs the error."""
    owner = w.units[row].owner
    rule = w.ability_rules[ability]
    building = w.unit_rules[rule.makes]
    code = placement_error(w, owner, rule.makes, x, y)
    if code == action_results.SUCCESS:
        code = pay(w, owner, ability)
    if code != action_results.SUCCESS:
        log_error(w, owner, ability, w.units[row].tag, code)
        return -1
    kind = rule.makes
    geyser = -1
    if building.gas_mine:
        geyser = geyser_at(w, x, y)
        x, y = w.units[geyser].x, w.units[geyser].y
    else:
        x, y = snap(building.footprint, x), snap(building.footprint, y)
    site = spawn(w, kind, owner, x, y, SITE_PROGRESS)
    if site >= 0 and geyser >= 0:
        w.units[site].host = geyser
        w.units[site].vespene = w.units[geyser].vespene
    return site


@kernel
def _own_site(w: State, row: int) -> int:
    """Returns the player's unfinished building that the unit's order aims at, or -1."""
    order = w.orders[row, 0]
    if order.target != TARGET_UNIT:
        return -1
    site = find(w, order.target_tag)
    if site < 0 or w.units[site].owner != w.units[row].owner:
        return -1
    return site if w.units[site].build_progress < 1.0 else -1


@kernel
def build_order(w: State, row: int) -> bool:
    """Works on a worker's order to build for one loop. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == STAGE_STARTED:  # a Terran worker at its site
        site = order.product_row
        if (
            site < 0
            or w.units[site].alive == 0
            or w.units[site].tag != order.target_tag
        ):
            return True
        w.units[site].engaged = unit.tag
        return w.units[site].build_progress >= 1.0
    building = w.ability_rules[order.ability].makes
    reach = w.unit_rules[building].radius + unit.radius + REACH
    if not walk(w, row, order.x, order.y, reach):
        return False
    race = w.unit_rules[unit.unit_type].race
    site = _own_site(w, row)
    if site < 0:
        site = _begin_building(w, row, order.ability, order.x, order.y)
        if site < 0:
            return True
    if race == TERRAN:
        order.stage = STAGE_STARTED
        order.product_row = site
        order.target = TARGET_UNIT
        order.target_tag = w.units[site].tag
        w.units[site].engaged = unit.tag
        return False
    if race == ZERG:
        remove(w, row)
    return True


@kernel
def add_on_order(w: State, row: int) -> bool:
    """Builds an add-on for one loop. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == STAGE_WAITING:
        unit_type = w.ability_rules[order.ability].makes
        x, y = unit.x + ADD_ON_X, unit.y + ADD_ON_Y
        site = spawn(w, unit_type, unit.owner, x, y, SITE_PROGRESS)
        if site < 0:
            return True
        w.units[site].host = row
        unit.addon = site
        order.stage = STAGE_STARTED
        order.product_row = site
    addon = unit.addon
    if addon < 0:
        return True
    unit.active = 1
    order.progress = w.units[addon].build_progress
    return w.units[addon].build_progress >= 1.0


@kernel
def morph_order(w: State, row: int) -> bool:
    """Turns a unit into another type for one loop. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    if order.stage == STAGE_WAITING:
        order.stage = STAGE_STARTED
        if rule.cocoon:
            change_type(w, row, rule.cocoon)
            unit.next_type = rule.makes
    unit.active = 1
    order.progress += _rate(w, row) / max(rule.loops, 1.0)
    if order.progress < 1.0:
        return False
    change_type(w, row, rule.makes)
    unit.next_type = 0
    set_levels(w, row)
    w.clock[CHANGED] = w.clock[LOOP]
    structure = w.unit_rules[rule.makes].structure
    kind = (
        ids.ALERT_MORPH_COMPLETE
        if structure or rule.cocoon
        else ids.ALERT_TRANSFORMATION_COMPLETE
    )
    alert(w, unit.owner, kind, unit.x, unit.y)
    return True


@kernel
def hatch_order(w: State, row: int) -> bool:
    """Works on an egg for one loop; at the end, the unit in it hatches.

    Always returns False: the orders of a unit that has hatched are new ones.
    """
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    order.progress += _rate(w, row) / rule.loops
    if order.progress < 1.0:
        return False
    hatchery = unit.host
    clear_orders(w, row)
    change_type(w, row, rule.makes)
    unit.next_type = 0
    unit.host = -1
    unit.health = unit.health_max
    unit.born_loop = w.clock[LOOP]
    w.clock[CHANGED] = w.clock[LOOP]
    set_levels(w, row)
    maker = row if unit.rally_kind else hatchery
    alive = maker >= 0 and w.units[maker].alive
    rally = alive and w.units[maker].rally_kind != TARGET_NONE
    if rally:
        send_to_rally(w, maker, row)
    if rule.pair:
        twin = spawn(w, rule.makes, unit.owner, unit.x + 0.4, unit.y, 1.0)
        if twin >= 0:
            set_levels(w, twin)
            if rally:
                send_to_rally(w, maker, twin)
    unit.rally_kind = TARGET_NONE
    _alert_trained(w, unit.owner, rule.makes, unit.x, unit.y)
    return False


@kernel
def land_order(w: State, row: int) -> bool:
    """Works on a building's order to land for one loop. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    size = w.unit_rules[rule.makes].footprint
    x, y = snap(size, order.x), snap(size, order.y)
    if not walk(w, row, x, y, 0.05):
        return False
    code = placement_error(w, unit.owner, rule.makes, x, y)
    if code != action_results.SUCCESS:
        log_error(w, unit.owner, order.ability, unit.tag, action_results.CANT_LAND)
        return True
    order.progress += 1.0 / max(rule.loops, 1.0)
    if order.progress < 1.0:
        return False
    unit.x = x
    unit.y = y
    change_type(w, row, rule.makes)
    return True


@kernel
def archon_order(w: State, row: int) -> bool:
    """Merges a templar with another one for one loop. Returns True when the order is done.

    Both have the same order, each with the other as its target. The lower row becomes the archon.
    """
    unit = w.units[row]
    order = w.orders[row, 0]
    partner = find(w, order.target_tag)
    if partner < 0 or w.units[partner].order_count == 0:
        return True
    if w.orders[partner, 0].ability != order.ability:
        return True
    if order.stage == STAGE_WAITING:
        walk(w, row, w.units[partner].x, w.units[partner].y, MERGE_GAP)
        if distance(w, row, partner) > MERGE_GAP:
            return False
        order.stage = STAGE_STARTED
    if row > partner:
        return False
    order.progress += 1.0 / w.ability_rules[order.ability].loops
    w.orders[partner, 0].progress = order.progress
    if order.progress < 1.0:
        return False
    remove(w, partner)
    clear_orders(w, row)
    change_type(w, row, w.ability_rules[order.ability].makes)
    unit.health = unit.health_max
    unit.shield = unit.shield_max
    set_levels(w, row)
    return False


@kernel
def cancel_building(w: State, row: int) -> None:
    """Removes an unfinished building and refunds a part of its cost."""
    unit = w.units[row]
    refund_building(w, unit.owner, unit.unit_type)
    count_cancelled(w, row)
    remove(w, row)


@kernel
def cancel_order(w: State, row: int, index: int) -> None:
    """Removes an order from a queue and refunds what was paid for it."""
    order = w.orders[row, index]
    unit = w.units[row]
    rule = w.ability_rules[order.ability]
    if order.paid:
        refund(w, unit.owner, order.ability)
    if rule.kind == ids.KIND_RESEARCH:
        w.researching[unit.owner, rule.upgrade_made] = 0
    drop_order(w, row, index)
