"""Fighting: how units choose targets, get into range and hit.

In: the row of a fighter, and of its target if it has one. Out: damage, deaths and cooldowns. A
hit takes the weapon's damage, plus its bonus against an attribute, plus the attack level, minus
armour, but at least a half; shields take it first. No unit shoots at what its player cannot see.
"""

import numpy as np

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.accounts import (
    cheats,
    count_damage,
    count_lost,
    opponent,
)
from starmill.engines.skirmish.simulation.movement import face, walk, walk_to
from starmill.engines.skirmish.simulation.records import (
    CHEAT_GOD,
    LOOP,
    ROWS,
    TARGET_UNIT,
    State,
)
from starmill.engines.skirmish.simulation.units import (
    add_buff,
    alert,
    distance,
    find,
    follow_target,
    has_buff,
    is_enemy,
    kill,
    remove,
    upgraded,
)
from starmill.schema.compilation import kernel

SMALL_ARMY = 4  # so few units attack-move to the very point
SEARCH_LOOPS = 8  # between two searches for a target
CHASE = 4.5  # how far beyond its range a fighter without orders notices enemies
BUNKER_RANGE = 1.0  # what a bunker adds to its crew's range
MIN_DAMAGE = 0.5  # of a hit, whatever the armour
RANGED = 2.0  # weapons that reach farther are ranged
SPLASH_SHARE = 0.5  # of the damage, for units around the target
STIM_RATE = 1.5
SLOW_LOOPS = 24
PRISMATIC_BONUS = 6.0
GUARDIAN_ARMOR = 2.0  # against ranged weapons
SUICIDE_STRUCTURE_DAMAGE = 80.0  # a baneling's against buildings
HALLUCINATION_DAMAGE = 2.0  # hallucinations take this many times the damage
WORKER_DEFENCE_LOOPS = 40  # for so long a worker fights back
# What `_aversion` adds to the distance of a target, in world units.
AVERSION_SUPPORT, AVERSION_STRUCTURE, AVERSION_UNARMED, AVERSION_LARVA = (
    4.0,
    14.0,
    20.0,
    60.0,
)


@kernel
def has_weapon(w: State, row: int, target: int) -> bool:
    """Returns whether the unit has a weapon against the target: one for the air or the ground."""
    rule = w.unit_rules[w.units[row].unit_type]
    if w.units[target].flying:
        return rule.air_damage > 0
    return rule.ground_damage > 0


@kernel
def can_see(w: State, row: int, target: int) -> bool:
    """Returns whether the unit's player sees the target now."""
    owner = w.units[row].owner
    unit = w.units[target]
    bit = 1 << owner
    if unit.seen & bit == 0:
        return False
    return unit.cloaked == 0 or (unit.detected & bit) != 0


@kernel
def weapon_range(w: State, row: int, target: int) -> float:
    """Returns the unit's range against the target, from edge to edge, with upgrades."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    reach = rule.air_range if w.units[target].flying else rule.ground_range
    reach = upgraded(w, unit.owner, unit.unit_type, ids.STAT_RANGE, reach)
    return reach + (BUNKER_RANGE if unit.carrier >= 0 else 0.0)


@kernel
def is_target(w: State, row: int, target: int) -> bool:
    """Returns whether the unit could shoot at the target if it were in range."""
    unit = w.units[target]
    if unit.alive == 0 or unit.carrier >= 0:
        return False
    return has_weapon(w, row, target) and can_see(w, row, target)


@kernel
def _aversion(w: State, target: int) -> float:
    """Returns how much farther away a more dangerous target may be and still be preferred."""
    rule = w.unit_rules[w.units[target].unit_type]
    armed = rule.ground_damage > 0 or rule.air_damage > 0
    if armed and not rule.worker:
        return 0.0
    if rule.worker or w.units[target].unit_type == ids.UNIT_MEDIVAC:
        return AVERSION_SUPPORT
    if w.units[target].cargo_count > 0:
        return 0.0
    if rule.structure:
        return AVERSION_STRUCTURE
    larva = w.units[target].unit_type == ids.UNIT_LARVA
    return AVERSION_LARVA if larva else AVERSION_UNARMED


@kernel
def set_levels(w: State, row: int) -> None:
    """Sets the unit's attack, armour and shield levels from its owner's upgrades."""
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
def nearest_target(w: State, row: int, reach: float) -> int:
    """Returns the row of the best target within `reach` of the unit's weapon range, or -1."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    limit = max(rule.ground_range, rule.air_range) + reach + 1.0
    best, best_score = -1, 1e9
    enemy = opponent(unit.owner)
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
        score = max(d, 0.0) + _aversion(w, other)
        if score < best_score:
            best, best_score = other, score
    return best


@kernel
def _armor(w: State, target: int) -> float:
    """Returns the target's armour with upgrades."""
    unit = w.units[target]
    rule = w.unit_rules[unit.unit_type]
    armor = rule.armor + unit.armor_level
    return upgraded(w, unit.owner, unit.unit_type, ids.STAT_ARMOR, armor)


@kernel
def hurt(w: State, target: int, attacker: int, amount: float, hits: int) -> None:
    """Takes `hits` times `amount` from shield and health; kills the target at zero.

    amount: the damage of one hit before armour. attacker: a row, or -1.
    """
    unit = w.units[target]
    if cheats(w, unit.owner, CHEAT_GOD):
        return
    unit.hurt_loop = w.clock[LOOP]
    before_health, before_shield = unit.health, unit.shield
    if unit.hallucination:
        amount *= HALLUCINATION_DAMAGE
    health_hit = max(amount - _armor(w, target), MIN_DAMAGE)
    shield_hit = max(amount - unit.shield_level, MIN_DAMAGE)
    for _ in range(hits):
        if unit.shield >= shield_hit:
            unit.shield -= shield_hit
        elif unit.shield > 0.0:
            rest = health_hit * (1.0 - unit.shield / shield_hit)
            unit.shield = 0.0
            unit.health -= rest
        else:
            unit.health -= health_hit
    count_damage(w, target, before_health, before_shield)
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
        if rule.up0_stat == ids.STAT_BONUS and w.upgrades[unit.owner, rule.up0]:
            damage += rule.up0_amount
        if has_buff(w, row, ids.BUFF_PRISMATIC_ALIGNMENT):
            damage += PRISMATIC_BONUS
    if rule.suicide and attributes & ids.ATTRIBUTE_STRUCTURE:
        damage = SUICIDE_STRUCTURE_DAMAGE
    ranged = rule.ground_range > RANGED
    if ranged and has_buff(w, target, ids.BUFF_GUARDIAN_SHIELD):
        damage -= GUARDIAN_ARMOR
    return damage


@kernel
def _splash(w: State, row: int, target: int, radius: float) -> None:
    """Hits the enemies around the target with half the damage; a suicide with all of it."""
    x, y = w.units[target].x, w.units[target].y
    flying = w.units[target].flying
    share = 1.0 if w.unit_rules[w.units[row].unit_type].suicide else SPLASH_SHARE
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
    """Returns the loops between two attacks, with upgrades and buffs."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    loops = rule.air_cooldown if flying else rule.ground_cooldown
    if rule.up0_stat == ids.STAT_RATE and w.upgrades[unit.owner, rule.up0]:
        loops /= 1.0 + rule.up0_amount
    if rule.up1_stat == ids.STAT_RATE and w.upgrades[unit.owner, rule.up1]:
        loops /= 1.0 + rule.up1_amount
    for k in range(unit.buff_count):
        buff = w.buffs[row, k].id
        if buff == ids.BUFF_STIM or buff == ids.BUFF_STIM_MARAUDER:
            loops /= STIM_RATE
    return loops


@kernel
def strike(w: State, row: int, target: int) -> None:
    """Fires the unit's weapon at the target, which must be in range."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    flying = w.units[target].flying != 0
    # Keep the remainder below zero, so that fractional cooldowns are right on average.
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
            add_buff(w, target, ids.BUFF_SLOW, SLOW_LOOPS, row)
        hits = rule.air_hits if flying else rule.ground_hits
        hurt(w, target, row, _damage(w, row, target), hits)
    if rule.suicide:
        count_lost(w, row)
        remove(w, row)


@kernel
def fight(w: State, row: int, target: int, may_move: bool) -> bool:
    """Attacks a target for one loop: shoots if it is in range, otherwise moves closer.

    Returns False if the unit can do neither.
    """
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
    """Returns the unit's target: its present one while it can, or the best nearby, or -1."""
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
    """Lets a fighter without orders attack what comes near, without going far."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if rule.worker and w.clock[LOOP] - unit.hurt_loop > WORKER_DEFENCE_LOOPS:
        return
    mobile = rule.speed > 0.0 and unit.hold == 0 and unit.carrier < 0
    target = look_around(w, row, CHASE if mobile else 0.0)
    if target >= 0:
        fight(w, row, target, mobile)


@kernel
def fire_from_bunker(w: State, row: int) -> None:
    """Lets a bunker's crew shoot for one loop."""
    for k in range(w.units[row].cargo_count):
        passenger = w.cargo[row, k]
        unit = w.units[passenger]
        unit.x = w.units[row].x
        unit.y = w.units[row].y
        unit.cooldown = max(unit.cooldown - 1.0, -1.0)
        target = look_around(w, passenger, BUNKER_RANGE)
        if target >= 0:
            fight(w, passenger, target, False)


@kernel
def attack_order(w: State, row: int, may_chase: bool) -> bool:
    """Works on an attack order for one loop. Returns True when the order is done."""
    unit = w.units[row]
    order = w.orders[row, 0]
    if order.target == TARGET_UNIT:
        target = follow_target(w, order)
        if target < 0:
            return True
        if can_see(w, row, target):
            return not fight(w, row, target, may_chase)
        return walk(w, row, order.x, order.y, 1.0)
    target = look_around(w, row, CHASE)
    if target >= 0 and fight(w, row, target, may_chase):
        return False
    army = w.players[unit.owner].army_count
    if army <= SMALL_ARMY:
        return walk_to(w, row, order.x, order.y)
    # A crowd does not fit on one point: the larger the army, the sooner a unit has arrived.
    dx, dy = order.x - unit.x, order.y - unit.y
    crowd = 0.4 + 0.35 * np.sqrt(army)
    if dx * dx + dy * dy < crowd * crowd:
        return True
    return walk(w, row, order.x, order.y, 0.4)
