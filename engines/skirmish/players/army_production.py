"""Which units a bot makes, and from where: training, hatching, warping in, and morphing."""

import functools

import numpy as np

from starmill.engines.skirmish.players.macro import Plan, hatch
from starmill.engines.skirmish.players.situation import (
    Dice,
    Intent,
    Scene,
    ability_makers,
)
from starmill.engines.skirmish.simulation import ids, rules

_TECH_LABS = tuple(
    rules.unit_id(f"{name}TechLab") for name in ("Barracks", "Factory", "Starport")
)
_REACTORS = tuple(
    rules.unit_id(f"{name}Reactor") for name in ("Barracks", "Factory", "Starport")
)
_MORPHED = {"Baneling": "Train_Baneling", "Ravager": "Morph_Ravager"}
_PYLON = rules.unit_id("Pylon")


@functools.cache
def _ways(name: str) -> tuple[str, ...]:
    """Returns the names of the abilities that make a unit."""
    names = rules.ability_names()
    wanted = (f"TrainWarp_{name}", f"Train_{name}")
    return tuple(key for key in wanted if key in names)


def army(scene: Scene, plan: Plan, dice: Dice) -> list[Intent]:
    """Makes fighting units in the style's proportions, as money and buildings allow."""
    found: list[Intent] = []
    if scene.food_army >= plan.army:
        return found
    for _ in range(8):
        intent = _next_unit(scene, plan, dice)
        if intent is None:
            break
        found.append(intent)
    return found


def guard(scene: Scene, plan: Plan, dice: Dice) -> list[Intent]:
    """Makes fighting units before workers and bases while there are too few to guard them."""
    own = scene.total(rules.unit_id(plan.race["worker"]))
    if scene.food_army >= plan.guard * (own - 16):
        return []
    return army(scene, plan, dice)


def _next_unit(scene: Scene, plan: Plan, dice: Dice) -> Intent | None:
    """Returns the intent for the unit type that is furthest behind its share."""
    mix = plan.style["mix"]
    shares = []
    flyers = _enemy_flyers(scene)
    for name, weight in mix.items():
        if flyers and scene.unit_rules[rules.unit_id(name)]["air_damage"] > 0:
            weight *= 3.0
        if weight > 0:
            have = scene.total(rules.unit_id(name)) + scene.made.get(name, 0)
            shares.append(((have + 1) / weight, name))
    for _, name in sorted(shares):
        intent = _make(scene, name, dice)
        if intent is not None:
            scene.made[name] = scene.made.get(name, 0) + intent.repeat
            return intent
        # Do not spend all minerals on the cheap unit while gas for the dear one comes in.
        if scene.minerals < 250 and not _is_blocked(scene, name):
            return None
    return None


def _enemy_flyers(scene: Scene) -> bool:
    """Returns whether the enemy is seen with flying fighters."""
    kinds = scene.enemies["unit_type"][scene.enemies["flying"] == 1]
    rule = scene.unit_rules[kinds]
    return bool(np.any((rule["ground_damage"] > 0) | (rule["air_damage"] > 0)))


def _is_blocked(scene: Scene, name: str) -> bool:
    """Returns whether a unit cannot be made for a reason other than money."""
    if name in _MORPHED:
        return not scene.has_tech(rules.ability_names()[_MORPHED[name]])
    ways = _ways(name)
    for key in ways:
        ability = rules.ability_names()[key]
        if scene.has_tech(ability) and len(_makers(scene, key, ability)):
            return scene.can_pay(ability)  # money is there: food or larvae are not
    return True


def _make(scene: Scene, name: str, dice: Dice) -> Intent | None:
    if name in _MORPHED:
        return _morph(scene, name)
    if scene.race == 2 and f"Train_{name}" in rules.ability_names() and name != "Queen":
        return hatch(scene, name, 6)
    food = float(scene.unit_rules[rules.unit_id(name)]["food_halves"]) / 2
    if scene.food_used + food > scene.food_cap:
        return None
    for key in _ways(name):
        ability = rules.ability_names()[key]
        if not scene.has_tech(ability) or not scene.can_pay(ability):
            continue
        makers = _makers(scene, key, ability)
        if len(makers) == 0:
            continue
        index = int(makers[0])
        scene.busy.add(index)
        scene.spend(ability)
        scene.food_used += food
        tags = (int(scene.tags[index]),)
        if key.startswith("TrainWarp"):
            spot = _warp_spot(scene, dice)
            if spot is None:
                return None
            return Intent(ability, tags, point=spot, where=spot, group=5)
        return Intent(ability, tags, group=5)
    return None


def _makers(scene: Scene, key: str, ability: int) -> np.ndarray:
    """Returns own buildings that can start making a unit now."""
    makers = scene.of(*ability_makers()[key])
    if len(makers) == 0:
        return makers
    if key.startswith("TrainWarp"):
        ready = scene.own["wait"][makers] <= scene.loop
        ready &= scene.own["powered"][makers] == 1
        free = makers[ready]
    else:
        addon = scene.own["addon"][makers]
        kinds = np.where(addon >= 0, scene.world.units["unit_type"][addon], 0)
        finished = scene.world.units["build_progress"][addon] >= 1.0
        lab = np.isin(kinds, _TECH_LABS) & finished
        lanes = np.where(np.isin(kinds, _REACTORS) & finished, 2, 1)
        ready = scene.orders[makers] < lanes
        ready &= (addon < 0) | finished
        needs_power = scene.unit_rules["needs_power"][scene.types[makers]] != 0
        ready &= ~needs_power | (scene.own["powered"][makers] == 1)
        if scene.abilities[ability]["tech_lab"]:
            ready &= lab
        free = makers[ready]
    if scene.busy:
        free = np.asarray([m for m in free if int(m) not in scene.busy], np.int64)
    return free


def _warp_spot(scene: Scene, dice: Dice) -> tuple[float, float] | None:
    """Returns a powered point where a unit can be warped in, None if none was found."""
    pylons = scene.of(_PYLON)
    world = scene.world
    for _ in range(12):
        if len(pylons) == 0:
            return None
        x, y = scene.point(int(pylons[dice.below(len(pylons))]))
        x += dice.below(11) - 5 + 0.5
        y += dice.below(11) - 5 + 0.5
        row, column = int(y), int(x)
        good = world.power[scene.player, row, column] and world.pathable[row, column]
        if good and world.occupied[row, column] & 1 == 0:
            return x, y
    return None


def _morph(scene: Scene, name: str) -> Intent | None:
    """Returns the intent to turn some units into a higher form."""
    ability = rules.ability_names()[_MORPHED[name]]
    if not scene.has_tech(ability):
        return None
    source = ability_makers()[_MORPHED[name]][0]
    units = scene.of(source)
    number = 0
    while number < min(len(units) // 3, 4) and scene.can_pay(ability):
        scene.spend(ability)
        number += 1
    if number == 0:
        return None
    chosen = units[:number]
    tags = tuple(int(t) for t in scene.tags[chosen])
    return Intent(ability, tags, where=scene.point(int(chosen[0])))


def queens(scene: Scene, plan: Plan) -> list[Intent]:
    """Keeps a queen or two at each hatchery."""
    if scene.race != 2:
        return []
    ability = rules.ability_names()["Train_Queen"]
    wanted = int(plan.style.get("queens", 1)) + len(scene.halls) - 1
    have = scene.total(ids.UNIT_QUEEN)
    fed = scene.food_used + 2 <= scene.food_cap
    if have >= wanted or not fed or not scene.has_tech(ability):
        return []
    halls = scene.halls[scene.orders[scene.halls] == 0]
    if len(halls) == 0 or not scene.can_pay(ability):
        return []
    scene.spend(ability)
    scene.food_used += 2
    return [Intent(ability, (int(scene.tags[halls[0]]),), group=4)]
