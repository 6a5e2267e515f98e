"""Commands become orders: who of the selected units does it, at once or after its other orders.

In: a player's command with general or specific ability ids. Out: orders in the world, or an
entry in the log of errors. Training, building, research and casting go to one of the units, the
one best placed; moving, attacking and morphing go to all.
"""

import numpy as np

from starmill.engines.skirmish.simulation import action_results as codes
from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.economy import GO, HOME, is_mine
from starmill.engines.skirmish.simulation.effects import cast
from starmill.engines.skirmish.simulation.movement import can_stand
from starmill.engines.skirmish.simulation.production import (
    cancel_building,
    cancel_order,
    pay,
    refund,
    set_levels,
)
from starmill.engines.skirmish.simulation.records import LOOP, State
from starmill.engines.skirmish.simulation.requirements import (
    available,
    has_ability,
    order_error,
    room_for_orders,
    specific,
    transforming,
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

__all__ = ["available", "order", "toggle"]

SMART, MOVE, ATTACK = 1, 16, 23


@kernel
def _one_only(w: State, ability: int) -> bool:
    """Returns whether one unit of a selection is enough for this ability."""
    rule = w.ability_rules[ability]
    kind = rule.kind
    if kind == ids.KIND_SPELL:
        if rule.spell == ids.SPELL_CLOAK_ON or rule.spell == ids.SPELL_BLINK:
            return False
        return rule.target != 0 or rule.energy > 0.0
    return (
        kind == ids.KIND_TRAIN
        or kind == ids.KIND_HATCH
        or kind == ids.KIND_WARP
        or kind == ids.KIND_BUILD
        or kind == ids.KIND_RESEARCH
        or kind == ids.KIND_TUMOR
    )


@kernel
def _preference(w: State, row: int, ability: int, x: float, y: float) -> float:
    """Returns how willingly this unit of a selection takes the order; less is better."""
    unit = w.units[row]
    kind = w.ability_rules[ability].kind
    dx, dy = unit.x - x, unit.y - y
    if kind == ids.KIND_TRAIN or kind == ids.KIND_RESEARCH:
        lanes = 1
        if unit.addon >= 0:
            lanes = w.unit_rules[w.units[unit.addon].unit_type].add_on
        return unit.order_count / max(lanes, 1)
    if kind == ids.KIND_HATCH:
        return 0.0
    return dx * dx + dy * dy


@kernel
def _smart(w: State, row: int, target: int, tag: int) -> int:
    """Returns the ability that a right click means for this unit, 0 for none."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    other = find(w, tag) if target == 2 else -1
    if rule.speed <= 0.0:
        if rule.town_hall:
            return specific(w, row, 3690)
        return specific(w, row, 3673)
    if other < 0:
        return MOVE if has_ability(w, row, MOVE) else 0
    if rule.worker and is_mine(w, other, unit.owner):
        return rule.gather
    victim = w.units[other]
    if victim.owner == unit.owner:
        if victim.cargo_max > 0 and rule.cargo > 0:
            return SMART
        if unit.unit_type == ids.UNIT_SCV and victim.health < victim.health_max:
            return 316
        return MOVE
    if victim.owner != 16 and has_ability(w, row, ATTACK):
        return ATTACK
    return MOVE


@kernel
def put_down_passenger(w: State, row: int, index: int) -> bool:
    """Puts one passenger down beside its carrier. Returns False if it cannot stand there."""
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
    """Puts one or all passengers down. False if it is another ability."""
    unit = w.units[row]
    if kind == ids.KIND_UNLOAD_ONE:
        if unit.cargo_count > 0:
            put_down_passenger(w, row, unit.cargo_count - 1)
        return True
    if kind != ids.KIND_UNLOAD_ALL:
        return False
    while unit.cargo_count > 0:
        if not put_down_passenger(w, row, unit.cargo_count - 1):
            break
    return True


@kernel
def _at_once(w: State, row: int, ability: int, tag: int, x: float, y: float) -> bool:
    """Does what needs no time: cancelling, rallying, stopping. False if it is another ability."""
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
        unit.rally_kind = 2 if tag else 1
        unit.rally_tag = tag
        unit.rally_x = x
        unit.rally_y = y
    else:
        return _unload(w, row, kind)
    return True


@kernel
def _cancel_morph(w: State, row: int) -> None:
    """Turns a unit that is changing back into what it was."""
    unit = w.units[row]
    if unit.order_count == 0:
        return
    ability = w.orders[row, 0].ability
    if w.ability_rules[ability].kind != ids.KIND_MORPH:
        return
    refund(w, unit.owner, ability, 1.0)
    clear_orders(w, row)
    if unit.next_type:
        unit.next_type = 0
        change_type(w, row, w.sources[ability, 0])


@kernel
def _make(w: State, row: int, ability: int, x: float, y: float) -> bool:
    """Starts what is paid at once. Returns False if the ability is of another kind."""
    unit = w.units[row]
    rule = w.ability_rules[ability]
    kind = rule.kind
    if kind == ids.KIND_TRAIN or kind == ids.KIND_RESEARCH or kind == ids.KIND_ADD_ON:
        pay(w, unit.owner, ability)
        k = push_order(w, row, ability, 0, 0, 0.0, 0.0)
        w.orders[row, k].paid = 1
        if kind == ids.KIND_RESEARCH:
            w.researching[unit.owner, rule.upgrade_made] = 1
    elif kind == ids.KIND_MORPH:
        pay(w, unit.owner, ability)
        clear_orders(w, row)
        k = push_order(w, row, ability, 0, 0, 0.0, 0.0)
        w.orders[row, k].paid = 1
    elif kind == ids.KIND_HATCH:
        pay(w, unit.owner, ability)
        clear_orders(w, row)
        change_type(w, row, ids.UNIT_EGG)
        unit.health = unit.health_max
        unit.next_type = rule.makes
        push_order(w, row, ability, 0, 0, 0.0, 0.0)
        food = w.unit_rules[rule.makes].food_halves * (2 if rule.pair else 1)
        w.players[unit.owner].food_used_halves += food
    elif kind == ids.KIND_WARP:
        pay(w, unit.owner, ability)
        unit.wait = w.clock[LOOP] + rule.cooldown
        made = spawn(w, rule.makes, unit.owner, x, y, 0.001)
        if made >= 0:
            set_levels(w, made)
        w.players[unit.owner].food_used_halves += w.unit_rules[rule.makes].food_halves
    else:
        return False
    return True


@kernel
def _give(
    w: State,
    row: int,
    ability: int,
    target: int,
    tag: int,
    x: float,
    y: float,
    queued: bool,
) -> int:
    """Gives one unit an order that was found possible. Returns SUCCESS or an error."""
    if _at_once(w, row, ability, tag, x, y) or _make(w, row, ability, x, y):
        return codes.SUCCESS
    rule = w.ability_rules[ability]
    if rule.kind == ids.KIND_SPELL and rule.target == 0:
        cast(w, row, ability, -1, 0.0, 0.0)
        return codes.SUCCESS
    unit = w.units[row]
    if not queued:
        clear_orders(w, row)
    elif not room_for_orders(w, row):
        return codes.QUEUE_IS_FULL
    if target == 2:
        other = find(w, tag)
        x, y = w.units[other].x, w.units[other].y
    if rule.kind == ids.KIND_BUILD and w.unit_rules[rule.makes].gas_mine == 0:
        size = w.unit_rules[rule.makes].footprint
        x, y = snap(size, x), snap(size, y)
    k = push_order(w, row, ability, target, tag, x, y)
    if rule.kind == ids.KIND_GATHER:
        loaded = unit.carry_minerals + unit.carry_vespene > 0
        w.orders[row, k].stage = HOME if loaded else GO
        if loaded and k == 0:
            w.orders[row, k].ability = w.unit_rules[unit.unit_type].return_
    return codes.SUCCESS


@kernel
def _pair_archons(w: State, ability: int, tags: np.ndarray) -> None:
    """Gives templars of a selection the order to merge, two by two."""
    first = -1
    for tag in tags:
        row = find(w, tag)
        if row < 0 or not has_ability(w, row, ability) or transforming(w, row):
            continue
        if first < 0:
            first = row
            continue
        clear_orders(w, first)
        clear_orders(w, row)
        push_order(w, first, ability, 2, w.units[row].tag, 0.0, 0.0)
        push_order(w, row, ability, 2, w.units[first].tag, 0.0, 0.0)
        first = -1


@kernel
def _resolve(w: State, row: int, ability: int, target: int, tag: int) -> int:
    """Returns the unit's specific ability for a command, or 0 if it cannot take it."""
    if w.units[row].carrier >= 0:
        return 0
    own = specific(w, row, ability)
    if own and w.ability_rules[own].kind == ids.KIND_SMART:
        own = _smart(w, row, target, tag)
    if own and transforming(w, row):
        kind = w.ability_rules[own].kind
        changing = kind == ids.KIND_CANCEL_MORPH or kind == ids.KIND_CANCEL_LAST
        if not changing and kind != ids.KIND_RALLY:
            return 0
    return own


@kernel
def order(
    w: State,
    player: int,
    ability: int,
    tags: np.ndarray,
    target: int,
    tag: int,
    x: float,
    y: float,
    queued: bool,
) -> int:
    """Carries out a player's command. Returns SUCCESS if at least one unit took it.

    target: 0 none, 1 point (x, y), 2 unit (tag). Units that cannot take it are skipped; if none
    can, the last reason is logged and returned.
    """
    code = codes.NOT_SUPPORTED
    taken = False
    best, best_score, best_ability = -1, 1e18, 0
    for k in range(tags.shape[0]):
        row = find(w, tags[k])
        if row >= 0 and w.units[row].owner != player:
            code = codes.YOU_CANT_CONTROL_THAT_UNIT
            row = -1
        own = _resolve(w, row, ability, target, tag) if row >= 0 else 0
        if own == 0:
            continue
        if w.ability_rules[own].kind == ids.KIND_ARCHON:
            _pair_archons(w, own, tags)
            return codes.SUCCESS
        error = order_error(w, row, own, target, tag, x, y)
        if error != codes.SUCCESS:
            code = error
            continue
        if _one_only(w, own):
            score = _preference(w, row, own, x, y)
            if score < best_score:
                best, best_score, best_ability = row, score, own
            continue
        code = _give(w, row, own, target, tag, x, y, queued)
        taken = taken or code == codes.SUCCESS
    if best >= 0:
        code = _give(w, best, best_ability, target, tag, x, y, queued)
        taken = code == codes.SUCCESS
    if taken:
        return codes.SUCCESS
    log_error(w, player, ability, tags[0] if tags.shape[0] else 0, code)
    return code


@kernel
def toggle(w: State, player: int, ability: int, tags: np.ndarray) -> None:
    """Switches an autocast of the player's units."""
    for k in range(tags.shape[0]):
        row = find(w, tags[k])
        if row < 0 or w.units[row].owner != player:
            continue
        own = specific(w, row, ability)
        if own and w.ability_rules[own].autocast:
            w.units[row].autocast ^= 1 << w.ability_rules[own].autocast
