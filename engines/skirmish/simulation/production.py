"""Making things: training, research, building, add-ons, morphing and hatching.

An order is paid when it is given, or, for buildings, when the worker puts it down. Food is
checked when training starts. Refunds: all of an order that is cancelled, three quarters of a
building.
"""

import numpy as np

from starmill.engines.skirmish.simulation import action_results as codes
from starmill.engines.skirmish.simulation import ids, records
from starmill.engines.skirmish.simulation.movement import can_stand, walk
from starmill.engines.skirmish.simulation.records import (
    CHANGED,
    EVENTS,
    LOOP,
    ROWS,
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

WARP_IN_LOOPS = 112.0  # five seconds; the same at every pylon
MOVE_ABILITY = 16


@kernel
def pay(w: State, player: int, ability: int) -> int:
    """Takes the cost of an ability; returns SUCCESS or what is missing."""
    rule = w.ability_rules[ability]
    p = w.players[player]
    if p.minerals < rule.minerals:
        return codes.NOT_ENOUGH_MINERALS
    if p.vespene < rule.vespene:
        return codes.NOT_ENOUGH_VESPENE
    p.minerals -= rule.minerals
    p.vespene -= rule.vespene
    p.spent_minerals += rule.minerals
    p.spent_vespene += rule.vespene
    return codes.SUCCESS


@kernel
def refund(w: State, player: int, ability: int, share: float) -> None:
    """Gives back a share of an ability's cost."""
    rule = w.ability_rules[ability]
    p = w.players[player]
    minerals = int(rule.minerals * share)
    vespene = int(rule.vespene * share)
    p.minerals += minerals
    p.vespene += vespene
    p.spent_minerals -= minerals
    p.spent_vespene -= vespene


@kernel
def has_food(w: State, player: int, halves: int) -> bool:
    """Returns whether the player can feed this much more."""
    p = w.players[player]
    return halves == 0 or p.food_used_halves + halves <= 2 * p.food_cap


@kernel
def send_to_rally(w: State, maker: int, row: int) -> None:
    """Orders a new unit to its maker's rally point: workers gather there, others move."""
    source = w.units[maker]
    if source.rally_kind == 0:
        return
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    target = find(w, source.rally_tag) if source.rally_kind == 2 else -1
    if target >= 0 and rule.worker:
        kind = w.unit_rules[w.units[target].unit_type]
        if kind.mineral_field or kind.gas_mine:
            push_order(w, row, rule.gather, 2, source.rally_tag, 0.0, 0.0)
            return
    if rule.speed > 0.0:
        x, y = source.rally_x, source.rally_y
        push_order(w, row, MOVE_ABILITY, 1, 0, x, y)


@kernel
def exit_point(w: State, row: int, index: int) -> tuple[float, float]:
    """Returns a point beside a building where a unit can stand; index varies the side."""
    unit = w.units[row]
    reach = unit.radius + 0.8
    for k in range(8):
        side = (index + k) % 8
        dx = (0.0, 0.7, 1.0, 0.7, 0.0, -0.7, -1.0, -0.7)[side]
        dy = (-1.0, -0.7, 0.0, 0.7, 1.0, 0.7, 0.0, -0.7)[side]
        x, y = unit.x + dx * reach, unit.y + dy * reach
        if can_stand(w, x, y):
            return x, y
    return unit.x, unit.y


@kernel
def _finish_training(w: State, row: int, unit_type: int) -> None:
    unit = w.units[row]
    x, y = exit_point(w, row, 7 if unit.addon >= 0 else 0)
    made = spawn(w, unit_type, unit.owner, x, y, 1.0)
    if made < 0:
        return
    w.clock[CHANGED] = w.clock[LOOP]
    set_levels(w, made)
    send_to_rally(w, row, made)
    worker = w.unit_rules[unit_type].worker
    alert(
        w,
        unit.owner,
        ids.ALERT_TRAIN_WORKER_COMPLETE if worker else ids.ALERT_TRAIN_UNIT_COMPLETE,
        x,
        y,
    )


@kernel
def set_levels(w: State, row: int) -> None:
    """Writes the unit's attack, armour and shield levels from its owner's upgrades."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    unit.attack_level = 0
    unit.armor_level = 0
    unit.shield_level = 0
    for level in range(3):
        if rule.attack_up and w.upgrades[unit.owner, rule.attack_up + level]:
            unit.attack_level = level + 1
        if rule.armor_up and w.upgrades[unit.owner, rule.armor_up + level]:
            unit.armor_level = level + 1
        if rule.shield_up and w.upgrades[unit.owner, rule.shield_up + level]:
            unit.shield_level = level + 1


@kernel
def _finish_research(w: State, row: int, upgrade: int) -> None:
    """Gives the owner the upgrade, and its units what it changes."""
    owner = w.units[row].owner
    w.upgrades[owner, upgrade] = 1
    w.researching[owner, upgrade] = 0
    w.clock[CHANGED] = w.clock[LOOP]
    for other in range(w.clock[ROWS]):
        unit = w.units[other]
        if unit.alive and unit.owner == owner:
            set_levels(w, other)
            health = max_health(w, owner, unit.unit_type)
            if health > unit.health_max and unit.build_progress >= 1.0:
                unit.health += health - unit.health_max
                unit.health_max = health
    log_event(w, records.EVENT_UPGRADED, row, 0)
    if w.clock[EVENTS] > 0:
        w.events[w.clock[EVENTS] - 1].unit_type = upgrade
    kind = ids.ALERT_UPGRADE_COMPLETE
    if w.unit_rules[w.units[row].unit_type].race == 1:
        kind = ids.ALERT_RESEARCH_COMPLETE
    alert(w, owner, kind, w.units[row].x, w.units[row].y)


@kernel
def _start_training(w: State, row: int, index: int) -> bool:
    """Returns whether the order in this place of the queue is under way, starting it if it can."""
    order = w.orders[row, index]
    if order.stage == 1:
        return True
    rule = w.ability_rules[order.ability]
    if rule.kind == ids.KIND_TRAIN:
        food = w.unit_rules[rule.makes].food_halves
        owner = w.units[row].owner
        if not has_food(w, owner, food):
            return False
        w.players[owner].food_used_halves += food
    order.stage = 1
    return True


@kernel
def work_queue(w: State, row: int) -> None:
    """One loop of training and research: the first order, or two with a reactor."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.needs_power and unit.powered == 0:
        return
    lanes = 1
    if unit.addon >= 0 and w.units[unit.addon].build_progress >= 1.0:
        lanes = w.unit_rules[w.units[unit.addon].unit_type].add_on
    rate = 1.5 if has_buff(w, row, ids.BUFF_CHRONO_BOOST) else 1.0
    index = 0
    for _ in range(lanes):
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
            drop_order(w, row, index)
            if ability.kind == ids.KIND_TRAIN:
                _finish_training(w, row, ability.makes)
            else:
                _finish_research(w, row, ability.upgrade_made)
        else:
            index += 1


@kernel
def _finish_building(w: State, row: int) -> None:
    """A building site becomes a building."""
    unit = w.units[row]
    unit.build_progress = 1.0
    rule = w.unit_rules[unit.unit_type]
    unit.born_loop = w.clock[LOOP]
    set_levels(w, row)
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
    """One loop of construction of an unfinished building or a unit that is being warped in."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.race == 1 and rule.add_on == 0:
        # Terran buildings grow only while somebody works on them.
        if unit.engaged == 0:
            return
        builder = find(w, unit.engaged)
        if builder < 0 or w.units[builder].order_count == 0:
            unit.engaged = 0
            return
        order = w.orders[builder, 0]
        if order.stage != 1 or order.product_row != row:
            unit.engaged = 0
            return
    loops = rule.loops if rule.structure else WARP_IN_LOOPS
    before = unit.build_progress
    unit.build_progress = min(before + 1.0 / loops, 1.0)
    gained = (unit.build_progress - before) * 0.9
    unit.health = min(unit.health + unit.health_max * gained, unit.health_max)
    unit.shield = min(unit.shield + unit.shield_max * gained, unit.shield_max)
    if unit.build_progress >= 1.0 - 1e-9:
        _finish_building(w, row)


@kernel
def _put_down(w: State, row: int, ability: int, x: float, y: float) -> int:
    """Pays for a building and places its site; returns its row, or -1 with the error logged."""
    owner = w.units[row].owner
    rule = w.ability_rules[ability]
    made = w.unit_rules[rule.makes]
    code = placement_error(w, owner, rule.makes, x, y)
    if code == codes.SUCCESS:
        code = pay(w, owner, ability)
    if code != codes.SUCCESS:
        log_error(w, owner, ability, w.units[row].tag, code)
        return -1
    kind = rule.makes
    geyser = -1
    if made.gas_mine:
        geyser = geyser_at(w, x, y)
        x, y = w.units[geyser].x, w.units[geyser].y
    else:
        x, y = snap(made.footprint, x), snap(made.footprint, y)
    site = spawn(w, kind, owner, x, y, 0.001)
    if site >= 0 and geyser >= 0:
        w.units[site].host = geyser
        w.units[site].vespene = w.units[geyser].vespene
    return site


@kernel
def _resume(w: State, row: int) -> int:
    """Returns the own unfinished building that an order points at, or -1."""
    order = w.orders[row, 0]
    if order.target != 2:
        return -1
    site = find(w, order.target_tag)
    if site < 0 or w.units[site].owner != w.units[row].owner:
        return -1
    return site if w.units[site].build_progress < 1.0 else -1


@kernel
def build_order(w: State, row: int) -> bool:
    """One loop of a worker's order to build. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == 1:  # a Terran worker at its site
        site = order.product_row
        if (
            site < 0
            or w.units[site].alive == 0
            or w.units[site].tag != order.target_tag
        ):
            return True
        w.units[site].engaged = unit.tag
        return w.units[site].build_progress >= 1.0
    made = w.ability_rules[order.ability].makes
    reach = w.unit_rules[made].radius + unit.radius + 0.4
    if not walk(w, row, order.x, order.y, reach):
        return False
    race = w.unit_rules[unit.unit_type].race
    site = _resume(w, row)
    if site < 0:
        site = _put_down(w, row, order.ability, order.x, order.y)
        if site < 0:
            return True
    if race == 1:
        order.stage = 1
        order.product_row = site
        order.target = 2
        order.target_tag = w.units[site].tag
        w.units[site].engaged = unit.tag
        return False
    if race == 2:
        remove(w, row)
    return True


@kernel
def start_add_on(w: State, row: int) -> bool:
    """One loop of building an add-on. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == 0:
        made = w.ability_rules[order.ability].makes
        x, y = unit.x + 2.5, unit.y - 0.5
        site = spawn(w, made, unit.owner, x, y, 0.001)
        if site < 0:
            return True
        w.units[site].host = row
        unit.addon = site
        order.stage = 1
        order.product_row = site
    addon = unit.addon
    if addon < 0:
        return True
    unit.active = 1
    order.progress = w.units[addon].build_progress
    return w.units[addon].build_progress >= 1.0


@kernel
def morph_order(w: State, row: int) -> bool:
    """One loop of turning into something else. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    if order.stage == 0:
        order.stage = 1
        if rule.cocoon:
            change_type(w, row, rule.cocoon)
            unit.next_type = rule.makes
    unit.active = 1
    rate = 1.5 if has_buff(w, row, ids.BUFF_CHRONO_BOOST) else 1.0
    order.progress += rate / max(rule.loops, 1.0)
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
    """One loop of an egg. Returns True when its order is done and it has hatched."""
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    order.progress += 1.0 / rule.loops
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
    rally = alive and w.units[maker].rally_kind != 0
    if rally:
        send_to_rally(w, maker, row)
    if rule.pair:
        twin = spawn(w, rule.makes, unit.owner, unit.x + 0.4, unit.y, 1.0)
        if twin >= 0:
            set_levels(w, twin)
            if rally:
                send_to_rally(w, maker, twin)
    unit.rally_kind = 0
    worker = w.unit_rules[rule.makes].worker
    alert(
        w,
        unit.owner,
        ids.ALERT_TRAIN_WORKER_COMPLETE if worker else ids.ALERT_TRAIN_UNIT_COMPLETE,
        unit.x,
        unit.y,
    )
    return False  # its orders are new ones already


@kernel
def land_order(w: State, row: int) -> bool:
    """One loop of a flying building's order to land. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    size = w.unit_rules[rule.makes].footprint
    x, y = snap(size, order.x), snap(size, order.y)
    if not walk(w, row, x, y, 0.05):
        return False
    code = placement_error(w, unit.owner, rule.makes, x, y)
    if code != codes.SUCCESS:
        log_error(w, unit.owner, order.ability, unit.tag, codes.CANT_LAND)
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
    """One loop of merging with another templar that has the same order. True when done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    partner = find(w, order.target_tag)
    if partner < 0 or w.units[partner].order_count == 0:
        return True
    if w.orders[partner, 0].ability != order.ability:
        return True
    if order.stage == 0:
        walk(w, row, w.units[partner].x, w.units[partner].y, 0.3)
        if distance(w, row, partner) > 0.3:
            return False
        order.stage = 1
    if row > partner:  # the lower row becomes the archon
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
    """Takes an unfinished building down and gives back three quarters of its cost."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    p = w.players[unit.owner]
    minerals = int(np.floor(rule.minerals * 0.75))
    vespene = int(np.floor(rule.vespene * 0.75))
    p.minerals += minerals
    p.vespene += vespene
    p.spent_minerals -= minerals
    p.spent_vespene -= vespene
    remove(w, row)


@kernel
def cancel_order(w: State, row: int, index: int) -> None:
    """Drops an order of a queue and gives back what was paid for it."""
    order = w.orders[row, index]
    unit = w.units[row]
    rule = w.ability_rules[order.ability]
    if order.paid:
        refund(w, unit.owner, order.ability, 1.0)
    if rule.kind == ids.KIND_RESEARCH:
        w.researching[unit.owner, rule.upgrade_made] = 0
    drop_order(w, row, index)
