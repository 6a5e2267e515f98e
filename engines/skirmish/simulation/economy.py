"""Money and supply: paying, harvesting, larvae, and the players' counts.

In: workers with orders to gather, and costs. Out: minerals, vespene and counts of the players. A
worker walks to a mineral field, waits for its turn, mines, walks home and delivers. Its order is
to gather on the way out and to return on the way back, as in the game.
"""

import numpy as np

from starmill.engines.skirmish.simulation import action_results, ids
from starmill.engines.skirmish.simulation.accounts import (
    BUILDING_REFUND,
    cheats,
    is_player,
)
from starmill.engines.skirmish.simulation.movement import walk
from starmill.engines.skirmish.simulation.records import (
    CHANGED,
    CHEAT_FOOD,
    CHEAT_FREE,
    LOOP,
    OWNER_NEUTRAL,
    PLAYERS,
    ROWS,
    STAGE_STARTED,
    STAGE_WAITING,
    State,
)
from starmill.engines.skirmish.simulation.units import (
    add_buff,
    alert,
    distance,
    find,
    remove,
    remove_buff,
    spawn,
)
from starmill.schema.compilation import kernel
from starmill.schema.game_constants import PROTOSS, TERRAN

MINERAL_LOOPS, GAS_LOOPS = 62.0, 32.0  # of mining for one load
MINERAL_LOAD, RICH_LOAD, MULE_LOAD, GAS_LOAD, RICH_GAS_LOAD = 5, 7, 25, 4, 8
LARVA_LOOPS = 246  # 11 seconds between two larvae of a hatchery
NATURAL_LARVAE = 3  # with this many larvae, a hatchery makes no more by itself
INJECT_LARVAE = 3
MAX_LARVAE = 19
BASE_RADIUS = 10.0  # resources this near to a town hall belong to it
HALL_FIELD_RADIUS = BASE_RADIUS - 3.0  # the same, from edge to edge
# A field that is mined counts as farther away, by this squared distance.
MINED_PENALTY = 30.0
TOUCH = 0.1  # gap at which a worker can load and deliver
FIELD_WORKERS, GAS_WORKERS = 2, 3  # ideal numbers
SUPPLY_DROP_FOOD = 8
MAX_FOOD = 200
# Stages of an order to gather.
OUTBOUND, MINING, HOMEBOUND = 0, 1, 2


@kernel
def pay(w: State, player: int, ability: int) -> int:
    """Takes the cost of an ability; returns SUCCESS or what is missing."""
    rule = w.ability_rules[ability]
    p = w.players[player]
    if cheats(w, player, CHEAT_FREE):
        return action_results.SUCCESS
    if p.minerals < rule.minerals:
        return action_results.NOT_ENOUGH_MINERALS
    if p.vespene < rule.vespene:
        return action_results.NOT_ENOUGH_VESPENE
    p.minerals -= rule.minerals
    p.vespene -= rule.vespene
    p.spent_minerals += rule.minerals
    p.spent_vespene += rule.vespene
    return action_results.SUCCESS


@kernel
def _give_back(w: State, player: int, minerals: int, vespene: int) -> None:
    p = w.players[player]
    if cheats(w, player, CHEAT_FREE):
        return
    p.minerals += minerals
    p.vespene += vespene
    p.spent_minerals -= minerals
    p.spent_vespene -= vespene


@kernel
def refund(w: State, player: int, ability: int) -> None:
    """Gives back the cost of an ability."""
    rule = w.ability_rules[ability]
    _give_back(w, player, rule.minerals, rule.vespene)


@kernel
def refund_building(w: State, player: int, unit_type: int) -> None:
    """Gives back three quarters of the cost of an unfinished building."""
    rule = w.unit_rules[unit_type]
    minerals = int(np.floor(rule.minerals * BUILDING_REFUND))
    vespene = int(np.floor(rule.vespene * BUILDING_REFUND))
    _give_back(w, player, minerals, vespene)


@kernel
def has_food(w: State, player: int, halves: int) -> bool:
    """Returns whether the player has supply for this much more food, in halves."""
    p = w.players[player]
    if halves == 0 or cheats(w, player, CHEAT_FOOD):
        return True
    return p.food_used_halves + halves <= 2 * p.food_cap


@kernel
def nearest_hall(w: State, owner: int, x: float, y: float) -> int:
    """Returns the owner's nearest finished town hall, or -1."""
    best, best_d = -1, 1e18
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.owner != owner or unit.build_progress < 1.0:
            continue
        if w.unit_rules[unit.unit_type].town_hall == 0:
            continue
        dx, dy = unit.x - x, unit.y - y
        if dx * dx + dy * dy < best_d:
            best, best_d = row, dx * dx + dy * dy
    return best


@kernel
def _is_mined(w: State, field: int, worker: int) -> bool:
    """Returns whether another worker is mining the mineral field now."""
    miner = find(w, w.units[field].engaged)
    if miner < 0 or miner == worker or w.units[miner].order_count == 0:
        return False
    order = w.orders[miner, 0]
    return order.target_tag == w.units[field].tag and order.stage == MINING


@kernel
def nearest_field(w: State, worker: int, x: float, y: float, any_field: bool) -> int:
    """Returns the mineral field nearest to a point that no other worker is mining, or -1.

    any_field: accept fields that are being mined or far away if there is no better one.
    """
    best, best_score = -1, 1e18
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.owner != OWNER_NEUTRAL:
            continue
        if w.unit_rules[unit.unit_type].mineral_field == 0:
            continue
        dx, dy = unit.x - x, unit.y - y
        score = dx * dx + dy * dy
        busy = _is_mined(w, row, worker)
        if not any_field and (busy or score > BASE_RADIUS * BASE_RADIUS):
            continue
        if busy:
            score += MINED_PENALTY
        if score < best_score:
            best, best_score = row, score
    return best


@kernel
def can_gather_at(w: State, row: int, owner: int) -> bool:
    """Returns whether the owner's workers can gather at this unit: a field or an own gas mine."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.mineral_field:
        return True
    return rule.gas_mine != 0 and unit.owner == owner and unit.build_progress >= 1.0


@kernel
def _load(w: State, row: int, resource: int) -> None:
    """Moves a load from the field or gas mine to the worker."""
    unit = w.units[row]
    source = w.units[resource]
    rule = w.unit_rules[source.unit_type]
    if rule.mineral_field:
        load = RICH_LOAD if rule.rich else MINERAL_LOAD
        if w.unit_rules[unit.unit_type].mule:
            load = MULE_LOAD
        load = min(load, source.minerals)
        source.minerals -= load
        unit.carry_minerals = load
        buff = ids.BUFF_CARRY_RICH_MINERALS if rule.rich else ids.BUFF_CARRY_MINERALS
        add_buff(w, row, buff, 0, row)
        source.engaged = 0
        if source.minerals <= 0:
            alert(w, unit.owner, ids.ALERT_MINERALS_EXHAUSTED, source.x, source.y)
            remove(w, resource)
        return
    geyser = source.host
    rich = geyser >= 0 and w.unit_rules[w.units[geyser].unit_type].rich
    load = min(RICH_GAS_LOAD if rich else GAS_LOAD, source.vespene)
    source.vespene -= load
    if geyser >= 0:
        w.units[geyser].vespene = source.vespene
    unit.carry_vespene = load
    if load > 0:
        race = w.unit_rules[unit.unit_type].race
        add_buff(w, row, ids.BUFF_CARRY_GAS[race], 0, row)
    if source.vespene <= 0:
        alert(w, unit.owner, ids.ALERT_VESPENE_EXHAUSTED, source.x, source.y)


@kernel
def drop_load(w: State, row: int) -> None:
    """Removes what a worker carries."""
    unit = w.units[row]
    unit.carry_minerals = 0
    unit.carry_vespene = 0
    remove_buff(w, row, ids.BUFF_CARRY_MINERALS)
    remove_buff(w, row, ids.BUFF_CARRY_RICH_MINERALS)
    for race in range(TERRAN, PROTOSS + 1):
        remove_buff(w, row, ids.BUFF_CARRY_GAS[race])


@kernel
def _deliver(w: State, row: int) -> None:
    """Adds the worker's load to its player's minerals and vespene."""
    unit = w.units[row]
    player = w.players[unit.owner]
    minerals = int(np.floor(unit.carry_minerals * player.income + 0.5))
    vespene = int(np.floor(unit.carry_vespene * player.income + 0.5))
    player.minerals += minerals
    player.vespene += vespene
    player.collected_minerals += minerals
    player.collected_vespene += vespene
    if minerals + vespene > 0:
        w.clock[CHANGED] = w.clock[LOOP]
    drop_load(w, row)


@kernel
def _go_home(w: State, row: int) -> bool:
    """Carries the load home for one loop. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    hall = nearest_hall(w, unit.owner, unit.x, unit.y)
    if hall < 0:
        return True
    home = w.units[hall]
    if not walk(w, row, home.x, home.y, home.radius + unit.radius + TOUCH):
        return False
    _deliver(w, row)
    unit.host = hall
    order.stage = OUTBOUND
    order.ability = w.unit_rules[unit.unit_type].gather
    unit.path_until = 0
    if find(w, order.target_tag) < 0:  # this or another load exhausted the field
        field = nearest_field(w, row, unit.x, unit.y, True)
        if field < 0:
            return True
        order.target_tag = w.units[field].tag
    return unit.order_count > 1  # a queued order waits only for the delivery


@kernel
def _go_out(w: State, row: int, resource: int) -> bool:
    """Walks to the resource, or waits there, for one loop. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    source = w.units[resource]
    if not walk(w, row, source.x, source.y, source.radius + unit.radius + TOUCH):
        return False
    gas = w.unit_rules[source.unit_type].gas_mine != 0
    if gas and source.vespene <= 0:
        return True
    if not gas and _is_mined(w, resource, row):
        other = nearest_field(w, row, source.x, source.y, False)
        if other >= 0:
            order.target_tag = w.units[other].tag
            unit.path_until = 0
        return False
    order.stage = MINING
    unit.wait = GAS_LOOPS if gas else MINERAL_LOOPS
    if not gas:
        source.engaged = unit.tag
    return False


@kernel
def gather_order(w: State, row: int) -> bool:
    """Works on an order to gather for one loop. Returns True when nothing is left to gather."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.stage == HOMEBOUND:
        return _go_home(w, row)
    resource = find(w, order.target_tag)
    if resource < 0 or not can_gather_at(w, resource, unit.owner):
        resource = nearest_field(w, row, unit.x, unit.y, True)
        if resource < 0:
            return True
        order.target_tag = w.units[resource].tag
        order.stage = OUTBOUND
    if order.stage == OUTBOUND:
        return _go_out(w, row, resource)
    unit.wait -= 1.0
    if unit.wait <= 0.0:
        _load(w, row, resource)
        order.stage = HOMEBOUND
        order.ability = w.unit_rules[unit.unit_type].return_
        unit.path_until = 0
    return False


@kernel
def make_larvae(w: State, row: int) -> None:
    """Lets a hatchery make larvae for one loop, including those of an inject that is due."""
    unit = w.units[row]
    own = 0
    for other in range(w.clock[ROWS]):
        larva = w.units[other]
        if larva.alive and larva.unit_type == ids.UNIT_LARVA and larva.host == row:
            own += 1
    born = 0
    if own < NATURAL_LARVAE:
        unit.wait += 1.0
        if unit.wait >= LARVA_LOOPS:
            unit.wait = 0.0
            born = 1
    for k in range(unit.buff_count):
        if w.buffs[row, k].id == ids.BUFF_INJECT and w.buffs[row, k].remain == 1:
            born += INJECT_LARVAE
            alert(w, unit.owner, ids.ALERT_LARVA_HATCHED, unit.x, unit.y)
    for _ in range(born):
        if own >= MAX_LARVAE:
            return
        x = unit.x - 3.0 + 1.2 * (own % 6)
        y = unit.y - 3.2 - 0.6 * (own // 6)
        larva_row = spawn(w, ids.UNIT_LARVA, unit.owner, x, y, 1.0)
        if larva_row >= 0:
            w.units[larva_row].host = row
        own += 1


@kernel
def _count_food(w: State, owner: int, unit_type: int, number: int) -> None:
    """Adds the food of units that exist or are being made to their owner's counts."""
    rule = w.unit_rules[unit_type]
    food = rule.food_halves * number
    player = w.players[owner]
    player.food_used_halves += food
    if rule.worker:
        player.food_workers_halves += food
    elif rule.army:
        player.food_army_halves += food


@kernel
def _count_unit(w: State, row: int) -> None:
    """Adds one unit to its owner's counts."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    player = w.players[unit.owner]
    if unit.hallucination:
        return
    if rule.structure and not rule.summoned:
        player.building_count += 1
    if unit.unit_type == ids.UNIT_EGG:
        twins = 2 if unit.next_type == ids.UNIT_ZERGLING else 1
        _count_food(w, unit.owner, unit.next_type, twins)
        w.pending[unit.owner, unit.next_type] += 1
    _count_food(w, unit.owner, unit.unit_type, 1)
    player.army_count += rule.army
    idle = unit.order_count == 0 and unit.build_progress >= 1.0
    if rule.worker and not rule.mule and idle:
        player.idle_worker_count += 1
    if rule.produces and idle:
        player.idle_production_count += 1
    if unit.build_progress < 1.0:
        w.pending[unit.owner, unit.unit_type] += 1
        return
    player.food_cap += rule.provides
    for k in range(unit.buff_count):
        if w.buffs[row, k].id == ids.BUFF_SUPPLY_DROP:
            player.food_cap += SUPPLY_DROP_FOOD
    player.warp_gate_count += unit.unit_type == ids.UNIT_WARP_GATE
    player.larva_count += unit.unit_type == ids.UNIT_LARVA
    kind = unit.unit_type
    while kind != 0:  # a hive also counts as a lair and a hatchery
        w.counts[unit.owner, kind] += 1
        kind = w.unit_rules[kind].counts_as


@kernel
def _count_orders(w: State, row: int) -> None:
    """Adds what a unit has orders to make to its owner's pending counts and food."""
    unit = w.units[row]
    for k in range(unit.order_count):
        order = w.orders[row, k]
        ability = w.ability_rules[order.ability]
        kind = ability.kind
        if kind == ids.KIND_TRAIN:
            w.pending[unit.owner, ability.makes] += 1
            if order.stage == STAGE_STARTED:
                _count_food(w, unit.owner, ability.makes, 1)
        elif kind == ids.KIND_MORPH or (
            kind == ids.KIND_BUILD and order.stage == STAGE_WAITING
        ):
            w.pending[unit.owner, ability.makes] += 1


@kernel
def recount(w: State) -> None:
    """Counts supply, units by type, and all else that follows from the living units."""
    w.counts[:] = 0
    w.pending[:] = 0
    for p in range(1, PLAYERS):
        player = w.players[p]
        player.food_used_halves = 0
        player.food_army_halves = 0
        player.food_workers_halves = 0
        player.food_cap = 0
        player.idle_worker_count = 0
        player.idle_production_count = 0
        player.army_count = 0
        player.warp_gate_count = 0
        player.larva_count = 0
        player.building_count = 0
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive and is_player(unit.owner):
            _count_unit(w, row)
            _count_orders(w, row)
    for p in range(1, PLAYERS):
        w.players[p].food_cap = min(w.players[p].food_cap, MAX_FOOD)


@kernel
def count_harvesters(w: State) -> None:
    """Counts the workers at each town hall and gas mine, and how many would be ideal."""
    rows = w.clock[ROWS]
    for row in range(rows):
        unit = w.units[row]
        unit.assigned = 0
        unit.ideal = 0
        if unit.alive and w.unit_rules[unit.unit_type].gas_mine:
            done = unit.build_progress >= 1.0 and unit.vespene > 0
            unit.ideal = GAS_WORKERS if done else 0
    for row in range(rows):
        unit = w.units[row]
        if unit.alive == 0:
            continue
        if w.unit_rules[unit.unit_type].mineral_field:
            _count_field(w, row)
        elif w.unit_rules[unit.unit_type].worker and unit.order_count > 0:
            _count_worker(w, row)


@kernel
def _count_field(w: State, row: int) -> None:
    """Adds a mineral field's workers to what is ideal for the town hall beside it."""
    for p in range(1, PLAYERS):
        hall = nearest_hall(w, p, w.units[row].x, w.units[row].y)
        if hall >= 0 and distance(w, hall, row) < HALL_FIELD_RADIUS:
            w.units[hall].ideal += FIELD_WORKERS


@kernel
def _count_worker(w: State, row: int) -> None:
    """Adds a worker that gathers to its gas mine or town hall."""
    order = w.orders[row, 0]
    kind = w.ability_rules[order.ability].kind
    if kind != ids.KIND_GATHER and kind != ids.KIND_RETURN:
        return
    source = find(w, order.target_tag)
    if source < 0:
        return
    if w.unit_rules[w.units[source].unit_type].gas_mine:
        w.units[source].assigned += 1
        return
    hall = nearest_hall(w, w.units[row].owner, w.units[source].x, w.units[source].y)
    if hall >= 0:
        w.units[hall].assigned += 1
