"""Turns a player's commands into orders of the units that obey them.

In: a command with a general or specific ability id. Out: orders in the world, or an entry in the
log of errors. One of the units obeys a command to train, build, research or cast: the one that is
best placed. All of them obey a command to move, attack or morph.
"""

import numpy as np

from starmill.engines.skirmish.simulation import action_results, ids
from starmill.engines.skirmish.simulation.combat import set_levels
from starmill.engines.skirmish.simulation.economy import (
    HOMEBOUND,
    OUTBOUND,
    can_gather_at,
    pay,
    refund,
)
from starmill.engines.skirmish.simulation.effects import cast
from starmill.engines.skirmish.simulation.movement import can_stand
from starmill.engines.skirmish.simulation.production import (
    SITE_PROGRESS,
    cancel_building,
    cancel_order,
)
from starmill.engines.skirmish.simulation.records import (
    LOOP,
    OWNER_NEUTRAL,
    TARGET_NONE,
    TARGET_POINT,
    TARGET_UNIT,
    Command,
    State,
)
from starmill.engines.skirmish.simulation.requirements import (
    has_ability,
    has_room_for_order,
    is_transforming,
    order_error,
    specific_ability,
)
from starmill.engines.skirmish.simulation.terrain import snap
from starmill.engines.skirmish.simulation.units import (
    change_type,
    clear_orders,
    find,
    leave_carrier,
    log_error,
    push_order,
    spawn,
)
from starmill.schema.compilation import kernel

NO_FIT = 1e18  # worse than any unit


@kernel
def _takes_one(w: State, ability: int) -> bool:
    """Returns whether only one of the units obeys a command with this ability."""
    rule = w.ability_rules[ability]
    kind = rule.kind
    if kind == ids.KIND_SPELL:
        if rule.spell == ids.SPELL_CLOAK_ON or rule.spell == ids.SPELL_BLINK:
            return False
        return rule.target != TARGET_NONE or rule.energy > 0.0
    return (
        kind == ids.KIND_TRAIN
        or kind == ids.KIND_HATCH
        or kind == ids.KIND_WARP
        or kind == ids.KIND_BUILD
        or kind == ids.KIND_RESEARCH
        or kind == ids.KIND_TUMOR
    )


@kernel
def _badness(w: State, row: int, ability: int, x: float, y: float) -> float:
    """Returns how badly this unit is placed to obey: lower is better."""
    unit = w.units[row]
    kind = w.ability_rules[ability].kind
    dx, dy = unit.x - x, unit.y - y
    if kind == ids.KIND_TRAIN or kind == ids.KIND_RESEARCH:
        at_a_time = 1
        if unit.addon >= 0:
            at_a_time = w.unit_rules[w.units[unit.addon].unit_type].add_on
        return unit.order_count / max(at_a_time, 1)
    if kind == ids.KIND_HATCH:
        return 0.0
    return dx * dx + dy * dy


@kernel
def _smart(w: State, row: int, command: Command) -> int:
    """Returns the ability that a right click means for this unit, or 0."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    other = find(w, command.target_tag) if command.target == TARGET_UNIT else -1
    if rule.speed <= 0.0:
        if rule.town_hall:
            return specific_ability(w, row, ids.ABILITY_RALLY_WORKERS)
        return specific_ability(w, row, ids.ABILITY_RALLY_UNITS)
    if other < 0:
        return ids.ABILITY_MOVE if has_ability(w, row, ids.ABILITY_MOVE) else 0
    if rule.worker and can_gather_at(w, other, unit.owner):
        return rule.gather
    target = w.units[other]
    if target.owner == unit.owner:
        if target.cargo_max > 0 and rule.cargo > 0:
            return ids.ABILITY_SMART
        if unit.unit_type == ids.UNIT_SCV and target.health < target.health_max:
            return ids.ABILITY_REPAIR_SCV
        return ids.ABILITY_MOVE
    if target.owner != OWNER_NEUTRAL:
        attack = specific_ability(w, row, ids.ABILITY_ANY_ATTACK)
        return attack if attack else ids.ABILITY_MOVE
    return ids.ABILITY_MOVE


@kernel
def unload_passenger(w: State, row: int, index: int) -> bool:
    """Unloads one passenger beside its carrier. Returns False if it cannot stand there."""
    carrier = w.units[row]
    passenger = w.cargo[row, index]
    x = carrier.x + (0.0, 0.8, -0.8, 0.0)[index % 4]
    y = carrier.y + (-0.8, 0.0, 0.0, 0.8)[index % 4]
    if w.unit_rules[carrier.unit_type].structure:
        y = carrier.y - carrier.radius - 0.5
    if not can_stand(w, x, y):
        return False
    leave_carrier(w, passenger)
    w.units[passenger].x = x
    w.units[passenger].y = y
    clear_orders(w, passenger)
    return True


@kernel
def _unload(w: State, row: int, kind: int) -> bool:
    """Unloads one or all passengers at once. Returns False for an ability of another kind."""
    unit = w.units[row]
    if kind == ids.KIND_UNLOAD_ONE:
        if unit.cargo_count > 0:
            unload_passenger(w, row, unit.cargo_count - 1)
        return True
    if kind != ids.KIND_UNLOAD_ALL:
        return False
    while unit.cargo_count > 0:
        if not unload_passenger(w, row, unit.cargo_count - 1):
            break
    return True


@kernel
def _do_at_once(w: State, row: int, ability: int, command: Command) -> bool:
    """Carries out what takes no time: stopping, cancelling, rallying and unloading.

    Returns False for an ability of another kind.
    """
    unit = w.units[row]
    kind = w.ability_rules[ability].kind
    if kind == ids.KIND_STOP or kind == ids.KIND_HALT:
        clear_orders(w, row)
    elif kind == ids.KIND_HOLD:
        clear_orders(w, row)
        unit.hold = 1
    elif kind == ids.KIND_CANCEL_BUILDING:
        cancel_building(w, row)
    elif kind == ids.KIND_CANCEL_LAST:
        if unit.order_count > 0:
            cancel_order(w, row, unit.order_count - 1)
    elif kind == ids.KIND_CANCEL_MORPH:
        _cancel_morph(w, row)
    elif kind == ids.KIND_RALLY or kind == ids.KIND_RALLY_WORKERS:
        unit.rally_kind = TARGET_UNIT if command.target_tag else TARGET_POINT
        unit.rally_tag = command.target_tag
        unit.rally_x = command.x
        unit.rally_y = command.y
    else:
        return _unload(w, row, kind)
    return True


@kernel
def _cancel_morph(w: State, row: int) -> None:
    """Turns a unit that is changing its type back into what it was."""
    unit = w.units[row]
    if unit.order_count == 0:
        return
    ability = w.orders[row, 0].ability
    if w.ability_rules[ability].kind != ids.KIND_MORPH:
        return
    refund(w, unit.owner, ability)
    clear_orders(w, row)
    if unit.next_type:
        unit.next_type = 0
        change_type(w, row, w.sources[ability, 0])


@kernel
def _make(w: State, row: int, ability: int, x: float, y: float) -> bool:
    """Pays for training, research and the like, and orders it.

    Returns False for an ability of another kind.
    """
    unit = w.units[row]
    rule = w.ability_rules[ability]
    kind = rule.kind
    if kind == ids.KIND_TRAIN or kind == ids.KIND_RESEARCH or kind == ids.KIND_ADD_ON:
        pay(w, unit.owner, ability)
        k = push_order(w, row, ability, TARGET_NONE, 0, 0.0, 0.0)
        w.orders[row, k].paid = 1
        if kind == ids.KIND_RESEARCH:
            w.researching[unit.owner, rule.upgrade_made] = 1
    elif kind == ids.KIND_MORPH:
        pay(w, unit.owner, ability)
        clear_orders(w, row)
        k = push_order(w, row, ability, TARGET_NONE, 0, 0.0, 0.0)
        w.orders[row, k].paid = 1
    elif kind == ids.KIND_HATCH:
        pay(w, unit.owner, ability)
        clear_orders(w, row)
        change_type(w, row, ids.UNIT_EGG)
        unit.health = unit.health_max
        unit.next_type = rule.makes
        push_order(w, row, ability, TARGET_NONE, 0, 0.0, 0.0)
        food = w.unit_rules[rule.makes].food_halves * (2 if rule.pair else 1)
        w.players[unit.owner].food_used_halves += food
    elif kind == ids.KIND_WARP:
        pay(w, unit.owner, ability)
        unit.wait = w.clock[LOOP] + rule.cooldown
        product = spawn(w, rule.makes, unit.owner, x, y, SITE_PROGRESS)
        if product >= 0:
            set_levels(w, product)
        w.players[unit.owner].food_used_halves += w.unit_rules[rule.makes].food_halves
    else:
        return False
    return True


@kernel
def _is_instant(w: State, row: int, ability: int) -> bool:
    """Returns whether the unit casts this spell without an order, while it goes on working."""
    building = w.unit_rules[w.units[row].unit_type].structure != 0
    return building or w.ability_rules[ability].target == TARGET_NONE


@kernel
def _cast_at_once(w: State, row: int, ability: int, command: Command) -> int:
    """Casts a spell without an order, if its target is in range; returns SUCCESS or an error."""
    unit = w.units[row]
    rule = w.ability_rules[ability]
    if rule.target == TARGET_NONE:
        cast(w, row, ability, -1, 0.0, 0.0)
        return action_results.SUCCESS
    x, y, target, room = command.x, command.y, -1, 0.0
    if command.target == TARGET_UNIT:
        target = find(w, command.target_tag)
        x, y = w.units[target].x, w.units[target].y
        room = w.units[target].radius + unit.radius
    dx, dy = x - unit.x, y - unit.y
    reach = rule.range + room
    if dx * dx + dy * dy > reach * reach:
        return action_results.CANT_TARGET_THAT_UNIT
    cast(w, row, ability, target, x, y)
    return action_results.SUCCESS


@kernel
def _obey(w: State, row: int, ability: int, command: Command) -> int:
    """Lets one unit obey a command that it can obey. Returns SUCCESS, or an error.

    ability: the unit's specific ability for the command.
    """
    if _do_at_once(w, row, ability, command):
        return action_results.SUCCESS
    x, y = command.x, command.y
    if _make(w, row, ability, x, y):
        return action_results.SUCCESS
    rule = w.ability_rules[ability]
    if rule.kind == ids.KIND_SPELL and _is_instant(w, row, ability):
        return _cast_at_once(w, row, ability, command)
    unit = w.units[row]
    if not command.queued:
        clear_orders(w, row)
    elif not has_room_for_order(w, row):
        return action_results.QUEUE_IS_FULL
    if command.target == TARGET_UNIT:
        other = find(w, command.target_tag)
        x, y = w.units[other].x, w.units[other].y
    if rule.kind == ids.KIND_BUILD and w.unit_rules[rule.makes].gas_mine == 0:
        size = w.unit_rules[rule.makes].footprint
        x, y = snap(size, x), snap(size, y)
    k = push_order(w, row, ability, command.target, command.target_tag, x, y)
    if rule.kind == ids.KIND_GATHER:
        loaded = unit.carry_minerals + unit.carry_vespene > 0
        w.orders[row, k].stage = HOMEBOUND if loaded else OUTBOUND
        if loaded and k == 0:
            w.orders[row, k].ability = w.unit_rules[unit.unit_type].return_
    return action_results.SUCCESS


@kernel
def _pair_archons(w: State, ability: int, tags: np.ndarray) -> None:
    """Orders the templars among these units to merge, two by two."""
    first = -1
    for tag in tags:
        row = find(w, tag)
        if row < 0 or not has_ability(w, row, ability) or is_transforming(w, row):
            continue
        if first < 0:
            first = row
            continue
        clear_orders(w, first)
        clear_orders(w, row)
        push_order(w, first, ability, TARGET_UNIT, w.units[row].tag, 0.0, 0.0)
        push_order(w, row, ability, TARGET_UNIT, w.units[first].tag, 0.0, 0.0)
        first = -1


@kernel
def _resolve(w: State, row: int, command: Command) -> int:
    """Returns the unit's specific ability for a command, or 0 if it cannot obey."""
    if w.units[row].carrier >= 0:
        return 0
    own = specific_ability(w, row, command.ability)
    if own and w.ability_rules[own].kind == ids.KIND_SMART:
        own = _smart(w, row, command)
    if own and is_transforming(w, row):
        kind = w.ability_rules[own].kind
        cancels = kind == ids.KIND_CANCEL_MORPH or kind == ids.KIND_CANCEL_LAST
        if not cancels and kind != ids.KIND_RALLY:
            return 0
    return own


@kernel
def _commanded(w: State, tag: int, command: Command) -> tuple[int, int, int]:
    """Returns (row of a commanded unit, its specific ability or 0, SUCCESS or a refusal).

    The ability is 0 if there is no such unit, if it is another player's, or if it cannot obey.
    """
    row = find(w, tag)
    if row < 0:
        return row, 0, action_results.SUCCESS
    if w.units[row].owner != command.player:
        return row, 0, action_results.YOU_CANT_CONTROL_THAT_UNIT
    return row, _resolve(w, row, command), action_results.SUCCESS


@kernel
def carry_out(w: State, command: Command) -> int:
    """Carries out a player's command. Returns SUCCESS if at least one unit obeys.

    Units that cannot obey are skipped. If none can, the last reason is logged and returned.
    """
    code = action_results.NOT_SUPPORTED
    obeyed = False
    best, best_badness, best_ability = -1, NO_FIT, 0
    tags = command.unit_tags
    for k in range(tags.shape[0]):
        row, own, refusal = _commanded(w, tags[k], command)
        if refusal != action_results.SUCCESS:
            code = refusal
        if own == 0:
            continue
        if w.ability_rules[own].kind == ids.KIND_ARCHON:
            _pair_archons(w, own, tags)
            return action_results.SUCCESS
        error = order_error(w, row, own, command)
        if error != action_results.SUCCESS:
            code = error
            continue
        if _takes_one(w, own):
            badness = _badness(w, row, own, command.x, command.y)
            if badness < best_badness:
                best, best_badness, best_ability = row, badness, own
            continue
        code = _obey(w, row, own, command)
        obeyed = obeyed or code == action_results.SUCCESS
    if best >= 0:
        code = _obey(w, best, best_ability, command)
        obeyed = code == action_results.SUCCESS
    if obeyed:
        return action_results.SUCCESS
    first = tags[0] if tags.shape[0] else 0
    log_error(w, command.player, command.ability, first, code)
    return code


@kernel
def command_error(w: State, command: Command) -> int:
    """Returns SUCCESS if at least one unit could obey the command now, or the last reason."""
    code = action_results.NOT_SUPPORTED
    for tag in command.unit_tags:
        row, own, refusal = _commanded(w, tag, command)
        if refusal != action_results.SUCCESS:
            code = refusal
        if own == 0:
            continue
        if w.ability_rules[own].kind == ids.KIND_ARCHON:
            return action_results.SUCCESS
        code = order_error(w, row, own, command)
        if code == action_results.SUCCESS:
            return code
    return code


@kernel
def command_ability(w: State, command: Command) -> int:
    """Returns the specific ability by which the first unit that can obeys a general one.

    Returns the command's own ability if it is specific already, or if no unit can obey.
    """
    if w.ability_rules[command.ability].kind != ids.KIND_NONE:
        return command.ability
    for tag in command.unit_tags:
        row = find(w, tag)
        if row >= 0 and w.units[row].owner == command.player:
            own = _resolve(w, row, command)
            if own:
                return own
    return command.ability


@kernel
def toggle_autocast(w: State, player: int, ability: int, tags: np.ndarray) -> None:
    """Switches an autocast of the player's units on or off."""
    for k in range(tags.shape[0]):
        row = find(w, tags[k])
        if row < 0 or w.units[row].owner != player:
            continue
        own = specific_ability(w, row, ability)
        if own and w.ability_rules[own].autocast:
            w.units[row].autocast ^= 1 << w.ability_rules[own].autocast
