"""Intents, what bots want done, and names of the ability ids and control groups in them.

In: ids of abilities and tags of units. Out: an `Intent`, which `bots` turns into camera moves,
selections and commands. Must not know: why a bot wants something.
"""

from typing import NamedTuple

from starmill.engines.skirmish.simulation import ids

# Ability ids of commands. All but SMART and MOVE_EXACT are general ids: the game turns each into
# the specific ability of the unit that receives it, such as a roach's or a zergling's burrowing.
# Bots look up other abilities by name in `rules.ability_names()`.
ABILITY_SMART = ids.ABILITY_SMART
ABILITY_MOVE_EXACT = ids.ABILITY_MOVE
ABILITY_BURROW_DOWN = 3661
ABILITY_BURROW_UP = 3662
ABILITY_GATHER = 3666
ABILITY_LOAD = 3668
ABILITY_UNLOAD_ALL_AT = 3669
ABILITY_RALLY_UNITS = ids.ABILITY_RALLY_UNITS
ABILITY_ATTACK = 3674
ABILITY_STIM = 3675
ABILITY_CLOAK_ON = 3676
ABILITY_CLOAK_OFF = 3677
ABILITY_REPAIR = 3685
ABILITY_BLINK = 3687
ABILITY_RALLY_WORKERS = ids.ABILITY_RALLY_WORKERS
ABILITY_CREEP_TUMOR = 3691
ABILITY_MOVE = 3794

# Control groups that human-like bots use.
GROUP_ARMY = 1
GROUP_HALLS = 4
GROUP_PRODUCTION = 5


class Intent(NamedTuple):
    """One thing a bot wants done.

    Attributes:
        ability: the ability id of the command.
        tags: the tags of the units that receive it.
        target_tag: the tag of the unit it is aimed at; 0 if there is none.
        point: the (x, y) it is aimed at; None if it is aimed at a unit or at nothing.
        queued: whether it is appended to the units' orders instead of replacing them.
        repeat: how often the command is given.
        where: the (x, y) that must be on the screen while the command is given; None for any.
        group: the control group to assign and recall the units by; -1 if they have none.
        autocast: whether it toggles the ability's autocast instead of using the ability.
    """

    ability: int
    tags: tuple[int, ...]
    target_tag: int = 0
    point: tuple[float, float] | None = None
    queued: bool = False
    repeat: int = 1
    where: tuple[float, float] | None = None
    group: int = -1
    autocast: bool = False
