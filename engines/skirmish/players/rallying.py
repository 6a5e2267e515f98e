"""Where new units go: rally points on minerals for workers, before the outermost base for the army.

In: a situation and the army's front. Out: intents to set a rally point where there is none or where it
is out of date. Bots that set rally points need not send every new unit to work or to the army.
Must not know: what is trained.
"""

import numpy as np

from starmill.engines.skirmish.players import macro, tactics
from starmill.engines.skirmish.players.intents import (
    ABILITY_RALLY_UNITS,
    ABILITY_RALLY_WORKERS,
    GROUP_HALLS,
    GROUP_PRODUCTION,
    Intent,
)
from starmill.engines.skirmish.players.situation import Situation, ability_makers
from starmill.engines.skirmish.simulation import records

_STALE_GAP = 10.0  # a rally point this far from where the army waits is out of date


def set_rally_points(situation: Situation, front: tactics.Front) -> list[Intent]:
    """Returns the rally points that one hall and all production buildings should get."""
    return [*_workers(situation), *_army(situation, front)]


def _workers(situation: Situation) -> list[Intent]:
    kinds = situation.own["rally_kind"][situation.halls]
    for hall in situation.halls[kinds == records.TARGET_NONE]:
        where = situation.point(int(hall))
        patch = macro.patch_near(situation, *where)
        if patch:
            tags = situation.tag(int(hall))
            return [
                Intent(ABILITY_RALLY_WORKERS, tags, target_tag=patch, group=GROUP_HALLS)
            ]
    return []


def _army(situation: Situation, front: tactics.Front) -> list[Intent]:
    makers = situation.of_type(*ability_makers()["Rally_Building"])
    if len(makers) == 0:
        return []
    x, y = tactics.rally_point(situation, front)
    own = situation.own[makers]
    dx, dy = own["rally_x"] - x, own["rally_y"] - y
    stale = (own["rally_kind"] == records.TARGET_NONE) | (
        dx * dx + dy * dy > _STALE_GAP**2
    )
    if not np.any(stale):
        return []
    tags = situation.tags_of(makers[stale])
    return [Intent(ABILITY_RALLY_UNITS, tags, point=(x, y), group=GROUP_PRODUCTION)]
