"""Spells, buffs and area effects: how they start, what they do each loop, and how they end.

In: a unit with an order to cast, or any unit once a loop. Out: buffs, effects, damage, healing and
regeneration. Whether a spell can be cast is decided in `requirements`.
"""

import numpy as np

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.accounts import (
    cheats,
    count_damage,
    count_lost,
    count_made,
)
from starmill.engines.skirmish.simulation.combat import (
    hurt,
    nearest_target,
    set_levels,
    strike,
)
from starmill.engines.skirmish.simulation.movement import (
    can_stand,
    exit_point,
    is_clear,
    set_height,
    walk,
)
from starmill.engines.skirmish.simulation.records import (
    CELL_VISIBLE,
    CHEAT_COOLDOWN,
    CHEAT_GOD,
    LOOP,
    MAX_EFFECTS,
    OWNER_NEUTRAL,
    ROWS,
    STAGE_STARTED,
    TARGET_NONE,
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
    push_order,
    remove,
    remove_buff,
    spawn,
)
from starmill.schema.compilation import kernel
from starmill.schema.game_constants import LOOPS_PER_SECOND, ZERG

# Per loop; the numerators are per second.
ENERGY_PER_LOOP = 0.7875 / LOOPS_PER_SECOND
CLOAK_DRAIN = 1.26 / LOOPS_PER_SECOND
SHIELD_PER_LOOP = 2.0 / LOOPS_PER_SECOND
ZERG_HEALTH_PER_LOOP = 0.38 / LOOPS_PER_SECOND
HEAL_PER_LOOP = 12.6 / LOOPS_PER_SECOND
RESTORE_PER_LOOP = 50.4 / LOOPS_PER_SECOND
POINTS_PER_ENERGY = 3.0  # health or shield that one unit of energy restores
BURROWED_HEALING = 8.0  # times as fast
SHIELD_DELAY = 224  # loops after the last hit
EFFECT_PERIOD = 8  # loops between two applications of a lasting effect
STORM_DAMAGE, STORM_LOOPS = 80.0, 64.0
BILE_DAMAGE = 60.0
FEEDBACK_SHARE = 0.5  # of the energy that it drains is damage
EXPLOSION_RADIUS = 2.0
SUMMON_EXIT = 4  # side of the caster for `exit_point`
HEAL_RANGE, HEAL_STOP = 2.0, 1.0
CHARGE_LOOPS, CHARGE_COOLDOWN = 56, 157.0
CHARGE_MIN_GAP, CHARGE_MAX_GAP = 1.0, 4.0


@kernel
def add_effect(
    w: State, effect: int, owner: int, x: float, y: float, radius: float, loops: int
) -> int:
    """Starts an area effect and returns its index, or -1 if there are too many."""
    for k in range(MAX_EFFECTS):
        entry = w.effects[k]
        if entry.alive == 0:
            entry.alive = 1
            entry.id = effect
            entry.owner = owner
            entry.x = x
            entry.y = y
            entry.radius = radius
            entry.remain = loops
            entry.source = -1
            return k
    return -1


@kernel
def _drain(w: State, row: int, amount: float) -> None:
    """Deals damage that ignores armour, first to the shield and then to health."""
    unit = w.units[row]
    if cheats(w, unit.owner, CHEAT_GOD):
        return
    unit.hurt_loop = w.clock[LOOP]
    health, shield = unit.health, unit.shield
    absorbed = min(unit.shield, amount)
    unit.shield -= absorbed
    unit.health -= amount - absorbed
    count_damage(w, row, health, shield)
    if unit.health <= 0.0:
        kill(w, row, -1)


@kernel
def _affect(w: State, k: int, row: int) -> None:
    """Applies an effect to one unit inside it."""
    entry = w.effects[k]
    unit = w.units[row]
    if entry.id == ids.EFFECT_STORM:
        add_buff(w, row, ids.BUFF_STORM, EFFECT_PERIOD + 1, -1)
        _drain(w, row, STORM_DAMAGE * EFFECT_PERIOD / STORM_LOOPS)
    elif entry.id == ids.EFFECT_GUARDIAN_SHIELD:
        if unit.owner == entry.owner:
            add_buff(w, row, ids.BUFF_GUARDIAN_SHIELD, EFFECT_PERIOD + 1, -1)
    elif entry.id == ids.EFFECT_BILE and entry.remain <= 0:
        _drain(w, row, BILE_DAMAGE)


@kernel
def _spread(w: State, k: int) -> None:
    """Applies an effect to every unit whose body it touches."""
    entry = w.effects[k]
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.carrier >= 0 or unit.owner == OWNER_NEUTRAL:
            continue
        dx, dy = unit.x - entry.x, unit.y - entry.y
        room = entry.radius + unit.radius
        if dx * dx + dy * dy <= room * room:
            _affect(w, k, row)


@kernel
def run_effects(w: State) -> None:
    """Plays one loop of all area effects."""
    for k in range(MAX_EFFECTS):
        entry = w.effects[k]
        if entry.alive == 0:
            continue
        entry.remain -= 1
        if entry.source >= 0:
            if w.units[entry.source].alive == 0:
                entry.alive = 0
                continue
            entry.x = w.units[entry.source].x
            entry.y = w.units[entry.source].y
        if entry.remain <= 0 or entry.remain % EFFECT_PERIOD == 0:
            _spread(w, k)
        if entry.remain <= 0:
            entry.alive = 0


@kernel
def _holds(w: State, row: int, tag: int) -> bool:
    """Returns whether a unit is holding up the unit with this tag."""
    unit = w.units[row]
    if unit.alive == 0 or unit.order_count == 0:
        return False
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    return rule.spell == ids.SPELL_LIFT and order.target_tag == tag


@kernel
def set_down(w: State, row: int) -> None:
    """Puts a unit that was held up back on the ground."""
    unit = w.units[row]
    unit.flying = w.unit_rules[unit.unit_type].flying
    unit.path_until = 0
    set_height(w, row)


@kernel
def _tick_buffs(w: State, row: int) -> None:
    """Counts the unit's buffs down and removes those that end."""
    unit = w.units[row]
    unit.buff_remain = 0
    unit.buff_max = 0
    k = 0
    while k < unit.buff_count:
        entry = w.buffs[row, k]
        lifted = entry.id == ids.BUFF_GRAVITON_BEAM
        if lifted and not _holds(w, entry.source, unit.tag):
            entry.remain = 1
        if entry.duration > 0:
            entry.remain -= 1
            if entry.remain <= 0:
                remove_buff(w, row, entry.id)
                if lifted:
                    set_down(w, row)
                continue
            if unit.buff_max == 0:
                unit.buff_remain = entry.remain
                unit.buff_max = entry.duration
        k += 1


@kernel
def _tick_energy(w: State, row: int) -> None:
    """Restores energy, or takes what a cloak needs."""
    unit = w.units[row]
    unit.energy = min(unit.energy + ENERGY_PER_LOOP, unit.energy_max)
    if unit.cloaked and not w.unit_rules[unit.unit_type].cloaked:
        unit.energy -= CLOAK_DRAIN + ENERGY_PER_LOOP
        if unit.energy <= 0.0:
            unit.energy = 0.0
            uncloak(w, row)


@kernel
def upkeep(w: State, row: int) -> None:
    """Plays one loop of a finished unit's regeneration, buffs, energy and lifetime."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    if unit.buff_count > 0 or unit.buff_max > 0:
        _tick_buffs(w, row)
    if unit.energy_max > 0.0:
        _tick_energy(w, row)
    calm = w.clock[LOOP] - unit.hurt_loop > SHIELD_DELAY
    if calm and unit.shield < unit.shield_max:
        unit.shield = min(unit.shield + SHIELD_PER_LOOP, unit.shield_max)
    if rule.race == ZERG and unit.health < unit.health_max:
        gain = ZERG_HEALTH_PER_LOOP * (BURROWED_HEALING if unit.burrowed else 1.0)
        unit.health = min(unit.health + gain, unit.health_max)
    if unit.life > 0.0:
        unit.life -= 1.0
        unit.buff_remain = int(unit.life)
        unit.buff_max = unit.life_max
        if unit.life <= 0.0:
            if unit.unit_type == ids.UNIT_MULE:
                alert(w, unit.owner, ids.ALERT_MULE_EXPIRED, unit.x, unit.y)
            remove(w, row)


@kernel
def uncloak(w: State, row: int) -> None:
    """Ends a unit's cloak."""
    w.units[row].cloaked = 0
    remove_buff(w, row, ids.BUFF_CLOAK)


@kernel
def _summon(w: State, row: int, ability: int, x: float, y: float) -> int:
    """Creates a unit that lives as long as the ability lasts; returns its row, or -1."""
    rule = w.ability_rules[ability]
    summoned = spawn(w, rule.makes, w.units[row].owner, x, y, 1.0)
    if summoned >= 0:
        w.units[summoned].life = rule.loops
        w.units[summoned].life_max = int(rule.loops)
        set_levels(w, summoned)
    return summoned


@kernel
def _blink(w: State, row: int, x: float, y: float, reach: float) -> None:
    """Moves a unit towards a point at once, as far as the ability reaches, if that is in sight."""
    unit = w.units[row]
    dx, dy = x - unit.x, y - unit.y
    length = np.sqrt(dx * dx + dy * dy)
    if length > reach:
        x, y = unit.x + dx / length * reach, unit.y + dy / length * reach
    if can_stand(w, x, y) and w.visibility[unit.owner, int(y), int(x)] == CELL_VISIBLE:
        unit.x = x
        unit.y = y
        unit.path_until = 0


@kernel
def _cast_alone(w: State, row: int, ability: int) -> None:
    """Casts a spell that needs no target."""
    unit = w.units[row]
    rule = w.ability_rules[ability]
    spell = rule.spell
    loops = int(rule.loops)
    if spell == ids.SPELL_STIM:
        unit.health -= rule.health
        add_buff(w, row, rule.buff, loops, row)
    elif spell == ids.SPELL_CLOAK_ON:
        unit.cloaked = 1
        add_buff(w, row, rule.buff, 0, row)
    elif spell == ids.SPELL_CLOAK_OFF:
        uncloak(w, row)
    elif spell == ids.SPELL_BUFF:
        add_buff(w, row, rule.buff, loops, row)
    elif spell == ids.SPELL_AURA:
        effect = rule.effect
        k = add_effect(w, effect, unit.owner, unit.x, unit.y, rule.radius, loops)
        if k >= 0:
            w.effects[k].source = row
    elif spell == ids.SPELL_EXPLODE:
        target = nearest_target(w, row, EXPLOSION_RADIUS)
        if target >= 0:
            strike(w, row, target)
        else:
            count_lost(w, row)
            remove(w, row)
    else:
        x, y = exit_point(w, row, SUMMON_EXIT)
        summoned = _summon(w, row, ability, x, y)
        if summoned >= 0 and spell == ids.SPELL_HALLUCINATION:
            w.units[summoned].hallucination = 1
            count_made(w, unit.owner, rule.makes, -1)


@kernel
def _cast_point(w: State, row: int, ability: int, x: float, y: float) -> None:
    """Casts a spell at a point."""
    unit = w.units[row]
    rule = w.ability_rules[ability]
    if rule.spell == ids.SPELL_EFFECT:
        add_effect(w, rule.effect, unit.owner, x, y, rule.radius, int(rule.loops))
    elif rule.spell == ids.SPELL_BLINK:
        _blink(w, row, x, y, rule.range)
    elif rule.spell == ids.SPELL_SUMMON:
        _summon(w, row, ability, x, y)


@kernel
def _cast_unit(w: State, row: int, ability: int, target: int) -> None:
    """Casts a spell at a unit."""
    rule = w.ability_rules[ability]
    victim = w.units[target]
    spell = rule.spell
    if spell == ids.SPELL_MULE:
        mule = _summon(w, row, ability, victim.x, victim.y)
        if mule >= 0:
            gather = w.unit_rules[rule.makes].gather
            push_order(w, mule, gather, TARGET_UNIT, victim.tag, 0.0, 0.0)
    elif spell == ids.SPELL_DAMAGE:
        hurt(w, target, row, rule.amount, 1)
    elif spell == ids.SPELL_FEEDBACK:
        amount = victim.energy * FEEDBACK_SHARE
        victim.energy = 0.0
        _drain(w, target, amount)
    elif spell == ids.SPELL_TRANSFUSE:
        health = min(victim.health + rule.amount, victim.health_max)
        w.players[w.units[row].owner].healed[0] += health - victim.health
        victim.health = health
    elif spell == ids.SPELL_LIFT:
        add_buff(w, target, rule.buff, int(rule.loops), row)
        victim.flying = 1
        set_height(w, target)
    elif rule.buff:
        add_buff(w, target, rule.buff, int(rule.loops), row)


@kernel
def cast(w: State, row: int, ability: int, target: int, x: float, y: float) -> None:
    """Casts a spell: takes its energy, starts its cooldown and applies it. Checks nothing.

    target: row of the target unit, or -1.
    """
    unit = w.units[row]
    rule = w.ability_rules[ability]
    unit.energy -= rule.energy
    if rule.cooldown > 0.0 and not cheats(w, unit.owner, CHEAT_COOLDOWN):
        unit.wait = w.clock[LOOP] + rule.cooldown
    if rule.target == TARGET_NONE:
        _cast_alone(w, row, ability)
    elif target >= 0 and rule.target == TARGET_UNIT:
        _cast_unit(w, row, ability, target)
    else:
        _cast_point(w, row, ability, x, y)


@kernel
def spell_order(w: State, row: int) -> bool:
    """Works on an order to cast for one loop: gets into range, then casts.

    Returns True when the order is done.
    """
    unit = w.units[row]
    order = w.orders[row, 0]
    rule = w.ability_rules[order.ability]
    target = -1
    room = 0.0
    if order.target == TARGET_UNIT:
        target = follow_target(w, order)
        if target < 0:
            return True
        room = w.units[target].radius + unit.radius
    near = rule.spell == ids.SPELL_BLINK
    near = near or walk(w, row, order.x, order.y, rule.range + room)
    if not near:  # buildings give up, other units keep walking
        return w.unit_rules[unit.unit_type].speed <= 0.0
    started = order.stage == STAGE_STARTED  # it was paid then
    waits = unit.wait > w.clock[LOOP] and rule.cooldown > 0.0
    if not started and (unit.energy < rule.energy or waits):
        return True
    if rule.spell == ids.SPELL_LIFT:
        return _lift_order(w, row, target)
    cast(w, row, order.ability, target, order.x, order.y)
    return True


@kernel
def _lift_order(w: State, row: int, target: int) -> bool:
    """Holds a unit up for one loop. Returns True once it is down again."""
    order = w.orders[row, 0]
    if order.stage == STAGE_STARTED:
        return not has_buff(w, target, ids.BUFF_GRAVITON_BEAM)
    cast(w, row, order.ability, target, order.x, order.y)
    order.stage = STAGE_STARTED
    return False


@kernel
def _helps(w: State, row: int, other: int, battery: bool) -> bool:
    """Returns whether a medivac can heal the other unit, or a battery restore its shield."""
    unit = w.units[other]
    if unit.alive == 0 or unit.carrier >= 0 or unit.owner != w.units[row].owner:
        return False
    if other == row or unit.build_progress < 1.0:
        return False
    if battery:
        return unit.shield < unit.shield_max
    biological = w.unit_rules[unit.unit_type].attributes & ids.ATTRIBUTE_BIOLOGICAL
    return biological != 0 and unit.health < unit.health_max and unit.flying == 0


@kernel
def tend(w: State, row: int, reach: float, battery: bool) -> bool:
    """Heals a unit nearby, or restores its shield, for one loop. Returns False without one."""
    unit = w.units[row]
    if unit.energy < 1.0:
        return False
    patient = find(w, unit.engaged) if unit.engaged else -1
    if patient < 0 or not _helps(w, row, patient, battery):
        unit.engaged = 0
        if (w.clock[LOOP] + row) % EFFECT_PERIOD:
            return False
        best = reach
        for other in range(w.clock[ROWS]):
            if _helps(w, row, other, battery) and distance(w, row, other) < best:
                best = distance(w, row, other)
                unit.engaged = w.units[other].tag
        patient = find(w, unit.engaged) if unit.engaged else -1
        if patient < 0:
            return False
    friend = w.units[patient]
    healed = w.players[unit.owner].healed
    if battery:
        shield = min(friend.shield + RESTORE_PER_LOOP, friend.shield_max)
        healed[1] += shield - friend.shield
        friend.shield = shield
        unit.energy -= RESTORE_PER_LOOP / POINTS_PER_ENERGY
        return True
    if distance(w, row, patient) > HEAL_RANGE:
        walk(w, row, friend.x, friend.y, HEAL_STOP)
        return True
    health = min(friend.health + HEAL_PER_LOOP, friend.health_max)
    healed[0] += health - friend.health
    friend.health = health
    unit.energy -= HEAL_PER_LOOP / POINTS_PER_ENERGY
    return True


@kernel
def charge(w: State, row: int) -> None:
    """Lets a zealot with the upgrade charge at the enemy that it is about to reach."""
    unit = w.units[row]
    if unit.engaged == 0 or unit.wait > w.clock[LOOP]:
        return
    target = find(w, unit.engaged)
    if target < 0 or not is_enemy(w, row, target):
        return
    gap = distance(w, row, target)
    if CHARGE_MIN_GAP < gap < CHARGE_MAX_GAP and is_clear(
        w, unit.x, unit.y, w.units[target].x, w.units[target].y
    ):
        add_buff(w, row, ids.BUFF_CHARGE, CHARGE_LOOPS, row)
        unit.wait = w.clock[LOOP] + CHARGE_COOLDOWN
