"""Fighting: choosing targets, getting into range, and what a hit does.

Damage is the weapon's, plus its bonus against an attribute, plus its level, less armour, at
least a half, for each hit; shields take it first. Nobody shoots at what its side cannot see.
"""

import numpy as np

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.movement import face, walk
from starmill.engines.skirmish.simulation.records import (
    LOOP,
    OWNER_NEUTRAL,
    ROWS,
    State,
)
from starmill.engines.skirmish.simulation.units import (
    add_buff,
    alert,
    distance,
    find,
    has_buff,
    is_enemy,
    kill,
    remove,
)
from starmill.schema.compilation import kernel

SEARCH_LOOPS = 8  # how often an idle fighter looks around
CHASE = 4.5  # how far beyond its range a fighter without orders notices enemies


@kernel
def has_weapon(w: State, row: int, target: int) -> bool:
    """Returns whether the unit has a weapon that reaches the target's layer."""
    rule = w.unit_rules[w.units[row].unit_type]
    if w.units[target].flying:
        return rule.air_damage > 0
    return rule.ground_damage > 0


@kernel
def can_see(w: State, row: int, target: int) -> bool:
    """Returns whether the unit's side sees the target now."""
    owner = w.units[row].owner
    unit = w.units[target]
    bit = 1 << owner
    if unit.seen & bit == 0:
        return False
    return unit.cloaked == 0 or (unit.detected & bit) != 0


@kernel
def weapon_range(w: State, row: int, target: int) -> float:
    """Returns the range against the target, upgrades included; edge to edge."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    reach = rule.air_range if w.units[target].flying else rule.ground_range
    if rule.up0_stat == 2 and w.upgrades[unit.owner, rule.up0]:
        reach += rule.up0_amount
    if rule.up1_stat == 2 and w.upgrades[unit.owner, rule.up1]:
        reach += rule.up1_amount
    return reach + (1.0 if unit.carrier >= 0 else 0.0)


@kernel
def is_target(w: State, row: int, target: int) -> bool:
    """Returns whether the unit could shoot at the target at all."""
    unit = w.units[target]
    if unit.alive == 0 or unit.carrier >= 0:
        return False
    return has_weapon(w, row, target) and can_see(w, row, target)


@kernel
def _worth(w: State, target: int) -> float:
    """Returns how far away a more dangerous target may be and still be preferred; less is better."""
    rule = w.unit_rules[w.units[target].unit_type]
    armed = rule.ground_damage > 0 or rule.air_damage > 0
    if armed and not rule.worker:
        return 0.0
    if rule.worker or w.units[target].unit_type == ids.UNIT_MEDIVAC:
        return 4.0
    if w.units[target].cargo_count > 0:
        return 0.0
    if rule.structure:
        return 14.0
    return 20.0 if w.units[target].unit_type != ids.UNIT_LARVA else 60.0


@kernel
def nearest_target(w: State, row: int, reach: float) -> int:
    """Returns the row of the best target within `reach` of the unit's weapon range, or -1."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    limit = max(rule.ground_range, rule.air_range) + reach + 1.0
    best, best_score = -1, 1e9
    enemy = 3 - unit.owner
    for other in range(w.clock[ROWS]):
        candidate = w.units[other]
        if candidate.owner != enemy or candidate.alive == 0 or candidate.carrier >= 0:
            continue
        gap = limit + unit.radius + candidate.radius
        dx = candidate.x - unit.x
        dy = candidate.y - unit.y
        if dx > gap or dx < -gap or dy > gap or dy < -gap:
            continue
        if not is_target(w, row, other):
            continue
        d = distance(w, row, other)
        if d > weapon_range(w, row, other) + reach:
            continue
        score = max(d, 0.0) + _worth(w, other)
        if score < best_score:
            best, best_score = other, score
    return best


@kernel
def _armor(w: State, target: int) -> float:
    unit = w.units[target]
    rule = w.unit_rules[unit.unit_type]
    armor = rule.armor + unit.armor_level
    if (
        rule.up0_stat == 6
        and unit.owner != OWNER_NEUTRAL
        and w.upgrades[unit.owner, rule.up0]
    ):
        armor += rule.up0_amount
    return armor


@kernel
def hurt(w: State, target: int, attacker: int, amount: float, hits: int) -> None:
    """Takes `hits` times `amount` from shield and health; kills at zero."""
    unit = w.units[target]
    unit.hurt_loop = w.clock[LOOP]
    if unit.hallucination:
        amount *= 2.0
    health_hit = max(amount - _armor(w, target), 0.5)
    shield_hit = max(amount - unit.shield_level, 0.5)
    for _ in range(hits):
        if unit.shield >= shield_hit:
            unit.shield -= shield_hit
        elif unit.shield > 0.0:
            rest = health_hit * (1.0 - unit.shield / shield_hit)
            unit.shield = 0.0
            unit.health -= rest
        else:
            unit.health -= health_hit
    kind = ids.ALERT_UNIT_UNDER_ATTACK
    if w.unit_rules[unit.unit_type].structure:
        kind = ids.ALERT_BUILDING_UNDER_ATTACK
    alert(w, unit.owner, kind, unit.x, unit.y)
    if unit.health <= 0.0:
        kill(w, target, attacker)


@kernel
def _damage(w: State, row: int, target: int) -> float:
    """Returns the damage of one hit before armour."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    victim = w.units[target]
    attributes = w.unit_rules[victim.unit_type].attributes
    if victim.flying:
        damage = rule.air_damage + unit.attack_level * rule.air_per_level
        bonus, versus = rule.air_bonus, rule.air_versus
    else:
        damage = rule.ground_damage + unit.attack_level * rule.ground_per_level
        bonus, versus = rule.ground_bonus, rule.ground_versus
    if versus & attributes:
        damage += bonus
        if rule.up0_stat == 5 and w.upgrades[unit.owner, rule.up0]:
            damage += rule.up0_amount
        if has_buff(w, row, ids.BUFF_PRISMATIC_ALIGNMENT):
            damage += 6.0
    if rule.suicide and attributes & 16:
        damage = 80.0
    ranged = rule.ground_range > 2.0
    if ranged and has_buff(w, target, ids.BUFF_GUARDIAN_SHIELD):
        damage -= 2.0
    return damage


@kernel
def _splash(w: State, row: int, target: int, radius: float) -> None:
    """Hits enemies around the target with half the damage (a suicide: all of it)."""
    x, y = w.units[target].x, w.units[target].y
    flying = w.units[target].flying
    share = 1.0 if w.unit_rules[w.units[row].unit_type].suicide else 0.5
    for other in range(w.clock[ROWS]):
        unit = w.units[other]
        if unit.alive == 0 or other == target or unit.flying != flying:
            continue
        if unit.carrier >= 0 or not is_enemy(w, row, other):
            continue
        dx, dy = unit.x - x, unit.y - y
        room = radius + unit.radius
        if dx * dx + dy * dy < room * room:
            hurt(w, other, row, _damage(w, row, other) * share, 1)


@kernel
def _cooldown(w: State, row: int, flying: bool) -> float:
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    loops = rule.air_cooldown if flying else rule.ground_cooldown
    if rule.up0_stat == 4 and w.upgrades[unit.owner, rule.up0]:
        loops /= 1.0 + rule.up0_amount
    if rule.up1_stat == 4 and w.upgrades[unit.owner, rule.up1]:
        loops /= 1.0 + rule.up1_amount
    for k in range(unit.buff_count):
        buff = w.buffs[row, k].id
        if buff == ids.BUFF_STIM or buff == ids.BUFF_STIM_MARAUDER:
            loops /= 1.5
    return loops


@kernel
def strike(w: State, row: int, target: int) -> None:
    """The unit's weapon goes off at the target, which is in range."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    flying = w.units[target].flying != 0
    # Keep the remainder below zero, so that fractional cooldowns come out right on average.
    unit.cooldown = max(unit.cooldown, -1.0) + _cooldown(w, row, flying)
    if unit.hallucination:
        return
    splash = rule.air_splash if flying else rule.ground_splash
    if splash > 0.0:
        _splash(w, row, target, splash)
    if w.units[target].alive:
        slows = (
            unit.unit_type == ids.UNIT_MARAUDER
            and w.upgrades[unit.owner, ids.UPGRADE_CONCUSSIVE_SHELLS]
        )
        if slows and not w.unit_rules[w.units[target].unit_type].structure:
            add_buff(w, target, ids.BUFF_SLOW, 24, row)
        hits = rule.air_hits if flying else rule.ground_hits
        hurt(w, target, row, _damage(w, row, target), hits)
    if rule.suicide:
        remove(w, row)


@kernel
def fight(w: State, row: int, target: int, may_move: bool) -> bool:
    """One loop of attacking a target: shoot if in range, else close in. False if it cannot."""
    unit = w.units[row]
    if not is_target(w, row, target):
        return False
    victim = w.units[target]
    unit.engaged = victim.tag
    if distance(w, row, target) <= weapon_range(w, row, target):
        face(w, row, victim.x, victim.y)
        if unit.cooldown <= 0.0:
            strike(w, row, target)
        return True
    if may_move:
        walk(w, row, victim.x, victim.y, 0.05)
        return True
    return False


@kernel
def look_around(w: State, row: int, reach: float) -> int:
    """Returns the unit's target: the one it has while it lasts, else the best near it, or -1."""
    unit = w.units[row]
    due = (w.clock[LOOP] + row) % SEARCH_LOOPS == 0
    current = find(w, unit.engaged) if unit.engaged else -1
    if current >= 0 and is_target(w, row, current):
        gap = distance(w, row, current) - weapon_range(w, row, current)
        if gap <= reach and not due:
            return current
    elif unit.engaged == 0 and not due:
        return -1
    target = nearest_target(w, row, reach)
    unit.engaged = w.units[target].tag if target >= 0 else 0
    return target


@kernel
def defend(w: State, row: int) -> None:
    """What a fighter without orders does: attack what comes near, without going far."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.worker and w.clock[LOOP] - unit.hurt_loop > 40:
        return
    mobile = rule.speed > 0.0 and unit.hold == 0 and unit.carrier < 0
    target = look_around(w, row, CHASE if mobile else 0.0)
    if target >= 0:
        fight(w, row, target, mobile)


@kernel
def crew_fires(w: State, row: int) -> None:
    """Passengers of a bunker shoot from inside it."""
    for k in range(w.units[row].cargo_count):
        passenger = w.cargo[row, k]
        unit = w.units[passenger]
        unit.x = w.units[row].x
        unit.y = w.units[row].y
        unit.cooldown = max(unit.cooldown - 1.0, -1.0)
        target = look_around(w, passenger, 1.0)
        if target >= 0:
            fight(w, passenger, target, False)


@kernel
def attack_order(w: State, row: int, may_chase: bool) -> bool:
    """One loop of an attack order (its first). Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.target == 2:
        target = find(w, order.target_tag)
        if target < 0:
            return True
        order.x = w.units[target].x
        order.y = w.units[target].y
        if can_see(w, row, target):
            return not fight(w, row, target, may_chase)
        return walk(w, row, order.x, order.y, 1.0)
    target = look_around(w, row, CHASE)
    if target >= 0 and fight(w, row, target, may_chase):
        return False
    # A crowd cannot stand on one point: who is near and slow to get nearer has arrived.
    dx, dy = order.x - unit.x, order.y - unit.y
    crowd = 0.4 + 0.35 * np.sqrt(w.players[unit.owner].army_count)
    if dx * dx + dy * dy < crowd * crowd:
        return True
    return walk(w, row, order.x, order.y, 0.4)
