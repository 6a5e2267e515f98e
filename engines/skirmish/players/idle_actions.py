"""Idle actions of human-like bots: small commands between decisions that change little.

In: a situation, the army's front, dice. Out: a round of intents, which the bot goes through in
order until it looks at the game again. The actions vary because agents learn from these replays:
an agent that copies one command repeated over and over repeats it too, and never does anything
else again. Must not know: the decisions themselves.
"""

from starmill.engines.skirmish.players import macro, tactics
from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.intents import (
    ABILITY_GATHER,
    ABILITY_MOVE,
    ABILITY_RALLY_UNITS,
    ABILITY_RALLY_WORKERS,
    ABILITY_SMART,
    GROUP_HALLS,
    GROUP_PRODUCTION,
    Intent,
)
from starmill.engines.skirmish.players.situation import Situation, ability_makers
from starmill.engines.skirmish.simulation import ids


def next_round(situation: Situation, front: tactics.Front, dice: Dice) -> list[Intent]:
    """Returns the idle actions that fit this moment. None of them undoes a decision."""
    return [
        *_workers(situation),
        *_overlords(situation, dice),
        *_production(situation, front),
        *_army(situation, front, dice),
    ]


def _workers(situation: Situation) -> list[Intent]:
    """Sets a hall's rally point on its minerals, and sends the nearest worker to mine there."""
    if not len(situation.halls):
        return []
    x, y = situation.point(int(situation.halls[0]))
    patch = macro.patch_near(situation, x, y)
    if not patch:
        return []
    hall = situation.tag(situation.halls[0])
    intents = [Intent(ABILITY_RALLY_WORKERS, hall, target_tag=patch, group=GROUP_HALLS)]
    # Not a worker that was just told to build, and not one that would lose its load.
    free = macro.free_workers(situation)
    carry = situation.own["carry_minerals"][free] + situation.own["carry_vespene"][free]
    worker = situation.nearest(free[carry == 0], x, y)
    if worker >= 0:
        tags = situation.tag(worker)
        intents.append(Intent(ABILITY_GATHER, tags, target_tag=patch))
    return intents


def _overlords(situation: Situation, dice: Dice) -> list[Intent]:
    """Moves the first overlord a little, around the town hall nearest to it."""
    overlords = situation.of_type(ids.UNIT_OVERLORD)
    if not len(overlords) or not len(situation.halls):
        return []
    place = situation.point(int(overlords[0]))
    x, y = situation.point(situation.nearest(situation.halls, *place))
    point = _near(x, y, dice)
    return [Intent(ABILITY_MOVE, situation.tag(overlords[0]), point=point)]


def _production(situation: Situation, front: tactics.Front) -> list[Intent]:
    """Sets the rally point of all buildings that train fighting units."""
    makers = situation.of_type(*ability_makers()["Rally_Building"])
    if not len(makers):
        return []
    tags = situation.tags_of(makers)
    point = tactics.rally_point(situation, front)
    return [Intent(ABILITY_RALLY_UNITS, tags, point=point, group=GROUP_PRODUCTION)]


def _army(situation: Situation, front: tactics.Front, dice: Dice) -> list[Intent]:
    """Moves the foremost fighting unit a little while nothing happens.

    It does not call the whole army to the rally point: that would be an attack command like a
    real one, and an agent that learns from the replay could not tell the two apart.
    """
    fighters = tactics.fighters(situation)
    is_busy = front.attacking or tactics.threat(situation) is not None
    if is_busy or not len(fighters):
        return []
    foremost = situation.nearest(fighters, *front.enemy_start)
    point = _near(*tactics.rally_point(situation, front), dice)
    return [Intent(ABILITY_SMART, situation.tag(foremost), point=point)]


def _near(x: float, y: float, dice: Dice) -> tuple[float, float]:
    return x + dice.below(9) - 4.0, y + dice.below(9) - 4.0
