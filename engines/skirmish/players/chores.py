"""Chores: what bots do occasionally that hardly affects the result.

In: a situation and dice. Out: intents that scout, carry, repair and change shape, most of them
drawn by chance. They make rare abilities occur in the replays. Must not know: strategies or the
army's front.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.intents import (
    ABILITY_GATHER,
    ABILITY_LOAD,
    ABILITY_MOVE,
    ABILITY_REPAIR,
    ABILITY_SMART,
    ABILITY_UNLOAD_ALL_AT,
    Intent,
)
from starmill.engines.skirmish.players.macro import free_workers, patch_near, some_base
from starmill.engines.skirmish.players.situation import Situation
from starmill.engines.skirmish.simulation import ids, rules
from starmill.schema.game_constants import PROTOSS, TERRAN, ZERG

Indices = NDArray[np.int64]

_ABILITIES = rules.ability_names()
# Energy that a unit needs for an ability.
_TRANSFUSION_ENERGY = 50
_CHANGELING_ENERGY = 50


def _terran_chores(situation: Situation, dice: Dice) -> list[Intent]:
    """Uses bunkers, supply depots, medivacs, repairs and vikings."""
    marines = situation.named("Marine")
    return [
        *_fill_bunker(situation, marines),
        *_lower_depots(situation, dice),
        *_medivacs(situation, marines, dice),
        *_repair(situation),
        *_vikings(situation, dice),
    ]


def _fill_bunker(situation: Situation, marines: Indices) -> list[Intent]:
    bunkers = situation.of_type(ids.UNIT_BUNKER)
    with_room = bunkers[situation.own["cargo_used"][bunkers] < 4]
    if not len(with_room) or len(marines) <= 5:
        return []
    bunker = int(with_room[0])
    marine = situation.nearest(marines, *situation.point(bunker))
    tag = int(situation.tags[marine])
    return [Intent(ABILITY_LOAD, situation.tag(bunker), target_tag=tag)]


def _lower_depots(situation: Situation, dice: Dice) -> list[Intent]:
    depots = situation.named("SupplyDepot")
    if not len(depots) or not dice.chance(0.25):
        return []
    ability = _ABILITIES["Morph_SupplyDepot_Lower"]
    return [Intent(ability, situation.tags_of(depots[:6]))]


def _medivacs(situation: Situation, marines: Indices, dice: Dice) -> list[Intent]:
    """Loads marines into a medivac or unloads them, and speeds medivacs up."""
    intents = []
    medivacs = situation.of_type(ids.UNIT_MEDIVAC)
    cargo = situation.own["cargo_used"][medivacs]
    empty, loaded = medivacs[cargo == 0], medivacs[cargo >= 4]
    if len(loaded):
        spot = situation.point(int(loaded[0]))
        tags = situation.tag(loaded[0])
        intents.append(Intent(ABILITY_UNLOAD_ALL_AT, tags, point=spot, where=spot))
    elif len(empty) and len(marines) > 8 and dice.chance(0.08):
        tags = situation.tags_of(marines[:6])
        tag = int(situation.tags[empty[0]])
        intents.append(Intent(ABILITY_SMART, tags, target_tag=tag))
    if len(medivacs) and dice.chance(0.05):
        ability = _ABILITIES["Effect_MedivacIgniteAfterburners"]
        intents.append(Intent(ability, situation.tags_of(medivacs)))
    return intents


def _repair(situation: Situation) -> list[Intent]:
    damaged = np.flatnonzero(
        situation.finished
        & (situation.unit_rules["structure"][situation.types] != 0)
        & (situation.own["health"] < 0.8 * situation.own["health_max"])
    )
    if not len(damaged) or len(situation.workers) <= 6:
        return []
    target = int(damaged[0])
    worker = situation.nearest(free_workers(situation), *situation.point(target))
    if worker < 0:
        return []
    tag = int(situation.tags[target])
    return [Intent(ABILITY_REPAIR, situation.tag(worker), target_tag=tag)]


def _vikings(situation: Situation, dice: Dice) -> list[Intent]:
    """Lands vikings when the enemy has no flyers, and lifts them off otherwise."""
    intents = []
    has_flyers = bool(np.any(situation.enemies["flying"] == 1))
    calm = situation.calm(situation.named("VikingFighter"))
    if len(calm) and len(situation.enemies) > 3 and not has_flyers:
        ability = _ABILITIES["Morph_VikingAssaultMode"]
        intents.append(Intent(ability, situation.tags_of(calm)))
    landed = situation.named("VikingAssault")
    if len(landed) and (has_flyers or dice.chance(0.05)):
        ability = _ABILITIES["Morph_VikingFighterMode"]
        intents.append(Intent(ability, situation.tags_of(landed)))
    return intents


def _protoss_chores(situation: Situation, dice: Dice) -> list[Intent]:
    """Uses warp prisms as transports and in phasing mode."""
    intents = []
    prisms = situation.named("WarpPrism")
    if len(prisms) and dice.chance(0.2):
        prism = int(prisms[0])
        tags = situation.tag(prism)
        if situation.own["cargo_used"][prism] > 0:
            spot = situation.point(prism)
            intents.append(Intent(ABILITY_UNLOAD_ALL_AT, tags, point=spot))
        elif dice.chance(0.5):
            intents.append(Intent(_ABILITIES["Morph_WarpPrismPhasingMode"], tags))
        else:
            intents += _load(situation, prism, "Zealot", "Stalker")
    phasing = situation.named("WarpPrismPhasing")
    if len(phasing) and dice.chance(0.2):
        ability = _ABILITIES["Morph_WarpPrismTransportMode"]
        intents.append(Intent(ability, situation.tags_of(phasing)))
    return intents


def _load(situation: Situation, carrier: int, *names: str) -> list[Intent]:
    """Loads the nearest unit of these names into a transport."""
    passengers = situation.named(*names)
    if not len(passengers):
        return []
    passenger = situation.nearest(passengers, *situation.point(carrier))
    tag = int(situation.tags[passenger])
    return [Intent(ABILITY_LOAD, situation.tag(carrier), target_tag=tag)]


def _zerg_chores(situation: Situation, dice: Dice) -> list[Intent]:
    """Uses overlords as scouts and transports, overseers, changelings and transfusions."""
    overlords = situation.of_type(ids.UNIT_OVERLORD)
    return [
        *_scouting_overlord(situation, overlords, dice),
        *_overlord_morph(situation, overlords, dice),
        *_overlord_transport(situation, dice),
        *_changeling(situation, dice),
        *_transfusion(situation),
    ]


def _scouting_overlord(
    situation: Situation, overlords: Indices, dice: Dice
) -> list[Intent]:
    idle = overlords[situation.orders[overlords] == 0]
    if not len(idle) or not dice.chance(0.08):
        return []
    base = some_base(situation, dice)
    return [Intent(ABILITY_MOVE, situation.tag(idle[0]), point=base)]


def _overlord_morph(
    situation: Situation, overlords: Indices, dice: Dice
) -> list[Intent]:
    """Turns overlords into two overseers and a transport."""
    if not situation.counts[rules.unit_id("Lair")] or len(overlords) <= 3:
        return []
    overseer = _ABILITIES["Morph_Overseer"]
    transport = _ABILITIES["Morph_OverlordTransport"]
    few_overseers = situation.total(rules.unit_id("Overseer")) < 2
    no_transport = situation.total(rules.unit_id("OverlordTransport")) < 1
    if few_overseers and situation.can_pay(overseer) and dice.chance(0.5):
        situation.spend(overseer)
        return [Intent(overseer, situation.tag(overlords[-1]))]
    if no_transport and situation.can_pay(transport):
        situation.spend(transport)
        return [Intent(transport, situation.tag(overlords[0]))]
    return []


def _overlord_transport(situation: Situation, dice: Dice) -> list[Intent]:
    transports = situation.named("OverlordTransport")
    if not len(transports) or not dice.chance(0.2):
        return []
    transport = int(transports[0])
    if not situation.own["cargo_used"][transport]:
        return _load(situation, transport, "Zergling", "Roach")
    spot = situation.point(transport)
    return [Intent(ABILITY_UNLOAD_ALL_AT, situation.tag(transport), point=spot)]


def _changeling(situation: Situation, dice: Dice) -> list[Intent]:
    overseers = situation.named("Overseer")
    ready = situation.with_energy(overseers, _CHANGELING_ENERGY)
    if not len(ready) or not dice.chance(0.2):
        return []
    ability = _ABILITIES["Effect_SpawnChangeling"]
    return [Intent(ability, situation.tag(ready[0]))]


def _transfusion(situation: Situation) -> list[Intent]:
    queens = situation.of_type(ids.UNIT_QUEEN)
    ready = situation.with_energy(queens, _TRANSFUSION_ENERGY)
    hurt = queens[situation.own["health"][queens] < 60]
    if not len(ready) or not len(hurt) or hurt[0] == ready[0]:
        return []
    ability = _ABILITIES["Effect_Transfusion"]
    tag = int(situation.tags[hurt[0]])
    return [Intent(ability, situation.tag(ready[0]), target_tag=tag)]


def _scout(situation: Situation, dice: Dice) -> list[Intent]:
    """Sends a worker around some bases and home again, by queued commands."""
    can_spare = situation.loop > 1200 and len(situation.workers) > 14
    is_time = can_spare and dice.chance(0.02)
    free = free_workers(situation)
    if not is_time or len(situation.halls) == 0 or len(free) == 0:
        return []
    patch = patch_near(situation, *situation.point(int(situation.halls[0])))
    tags = situation.tag(free[dice.below(len(free))])
    tour = [some_base(situation, dice) for _ in range(4)]
    intents = [
        Intent(ABILITY_MOVE, tags, point=base, queued=index > 0)
        for index, base in enumerate(tour)
    ]
    if patch:
        intents.append(Intent(ABILITY_GATHER, tags, target_tag=patch, queued=True))
    return intents


_CHORES: dict[int, Callable[[Situation, Dice], list[Intent]]] = {
    TERRAN: _terran_chores,
    ZERG: _zerg_chores,
    PROTOSS: _protoss_chores,
}


def chores(situation: Situation, dice: Dice) -> list[Intent]:
    """Returns a scouting trip now and then, and the chores of the player's race."""
    return [*_scout(situation, dice), *_CHORES[situation.race](situation, dice)]
