"""Who can do what now: which abilities a unit has, and why one is refused.

Everything here only looks; giving orders is in `commands`.
"""

import numpy as np

from starmill.engines.skirmish.simulation import action_results as codes
from starmill.engines.skirmish.simulation import ids, rules
from starmill.engines.skirmish.simulation.combat import can_see
from starmill.engines.skirmish.simulation.economy import is_mine
from starmill.engines.skirmish.simulation.production import has_food
from starmill.engines.skirmish.simulation.records import (
    LOOP,
    MAX_ORDERS,
    State,
)
from starmill.engines.skirmish.simulation.terrain import placement_error
from starmill.engines.skirmish.simulation.units import find, has_buff
from starmill.schema.compilation import kernel

QUEUE_LENGTH = 5
REACTOR_QUEUE_LENGTH = 8


@kernel
def has_ability(w: State, row: int, ability: int) -> bool:
    """Returns whether the unit's type has the ability at all."""
    rule = w.ability_rules[ability]
    unit = w.units[row]
    kind = rule.kind
    if rule.by_count > 0:
        for k in range(rule.by_count):
            if w.sources[ability, k] == unit.unit_type:
                return True
        return False
    type_rule = w.unit_rules[unit.unit_type]
    if kind == ids.KIND_SMART:
        return True
    if kind == ids.KIND_CANCEL_BUILDING:
        return unit.build_progress < 1.0 and type_rule.structure != 0
    if kind == ids.KIND_ATTACK:
        armed = type_rule.ground_damage > 0 or type_rule.air_damage > 0
        # Unarmed flyers of an army take attack as "go there", as the game's scan-move does.
        return armed or (type_rule.army != 0 and type_rule.speed > 0.0)
    if kind == ids.KIND_STOP:
        return type_rule.speed > 0.0 or type_rule.ground_damage > 0
    if kind == ids.KIND_MOVE or kind == ids.KIND_PATROL or kind == ids.KIND_HOLD:
        return type_rule.speed > 0.0
    return False


@kernel
def _is_open(w: State, owner: int, ability: int) -> bool:
    """Returns whether a level of an upgrade is the one to be researched next."""
    rule = w.ability_rules[ability]
    if rule.kind != ids.KIND_RESEARCH:
        return True
    if w.upgrades[owner, rule.upgrade_made] or w.researching[owner, rule.upgrade_made]:
        return False
    return rule.needs_upgrade == 0 or w.upgrades[owner, rule.needs_upgrade] != 0


@kernel
def specific(w: State, row: int, ability: int) -> int:
    """Returns the unit's own ability for a general or specific id, or 0 if it has none."""
    if ability <= 0 or ability >= rules.ABILITY_LIMIT:
        return 0
    if w.ability_rules[ability].kind != ids.KIND_NONE:
        return ability if has_ability(w, row, ability) else 0
    found = 0
    candidate = w.ability_rules[ability].first_specific
    while candidate:
        if has_ability(w, row, candidate):
            if _is_open(w, w.units[row].owner, candidate):
                return candidate
            found = candidate
        candidate = w.ability_rules[candidate].next_specific
    return found


@kernel
def _tech_error(w: State, row: int, ability: int) -> int:
    rule = w.ability_rules[ability]
    unit = w.units[row]
    owner = unit.owner
    if rule.needs and w.counts[owner, rule.needs] == 0:
        if rule.kind == ids.KIND_BUILD:
            return codes.BUILD_TECH_REQUIREMENTS_NOT_MET
        return codes.TECH_REQUIREMENTS_NOT_MET
    if rule.needs_upgrade and w.upgrades[owner, rule.needs_upgrade] == 0:
        return codes.TECH_REQUIREMENTS_NOT_MET
    if rule.tech_lab:
        if unit.addon < 0 or w.units[unit.addon].build_progress < 1.0:
            return codes.TECH_REQUIREMENTS_NOT_MET
        if w.unit_rules[w.units[unit.addon].unit_type].add_on != 1:
            return codes.TECH_REQUIREMENTS_NOT_MET
    if not _is_open(w, owner, ability):
        return codes.TECH_REQUIREMENTS_NOT_MET
    return codes.SUCCESS


@kernel
def _cost_error(w: State, row: int, ability: int) -> int:
    rule = w.ability_rules[ability]
    unit = w.units[row]
    player = w.players[unit.owner]
    if player.minerals < rule.minerals:
        return codes.NOT_ENOUGH_MINERALS
    if player.vespene < rule.vespene:
        return codes.NOT_ENOUGH_VESPENE
    if unit.energy < rule.energy:
        return codes.NOT_ENOUGH_ENERGY
    if rule.health and unit.health <= rule.health:
        return codes.NOT_ENOUGH_LIFE
    if rule.cooldown > 0.0 and unit.wait > w.clock[LOOP]:
        return codes.COOLDOWN
    if rule.kind == ids.KIND_HATCH or rule.kind == ids.KIND_WARP:
        food = w.unit_rules[rule.makes].food_halves * (2 if rule.pair else 1)
        if not has_food(w, unit.owner, food):
            return codes.NOT_ENOUGH_FOOD
    return codes.SUCCESS


@kernel
def _queue_length(w: State, row: int) -> int:
    """Returns how many orders a building can queue."""
    addon = w.units[row].addon
    if addon >= 0 and w.unit_rules[w.units[addon].unit_type].add_on == 2:
        return REACTOR_QUEUE_LENGTH
    return QUEUE_LENGTH


@kernel
def _state_error(w: State, row: int, ability: int) -> int:
    """Returns why the unit cannot take this kind of order in the state it is in."""
    rule = w.ability_rules[ability]
    unit = w.units[row]
    kind = rule.kind
    if unit.build_progress < 1.0:
        if kind == ids.KIND_CANCEL_BUILDING:
            return codes.SUCCESS
        return codes.BUILDING_IS_UNDER_CONSTRUCTION
    if unit.carrier >= 0:
        return codes.NOT_SUPPORTED
    queue = kind == ids.KIND_TRAIN or kind == ids.KIND_RESEARCH
    dark = w.unit_rules[unit.unit_type].needs_power and unit.powered == 0
    if dark and (queue or kind == ids.KIND_WARP):
        return codes.ERROR
    if queue and unit.order_count >= _queue_length(w, row):
        return codes.QUEUE_IS_FULL
    if kind == ids.KIND_ADD_ON and unit.addon >= 0:
        return codes.CANT_QUEUE
    busy = unit.order_count > 0
    exclusive = kind == ids.KIND_ADD_ON or kind == ids.KIND_MORPH
    if exclusive and busy and w.unit_rules[unit.unit_type].structure:
        return codes.CANT_QUEUE
    return codes.SUCCESS


@kernel
def transforming(w: State, row: int) -> bool:
    """Returns whether the unit is in the middle of becoming something else."""
    if w.units[row].order_count == 0:
        return False
    order = w.orders[row, 0]
    kind = w.ability_rules[order.ability].kind
    if kind == ids.KIND_MORPH or kind == ids.KIND_ARCHON:
        return order.stage == 1
    return kind == ids.KIND_HATCH


@kernel
def _spell_error(w: State, row: int, ability: int, target: int) -> int:
    """Returns why a spell cannot be cast at a unit."""
    rule = w.ability_rules[ability]
    victim = w.units[target]
    own = victim.owner == w.units[row].owner
    spell = rule.spell
    if spell == ids.SPELL_MULE:
        field = w.unit_rules[victim.unit_type].mineral_field
        return codes.SUCCESS if field else codes.MUST_TARGET_RESOURCES
    if spell == ids.SPELL_DAMAGE or spell == ids.SPELL_FEEDBACK:
        return codes.CANT_TARGET_THAT_UNIT if own else codes.SUCCESS
    if not own or victim.build_progress < 1.0:
        return codes.CANT_TARGET_THAT_UNIT
    kind = w.unit_rules[victim.unit_type]
    if spell == ids.SPELL_INJECT:
        fits = kind.town_hall and kind.race == 2 and not has_buff(w, target, rule.buff)
        return codes.SUCCESS if fits else codes.CANT_TARGET_THAT_UNIT
    if spell == ids.SPELL_SUPPLY_DROP:
        fits = (
            kind.provides == 8 and kind.structure and not has_buff(w, target, rule.buff)
        )
        return codes.SUCCESS if fits else codes.CANT_TARGET_THAT_UNIT
    if spell == ids.SPELL_BUFF and kind.structure == 0:
        return codes.CANT_TARGET_THAT_UNIT
    return codes.SUCCESS


@kernel
def _unit_target_error(w: State, row: int, ability: int, target: int) -> int:
    """Returns why the unit cannot use the ability on this target unit."""
    rule = w.ability_rules[ability]
    kind = rule.kind
    unit = w.units[row]
    if not can_see(w, row, target) and w.units[target].owner != 16:
        return codes.MUST_TARGET_VISIBLE_UNIT
    if kind == ids.KIND_GATHER:
        good = is_mine(w, target, unit.owner)
        return codes.SUCCESS if good else codes.MUST_TARGET_RESOURCES
    if kind == ids.KIND_SPELL:
        return _spell_error(w, row, ability, target)
    own = w.units[target].owner == unit.owner
    if kind == ids.KIND_LOAD:
        size = w.unit_rules[w.units[target].unit_type].cargo
        if not own or size == 0 or target == row:
            return codes.CANT_LOAD_THAT_UNIT
        if unit.cargo_used + size > unit.cargo_max:
            return codes.NOT_ENOUGH_ROOM_TO_LOAD
    if kind == ids.KIND_REPAIR:
        mechanical = w.unit_rules[w.units[target].unit_type].attributes & 8
        good = (
            own and mechanical and w.units[target].health < w.units[target].health_max
        )
        return codes.SUCCESS if good else codes.CANT_TARGET_THAT_UNIT
    return codes.SUCCESS


@kernel
def _point_error(w: State, row: int, ability: int, x: float, y: float) -> int:
    rule = w.ability_rules[ability]
    owner = w.units[row].owner
    rows, columns = w.map_height, w.map_width
    if not (0.0 <= x < columns and 0.0 <= y < rows):
        return codes.CANT_BUILD_LOCATION_INVALID
    if rule.kind == ids.KIND_BUILD:
        return placement_error(w, owner, rule.makes, x, y)
    if rule.kind == ids.KIND_TUMOR:
        return placement_error(w, owner, rule.makes, x, y)
    if rule.kind == ids.KIND_WARP:
        good = w.pathable[int(y), int(x)] and w.power[owner, int(y), int(x)]
        good = good and w.occupied[int(y), int(x)] & 1 == 0
        return codes.SUCCESS if good else codes.CANT_WARP_IN_THERE
    return codes.SUCCESS


@kernel
def _target_error(w: State, row: int, ability: int, tag: int) -> int:
    other = find(w, tag)
    if other < 0:
        return codes.CANT_TARGET_THAT_UNIT
    kind = w.ability_rules[ability].kind
    if kind != ids.KIND_BUILD and kind != ids.KIND_TUMOR:
        return _unit_target_error(w, row, ability, other)
    unit = w.units[other]
    if unit.owner == w.units[row].owner and unit.build_progress < 1.0:
        return codes.SUCCESS
    return _point_error(w, row, ability, unit.x, unit.y)


@kernel
def order_error(
    w: State, row: int, ability: int, target: int, tag: int, x: float, y: float
) -> int:
    """Returns SUCCESS, or why the unit cannot be given this order now.

    target: 0 none, 1 point, 2 unit.
    """
    code = _state_error(w, row, ability)
    if code == codes.SUCCESS:
        code = _tech_error(w, row, ability)
    if code == codes.SUCCESS:
        code = _cost_error(w, row, ability)
    if code != codes.SUCCESS:
        return code
    rule = w.ability_rules[ability]
    needs_place = rule.kind == ids.KIND_BUILD or rule.kind == ids.KIND_TUMOR
    if (needs_place or rule.kind == ids.KIND_WARP) and target == 0:
        return codes.MUST_TARGET_UNIT
    if rule.kind == ids.KIND_SPELL and rule.target == 2 and target != 2:
        return codes.MUST_TARGET_UNIT
    if target == 2:
        return _target_error(w, row, ability, tag)
    if target == 1:
        return _point_error(w, row, ability, x, y)
    return codes.SUCCESS


@kernel
def is_available(w: State, row: int, ability: int, ignore_cost: bool) -> bool:
    """Returns whether the unit could be given this ability now, the target aside."""
    if not has_ability(w, row, ability) or transforming(w, row):
        return False
    if _state_error(w, row, ability) != codes.SUCCESS:
        return False
    if _tech_error(w, row, ability) != codes.SUCCESS:
        return False
    return ignore_cost or _cost_error(w, row, ability) == codes.SUCCESS


@kernel
def available(w: State, row: int, ignore_cost: bool) -> np.ndarray:
    """Returns the specific abilities that the unit could be given now, ascending, int32."""
    found = np.empty(rules.ABILITY_LIMIT, np.int32)
    count = 0
    for ability in range(rules.ABILITY_LIMIT):
        if w.ability_rules[ability].kind == ids.KIND_NONE:
            continue
        if is_available(w, row, ability, ignore_cost):
            found[count] = ability
            count += 1
    return found[:count].copy()


@kernel
def room_for_orders(w: State, row: int) -> bool:
    """Returns whether another order fits behind the unit's present ones."""
    return w.units[row].order_count < MAX_ORDERS
