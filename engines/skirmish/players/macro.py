"""How a bot builds up: supply, workers, bases, gas, tech, production, upgrades.

In: a scene and a plan. Out: intents in order of importance, each paid for from the scene's
budget. The plan's style says what to build when; how often and how carefully this is
called is the bot's skill.
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from starmill.engines.skirmish.players.situation import (
    Dice,
    Intent,
    Scene,
    ability_makers,
)
from starmill.engines.skirmish.simulation import entry_points, ids, maps, rules

_LARVA = ids.UNIT_LARVA


@dataclasses.dataclass
class Plan:
    """What one bot wants to build in one game.

    style: an entry of strategies.json. workers: most workers wanted. bases: most bases.
    slack: extra supply kept ready; less skilled players have less of it and get stuck.
    guard: food of army per worker beyond the first sixteen; careful players have it first.
    army: food of the army beyond which no more is made.
    start: the start town hall's place. order: bases by distance from it.
    """

    race: dict[str, Any]
    style: dict[str, Any]
    workers: int
    bases: int
    slack: float
    guard: float
    army: float
    start: tuple[float, float]
    order: tuple[maps.Base, ...]


def _ability(name: str) -> int:
    return rules.ability_names()[name]


def _id(name: str) -> int:
    return rules.unit_id(name)


def free_workers(scene: Scene) -> np.ndarray:
    """Returns own workers that mine or are idle, and for whom nothing else was found to do."""
    kinds = scene.abilities["kind"][scene.first[scene.workers]]
    free = (kinds == ids.KIND_GATHER) | (scene.orders[scene.workers] == 0)
    free &= scene.types[scene.workers] != ids.UNIT_MULE
    found = scene.workers[free]
    if scene.busy:
        found = np.asarray([w for w in found if int(w) not in scene.busy], np.int64)
    return found


def _build(
    scene: Scene, name: str, near: tuple[float, float], skip: int
) -> Intent | None:
    """Returns the intent to put a building down near a point, None if that is impossible."""
    ability = _ability(f"Build_{name}")
    if not scene.has_tech(ability) or not scene.can_pay(ability):
        return None
    unit_type = _id(name)
    x, y = entry_points.find_place(
        scene.world.state, scene.player, unit_type, near[0], near[1], skip
    )
    if x < 0:
        return None
    worker = scene.nearest(free_workers(scene), x, y)
    if worker < 0:
        return None
    scene.spend(ability)
    scene.busy.add(worker)
    tags = (int(scene.tags[worker]),)
    # Protoss workers go back to work by themselves only if told to; the bot tells idle ones.
    return Intent(ability, tags, point=(float(x), float(y)), where=(float(x), float(y)))


def _build_spot(scene: Scene, plan: Plan, name: str, dice: Dice) -> tuple[float, float]:
    """Returns a point around which a building of this name makes sense."""
    if scene.race == 3 and name != "Pylon" and name != "Nexus":
        pylons = scene.of(_id("Pylon"))
        if len(pylons):
            return scene.point(int(pylons[dice.below(len(pylons))]))
    halls = scene.halls
    if len(halls) == 0:
        return plan.start
    hall = int(halls[dice.below(min(len(halls), 3))])
    x, y = scene.point(hall)
    width, height = scene.game.map.width, scene.game.map.height
    # Towards the middle of the map, away from the minerals.
    sx = 1.0 if x < width / 2 else -1.0
    sy = 1.0 if y < height / 2 else -1.0
    reach = 5 + dice.below(5)
    return x + sx * reach, y + sy * (reach - 3)


def supply(scene: Scene, plan: Plan, dice: Dice) -> list[Intent]:
    """Keeps food ahead of what is used."""
    name = plan.race["supply"]
    unit_type, hall = _id(name), _id(plan.race["hall"])
    cap = scene.food_cap + 8 * int(scene.pending[unit_type])
    cap += int(scene.pending[hall]) * (6 if scene.race == 2 else 15) // 2
    lead = 2.0 + plan.slack * (2.0 + 0.13 * scene.food_used)
    if cap >= 200 or scene.food_used + lead <= cap:
        return []
    found = []
    for _ in range(
        2 if scene.food_used > 60 and cap - scene.food_used < lead / 2 else 1
    ):
        if scene.race == 2:
            intent = hatch(scene, "Overlord", 1)
        else:
            spot = _build_spot(scene, plan, name, dice)
            intent = _build(scene, name, spot, dice.below(3))
        if intent:
            found.append(intent)
    return found


def hatch(scene: Scene, name: str, number: int) -> Intent | None:
    """Returns the intent to hatch up to `number` units from larvae."""
    ability = _ability(f"Train_{name}")
    if not scene.has_tech(ability):
        return None
    larvae = scene.of(_LARVA)
    larvae = larvae[scene.larvae_used :]
    food = float(scene.unit_rules[_id(name)]["food_halves"]) / 2
    if name == "Zergling":
        food = 1.0
    made = 0
    while made < min(number, len(larvae)):
        if not scene.can_pay(ability):
            break
        if food and scene.food_used + food > scene.food_cap:
            break
        scene.spend(ability)
        scene.food_used += food
        made += 1
    if made == 0:
        return None
    scene.larvae_used += made
    chosen = larvae[:made]
    tags = tuple(int(t) for t in scene.tags[chosen])
    return Intent(ability, tags, repeat=made, where=scene.point(int(chosen[0])))


def workers(scene: Scene, plan: Plan) -> list[Intent]:
    """Trains workers up to the plan's number or what the bases can use."""
    name = plan.race["worker"]
    unit_type = _id(name)
    own = scene.total(unit_type)
    bases = scene.total(_id(plan.race["hall"]))
    room = min(plan.workers, 22 * bases) - own
    if room <= 0:
        return []
    if scene.race == 2:
        # Drones and army share the larvae: some army for every few drones.
        behind = scene.food_army < (own - 18) * 0.4
        if behind and own > 24 and scene.larvae_used == 0 and room < 30:
            room = max(room // 4, 1)
        intent = hatch(scene, name, room)
        return [intent] if intent else []
    ability = _ability(f"Train_{name}")
    found = []
    for hall in scene.halls:
        if scene.orders[hall] < 1 and room > 0 and scene.can_pay(ability):
            scene.spend(ability)
            room -= 1
            tags = (int(scene.tags[hall]),)
            found.append(Intent(ability, tags, group=4))
    return found


def expand(scene: Scene, plan: Plan) -> list[Intent]:
    """Takes another base when the ones there are nearly full."""
    name = plan.race["hall"]
    hall = _id(name)
    have = scene.total(hall)
    if have >= plan.bases or scene.pending[hall] > 0:
        return []
    own = scene.total(_id(plan.race["worker"]))
    wanted = 13 * have + 2 if scene.race == 2 else 16 * have
    if own < min(wanted, plan.workers - 2) and scene.minerals < 700:
        return []
    ability = _ability(f"Build_{name}")
    if not scene.can_pay(ability):
        # Saving up: meanwhile nothing below this in the list is bought, unless in danger.
        if scene.food_army >= 4 * (have - 1) or scene.race == 2:
            scene.minerals -= 400
        return []
    for base in plan.order:
        if _is_taken(scene, base):
            continue
        code = entry_points.placement_error(
            scene.world.state, scene.player, hall, base.x, base.y
        )
        hidden = scene.world.visibility[scene.player, int(base.y), int(base.x)] == 0
        worker = scene.nearest(free_workers(scene), base.x, base.y)
        if worker < 0:
            return []
        tags = (int(scene.tags[worker]),)
        scene.busy.add(worker)
        if code == 1:
            scene.spend(ability)
            spot = (base.x, base.y)
            return [Intent(ability, tags, point=spot, where=spot)]
        if hidden:  # go and look
            return [Intent(16, tags, point=(base.x, base.y), where=(base.x, base.y))]
    return []


def _is_taken(scene: Scene, base: maps.Base) -> bool:
    """Returns whether somebody has a town hall at a base, as far as the player knows."""
    table = scene.unit_rules["town_hall"]
    for units in (scene.own, scene.enemies, _memories(scene)):
        near = (np.abs(units["x"] - base.x) < 5) & (np.abs(units["y"] - base.y) < 5)
        if np.any(near & (table[units["unit_type"]] != 0)):
            return True
    return False


def _memories(scene: Scene) -> np.ndarray:
    found = scene.world.snapshots[scene.player]
    return found[(found["alive"] == 1) & (found["owner"] == 3 - scene.player)]


def gas(scene: Scene, plan: Plan) -> list[Intent]:
    """Builds gas mines at finished bases, and keeps three workers in each."""
    name = plan.race["gas"]
    mine = _id(name)
    own_workers = scene.total(_id(plan.race["worker"]))
    wanted = int(plan.style["gas"] * max(len(scene.halls), 1) + 0.5)
    wanted = min(wanted, max(own_workers - 10, 0) // 6)
    found = _fill_gas(scene) if scene.vespene < 300 else []
    if scene.vespene > 150 and scene.minerals < scene.vespene:
        return found
    ability = _ability(f"Build_{name}")
    if scene.total(mine) >= wanted or not scene.can_pay(ability):
        return found
    for hall in scene.halls:
        x, y = scene.point(int(hall))
        for base in plan.order:
            if abs(base.x - x) > 2 or abs(base.y - y) > 2:
                continue
            for item in base.resources:
                if not item.vespene or _mine_at(scene, item.x, item.y):
                    continue
                worker = scene.nearest(free_workers(scene), item.x, item.y)
                if worker < 0:
                    return found
                scene.spend(ability)
                scene.busy.add(worker)
                tags = (int(scene.tags[worker]),)
                return [*found, _gas_intent(scene, ability, tags, item)]
    return found


def _gas_intent(
    scene: Scene, ability: int, tags: tuple[int, ...], item: maps.Resource
) -> Intent:
    units = scene.world.units
    row = np.flatnonzero(
        (units["alive"] == 1) & (units["x"] == item.x) & (units["y"] == item.y)
    )[0]
    spot = (item.x, item.y)
    return Intent(ability, tags, target_tag=int(units["tag"][row]), where=spot)


def _mine_at(scene: Scene, x: float, y: float) -> bool:
    near = (np.abs(scene.x - x) < 1) & (np.abs(scene.y - y) < 1)
    return bool(np.any(near & (scene.unit_rules["gas_mine"][scene.types] != 0)))


def _fill_gas(scene: Scene) -> list[Intent]:
    """Sends workers into gas mines that lack them."""
    mines = np.flatnonzero(
        scene.done
        & (scene.unit_rules["gas_mine"][scene.types] != 0)
        & (scene.own["assigned"] < scene.own["ideal"])
    )
    found = []
    builders = free_workers(scene)
    for mine in mines[:2]:
        lacking = int(scene.own["ideal"][mine] - scene.own["assigned"][mine])
        x, y = scene.point(int(mine))
        dx, dy = scene.x[builders] - x, scene.y[builders] - y
        close = builders[np.argsort(dx * dx + dy * dy, kind="stable")[:lacking]]
        if len(builders) < 8 or len(close) == 0:
            continue
        tags = tuple(int(t) for t in scene.tags[close])
        scene.busy.update(int(w) for w in close)
        found.append(Intent(3666, tags, target_tag=int(scene.tags[mine]), where=(x, y)))
    return found


def unfinished(scene: Scene) -> list[Intent]:
    """Sends a worker back to a Terran building whose builder was called away or killed."""
    if scene.race != 1:
        return []
    rule = scene.unit_rules[scene.types]
    left = ~scene.done & (rule["structure"] != 0) & (rule["add_on"] == 0)
    found = []
    for site in np.flatnonzero(left & (scene.own["engaged"] == 0))[:2]:
        x, y = scene.point(int(site))
        worker = scene.nearest(free_workers(scene), x, y)
        ability = _builder_ability(int(scene.types[site]))
        if worker < 0 or ability == 0 or not scene.can_pay(ability):
            continue
        scene.busy.add(worker)
        tags = (int(scene.tags[worker]),)
        tag = int(scene.tags[site])
        found.append(Intent(ability, tags, target_tag=tag, where=(x, y)))
    return found


@functools.cache
def _builder_ability(unit_type: int) -> int:
    """Returns the ability that puts a building of this type down, 0 if there is none."""
    table = rules.ability_rules()
    made = (table["makes"] == unit_type) & (table["kind"] == ids.KIND_BUILD)
    found = np.flatnonzero(made)
    return int(found[0]) if len(found) else 0


def idle_workers(scene: Scene) -> list[Intent]:
    """Sends idle workers, and those too many at a base, to mine."""
    found = []
    free = free_workers(scene)
    idle = free[scene.orders[free] == 0]
    want = scene.own["ideal"][scene.halls] - scene.own["assigned"][scene.halls]
    if len(scene.halls) == 0:
        return []
    best = int(scene.halls[int(np.argmax(want))])
    patch = patch_near(scene, *scene.point(best))
    if patch == 0:
        return []
    if len(idle):
        tags = tuple(int(t) for t in scene.tags[idle[:8]])
        where = scene.point(int(idle[0]))
        found.append(Intent(3666, tags, target_tag=patch, where=where))
    worst = int(scene.halls[int(np.argmin(want))])
    if want.max() >= 4 and want.min() <= -4:
        builders = free_workers(scene)
        x, y = scene.point(worst)
        near = np.abs(scene.x[builders] - x) + np.abs(scene.y[builders] - y) < 14
        moving = builders[near][: int(min(want.max(), -want.min()))]
        if len(moving):
            tags = tuple(int(t) for t in scene.tags[moving])
            found.append(Intent(3666, tags, target_tag=patch, where=(x, y)))
    return found


def patch_near(scene: Scene, x: float, y: float) -> int:
    """Returns the tag of a mineral field near a point, 0 if there is none."""
    units = scene.world.units
    fields = scene.unit_rules["mineral_field"][units["unit_type"]] != 0
    dx, dy = units["x"] - x, units["y"] - y
    gap = np.where(fields & (units["alive"] == 1), dx * dx + dy * dy, 1e9)
    best = int(np.argmin(gap))
    return int(units["tag"][best]) if gap[best] < 14 * 14 else 0


def tech(scene: Scene, plan: Plan, dice: Dice) -> list[Intent]:
    """Builds what the style lists, in order, as supply allows."""
    for name, food, number in plan.style["tech"]:
        if scene.food_used < food:
            continue
        if scene.total(_id(name)) >= number:
            continue
        intent = _one_building(scene, plan, name, dice)
        if intent is not None:
            return [intent]
        if scene.minerals < 150:
            return []
    return _more_production(scene, plan, dice)


def _one_building(scene: Scene, plan: Plan, name: str, dice: Dice) -> Intent | None:
    """Returns the intent for one building, add-on or morph of the plan."""
    if name in {"Lair", "Hive"}:
        return _morph_hall(scene, name)
    for kind in ("TechLab", "Reactor"):
        if name.endswith(kind):
            return _add_on(scene, name.removesuffix(kind), kind)
    spot = _build_spot(scene, plan, name, dice)
    return _build(scene, name, spot, dice.below(2))


def _morph_hall(scene: Scene, name: str) -> Intent | None:
    ability = _ability(f"Morph_{name}")
    source = ability_makers()[f"Morph_{name}"][0]
    halls = scene.of(source)
    if not scene.has_tech(ability) or not scene.can_pay(ability) or len(halls) == 0:
        return None
    hall = int(halls[0])
    scene.spend(ability)
    return Intent(ability, (int(scene.tags[hall]),), where=scene.point(hall))


def _add_on(scene: Scene, building: str, kind: str) -> Intent | None:
    ability = _ability(f"Build_{kind}_{building}")
    hosts = scene.of(_id(building))
    hosts = hosts[(scene.own["addon"][hosts] < 0) & (scene.orders[hosts] == 0)]
    if len(hosts) == 0 or not scene.can_pay(ability):
        return None
    scene.spend(ability)
    host = int(hosts[0])
    return Intent(ability, (int(scene.tags[host]),), where=scene.point(host))


def _more_production(scene: Scene, plan: Plan, dice: Dice) -> list[Intent]:
    """Adds production buildings while money piles up."""
    for name, per_base in plan.style["per_base"].items():
        wanted = int(per_base * len(scene.halls) + 0.5)
        rich = scene.minerals > 250
        if name == "Gateway":
            have = scene.total(_id("Gateway")) + int(scene.pending[_id("WarpGate")])
        else:
            have = scene.total(_id(name))
        if rich and have < wanted:
            intent = _one_building(scene, plan, name, dice)
            if intent:
                return [intent]
        if scene.race == 1 and have and dice.chance(0.5):
            kind = "TechLab" if dice.chance(0.5) else "Reactor"
            intent = _add_on(scene, name, kind)
            if intent:
                return [intent]
    return []


def upgrades(scene: Scene, plan: Plan) -> list[Intent]:
    """Researches what the style lists."""
    world = scene.world
    for name in plan.style["upgrades"]:
        for ability, source in _research_steps(name):
            made = int(scene.abilities[ability]["upgrade_made"])
            if world.upgrades[scene.player, made]:
                continue
            if world.researching[scene.player, made]:
                break
            labs = scene.of(*source)
            labs = labs[scene.orders[labs] == 0]
            ready = len(labs) and scene.has_tech(ability) and scene.can_pay(ability)
            if ready:
                scene.spend(ability)
                return [Intent(ability, (int(scene.tags[labs[0]]),))]
            break
    return []


def _research_steps(name: str) -> list[tuple[int, tuple[int, ...]]]:
    """Returns the abilities that research an upgrade, level by level, with their buildings."""
    names = rules.ability_names()
    full = f"Research_{name}"
    keys = [full] if full in names else [f"{full}Level{level}" for level in (1, 2, 3)]
    return [(names[key], ability_makers()[key]) for key in keys]
