"""What a person's hands do between decisions: a round of small commands that change little.

In: a scene, the army's memory, dice. Out: intents, in the order in which hands go through them
until the next look at the game. A round, and not one command again and again: players of a
ladder are copied by whoever learns from its replays, and an action that mostly follows itself is
a chain that the learner's own play does not leave again.
"""

from starmill.engines.skirmish.players import macro, tactics
from starmill.engines.skirmish.players.situation import (
    Dice,
    Intent,
    Scene,
    ability_makers,
)

_RALLY_UNITS, _RALLY_WORKERS, _GATHER, _SMART = 3673, 3690, 3666, 1
_OVERLORD = 106


def form(scene: Scene, front: tactics.Front, dice: Dice) -> list[Intent]:
    """Returns the round of this moment; none of it disturbs what was just decided."""
    return [
        *_workers(scene),
        *_overlords(scene, dice),
        *_production(scene, front),
        *_army(scene, front, dice),
    ]


def _workers(scene: Scene) -> list[Intent]:
    """A hall's rally to its minerals, and the worker nearest to it sent where it was going."""
    if not len(scene.halls):
        return []
    x, y = scene.point(int(scene.halls[0]))
    patch = macro.patch_near(scene, x, y)
    if not patch:
        return []
    hall = (int(scene.tags[scene.halls[0]]),)
    found = [Intent(_RALLY_WORKERS, hall, target_tag=patch, group=4)]
    # Builders of the decisions just made are not free; a load would be lost on the way back.
    free = macro.free_workers(scene)
    loads = scene.own["carry_minerals"][free] + scene.own["carry_vespene"][free]
    worker = scene.nearest(free[loads == 0], x, y)
    if worker >= 0:
        tags = (int(scene.tags[worker]),)
        found.append(Intent(_GATHER, tags, target_tag=patch))
    return found


def _overlords(scene: Scene, dice: Dice) -> list[Intent]:
    """The first overlord shifted a little, over the base it hangs above."""
    lords = scene.of(_OVERLORD)
    if not len(lords) or not len(scene.halls):
        return []
    x, y = scene.point(scene.nearest(scene.halls, *scene.point(int(lords[0]))))
    point = _near(x, y, dice)
    return [Intent(tactics.MOVE, (int(scene.tags[lords[0]]),), point=point)]


def _production(scene: Scene, front: tactics.Front) -> list[Intent]:
    """The rally of everything that trains soldiers."""
    makers = scene.of(*ability_makers()["Rally_Building"])
    if not len(makers):
        return []
    tags = tuple(int(tag) for tag in scene.tags[makers])
    point = tactics.rally_point(scene, front)
    return [Intent(_RALLY_UNITS, tags, point=point, group=5)]


def _army(scene: Scene, front: tactics.Front, dice: Dice) -> list[Intent]:
    """In calm: the foremost of the army set right.

    Not the army called together: that is an attack command on one's own rally point, which a
    learner cannot tell from the real ones.
    """
    fighters = tactics.going_out(scene)
    if front.attacking or tactics.threat(scene) is not None or not len(fighters):
        return []
    foremost = scene.nearest(fighters, *front.enemy_start)
    point = _near(*tactics.rally_point(scene, front), dice)
    return [Intent(_SMART, (int(scene.tags[foremost]),), point=point)]


def _near(x: float, y: float, dice: Dice) -> tuple[float, float]:
    return x + dice.below(9) - 4.0, y + dice.below(9) - 4.0
