"""Which fighting units a bot makes, and from what: training, hatching, warping in, morphing.

In: a situation and a strategy. Out: intents that take their cost from what the situation has left
to spend. Must not know: how the army is led.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.intents import (
    GROUP_HALLS,
    GROUP_PRODUCTION,
    Intent,
)
from starmill.engines.skirmish.players.macro import hatch
from starmill.engines.skirmish.players.situation import Situation, ability_makers
from starmill.engines.skirmish.players.strategies import BotStrategy
from starmill.engines.skirmish.simulation import ids, rules
from starmill.schema.game_constants import ZERG

_TECH_LABS = tuple(
    rules.unit_id(f"{name}TechLab") for name in ("Barracks", "Factory", "Starport")
)
_REACTORS = tuple(
    rules.unit_id(f"{name}Reactor") for name in ("Barracks", "Factory", "Starport")
)
# Units that other units turn into, and the abilities that do it.
_MORPHS = {"Baneling": "Train_Baneling", "Ravager": "Morph_Ravager"}
_PYLON = rules.unit_id("Pylon")
_MAX_INTENTS = 8  # that one look at the game adds
_LARVAE_PER_INTENT = 6
_WARP_TRIES = 12
_ANTI_AIR_WEIGHT = 3.0
_QUEEN_FOOD = 2
_MUCH_GAS = (
    100  # with more gas than this and than minerals, units that need gas come first
)
_GAS_WEIGHT = 3.0


@functools.cache
def _training_names(name: str) -> tuple[str, ...]:
    """Returns the names of the abilities that make a unit, warping in first."""
    names = rules.ability_names()
    return tuple(key for key in (f"TrainWarp_{name}", f"Train_{name}") if key in names)


def army(situation: Situation, strategy: BotStrategy, dice: Dice) -> list[Intent]:
    """Makes fighting units in the style's proportions, as money and buildings allow."""
    intents: list[Intent] = []
    if situation.food_army >= strategy.army_food:
        return intents
    for _ in range(_MAX_INTENTS):
        intent = _next_unit(situation, strategy, dice)
        if intent is None:
            break
        intents.append(intent)
    return intents


def guard(situation: Situation, strategy: BotStrategy, dice: Dice) -> list[Intent]:
    """Makes fighting units while there are too few to protect the workers."""
    own = situation.total(rules.unit_id(strategy.race["worker"]))
    if situation.food_army >= strategy.guard_food * (own - 16):
        return []
    return army(situation, strategy, dice)


def _next_unit(
    situation: Situation, strategy: BotStrategy, dice: Dice
) -> Intent | None:
    """Returns the intent to make the unit type that is furthest behind its share."""
    shares = []
    has_flyers = _has_enemy_flyers(situation)
    has_gas = strategy.spends_gas_first and situation.vespene > max(
        _MUCH_GAS, situation.minerals
    )
    for name, weight in strategy.style["mix"].items():
        unit_type = rules.unit_id(name)
        if has_flyers and situation.unit_rules[unit_type]["air_damage"] > 0:
            weight *= _ANTI_AIR_WEIGHT
        if has_gas and weight > 0 and _cost(name)[1]:
            weight *= _GAS_WEIGHT
        if weight > 0:
            count = situation.total(unit_type) + situation.planned_units.get(name, 0)
            shares.append(((count + 1) / weight, name))
    for _, name in sorted(shares):
        intent = _make(situation, name, dice)
        if intent is not None:
            planned = situation.planned_units.get(name, 0)
            situation.planned_units[name] = planned + intent.repeat
            return intent
        # Do not spend all minerals on a cheap unit while saving for an expensive one.
        is_saving = situation.minerals < 250
        if strategy.spends_gas_first:
            minerals, vespene = _cost(name)
            is_saving = (
                0 < vespene <= situation.vespene and situation.minerals < minerals
            )
        if is_saving and not _is_blocked(situation, name):
            return None
    return None


@functools.cache
def _cost(name: str) -> tuple[int, int]:
    """Returns the minerals and the vespene that a unit costs."""
    key = _MORPHS[name] if name in _MORPHS else _training_names(name)[-1]
    rule = rules.ability_rules()[rules.ability_names()[key]]
    return int(rule["minerals"]), int(rule["vespene"])


def _has_enemy_flyers(situation: Situation) -> bool:
    """Returns whether the player sees enemy flyers that can fight."""
    types = situation.enemies["unit_type"][situation.enemies["flying"] == 1]
    rule = situation.unit_rules[types]
    return bool(np.any((rule["ground_damage"] > 0) | (rule["air_damage"] > 0)))


def _is_blocked(situation: Situation, name: str) -> bool:
    """Returns whether something other than its cost prevents making a unit."""
    if name in _MORPHS:
        return not situation.has_tech(rules.ability_names()[_MORPHS[name]])
    for key in _training_names(name):
        ability = rules.ability_names()[key]
        if situation.has_tech(ability) and len(_makers(situation, key, ability)):
            # If the money is there, food or larvae are missing.
            return situation.can_pay(ability)
    return True


def _make(situation: Situation, name: str, dice: Dice) -> Intent | None:
    """Returns the intent to make one unit (several from larvae), None if that is impossible."""
    if name in _MORPHS:
        return _morph(situation, name)
    is_hatched = f"Train_{name}" in rules.ability_names() and name != "Queen"
    if situation.race == ZERG and is_hatched:
        return hatch(situation, name, _LARVAE_PER_INTENT)
    food = float(situation.unit_rules[rules.unit_id(name)]["food_halves"]) / 2
    if situation.food_used + food > situation.food_cap:
        return None
    for key in _training_names(name):
        ability = rules.ability_names()[key]
        if not situation.has_tech(ability) or not situation.can_pay(ability):
            continue
        makers = _makers(situation, key, ability)
        if len(makers) == 0:
            continue
        index = int(makers[0])
        situation.busy.add(index)
        situation.spend(ability)
        situation.food_used += food
        tags = situation.tag(index)
        if not key.startswith("TrainWarp"):
            return Intent(ability, tags, group=GROUP_PRODUCTION)
        spot = _warp_spot(situation, dice)
        if spot is None:
            return None
        return Intent(ability, tags, point=spot, where=spot, group=GROUP_PRODUCTION)
    return None


def _makers(situation: Situation, key: str, ability: int) -> NDArray[np.int64]:
    """Returns own buildings that can start making a unit now."""
    makers = situation.of_type(*ability_makers()[key])
    if len(makers) == 0:
        return makers
    is_powered = situation.own["powered"][makers] == 1
    if key.startswith("TrainWarp"):
        ready = (situation.own["wait"][makers] <= situation.loop) & is_powered
    else:
        ready = _has_free_queue(situation, makers, ability)
        needs_power = situation.unit_rules["needs_power"][situation.types[makers]] != 0
        ready &= ~needs_power | is_powered
    free = makers[ready]
    if situation.busy:
        free = np.asarray(
            [maker for maker in free if int(maker) not in situation.busy], np.int64
        )
    return free


def _has_free_queue(
    situation: Situation, makers: NDArray[np.int64], ability: int
) -> NDArray[np.bool_]:
    """Returns which buildings can start one more unit, given their add-ons."""
    addon = situation.own["addon"][makers]  # a row, -1 if there is none
    types = np.where(addon >= 0, situation.world.units["unit_type"][addon], 0)
    is_built = situation.world.units["build_progress"][addon] >= 1.0
    queues = np.where(np.isin(types, _REACTORS) & is_built, 2, 1)
    ready: NDArray[np.bool_] = situation.orders[makers] < queues
    ready &= (addon < 0) | is_built
    if situation.abilities[ability]["tech_lab"]:
        ready &= np.isin(types, _TECH_LABS) & is_built
    return ready


def _warp_spot(situation: Situation, dice: Dice) -> tuple[float, float] | None:
    """Returns a powered point where a unit can be warped in, None if no draw hit one."""
    pylons = situation.of_type(_PYLON)
    world = situation.world
    for _ in range(_WARP_TRIES):
        if len(pylons) == 0:
            return None
        x, y = situation.point(int(pylons[dice.below(len(pylons))]))
        x += dice.below(11) - 5 + 0.5
        y += dice.below(11) - 5 + 0.5
        row, column = int(y), int(x)
        is_usable = (
            world.power[situation.player, row, column] and world.pathable[row, column]
        )
        if is_usable and world.occupied[row, column] & 1 == 0:
            return x, y
    return None


def _morph(situation: Situation, name: str) -> Intent | None:
    """Returns the intent to turn some units into a higher form, None if that is impossible."""
    ability = rules.ability_names()[_MORPHS[name]]
    if not situation.has_tech(ability):
        return None
    source = ability_makers()[_MORPHS[name]][0]
    units = situation.of_type(source)
    number = 0
    while number < min(len(units) // 3, 4) and situation.can_pay(ability):
        situation.spend(ability)
        number += 1
    if number == 0:
        return None
    tags = situation.tags_of(units[:number])
    return Intent(ability, tags, where=situation.point(int(units[0])))


def queens(situation: Situation, strategy: BotStrategy) -> list[Intent]:
    """Trains queens: the style's number, and one more for each further hatchery."""
    if situation.race != ZERG:
        return []
    ability = rules.ability_names()["Train_Queen"]
    enough = int(strategy.style.get("queens", 1)) + len(situation.halls) - 1
    has_food = situation.food_used + _QUEEN_FOOD <= situation.food_cap
    if (
        situation.total(ids.UNIT_QUEEN) >= enough
        or not has_food
        or not situation.has_tech(ability)
    ):
        return []
    halls = situation.halls[situation.orders[situation.halls] == 0]
    if len(halls) == 0 or not situation.can_pay(ability):
        return []
    situation.spend(ability)
    situation.food_used += _QUEEN_FOOD
    return [Intent(ability, situation.tag(halls[0]), group=GROUP_HALLS)]
