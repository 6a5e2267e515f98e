"""All state of a game in one numpy record, the only argument that kernels need.

In: the map's size. Out: a `World`, the views of the record's arrays. Numba passes a record by its
address; with one argument per array, compiling took longer and a call cost a fraction of a
millisecond. Grids have the size of the largest map; a game on a smaller map uses their corner.
"""

import numpy as np

from starmill.engines.skirmish.simulation import records, rules
from starmill.engines.skirmish.simulation.records import (
    GRID,
    MAX_UNITS,
    PLAYERS,
)

_ROWS = MAX_UNITS + 1
STATE = np.dtype(
    [
        ("clock", "i8", (8,)),
        ("map_width", "i8"),
        ("map_height", "i8"),
        ("units", records.UNIT, (_ROWS,)),
        ("orders", records.ORDER, (_ROWS, records.MAX_ORDERS)),
        ("buffs", records.BUFF, (_ROWS, records.MAX_BUFFS)),
        ("cargo", "i8", (_ROWS, records.MAX_CARGO)),
        ("players", records.PLAYER, (PLAYERS,)),
        ("upgrades", "i8", (PLAYERS, records.UPGRADE_LIMIT)),
        ("researching", "i8", (PLAYERS, records.UPGRADE_LIMIT)),
        ("counts", "i8", (PLAYERS, records.TYPE_LIMIT)),
        ("pending", "i8", (PLAYERS, records.TYPE_LIMIT)),
        ("visibility", "u1", (PLAYERS, GRID, GRID)),
        ("detection", "u1", (PLAYERS, GRID, GRID)),
        ("creep", "u1", (GRID, GRID)),
        ("power", "u1", (PLAYERS, GRID, GRID)),
        ("occupied", "u1", (GRID, GRID)),
        ("pathable", "u1", (GRID, GRID)),
        ("placeable", "u1", (GRID, GRID)),
        ("height", "u1", (GRID, GRID)),
        ("walkable", "u1", (GRID // 2, GRID // 2)),
        ("effects", records.EFFECT, (records.MAX_EFFECTS,)),
        ("snapshots", records.UNIT, (PLAYERS, records.MAX_SNAPSHOTS)),
        ("alerts", records.ALERT, (PLAYERS, records.MAX_ALERTS)),
        ("events", records.EVENT, (records.MAX_EVENTS,)),
        ("errors", records.ERROR, (records.MAX_ERRORS,)),
        # Distances to recent goals: a cache that follows from the terrain, not hashed.
        ("fields", "i2", (records.FIELD_SLOTS, (GRID // 2) * (GRID // 2))),
        ("field_goals", "i8", (records.FIELD_SLOTS,)),
        ("unit_rules", rules.UNIT_RULE, (records.TYPE_LIMIT,)),
        ("ability_rules", rules.ABILITY_RULE, (rules.ABILITY_LIMIT,)),
        ("sources", "i8", (rules.ABILITY_LIMIT, rules.TYPE_SOURCES)),
    ],
    align=True,
)
_GRIDS = frozenset(
    (
        "visibility",
        "detection",
        "creep",
        "power",
        "occupied",
        "pathable",
        "placeable",
        "height",
    )
)


def new_state(width: int, height: int) -> records.World:
    """Returns a world of this size, with its rules filled in and without units."""
    state = np.zeros(1, STATE)
    state["map_width"] = width
    state["map_height"] = height
    state["unit_rules"][0] = rules.unit_rules()
    state["ability_rules"][0] = rules.ability_rules()
    state["sources"][0] = rules.sources()
    state["field_goals"] = -1
    state["cargo"] = -1
    units = state["units"][0]
    for name in ("carrier", "addon", "host"):
        units[name] = -1
    units["life"] = -1
    units["hurt_loop"] = records.LONG_AGO
    views = {}
    for name in records.World._fields[1:]:
        view = state[name][0]
        if name in _GRIDS:
            view = view[..., :height, :width]
        elif name == "walkable":
            view = view[: height // 2, : width // 2]
        views[name] = view
    return records.World(state=state, **views)
