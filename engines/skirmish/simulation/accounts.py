"""The players' accounts: who a player is, what cheats it has, and the sums of its score.

In: a unit or a type that is made, lost or hurt. Out: the sums in `records.PLAYER`, which
observations and replays report. Knows no rules of the game: it only counts.
"""

import numpy as np

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.records import (
    CATEGORY_UPGRADE,
    LOOP,
    PLAYERS,
    RATE_LOOPS,
    ROWS,
    STAGE_WAITING,
    State,
)
from starmill.schema.compilation import kernel
from starmill.schema.game_constants import LOOPS_PER_MINUTE

BUILDING_REFUND = 0.75  # of the cost of an unfinished building


@kernel
def is_player(owner: int) -> bool:
    """Returns whether an owner is one of the two players."""
    return owner == 1 or owner == 2


@kernel
def opponent(player: int) -> int:
    """Returns the other player."""
    return 3 - player


@kernel
def cheats(w: State, owner: int, cheat: int) -> bool:
    """Returns whether a player has a cheat (records.CHEAT_*)."""
    return is_player(owner) and w.players[owner].cheats & cheat != 0


@kernel
def count_made(w: State, owner: int, unit_type: int, sign: int) -> None:
    """Adds a finished unit to its owner's score, or takes it out if `sign` is -1."""
    if not is_player(owner):
        return
    player = w.players[owner]
    rule = w.unit_rules[unit_type]
    player.made_value[rule.category, 0] += sign * rule.value_minerals
    player.made_value[rule.category, 1] += sign * rule.value_vespene
    value = sign * (rule.value_minerals + rule.value_vespene)
    if rule.structure:
        player.made_structures_value += value
    else:
        player.made_units_value += value


@kernel
def count_upgrade(w: State, owner: int, ability: int) -> None:
    """Adds a finished upgrade to its owner's score. ability: what researched it."""
    values = w.players[owner].made_value
    values[CATEGORY_UPGRADE, 0] += w.ability_rules[ability].minerals
    values[CATEGORY_UPGRADE, 1] += w.ability_rules[ability].vespene


@kernel
def count_change(w: State, owner: int, before: int, after: int) -> None:
    """Adds a unit's new type to its owner's score, unless it is only another mode."""
    old, new = w.unit_rules[before], w.unit_rules[after]
    gained = new.value_minerals + new.value_vespene
    gained -= old.value_minerals + old.value_vespene
    if gained > 0:
        count_made(w, owner, before, -1)
        count_made(w, owner, after, 1)


@kernel
def count_cancelled(w: State, row: int) -> None:
    """Adds what is not given back for a cancelled building to what its owner has lost."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    loser = w.players[unit.owner]
    minerals = int(np.floor(rule.minerals * BUILDING_REFUND))
    vespene = int(np.floor(rule.vespene * BUILDING_REFUND))
    loser.lost_value[rule.category, 0] += rule.value_minerals - minerals
    loser.lost_value[rule.category, 1] += rule.value_vespene - vespene


@kernel
def count_lost(w: State, row: int) -> None:
    """Adds a unit to what its owner has lost."""
    unit = w.units[row]
    if unit.hallucination or not is_player(unit.owner):
        return
    rule = w.unit_rules[unit.unit_type]
    loser = w.players[unit.owner]
    loser.lost_value[rule.category, 0] += rule.value_minerals
    loser.lost_value[rule.category, 1] += rule.value_vespene


@kernel
def _order_category(w: State, row: int, index: int) -> int:
    """Returns the category of what an order was paid for, -1 if it was not or the product exists."""
    unit = w.units[row]
    order = w.orders[row, index]
    rule = w.ability_rules[order.ability]
    kind = rule.kind
    paid = kind == ids.KIND_TRAIN or kind == ids.KIND_RESEARCH or kind == ids.KIND_HATCH
    # Some cocoons have their product's value already, and so have sites.
    kinds = w.unit_rules
    is_cocoon = unit.unit_type == rule.cocoon
    same = kinds[rule.cocoon].value_minerals == kinds[rule.makes].value_minerals
    paid = paid or (kind == ids.KIND_MORPH and not (is_cocoon and same))
    paid = paid or (kind == ids.KIND_ADD_ON and order.stage == STAGE_WAITING)
    if not paid:
        return -1
    return w.unit_rules[rule.makes].category if rule.makes else CATEGORY_UPGRADE


@kernel
def used_value(w: State, owner: int, used: np.ndarray, food: np.ndarray) -> None:
    """Adds up what a player has or makes, by category.

    used: [5, 2] minerals and vespene, and food: [5] in halves, both filled with zeros.
    """
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.owner != owner or unit.hallucination:
            continue
        rule = w.unit_rules[unit.unit_type]
        used[rule.category, 0] += rule.value_minerals
        used[rule.category, 1] += rule.value_vespene
        food[rule.category] += rule.food_halves
        for k in range(unit.order_count):
            category = _order_category(w, row, k)
            if category >= 0:
                cost = w.ability_rules[w.orders[row, k].ability]
                used[category, 0] += cost.minerals
                used[category, 1] += cost.vespene
    for ability in range(len(w.ability_rules)):
        rule = w.ability_rules[ability]
        if rule.upgrade_made and w.upgrades[owner, rule.upgrade_made]:
            used[CATEGORY_UPGRADE, 0] += rule.minerals
            used[CATEGORY_UPGRADE, 1] += rule.vespene


@kernel
def _count_lost_orders(w: State, row: int) -> None:
    """Adds what a dying unit was making to what its owner has lost and the other has killed."""
    unit = w.units[row]
    for k in range(unit.order_count):
        category = _order_category(w, row, k)
        if category < 0:
            continue
        cost = w.ability_rules[w.orders[row, k].ability]
        loser, winner = w.players[unit.owner], w.players[opponent(unit.owner)]
        loser.lost_value[category, 0] += cost.minerals
        loser.lost_value[category, 1] += cost.vespene
        winner.killed_value[category, 0] += cost.minerals
        winner.killed_value[category, 1] += cost.vespene
        winner.killed_units_value += cost.minerals + cost.vespene


@kernel
def count_kill(w: State, row: int) -> None:
    """Adds a unit that dies to what its owner has lost and the other player has killed."""
    unit = w.units[row]
    if unit.hallucination or not is_player(unit.owner):
        return
    count_lost(w, row)
    _count_lost_orders(w, row)
    rule = w.unit_rules[unit.unit_type]
    loser = w.players[unit.owner]
    loser.lost_minerals += rule.minerals
    loser.lost_vespene += rule.vespene
    winner = w.players[opponent(unit.owner)]
    winner.killed_minerals += rule.minerals
    winner.killed_vespene += rule.vespene
    winner.killed_value[rule.category, 0] += rule.value_minerals
    winner.killed_value[rule.category, 1] += rule.value_vespene
    value = rule.value_minerals + rule.value_vespene
    if rule.structure:
        winner.killed_structures += 1
        winner.killed_structures_value += value
    else:
        winner.killed_units += 1
        winner.killed_units_value += value


@kernel
def count_damage(w: State, row: int, health: float, shield: float) -> None:
    """Adds a unit's damage to both players' scores. health, shield: what it had before."""
    unit = w.units[row]
    if unit.hallucination or not is_player(unit.owner):
        return
    life = health - max(unit.health, 0.0)
    taken, dealt = w.players[unit.owner], w.players[opponent(unit.owner)]
    taken.damage_taken[0] += life
    dealt.damage_dealt[0] += life
    taken.damage_taken[1] += shield - unit.shield
    dealt.damage_dealt[1] += shield - unit.shield


@kernel
def keep_score(w: State) -> None:
    """Adds a loop's idle workers and buildings to the scores, and updates collection rates."""
    for p in range(1, PLAYERS):
        player = w.players[p]
        player.idle_worker_loops += player.idle_worker_count
        player.idle_production_loops += player.idle_production_count
        if w.clock[LOOP] % RATE_LOOPS:
            continue
        for k in range(2):
            total = player.collected_vespene if k else player.collected_minerals
            gain = total - player.collected_before[k]
            player.collection_rate[k] = gain * LOOPS_PER_MINUTE // RATE_LOOPS
            player.collected_before[k] = total
