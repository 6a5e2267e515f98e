"""Which abilities a unit has, which it can use now, and why an order is refused.

In: a unit's row and an ability or a command. Out: a value of `action_results`, or abilities.
Changes nothing: `orders` does.
"""

import numpy as np

from starmill.engines.skirmish.simulation import action_results, ids, rules
from starmill.engines.skirmish.simulation.accounts import cheats
from starmill.engines.skirmish.simulation.combat import can_see
from starmill.engines.skirmish.simulation.economy import can_gather_at, has_food
from starmill.engines.skirmish.simulation.records import (
    CHEAT_FREE,
    CHEAT_TECH_TREE,
    LOOP,
    MAX_ORDERS,
    OCCUPIED_BUILT,
    OWNER_NEUTRAL,
    STAGE_STARTED,
    TARGET_NONE,
    TARGET_POINT,
    TARGET_UNIT,
    Command,
    State,
)
from starmill.engines.skirmish.simulation.terrain import placement_error
from starmill.engines.skirmish.simulation.units import find, has_buff
from starmill.schema.compilation import kernel
from starmill.schema.game_constants import ZERG

QUEUE_LENGTH = 5
REACTOR_QUEUE_LENGTH = 8
DEPOT_SUPPLY = 8  # what a building provides at which a supply drop can be called down


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
        if type_rule.ground_damage > 0 or type_rule.air_damage > 0:
            building = type_rule.structure != 0
            own = ids.ABILITY_ATTACK_BUILDING if building else ids.ABILITY_ATTACK
            return ability == own
        # For unarmed units of an army, an attack means a move.
        mobile = type_rule.army != 0 and type_rule.speed > 0.0
        return ability == ids.ABILITY_SCAN_MOVE and mobile
    if kind == ids.KIND_STOP:
        fixed = type_rule.structure != 0 and type_rule.speed <= 0.0
        own = ids.ABILITY_STOP_BUILDING if fixed else ids.ABILITY_STOP
        can_stop = type_rule.speed > 0.0 or type_rule.ground_damage > 0
        return ability == own and can_stop
    if kind == ids.KIND_MOVE or kind == ids.KIND_PATROL or kind == ids.KIND_HOLD:
        return type_rule.speed > 0.0
    return False


@kernel
def _is_next_level(w: State, owner: int, ability: int) -> bool:
    """Returns whether this level of an upgrade can be researched next; True of other abilities."""
    rule = w.ability_rules[ability]
    if rule.kind != ids.KIND_RESEARCH:
        return True
    if w.upgrades[owner, rule.upgrade_made] or w.researching[owner, rule.upgrade_made]:
        return False
    return rule.needs_upgrade == 0 or w.upgrades[owner, rule.needs_upgrade] != 0


@kernel
def specific_ability(w: State, row: int, ability: int) -> int:
    """Returns the unit's specific ability for a general or specific id, or 0 if it has none."""
    if ability <= 0 or ability >= rules.ABILITY_LIMIT:
        return 0
    if w.ability_rules[ability].kind != ids.KIND_NONE:
        if has_ability(w, row, ability):
            return ability
        if w.ability_rules[ability].kind != ids.KIND_ATTACK:
            return 0
        ability = ids.ABILITY_ANY_ATTACK  # each unit attacks in its own way
    last = 0
    candidate = w.ability_rules[ability].first_specific
    while candidate:
        if has_ability(w, row, candidate):
            if _is_next_level(w, w.units[row].owner, candidate):
                return candidate
            last = candidate
        candidate = w.ability_rules[candidate].next_specific
    return last


@kernel
def _tech_error(w: State, row: int, ability: int) -> int:
    """Returns SUCCESS if the player has the buildings and upgrades that the ability needs."""
    rule = w.ability_rules[ability]
    unit = w.units[row]
    owner = unit.owner
    if cheats(w, owner, CHEAT_TECH_TREE):
        if _is_next_level(w, owner, ability):
            return action_results.SUCCESS
        return action_results.TECH_REQUIREMENTS_NOT_MET
    if rule.needs and w.counts[owner, rule.needs] == 0:
        if rule.kind == ids.KIND_BUILD:
            return action_results.BUILD_TECH_REQUIREMENTS_NOT_MET
        return action_results.TECH_REQUIREMENTS_NOT_MET
    if rule.needs_upgrade and w.upgrades[owner, rule.needs_upgrade] == 0:
        return action_results.TECH_REQUIREMENTS_NOT_MET
    if rule.tech_lab:
        if unit.addon < 0 or w.units[unit.addon].build_progress < 1.0:
            return action_results.TECH_REQUIREMENTS_NOT_MET
        if w.unit_rules[w.units[unit.addon].unit_type].add_on != ids.ADD_ON_TECH_LAB:
            return action_results.TECH_REQUIREMENTS_NOT_MET
    if not _is_next_level(w, owner, ability):
        return action_results.TECH_REQUIREMENTS_NOT_MET
    return action_results.SUCCESS


@kernel
def _cost_error(w: State, row: int, ability: int) -> int:
    """Returns SUCCESS if the player and the unit can pay for the ability now."""
    rule = w.ability_rules[ability]
    unit = w.units[row]
    player = w.players[unit.owner]
    free = cheats(w, unit.owner, CHEAT_FREE)
    if player.minerals < rule.minerals and not free:
        return action_results.NOT_ENOUGH_MINERALS
    if player.vespene < rule.vespene and not free:
        return action_results.NOT_ENOUGH_VESPENE
    if unit.energy < rule.energy:
        return action_results.NOT_ENOUGH_ENERGY
    if rule.health and unit.health <= rule.health:
        return action_results.NOT_ENOUGH_LIFE
    if rule.cooldown > 0.0 and unit.wait > w.clock[LOOP]:
        return action_results.COOLDOWN
    if rule.kind == ids.KIND_HATCH or rule.kind == ids.KIND_WARP:
        food = w.unit_rules[rule.makes].food_halves * (2 if rule.pair else 1)
        if not has_food(w, unit.owner, food):
            return action_results.NOT_ENOUGH_FOOD
    return action_results.SUCCESS


@kernel
def _queue_length(w: State, row: int) -> int:
    """Returns how many orders a building can queue."""
    addon = w.units[row].addon
    if (
        addon >= 0
        and w.unit_rules[w.units[addon].unit_type].add_on == ids.ADD_ON_REACTOR
    ):
        return REACTOR_QUEUE_LENGTH
    return QUEUE_LENGTH


@kernel
def _state_error(w: State, row: int, ability: int) -> int:
    """Returns SUCCESS if the unit's present state allows this ability."""
    rule = w.ability_rules[ability]
    unit = w.units[row]
    kind = rule.kind
    if unit.build_progress < 1.0:
        if kind == ids.KIND_CANCEL_BUILDING:
            return action_results.SUCCESS
        return action_results.BUILDING_IS_UNDER_CONSTRUCTION
    if unit.carrier >= 0:
        return action_results.NOT_SUPPORTED
    queues = kind == ids.KIND_TRAIN or kind == ids.KIND_RESEARCH
    unpowered = w.unit_rules[unit.unit_type].needs_power and unit.powered == 0
    if unpowered and (queues or kind == ids.KIND_WARP):
        return action_results.ERROR
    if queues and unit.order_count >= _queue_length(w, row):
        return action_results.QUEUE_IS_FULL
    if kind == ids.KIND_ADD_ON and unit.addon >= 0:
        return action_results.CANT_QUEUE
    busy = unit.order_count > 0
    exclusive = kind == ids.KIND_ADD_ON or kind == ids.KIND_MORPH
    if exclusive and busy and w.unit_rules[unit.unit_type].structure:
        return action_results.CANT_QUEUE
    return action_results.SUCCESS


@kernel
def is_transforming(w: State, row: int) -> bool:
    """Returns whether the unit is turning into another type now."""
    if w.units[row].order_count == 0:
        return False
    order = w.orders[row, 0]
    kind = w.ability_rules[order.ability].kind
    if kind == ids.KIND_MORPH or kind == ids.KIND_ARCHON:
        return order.stage == STAGE_STARTED
    return kind == ids.KIND_HATCH


@kernel
def _spell_error(w: State, row: int, ability: int, target: int) -> int:
    """Returns SUCCESS if the spell can be cast at this target unit."""
    rule = w.ability_rules[ability]
    victim = w.units[target]
    own = victim.owner == w.units[row].owner
    spell = rule.spell
    if spell == ids.SPELL_MULE:
        field = w.unit_rules[victim.unit_type].mineral_field
        return action_results.SUCCESS if field else action_results.MUST_TARGET_RESOURCES
    if spell == ids.SPELL_LIFT:
        kind = w.unit_rules[victim.unit_type]
        heavy = kind.attributes & ids.ATTRIBUTE_MASSIVE or kind.structure
        if own or heavy or victim.flying or victim.owner == OWNER_NEUTRAL:
            return action_results.CANT_TARGET_THAT_UNIT
        return action_results.SUCCESS
    if spell == ids.SPELL_DAMAGE or spell == ids.SPELL_FEEDBACK:
        return action_results.CANT_TARGET_THAT_UNIT if own else action_results.SUCCESS
    if not own or victim.build_progress < 1.0:
        return action_results.CANT_TARGET_THAT_UNIT
    kind = w.unit_rules[victim.unit_type]
    if spell == ids.SPELL_INJECT:
        fits = (
            kind.town_hall and kind.race == ZERG and not has_buff(w, target, rule.buff)
        )
        return action_results.SUCCESS if fits else action_results.CANT_TARGET_THAT_UNIT
    if spell == ids.SPELL_SUPPLY_DROP:
        fits = (
            kind.provides == DEPOT_SUPPLY
            and kind.structure
            and not has_buff(w, target, rule.buff)
        )
        return action_results.SUCCESS if fits else action_results.CANT_TARGET_THAT_UNIT
    if spell == ids.SPELL_BUFF and kind.structure == 0:
        return action_results.CANT_TARGET_THAT_UNIT
    return action_results.SUCCESS


@kernel
def _unit_target_error(w: State, row: int, ability: int, target: int) -> int:
    """Returns SUCCESS if the unit can use the ability on this target unit."""
    rule = w.ability_rules[ability]
    kind = rule.kind
    unit = w.units[row]
    if not can_see(w, row, target) and w.units[target].owner != OWNER_NEUTRAL:
        return action_results.MUST_TARGET_VISIBLE_UNIT
    if kind == ids.KIND_GATHER:
        resource = can_gather_at(w, target, unit.owner)
        return (
            action_results.SUCCESS if resource else action_results.MUST_TARGET_RESOURCES
        )
    if kind == ids.KIND_SPELL:
        return _spell_error(w, row, ability, target)
    own = w.units[target].owner == unit.owner
    if kind == ids.KIND_LOAD:
        size = w.unit_rules[w.units[target].unit_type].cargo
        if not own or size == 0 or target == row:
            return action_results.CANT_LOAD_THAT_UNIT
        if unit.cargo_used + size > unit.cargo_max:
            return action_results.NOT_ENOUGH_ROOM_TO_LOAD
    if kind == ids.KIND_REPAIR:
        attributes = w.unit_rules[w.units[target].unit_type].attributes
        mechanical = attributes & ids.ATTRIBUTE_MECHANICAL
        damaged = w.units[target].health < w.units[target].health_max
        repairable = own and mechanical and damaged
        return (
            action_results.SUCCESS
            if repairable
            else action_results.CANT_TARGET_THAT_UNIT
        )
    return action_results.SUCCESS


@kernel
def _point_error(w: State, row: int, ability: int, x: float, y: float) -> int:
    """Returns SUCCESS if the unit can use the ability at this point."""
    rule = w.ability_rules[ability]
    owner = w.units[row].owner
    rows, columns = w.map_height, w.map_width
    if not (0.0 <= x < columns and 0.0 <= y < rows):
        return action_results.CANT_BUILD_LOCATION_INVALID
    if rule.kind == ids.KIND_BUILD or rule.kind == ids.KIND_TUMOR:
        return placement_error(w, owner, rule.makes, x, y)
    if rule.kind == ids.KIND_WARP:
        column, line = int(x), int(y)
        powered = w.pathable[line, column] and w.power[owner, line, column]
        free = powered and w.occupied[line, column] & OCCUPIED_BUILT == 0
        return action_results.SUCCESS if free else action_results.CANT_WARP_IN_THERE
    return action_results.SUCCESS


@kernel
def _target_error(w: State, row: int, ability: int, tag: int) -> int:
    """Returns SUCCESS if the unit can use the ability on the unit with this tag."""
    other = find(w, tag)
    if other < 0:
        return action_results.CANT_TARGET_THAT_UNIT
    kind = w.ability_rules[ability].kind
    if kind != ids.KIND_BUILD and kind != ids.KIND_TUMOR:
        return _unit_target_error(w, row, ability, other)
    unit = w.units[other]
    if unit.owner == w.units[row].owner and unit.build_progress < 1.0:
        return action_results.SUCCESS
    return _point_error(w, row, ability, unit.x, unit.y)


@kernel
def order_error(w: State, row: int, ability: int, command: Command) -> int:
    """Returns SUCCESS, or why the unit cannot be given an order by this command now.

    ability: the unit's specific ability for the command.
    """
    code = _state_error(w, row, ability)
    if code == action_results.SUCCESS:
        code = _tech_error(w, row, ability)
    if code == action_results.SUCCESS:
        code = _cost_error(w, row, ability)
    if code != action_results.SUCCESS:
        return code
    rule = w.ability_rules[ability]
    needs_place = rule.kind == ids.KIND_BUILD or rule.kind == ids.KIND_TUMOR
    target = command.target
    if (needs_place or rule.kind == ids.KIND_WARP) and target == TARGET_NONE:
        return action_results.MUST_TARGET_UNIT
    at_unit = rule.kind == ids.KIND_SPELL and rule.target == TARGET_UNIT
    if at_unit and target != TARGET_UNIT:
        return action_results.MUST_TARGET_UNIT
    if target == TARGET_UNIT:
        return _target_error(w, row, ability, command.target_tag)
    if target == TARGET_POINT:
        return _point_error(w, row, ability, command.x, command.y)
    return action_results.SUCCESS


@kernel
def is_available(w: State, row: int, ability: int, ignore_cost: bool) -> bool:
    """Returns whether the unit could use this ability now if it had a suitable target."""
    if not has_ability(w, row, ability) or is_transforming(w, row):
        return False
    if _state_error(w, row, ability) != action_results.SUCCESS:
        return False
    if _tech_error(w, row, ability) != action_results.SUCCESS:
        return False
    return ignore_cost or _cost_error(w, row, ability) == action_results.SUCCESS


@kernel
def available_abilities(w: State, row: int, ignore_cost: bool) -> np.ndarray:
    """Returns the specific abilities that the unit could use now, in ascending order, int32."""
    abilities = np.empty(rules.ABILITY_LIMIT, np.int32)
    count = 0
    for ability in range(rules.ABILITY_LIMIT):
        if w.ability_rules[ability].kind == ids.KIND_NONE:
            continue
        if is_available(w, row, ability, ignore_cost):
            abilities[count] = ability
            count += 1
    return abilities[:count].copy()


@kernel
def has_room_for_order(w: State, row: int) -> bool:
    """Returns whether the unit can queue another order."""
    return w.units[row].order_count < MAX_ORDERS
