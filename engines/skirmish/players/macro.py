"""How a bot builds up: supply, workers, bases, gas, technology, production, upgrades.

In: a situation and a strategy. Out: intents in order of importance; each takes its cost from what
the situation has left to spend. The strategy says what to build when. How often and how carefully
these functions are called is up to the bot's skill. Must not know: the army's orders.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.intents import (
    ABILITY_GATHER,
    ABILITY_MOVE_EXACT,
    GROUP_HALLS,
    Intent,
)
from starmill.engines.skirmish.players.situation import Situation, ability_makers
from starmill.engines.skirmish.players.strategies import BotStrategy
from starmill.engines.skirmish.simulation import (
    action_results,
    entry_points,
    ids,
    maps,
    rules,
)
from starmill.schema.game_constants import PROTOSS, TERRAN, ZERG

_MAX_SUPPLY = 200
_SUPPLY_OF_DEPOT = 8  # also of a pylon and an overlord
_HALL_COST = 400
_WORKERS_PER_BASE = 22
_PATCH_RADIUS = 14  # mineral fields this near to a town hall belong to it
_FAR = 1e9
# With this much gas, no more workers are sent to it.
_MUCH_GAS, _ENOUGH_GAS = 300, 160


def _ability(name: str) -> int:
    return rules.ability_names()[name]


def free_workers(situation: Situation) -> NDArray[np.int64]:
    """Returns the own workers that mine or are idle and that no intent uses yet."""
    kinds = situation.abilities["kind"][situation.first_order[situation.workers]]
    free = (kinds == ids.KIND_GATHER) | (situation.orders[situation.workers] == 0)
    free &= situation.types[situation.workers] != ids.UNIT_MULE
    workers = situation.workers[free]
    if situation.busy:
        workers = np.asarray(
            [worker for worker in workers if int(worker) not in situation.busy],
            np.int64,
        )
    return workers


def _build(
    situation: Situation, name: str, near: tuple[float, float], skip: int
) -> Intent | None:
    """Returns the intent to place a building near a point, None if that is impossible.

    skip: how many suitable places to pass over.
    """
    ability = _ability(f"Build_{name}")
    if not situation.has_tech(ability) or not situation.can_pay(ability):
        return None
    unit_type = rules.unit_id(name)
    x, y = entry_points.find_place(
        situation.world.state, situation.player, unit_type, near[0], near[1], skip
    )
    if x < 0:
        return None
    worker = situation.nearest(free_workers(situation), x, y)
    if worker < 0:
        return None
    situation.spend(ability)
    situation.busy.add(worker)
    tags = situation.tag(worker)
    spot = (float(x), float(y))
    # Protoss workers stay idle after they have placed a building; `idle_workers` sends them back.
    return Intent(ability, tags, point=spot, where=spot)


def _build_spot(
    situation: Situation, strategy: BotStrategy, name: str, dice: Dice
) -> tuple[float, float]:
    """Returns a point around which a building of this name makes sense."""
    if situation.race == PROTOSS and name != "Pylon" and name != "Nexus":
        pylons = situation.of_type(rules.unit_id("Pylon"))
        if len(pylons):
            return situation.point(int(pylons[dice.below(len(pylons))]))
    halls = situation.halls
    if len(halls) == 0:
        return strategy.start
    hall = int(halls[dice.below(min(len(halls), 3))])
    x, y = situation.point(hall)
    width, height = situation.game.map.width, situation.game.map.height
    # Towards the middle of the map, away from the minerals.
    sign_x = 1.0 if x < width / 2 else -1.0
    sign_y = 1.0 if y < height / 2 else -1.0
    reach = 5 + dice.below(5)
    return x + sign_x * reach, y + sign_y * (reach - 3)


def supply(situation: Situation, strategy: BotStrategy, dice: Dice) -> list[Intent]:
    """Adds supply before what there is runs out."""
    name = strategy.race["supply"]
    hall = rules.unit_id(strategy.race["hall"])
    cap = situation.food_cap
    cap += _SUPPLY_OF_DEPOT * int(situation.pending[rules.unit_id(name)])
    cap += int(situation.pending[hall]) * (6 if situation.race == ZERG else 15) // 2
    lead = 2.0 + strategy.supply_slack * (2.0 + 0.13 * situation.food_used)
    if cap >= _MAX_SUPPLY or situation.food_used + lead <= cap:
        return []
    is_urgent = situation.food_used > 60 and cap - situation.food_used < lead / 2
    intents = []
    for _ in range(2 if is_urgent else 1):
        if situation.race == ZERG:
            intent = hatch(situation, "Overlord", 1)
        else:
            spot = _build_spot(situation, strategy, name, dice)
            intent = _build(situation, name, spot, dice.below(3))
        if intent:
            intents.append(intent)
    return intents


def hatch(situation: Situation, name: str, number: int) -> Intent | None:
    """Returns the intent to hatch up to `number` units from larvae, None if it cannot hatch any."""
    ability = _ability(f"Train_{name}")
    if not situation.has_tech(ability):
        return None
    larvae = situation.of_type(ids.UNIT_LARVA)[situation.larvae_used :]
    food = float(situation.unit_rules[rules.unit_id(name)]["food_halves"]) / 2
    if name == "Zergling":
        food = 1.0  # a larva becomes two
    count = 0
    while count < min(number, len(larvae)):
        if not situation.can_pay(ability):
            break
        if food and situation.food_used + food > situation.food_cap:
            break
        situation.spend(ability)
        situation.food_used += food
        count += 1
    if count == 0:
        return None
    situation.larvae_used += count
    tags = situation.tags_of(larvae[:count])
    where = situation.point(int(larvae[0]))
    return Intent(ability, tags, repeat=count, where=where)


def workers(situation: Situation, strategy: BotStrategy) -> list[Intent]:
    """Trains workers, up to the strategy's number and to what the bases can employ."""
    name = strategy.race["worker"]
    own = situation.total(rules.unit_id(name))
    bases = situation.total(rules.unit_id(strategy.race["hall"]))
    room = min(strategy.max_workers, _WORKERS_PER_BASE * bases) - own
    if room <= 0:
        return []
    if situation.race == ZERG:
        # Drones and army share the larvae, so every few drones leave some for the army.
        behind = situation.food_army < (own - 18) * 0.4
        if behind and own > 24 and situation.larvae_used == 0 and room < 30:
            room = max(room // 4, 1)
        intent = hatch(situation, name, room)
        return [intent] if intent else []
    ability = _ability(f"Train_{name}")
    intents = []
    for hall in situation.halls:
        if situation.orders[hall] < 1 and room > 0 and situation.can_pay(ability):
            situation.spend(ability)
            room -= 1
            tags = situation.tag(int(hall))
            intents.append(Intent(ability, tags, group=GROUP_HALLS))
    return intents


def expand(situation: Situation, strategy: BotStrategy) -> list[Intent]:
    """Founds another base when the present ones are nearly full."""
    name = strategy.race["hall"]
    hall = rules.unit_id(name)
    bases = situation.total(hall)
    if bases >= strategy.max_bases or situation.pending[hall] > 0:
        return []
    own = situation.total(rules.unit_id(strategy.race["worker"]))
    enough = 13 * bases + 2 if situation.race == ZERG else 16 * bases
    if own < min(enough, strategy.max_workers - 2) and situation.minerals < 700:
        return []
    ability = _ability(f"Build_{name}")
    if not situation.can_pay(ability):
        # Save up: less important intents buy nothing meanwhile, unless the player is in danger.
        if situation.food_army >= 4 * (bases - 1) or situation.race == ZERG:
            situation.minerals -= _HALL_COST
        return []
    for base in strategy.expansions:
        if _is_taken(situation, base):
            continue
        result = entry_points.placement_error(
            situation.world.state, situation.player, hall, base.x, base.y
        )
        row, column = int(base.y), int(base.x)
        is_hidden = situation.world.visibility[situation.player, row, column] == 0
        worker = situation.nearest(free_workers(situation), base.x, base.y)
        if worker < 0:
            return []
        tags = situation.tag(worker)
        spot = (base.x, base.y)
        situation.busy.add(worker)
        if result == action_results.SUCCESS:
            situation.spend(ability)
            return [Intent(ability, tags, point=spot, where=spot)]
        if is_hidden:  # go there and look
            return [Intent(ABILITY_MOVE_EXACT, tags, point=spot, where=spot)]
    return []


def _is_taken(situation: Situation, base: maps.Base) -> bool:
    """Returns whether somebody has a town hall at a base, as far as the player knows."""
    table = situation.unit_rules["town_hall"]
    for units in (situation.own, situation.enemies, remembered_enemies(situation)):
        near = (np.abs(units["x"] - base.x) < 5) & (np.abs(units["y"] - base.y) < 5)
        if np.any(near & (table[units["unit_type"]] != 0)):
            return True
    return False


def remembered_enemies(situation: Situation) -> np.ndarray:
    """Returns the enemy buildings that the player has seen and that are out of sight now."""
    memory = situation.world.snapshots[situation.player]
    return memory[(memory["alive"] == 1) & (memory["owner"] == 3 - situation.player)]


def gas(
    situation: Situation, strategy: BotStrategy, *, fill: bool = True
) -> list[Intent]:
    """Builds gas mines at finished bases.

    fill: whether to keep three workers in each, too.
    """
    name = strategy.race["gas"]
    mine = rules.unit_id(name)
    own_workers = situation.total(rules.unit_id(strategy.race["worker"]))
    mines = int(strategy.style["gas"] * max(len(situation.halls), 1) + 0.5)
    mines = min(mines, max(own_workers - 10, 0) // 6)
    enough = _ENOUGH_GAS if strategy.spends_gas_first else _MUCH_GAS
    intents = _fill_gas(situation) if fill and situation.vespene < enough else []
    if situation.vespene > enough / 2 and situation.minerals < situation.vespene:
        return intents
    ability = _ability(f"Build_{name}")
    if situation.total(mine) >= mines or not situation.can_pay(ability):
        return intents
    for hall in situation.halls:
        x, y = situation.point(int(hall))
        for base in strategy.expansions:
            if abs(base.x - x) > 2 or abs(base.y - y) > 2:
                continue
            for geyser in base.resources:
                if not geyser.vespene or _has_mine(situation, geyser.x, geyser.y):
                    continue
                worker = situation.nearest(free_workers(situation), geyser.x, geyser.y)
                if worker < 0:
                    return intents
                situation.spend(ability)
                situation.busy.add(worker)
                tags = situation.tag(worker)
                return [*intents, _gas_intent(situation, ability, tags, geyser)]
    return intents


def _gas_intent(
    situation: Situation, ability: int, tags: tuple[int, ...], geyser: maps.Resource
) -> Intent:
    units = situation.world.units
    row = np.flatnonzero(
        (units["alive"] == 1) & (units["x"] == geyser.x) & (units["y"] == geyser.y)
    )[0]
    spot = (geyser.x, geyser.y)
    return Intent(ability, tags, target_tag=int(units["tag"][row]), where=spot)


def _has_mine(situation: Situation, x: float, y: float) -> bool:
    near = (np.abs(situation.x - x) < 1) & (np.abs(situation.y - y) < 1)
    return bool(np.any(near & (situation.unit_rules["gas_mine"][situation.types] != 0)))


def _fill_gas(situation: Situation) -> list[Intent]:
    """Sends workers into gas mines that have too few."""
    mines = np.flatnonzero(
        situation.finished
        & (situation.unit_rules["gas_mine"][situation.types] != 0)
        & (situation.own["assigned"] < situation.own["ideal"])
    )
    intents = []
    free = free_workers(situation)
    for mine in mines[:2]:
        lacking = int(situation.own["ideal"][mine] - situation.own["assigned"][mine])
        x, y = situation.point(int(mine))
        dx, dy = situation.x[free] - x, situation.y[free] - y
        nearest = free[np.argsort(dx * dx + dy * dy, kind="stable")[:lacking]]
        if len(free) < 8 or len(nearest) == 0:
            continue
        tags = situation.tags_of(nearest)
        situation.busy.update(int(worker) for worker in nearest)
        tag = int(situation.tags[mine])
        intents.append(Intent(ABILITY_GATHER, tags, target_tag=tag, where=(x, y)))
    return intents


def unfinished(situation: Situation) -> list[Intent]:
    """Sends a worker to a Terran building whose builder was killed or called away."""
    if situation.race != TERRAN:
        return []
    rule = situation.unit_rules[situation.types]
    sites = ~situation.finished & (rule["structure"] != 0) & (rule["add_on"] == 0)
    intents = []
    for site in np.flatnonzero(sites & (situation.own["engaged"] == 0))[:2]:
        x, y = situation.point(int(site))
        worker = situation.nearest(free_workers(situation), x, y)
        ability = _builder_ability(int(situation.types[site]))
        if worker < 0 or ability == 0 or not situation.can_pay(ability):
            continue
        situation.busy.add(worker)
        tags = situation.tag(worker)
        tag = int(situation.tags[site])
        intents.append(Intent(ability, tags, target_tag=tag, where=(x, y)))
    return intents


@functools.cache
def _builder_ability(unit_type: int) -> int:
    """Returns the ability that places a building of this type, 0 if there is none."""
    table = rules.ability_rules()
    abilities = np.flatnonzero(
        (table["makes"] == unit_type) & (table["kind"] == ids.KIND_BUILD)
    )
    return int(abilities[0]) if len(abilities) else 0


def idle_workers(situation: Situation) -> list[Intent]:
    """Sends idle workers to mine, and moves workers from crowded bases to others."""
    intents = []
    free = free_workers(situation)
    idle = free[situation.orders[free] == 0]
    halls = situation.halls
    lacking = situation.own["ideal"][halls] - situation.own["assigned"][halls]
    if len(halls) == 0:
        return []
    emptiest = int(halls[int(np.argmax(lacking))])
    patch = patch_near(situation, *situation.point(emptiest))
    if patch == 0:
        return []
    if len(idle):
        tags = situation.tags_of(idle[:8])
        where = situation.point(int(idle[0]))
        intents.append(Intent(ABILITY_GATHER, tags, target_tag=patch, where=where))
    fullest = int(halls[int(np.argmin(lacking))])
    if lacking.max() >= 4 and lacking.min() <= -4:
        x, y = situation.point(fullest)
        near = np.abs(situation.x[free] - x) + np.abs(situation.y[free] - y) < 14
        moving = free[near][: int(min(lacking.max(), -lacking.min()))]
        if len(moving):
            tags = situation.tags_of(moving)
            intents.append(Intent(ABILITY_GATHER, tags, target_tag=patch, where=(x, y)))
    return intents


def patch_near(situation: Situation, x: float, y: float) -> int:
    """Returns the tag of the mineral field nearest to a point, 0 if there is none near."""
    units = situation.world.units
    fields = situation.unit_rules["mineral_field"][units["unit_type"]] != 0
    dx, dy = units["x"] - x, units["y"] - y
    gaps = np.where(fields & (units["alive"] == 1), dx * dx + dy * dy, _FAR)
    nearest = int(np.argmin(gaps))
    return int(units["tag"][nearest]) if gaps[nearest] < _PATCH_RADIUS**2 else 0


def some_base(situation: Situation, dice: Dice) -> tuple[float, float]:
    """Returns the place of a base drawn from all of the map's."""
    bases = situation.game.map.bases
    base = bases[dice.below(len(bases))]
    return base.x, base.y


def tech(situation: Situation, strategy: BotStrategy, dice: Dice) -> list[Intent]:
    """Builds what the style lists, in its order, as supply allows."""
    for name, food, number in strategy.style["tech"]:
        if situation.food_used < food:
            continue
        if situation.total(rules.unit_id(name)) >= number:
            continue
        intent = _one_building(situation, strategy, name, dice)
        if intent is not None:
            return [intent]
        if situation.minerals < 150:
            return []
    return _more_production(situation, strategy, dice)


def _one_building(
    situation: Situation, strategy: BotStrategy, name: str, dice: Dice
) -> Intent | None:
    """Returns the intent for one building, add-on or morph of the strategy."""
    if name in {"Lair", "Hive"}:
        return _morph_hall(situation, name)
    for kind in ("TechLab", "Reactor"):
        if name.endswith(kind):
            return _add_on(situation, name.removesuffix(kind), kind)
    spot = _build_spot(situation, strategy, name, dice)
    return _build(situation, name, spot, dice.below(2))


def _morph_hall(situation: Situation, name: str) -> Intent | None:
    ability = _ability(f"Morph_{name}")
    source = ability_makers()[f"Morph_{name}"][0]
    halls = situation.of_type(source)
    if (
        not situation.has_tech(ability)
        or not situation.can_pay(ability)
        or len(halls) == 0
    ):
        return None
    hall = int(halls[0])
    situation.spend(ability)
    return Intent(ability, situation.tag(hall), where=situation.point(hall))


def _add_on(situation: Situation, building: str, kind: str) -> Intent | None:
    ability = _ability(f"Build_{kind}_{building}")
    hosts = situation.of_type(rules.unit_id(building))
    hosts = hosts[(situation.own["addon"][hosts] < 0) & (situation.orders[hosts] == 0)]
    if len(hosts) == 0 or not situation.can_pay(ability):
        return None
    situation.spend(ability)
    host = int(hosts[0])
    return Intent(ability, situation.tag(host), where=situation.point(host))


def _more_production(
    situation: Situation, strategy: BotStrategy, dice: Dice
) -> list[Intent]:
    """Adds production buildings and add-ons while there is money to spare."""
    for name, per_base in strategy.style["per_base"].items():
        enough = int(per_base * len(situation.halls) + 0.5)
        rich = situation.minerals > 250
        count = situation.total(rules.unit_id(name))
        if name == "Gateway":
            # A warp gate counts as a gateway too, but not while it is becoming one.
            count += int(situation.pending[rules.unit_id("WarpGate")])
        if rich and count < enough:
            intent = _one_building(situation, strategy, name, dice)
            if intent:
                return [intent]
        if situation.race == TERRAN and count and dice.chance(0.5):
            kind = "TechLab" if dice.chance(0.5) else "Reactor"
            intent = _add_on(situation, name, kind)
            if intent:
                return [intent]
    return []


def upgrades(situation: Situation, strategy: BotStrategy) -> list[Intent]:
    """Researches the upgrades that the style lists."""
    world = situation.world
    for name in strategy.style["upgrades"]:
        for ability, source in _research_steps(name):
            upgrade = int(situation.abilities[ability]["upgrade_made"])
            if world.upgrades[situation.player, upgrade]:
                continue
            if world.researching[situation.player, upgrade]:
                break
            labs = situation.of_type(*source)
            needs_power = situation.unit_rules["needs_power"][situation.types[labs]]
            is_powered = (needs_power == 0) | (situation.own["powered"][labs] == 1)
            labs = labs[is_powered & (situation.orders[labs] == 0)]
            if not len(labs) or not situation.has_tech(ability):
                break
            if situation.can_pay(ability):
                situation.spend(ability)
                return [Intent(ability, situation.tag(labs[0]))]
            has_gas = situation.vespene >= situation.abilities[ability]["vespene"]
            if strategy.spends_gas_first and has_gas:
                situation.spend(ability)  # saves minerals
            break
    return []


def _research_steps(name: str) -> list[tuple[int, tuple[int, ...]]]:
    """Returns the abilities that research an upgrade, level by level, with their buildings."""
    names = rules.ability_names()
    full = f"Research_{name}"
    keys = [full] if full in names else [f"{full}Level{level}" for level in (1, 2, 3)]
    return [(names[key], ability_makers()[key]) for key in keys]
