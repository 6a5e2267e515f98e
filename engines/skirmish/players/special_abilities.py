"""Abilities that bots use by the way: energy, stances, cloaks, transports, storms.

In: a scene. Out: at most a few intents, drawn by chance so that rarely used things are seen
in some games. Not needed to win, but what a player's observations are full of.
"""

from collections.abc import Callable

import numpy as np

from starmill.engines.skirmish.players.macro import free_workers, patch_near
from starmill.engines.skirmish.players.situation import (
    Dice,
    Intent,
    Scene,
    distance,
    mean,
)
from starmill.engines.skirmish.simulation import ids, rules

_A = rules.ability_names()
_U = rules.unit_id


def _tags(scene: Scene, indices: np.ndarray) -> tuple[int, ...]:
    return tuple(int(t) for t in scene.tags[indices])


def _engaged(scene: Scene, indices: np.ndarray) -> np.ndarray:
    """Returns those of the own units that are fighting."""
    return indices[scene.own["engaged"][indices] != 0]


def _without(scene: Scene, indices: np.ndarray, buff: int) -> np.ndarray:
    """Returns those of the own units that lack a buff."""
    buffs = scene.world.buffs["id"][scene.rows[indices]]
    slots = (
        np.arange(buffs.shape[1])[None, :] < scene.own["buff_count"][indices][:, None]
    )
    return indices[~np.any((buffs == buff) & slots, axis=1)]


def _orbital(scene: Scene, dice: Dice) -> list[Intent]:
    found = []
    barracks = scene.counts[_U("Barracks")] > 0
    halls = scene.of(_U("CommandCenter"))
    halls = halls[scene.orders[halls] == 0]
    morph = _A["Morph_OrbitalCommand"]
    if barracks and len(halls) and scene.can_pay(morph):
        fortress = _A["Morph_PlanetaryFortress"]
        third = scene.counts[_U("OrbitalCommand")] >= 2 and scene.has_tech(fortress)
        ability = fortress if third and scene.can_pay(fortress) else morph
        scene.spend(ability)
        found.append(Intent(ability, (int(scene.tags[halls[0]]),), group=4))
    orbitals = scene.of(_U("OrbitalCommand"))
    for index in orbitals[scene.own["energy"][orbitals] >= 50][:1]:
        tags = (int(scene.tags[index]),)
        where = scene.point(int(index))
        blocked = scene.food_used >= scene.food_cap - 1 and dice.chance(0.3)
        depots = _without(
            scene, scene.of(_U("SupplyDepot"), _U("SupplyDepotLowered")), 25
        )
        if scene.hidden or dice.chance(0.12):
            bases = scene.game.map.bases
            base = bases[dice.below(len(bases))]
            spot = (base.x, base.y)
            if scene.hidden and len(scene.army):
                spot = scene.point(int(scene.army[0]))
            found.append(Intent(_A["Effect_Scan"], tags, point=spot, where=spot))
        elif blocked and len(depots):
            tag = int(scene.tags[depots[0]])
            found.append(
                Intent(_A["Effect_SupplyDrop"], tags, target_tag=tag, where=where)
            )
        else:
            patch = patch_near(scene, *where)
            if patch:
                ability = _A["Effect_CalldownMULE"]
                found.append(Intent(ability, tags, target_tag=patch, where=where))
    return found


def _chrono(scene: Scene, dice: Dice) -> list[Intent]:
    del dice
    nexuses = scene.of(_U("Nexus"))
    ready = nexuses[scene.own["energy"][nexuses] >= 50]
    structures = scene.unit_rules["structure"][scene.types] != 0
    busy = np.flatnonzero(structures & scene.done & (scene.own["active"] == 1))
    busy = _without(scene, busy, ids.BUFF_CHRONO_BOOST)
    if len(ready) == 0 or len(busy) == 0:
        return []
    target = int(busy[0])
    return [
        Intent(
            _A["Effect_ChronoBoostEnergyCost"],
            (int(scene.tags[ready[0]]),),
            target_tag=int(scene.tags[target]),
            where=scene.point(target),
        )
    ]


def _queen_work(scene: Scene, dice: Dice) -> list[Intent]:
    """Injects, creep tumors and transfusions."""
    found = []
    queens = scene.of(ids.UNIT_QUEEN)
    ready = queens[scene.own["energy"][queens] >= 25]
    halls = _without(scene, scene.halls, ids.BUFF_INJECT)
    for queen in ready[:2]:
        x, y = scene.point(int(queen))
        tags = (int(scene.tags[queen]),)
        hall = scene.nearest(halls, x, y)
        if hall >= 0 and not dice.chance(0.2):
            tag = int(scene.tags[hall])
            found.append(
                Intent(_A["Effect_InjectLarva"], tags, target_tag=tag, where=(x, y))
            )
            halls = halls[halls != hall]
        else:
            spot = (x + dice.below(9) - 4.0, y + dice.below(9) - 4.0)
            found.append(Intent(3691, tags, point=spot, where=spot))
    tumors = scene.of(ids.UNIT_CREEP_TUMOR_BURROWED)
    fresh = tumors[scene.own["wait"][tumors] == 0]
    if len(fresh) and dice.chance(0.5):
        tumor = int(fresh[0])
        x, y = scene.point(tumor)
        spot = (x + dice.below(15) - 7.0, y + dice.below(15) - 7.0)
        found.append(Intent(3691, (int(scene.tags[tumor]),), point=spot, where=spot))
    return found


def _terran_fight(scene: Scene, dice: Dice) -> list[Intent]:
    """Stim, siege, cloak, turrets, afterburners."""
    found = []
    bio = _engaged(scene, scene.of(_U("Marine"), _U("Marauder")))
    if len(bio) >= 4 and scene.world.upgrades[scene.player, 15]:
        fit = bio[scene.own["health"][bio] > 30]
        fit = _without(scene, _without(scene, fit, 27), 24)
        if len(fit) >= 3:
            found.append(Intent(3675, _tags(scene, fit)))
    tanks = _engaged(scene, scene.of(_U("SiegeTank")))
    if len(tanks):
        found.append(Intent(_A["Morph_SiegeMode"], _tags(scene, tanks)))
    sieged = scene.of(_U("SiegeTankSieged"))
    calm = sieged[scene.own["engaged"][sieged] == 0]
    if len(calm) and dice.chance(0.5):
        found.append(Intent(_A["Morph_Unsiege"], _tags(scene, calm)))
    banshees = scene.of(_U("Banshee"))
    if len(banshees) and scene.world.upgrades[scene.player, 20]:
        bold = banshees[(scene.own["cloaked"][banshees] == 0)]
        bold = bold[scene.own["energy"][bold] > 60]
        fighting = _engaged(scene, bold)
        if len(fighting):
            found.append(Intent(3676, _tags(scene, fighting)))
        hidden = banshees[scene.own["cloaked"][banshees] == 1]
        calm = hidden[scene.own["engaged"][hidden] == 0]
        if len(calm) and dice.chance(0.3):
            found.append(Intent(3677, _tags(scene, calm)))
    ravens = scene.of(_U("Raven"))
    ravens = ravens[scene.own["energy"][ravens] >= 50]
    if len(ravens) and len(scene.enemies):
        spot = (float(scene.enemies["x"][0]), float(scene.enemies["y"][0]))
        found.append(
            Intent(1764, (int(scene.tags[ravens[0]]),), point=spot, where=spot)
        )
    return found


def _terran_chores(scene: Scene, dice: Dice) -> list[Intent]:
    """Bunkers, depots, medivacs, vikings, a barracks that moves, repairs."""
    found = []
    bunkers = scene.of(ids.UNIT_BUNKER)
    room = bunkers[scene.own["cargo_used"][bunkers] < 4]
    marines = scene.of(_U("Marine"))
    if len(room) and len(marines) > 5:
        bunker = int(room[0])
        soldier = scene.nearest(marines, *scene.point(bunker))
        tag = int(scene.tags[soldier])
        found.append(Intent(3668, (int(scene.tags[bunker]),), target_tag=tag))
    depots = scene.of(_U("SupplyDepot"))
    if len(depots) and dice.chance(0.25):
        found.append(Intent(_A["Morph_SupplyDepot_Lower"], _tags(scene, depots[:6])))
    medivacs = scene.of(ids.UNIT_MEDIVAC)
    empty = medivacs[scene.own["cargo_used"][medivacs] == 0]
    loaded = medivacs[scene.own["cargo_used"][medivacs] >= 4]
    if len(loaded):
        carrier = int(loaded[0])
        spot = scene.point(carrier)
        found.append(Intent(3669, (int(scene.tags[carrier]),), point=spot, where=spot))
    elif len(empty) and len(marines) > 8 and dice.chance(0.08):
        carrier = int(empty[0])
        near = marines[:6]
        tag = int(scene.tags[carrier])
        found.append(Intent(1, _tags(scene, near), target_tag=tag))
    if len(medivacs) and dice.chance(0.05):
        found.append(
            Intent(_A["Effect_MedivacIgniteAfterburners"], _tags(scene, medivacs))
        )
    hurt = np.flatnonzero(
        scene.done
        & (scene.unit_rules["structure"][scene.types] != 0)
        & (scene.own["health"] < 0.8 * scene.own["health_max"])
    )
    if len(hurt) and len(scene.workers) > 6:
        target = int(hurt[0])
        worker = scene.nearest(free_workers(scene), *scene.point(target))
        tag = int(scene.tags[target])
        if worker >= 0:
            found.append(Intent(3685, (int(scene.tags[worker]),), target_tag=tag))
    vikings = scene.of(_U("VikingFighter"))
    air = scene.enemies["flying"] == 1
    calm = vikings[scene.own["engaged"][vikings] == 0]
    if len(calm) and len(scene.enemies) > 3 and not np.any(air):
        found.append(Intent(_A["Morph_VikingAssaultMode"], _tags(scene, calm)))
    landed = scene.of(_U("VikingAssault"))
    if len(landed) and (np.any(air) or dice.chance(0.05)):
        found.append(Intent(_A["Morph_VikingFighterMode"], _tags(scene, landed)))
    return found


def _storm(scene: Scene, templars: np.ndarray) -> list[Intent]:
    """Casts a storm where at least four enemies stand together."""
    enemies = scene.enemies
    ready = templars[scene.own["energy"][templars] >= 75]
    soft = np.flatnonzero(scene.unit_rules["structure"][enemies["unit_type"]] == 0)
    if len(ready) == 0 or len(soft) == 0:
        return []
    x, y = enemies["x"][soft], enemies["y"][soft]
    gaps = np.abs(x[:, None] - x[None, :]) + np.abs(y[:, None] - y[None, :])
    crowd = (gaps < 3).sum(axis=1)
    best = int(np.argmax(crowd))
    if crowd[best] < 4:
        return []
    spot = (float(x[best]), float(y[best]))
    tags = (int(scene.tags[scene.nearest(ready, *spot)]),)
    return [Intent(1036, tags, point=spot, where=spot)]


def _protoss_fight(scene: Scene, dice: Dice) -> list[Intent]:
    """Guardian shields, hallucinations, storms, blink, void rays, archons."""
    found = []
    sentries = scene.of(_U("Sentry"))
    rich = sentries[scene.own["energy"][sentries] >= 75]
    if len(rich):
        caster = (int(scene.tags[rich[0]]),)
        if len(_engaged(scene, rich)):
            found.append(Intent(_A["Effect_GuardianShield"], caster))
        elif dice.chance(0.1):
            names = ("Phoenix", "Stalker", "Zealot", "Immortal", "VoidRay", "Archon")
            name = names[dice.below(len(names))]
            found.append(Intent(_A[f"Hallucination_{name}"], caster))
    enemies = scene.enemies
    templars = scene.of(_U("HighTemplar"))
    if len(templars) and len(enemies) and scene.world.upgrades[scene.player, 52]:
        found += _storm(scene, templars)
    spent = templars[scene.own["energy"][templars] < 40]
    if len(spent) >= 2:
        found.append(Intent(_A["Morph_Archon"], _tags(scene, spent[:2])))
    stalkers = _engaged(scene, scene.of(_U("Stalker")))
    if len(stalkers) and scene.world.upgrades[scene.player, 87]:
        weak = stalkers[scene.own["shield"][stalkers] < 5]
        weak = weak[scene.own["wait"][weak] <= scene.loop]
        if len(weak) and len(enemies):
            x, y = scene.point(int(weak[0]))
            ex, ey = mean(enemies["x"]), mean(enemies["y"])
            length = max(distance(x - ex, y - ey), 1.0)
            spot = (x + (x - ex) / length * 7, y + (y - ey) / length * 7)
            found.append(Intent(3687, (int(scene.tags[weak[0]]),), point=spot))
    rays = _engaged(scene, scene.of(_U("VoidRay")))
    if len(rays):
        found.append(Intent(_A["Effect_VoidRayPrismaticAlignment"], _tags(scene, rays)))
    return found


def _protoss_chores(scene: Scene, dice: Dice) -> list[Intent]:
    """Warp prisms that carry or phase."""
    found = []
    prisms = scene.of(_U("WarpPrism"))
    if len(prisms) and dice.chance(0.2):
        prism = int(prisms[0])
        tags = (int(scene.tags[prism]),)
        if scene.own["cargo_used"][prism] > 0:
            found.append(Intent(3669, tags, point=scene.point(prism)))
        elif dice.chance(0.5):
            found.append(Intent(_A["Morph_WarpPrismPhasingMode"], tags))
        else:
            walkers = scene.of(_U("Zealot"), _U("Stalker"))
            if len(walkers):
                tag = int(scene.tags[scene.nearest(walkers, *scene.point(prism))])
                found.append(Intent(3668, tags, target_tag=tag))
    phasing = scene.of(_U("WarpPrismPhasing"))
    if len(phasing) and dice.chance(0.2):
        found.append(Intent(_A["Morph_WarpPrismTransportMode"], _tags(scene, phasing)))
    return found


def _zerg_fight(scene: Scene, dice: Dice) -> list[Intent]:
    """Biles, burrowing, changelings, transfusions."""
    found = []
    enemies = scene.enemies
    ravagers = scene.of(_U("Ravager"))
    ready = ravagers[scene.own["wait"][ravagers] <= scene.loop]
    if len(ready) and len(enemies):
        x, y = scene.point(int(ready[0]))
        dx, dy = enemies["x"] - x, enemies["y"] - y
        near = int(np.argmin(dx * dx + dy * dy))
        if dx[near] ** 2 + dy[near] ** 2 < 120:
            spot = (float(enemies["x"][near]), float(enemies["y"][near]))
            found.append(
                Intent(2338, (int(scene.tags[ready[0]]),), point=spot, where=spot)
            )
    if scene.world.upgrades[scene.player, 64]:
        roaches = scene.of(_U("Roach"))
        weak = roaches[scene.own["health"][roaches] < 50]
        if len(weak):
            found.append(Intent(3661, _tags(scene, weak)))
        under = scene.of(_U("RoachBurrowed"), _U("ZerglingBurrowed"))
        healed = under[
            scene.own["health"][under] > 0.9 * scene.own["health_max"][under]
        ]
        if len(healed):
            found.append(Intent(3662, _tags(scene, healed)))
        lings = scene.of(_U("Zergling"))
        if len(lings) > 6 and dice.chance(0.02):
            found.append(Intent(3661, (int(scene.tags[lings[0]]),)))
    return found


def _zerg_chores(scene: Scene, dice: Dice) -> list[Intent]:
    """Overlords that scout, watch and carry; overseers; changelings; transfusions."""
    found = []
    overlords = scene.of(ids.UNIT_OVERLORD)
    idle = overlords[scene.orders[overlords] == 0]
    if len(idle) and dice.chance(0.08):
        bases = scene.game.map.bases
        base = bases[dice.below(len(bases))]
        found.append(Intent(3794, (int(scene.tags[idle[0]]),), point=(base.x, base.y)))
    if scene.counts[_U("Lair")] and len(overlords) > 3:
        overseer, transport = _A["Morph_Overseer"], _A["Morph_OverlordTransport"]
        few = scene.total(_U("Overseer")) < 2
        if few and scene.can_pay(overseer) and dice.chance(0.5):
            scene.spend(overseer)
            found.append(Intent(overseer, (int(scene.tags[overlords[-1]]),)))
        elif scene.total(_U("OverlordTransport")) < 1 and scene.can_pay(transport):
            scene.spend(transport)
            found.append(Intent(transport, (int(scene.tags[overlords[0]]),)))
    carriers = scene.of(_U("OverlordTransport"))
    if len(carriers) and dice.chance(0.2):
        carrier = int(carriers[0])
        tags = (int(scene.tags[carrier]),)
        lings = scene.of(_U("Zergling"), _U("Roach"))
        if scene.own["cargo_used"][carrier]:
            found.append(Intent(3669, tags, point=scene.point(carrier)))
        elif len(lings):
            tag = int(scene.tags[scene.nearest(lings, *scene.point(carrier))])
            found.append(Intent(3668, tags, target_tag=tag))
    overseers = scene.of(_U("Overseer"))
    rich = overseers[scene.own["energy"][overseers] >= 50]
    if len(rich) and dice.chance(0.2):
        found.append(Intent(181, (int(scene.tags[rich[0]]),)))
    queens = scene.of(ids.UNIT_QUEEN)
    ready = queens[scene.own["energy"][queens] >= 50]
    hurt = queens[scene.own["health"][queens] < 60]
    if len(ready) and len(hurt) and hurt[0] != ready[0]:
        tag = int(scene.tags[hurt[0]])
        found.append(Intent(1664, (int(scene.tags[ready[0]]),), target_tag=tag))
    return found


def _scout(scene: Scene, dice: Dice) -> list[Intent]:
    """Sends a worker around some bases, and home again: orders one after the other."""
    rarely = scene.loop > 1200 and len(scene.workers) > 14 and dice.chance(0.02)
    free = free_workers(scene)
    if not rarely or len(scene.halls) == 0 or len(free) == 0:
        return []
    patch = patch_near(scene, *scene.point(int(scene.halls[0])))
    tags = (int(scene.tags[free[dice.below(len(free))]]),)
    bases = scene.game.map.bases
    tour = [bases[dice.below(len(bases))] for _ in range(4)]
    found = [
        Intent(3794, tags, point=(base.x, base.y), queued=index > 0)
        for index, base in enumerate(tour)
    ]
    if patch:
        found.append(Intent(3666, tags, target_tag=patch, queued=True))
    return found


_ROUTINE: dict[int, Callable[[Scene, Dice], list[Intent]]] = {
    1: _orbital,
    2: _queen_work,
    3: _chrono,
}
_CHORES: dict[int, Callable[[Scene, Dice], list[Intent]]] = {
    1: _terran_chores,
    2: _zerg_chores,
    3: _protoss_chores,
}
_FIGHT: dict[int, Callable[[Scene, Dice], list[Intent]]] = {
    1: _terran_fight,
    2: _zerg_fight,
    3: _protoss_fight,
}


def energy(scene: Scene, dice: Dice) -> list[Intent]:
    """Spends the energy of town halls and queens, which is part of the economy."""
    return _ROUTINE[scene.race](scene, dice)


def chores(scene: Scene, dice: Dice) -> list[Intent]:
    """Does what has nothing to do with winning today."""
    return [*_scout(scene, dice), *_CHORES[scene.race](scene, dice)]


def fight(scene: Scene, dice: Dice) -> list[Intent]:
    """Uses abilities of the army in battle."""
    return _FIGHT[scene.race](scene, dice)
