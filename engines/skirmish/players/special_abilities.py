"""Special abilities of town halls, queens and armies: energy, stances, cloaks, storms.

In: a situation and dice. Out: a few intents at most, some of them drawn by chance, so that rare
abilities occur in some games. Bots win without most of them, but the observations of real players
are full of them. Must not know: strategies.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.intents import (
    ABILITY_BLINK,
    ABILITY_BURROW_DOWN,
    ABILITY_BURROW_UP,
    ABILITY_CLOAK_OFF,
    ABILITY_CLOAK_ON,
    ABILITY_CREEP_TUMOR,
    ABILITY_STIM,
    GROUP_HALLS,
    Intent,
)
from starmill.engines.skirmish.players.macro import patch_near, some_base
from starmill.engines.skirmish.players.situation import Situation, distance, mean
from starmill.engines.skirmish.simulation import (
    action_results,
    entry_points,
    ids,
    rules,
)
from starmill.schema.game_constants import PROTOSS, TERRAN, ZERG

Indices = NDArray[np.int64]

_ABILITIES = rules.ability_names()
_UPGRADE_STIM = rules.upgrade_id("Stimpack")
_UPGRADE_CLOAK = rules.upgrade_id("CloakingField")
_UPGRADE_STORM = rules.upgrade_id("PsiStorm")
_UPGRADE_BLINK = rules.upgrade_id("Blink")
_UPGRADE_BURROW = rules.upgrade_id("Burrow")
# Energy that a unit needs for an ability.
_ORBITAL_ENERGY = 50
_CHRONO_ENERGY = 50
_QUEEN_ENERGY = 25
_TURRET_ENERGY = 50
_STORM_ENERGY = 75
_SENTRY_ENERGY = 75
_BILE_RANGE_SQUARED = 120
_HALLUCINATIONS = ("Phoenix", "Stalker", "Zealot", "Immortal", "VoidRay", "Archon")


# Energy of town halls and queens


def _terran_energy(situation: Situation, dice: Dice, has_time: bool) -> list[Intent]:
    """Turns command centers into orbital commands and fortresses; scans, drops and MULEs."""
    del has_time
    intents = _orbital_morph(situation)
    orbitals = situation.named("OrbitalCommand")
    for index in situation.with_energy(orbitals, _ORBITAL_ENERGY)[:1]:
        intents += _orbital_spell(situation, int(index), dice)
    return intents


def _orbital_morph(situation: Situation) -> list[Intent]:
    has_barracks = situation.counts[rules.unit_id("Barracks")] > 0
    halls = situation.named("CommandCenter")
    halls = halls[situation.orders[halls] == 0]
    orbital = _ABILITIES["Morph_OrbitalCommand"]
    if not has_barracks or not len(halls) or not situation.can_pay(orbital):
        return []
    fortress = _ABILITIES["Morph_PlanetaryFortress"]
    is_third = situation.counts[rules.unit_id("OrbitalCommand")] >= 2
    is_fortress = (
        is_third and situation.has_tech(fortress) and situation.can_pay(fortress)
    )
    ability = fortress if is_fortress else orbital
    situation.spend(ability)
    return [Intent(ability, situation.tag(halls[0]), group=GROUP_HALLS)]


def _orbital_spell(situation: Situation, orbital: int, dice: Dice) -> list[Intent]:
    """Returns a scan, a supply drop or a MULE, whichever is needed most."""
    tags = situation.tag(orbital)
    where = situation.point(orbital)
    needs_supply = situation.food_used >= situation.food_cap - 1 and dice.chance(0.3)
    depots = situation.named("SupplyDepot", "SupplyDepotLowered")
    depots = situation.without_buff(depots, ids.BUFF_SUPPLY_DROP)
    if situation.has_hidden_enemies or dice.chance(0.12):
        spot = some_base(situation, dice)
        if situation.has_hidden_enemies and len(situation.army):
            spot = situation.point(int(situation.army[0]))
        return [Intent(_ABILITIES["Effect_Scan"], tags, point=spot, where=spot)]
    if needs_supply and len(depots):
        ability = _ABILITIES["Effect_SupplyDrop"]
        tag = int(situation.tags[depots[0]])
        return [Intent(ability, tags, target_tag=tag, where=where)]
    patch = patch_near(situation, *where)
    if not patch:
        return []
    ability = _ABILITIES["Effect_CalldownMULE"]
    return [Intent(ability, tags, target_tag=patch, where=where)]


def _protoss_energy(situation: Situation, dice: Dice, has_time: bool) -> list[Intent]:
    """Speeds up a busy building."""
    del dice
    ready = situation.with_energy(situation.named("Nexus"), _CHRONO_ENERGY)
    structures = situation.unit_rules["structure"][situation.types] != 0
    busy = np.flatnonzero(
        structures & situation.finished & (situation.own["active"] == 1)
    )
    busy = situation.without_buff(busy, ids.BUFF_CHRONO_BOOST)
    if len(ready) == 0 or len(busy) == 0 or not has_time:
        return []
    target = int(busy[0])
    return [
        Intent(
            _ABILITIES["Effect_ChronoBoostEnergyCost"],
            situation.tag(ready[0]),
            target_tag=int(situation.tags[target]),
            where=situation.point(target),
        )
    ]


def _zerg_energy(situation: Situation, dice: Dice, has_time: bool) -> list[Intent]:
    """Injects larvae and spreads creep tumors."""
    intents = []
    queens = situation.with_energy(situation.of_type(ids.UNIT_QUEEN), _QUEEN_ENERGY)
    halls = situation.without_buff(situation.halls, ids.BUFF_INJECT)
    for queen in queens[:2]:
        x, y = situation.point(int(queen))
        tags = situation.tag(queen)
        hall = situation.nearest(halls, x, y)
        if hall >= 0 and not dice.chance(0.2):
            ability = _ABILITIES["Effect_InjectLarva"]
            tag = int(situation.tags[hall])
            intents.append(Intent(ability, tags, target_tag=tag, where=(x, y)))
            halls = halls[halls != hall]
        elif has_time:
            spot = (x + dice.below(9) - 4.0, y + dice.below(9) - 4.0)
            if _takes_tumor(situation, spot):
                intents.append(
                    Intent(ABILITY_CREEP_TUMOR, tags, point=spot, where=spot)
                )
    tumors = situation.of_type(ids.UNIT_CREEP_TUMOR_BURROWED)
    fresh = tumors[situation.own["wait"][tumors] == 0]
    if has_time and len(fresh) and dice.chance(0.5):
        tumor = int(fresh[0])
        x, y = situation.point(tumor)
        spot = (x + dice.below(15) - 7.0, y + dice.below(15) - 7.0)
        tags = situation.tag(tumor)
        if _takes_tumor(situation, spot):
            intents.append(Intent(ABILITY_CREEP_TUMOR, tags, point=spot, where=spot))
    return intents


def _takes_tumor(situation: Situation, spot: tuple[float, float]) -> bool:
    """Returns whether a creep tumor can be placed at a point."""
    result = entry_points.placement_error(
        situation.world.state, situation.player, ids.UNIT_CREEP_TUMOR, *spot
    )
    return bool(result == action_results.SUCCESS)


# Abilities of the army in battle


def _terran_fight(situation: Situation, dice: Dice) -> list[Intent]:
    """Uses stimpacks, siege mode, cloaks and turrets."""
    return [
        *_stim(situation),
        *_sieges(situation, dice),
        *_cloaks(situation, dice),
        *_turrets(situation),
    ]


def _stim(situation: Situation) -> list[Intent]:
    infantry = situation.engaged(situation.named("Marine", "Marauder"))
    if len(infantry) < 4 or not situation.has_upgrade(_UPGRADE_STIM):
        return []
    fit = infantry[situation.own["health"][infantry] > 30]
    fit = situation.without_buff(fit, ids.BUFF_STIM)
    fit = situation.without_buff(fit, ids.BUFF_STIM_MARAUDER)
    return [Intent(ABILITY_STIM, situation.tags_of(fit))] if len(fit) >= 3 else []


def _sieges(situation: Situation, dice: Dice) -> list[Intent]:
    intents = []
    tanks = situation.engaged(situation.named("SiegeTank"))
    if len(tanks):
        siege = _ABILITIES["Morph_SiegeMode"]
        intents.append(Intent(siege, situation.tags_of(tanks)))
    calm = situation.calm(situation.named("SiegeTankSieged"))
    if len(calm) and dice.chance(0.5):
        unsiege = _ABILITIES["Morph_Unsiege"]
        intents.append(Intent(unsiege, situation.tags_of(calm)))
    return intents


def _cloaks(situation: Situation, dice: Dice) -> list[Intent]:
    intents = []
    banshees = situation.named("Banshee")
    if not len(banshees) or not situation.has_upgrade(_UPGRADE_CLOAK):
        return []
    visible = banshees[situation.own["cloaked"][banshees] == 0]
    visible = visible[situation.own["energy"][visible] > 60]
    fighting = situation.engaged(visible)
    if len(fighting):
        intents.append(Intent(ABILITY_CLOAK_ON, situation.tags_of(fighting)))
    cloaked = banshees[situation.own["cloaked"][banshees] == 1]
    calm = situation.calm(cloaked)
    if len(calm) and dice.chance(0.3):
        intents.append(Intent(ABILITY_CLOAK_OFF, situation.tags_of(calm)))
    return intents


def _turrets(situation: Situation) -> list[Intent]:
    ravens = situation.with_energy(situation.named("Raven"), _TURRET_ENERGY)
    enemies = situation.enemies
    if not len(ravens) or not len(enemies):
        return []
    spot = (float(enemies["x"][0]), float(enemies["y"][0]))
    ability = _ABILITIES["Effect_AutoTurret"]
    return [Intent(ability, situation.tag(ravens[0]), point=spot, where=spot)]


def _protoss_fight(situation: Situation, dice: Dice) -> list[Intent]:
    """Uses guardian shields, hallucinations, storms, archons, blink and void rays."""
    return [
        *_sentries(situation, dice),
        *_templars(situation),
        *_blink(situation),
        *_void_rays(situation),
    ]


def _sentries(situation: Situation, dice: Dice) -> list[Intent]:
    ready = situation.with_energy(situation.named("Sentry"), _SENTRY_ENERGY)
    if not len(ready):
        return []
    caster = situation.tag(ready[0])
    if len(situation.engaged(ready)):
        return [Intent(_ABILITIES["Effect_GuardianShield"], caster)]
    if dice.chance(0.1):
        name = _HALLUCINATIONS[dice.below(len(_HALLUCINATIONS))]
        return [Intent(_ABILITIES[f"Hallucination_{name}"], caster)]
    return []


def _templars(situation: Situation) -> list[Intent]:
    intents = []
    templars = situation.named("HighTemplar")
    can_storm = len(templars) and len(situation.enemies)
    if can_storm and situation.has_upgrade(_UPGRADE_STORM):
        intents += _storm(situation, templars)
    spent = templars[situation.own["energy"][templars] < 40]
    if len(spent) >= 2:
        tags = situation.tags_of(spent[:2])
        intents.append(Intent(_ABILITIES["Morph_Archon"], tags))
    return intents


def _storm(situation: Situation, templars: Indices) -> list[Intent]:
    """Casts a storm where at least four enemies stand together."""
    enemies = situation.enemies
    ready = situation.with_energy(templars, _STORM_ENERGY)
    is_structure = situation.unit_rules["structure"][enemies["unit_type"]] != 0
    targets = np.flatnonzero(~is_structure)
    if len(ready) == 0 or len(targets) == 0:
        return []
    x, y = enemies["x"][targets], enemies["y"][targets]
    gaps = np.abs(x[:, None] - x[None, :]) + np.abs(y[:, None] - y[None, :])
    crowd = (gaps < 3).sum(axis=1)
    middle = int(np.argmax(crowd))
    if crowd[middle] < 4:
        return []
    spot = (float(x[middle]), float(y[middle]))
    tags = situation.tag(situation.nearest(ready, *spot))
    return [Intent(_ABILITIES["Effect_PsiStorm"], tags, point=spot, where=spot)]


def _blink(situation: Situation) -> list[Intent]:
    """Lets a stalker without shields blink away from the enemies."""
    stalkers = situation.engaged(situation.named("Stalker"))
    enemies = situation.enemies
    if not len(stalkers) or not situation.has_upgrade(_UPGRADE_BLINK):
        return []
    weak = stalkers[situation.own["shield"][stalkers] < 5]
    weak = weak[situation.own["wait"][weak] <= situation.loop]
    if not len(weak) or not len(enemies):
        return []
    x, y = situation.point(int(weak[0]))
    enemy_x, enemy_y = mean(enemies["x"]), mean(enemies["y"])
    length = max(distance(x - enemy_x, y - enemy_y), 1.0)
    spot = (x + (x - enemy_x) / length * 7, y + (y - enemy_y) / length * 7)
    return [Intent(ABILITY_BLINK, situation.tag(weak[0]), point=spot)]


def _void_rays(situation: Situation) -> list[Intent]:
    rays = situation.engaged(situation.named("VoidRay"))
    rays = rays[situation.own["wait"][rays] <= situation.loop]
    if not len(rays):
        return []
    ability = _ABILITIES["Effect_VoidRayPrismaticAlignment"]
    return [Intent(ability, situation.tags_of(rays))]


def _zerg_fight(situation: Situation, dice: Dice) -> list[Intent]:
    """Uses corrosive bile, and burrows weak roaches."""
    return [*_bile(situation), *_burrow(situation, dice)]


def _bile(situation: Situation) -> list[Intent]:
    enemies = situation.enemies
    ravagers = situation.named("Ravager")
    ready = ravagers[situation.own["wait"][ravagers] <= situation.loop]
    if not len(ready) or not len(enemies):
        return []
    x, y = situation.point(int(ready[0]))
    dx, dy = enemies["x"] - x, enemies["y"] - y
    nearest = int(np.argmin(dx * dx + dy * dy))
    if dx[nearest] ** 2 + dy[nearest] ** 2 >= _BILE_RANGE_SQUARED:
        return []
    spot = (float(enemies["x"][nearest]), float(enemies["y"][nearest]))
    ability = _ABILITIES["Effect_CorrosiveBile"]
    return [Intent(ability, situation.tag(ready[0]), point=spot, where=spot)]


def _burrow(situation: Situation, dice: Dice) -> list[Intent]:
    intents = []
    if not situation.has_upgrade(_UPGRADE_BURROW):
        return []
    roaches = situation.named("Roach")
    weak = roaches[situation.own["health"][roaches] < 50]
    if len(weak):
        intents.append(Intent(ABILITY_BURROW_DOWN, situation.tags_of(weak)))
    burrowed = situation.named("RoachBurrowed", "ZerglingBurrowed")
    health = situation.own["health"][burrowed]
    healed = burrowed[health > 0.9 * situation.own["health_max"][burrowed]]
    if len(healed):
        intents.append(Intent(ABILITY_BURROW_UP, situation.tags_of(healed)))
    zerglings = situation.named("Zergling")
    if len(zerglings) > 6 and dice.chance(0.02):
        intents.append(Intent(ABILITY_BURROW_DOWN, situation.tag(zerglings[0])))
    return intents


_ENERGY: dict[int, Callable[[Situation, Dice, bool], list[Intent]]] = {
    TERRAN: _terran_energy,
    ZERG: _zerg_energy,
    PROTOSS: _protoss_energy,
}
_FIGHT: dict[int, Callable[[Situation, Dice], list[Intent]]] = {
    TERRAN: _terran_fight,
    ZERG: _zerg_fight,
    PROTOSS: _protoss_fight,
}


def energy(situation: Situation, dice: Dice, has_time: bool = True) -> list[Intent]:
    """Spends the energy of town halls and queens, which is part of the economy.

    has_time: whether to do what can wait, too: spreading creep and chrono boost.
    """
    return _ENERGY[situation.race](situation, dice, has_time)


def fight(situation: Situation, dice: Dice) -> list[Intent]:
    """Uses abilities of the army in battle."""
    return _FIGHT[situation.race](situation, dice)
