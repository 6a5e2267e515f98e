"""The state of one game as a few numpy arrays; a row is a unit, an order, an effect.

In: nothing. Out: record types and an empty `World`. All game state that can influence the
future lives in these arrays, so that hashing them is hashing the game. Knows no rules.

Rows of `units` are reused after death; a tag is not: it names the row and how often the row
was given out, like the game's own tags. Positions are in world units, y points up, angles
are radians (0 east, counter-clockwise), durations are game loops.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_UNITS = 2048
MAX_ORDERS = 8
MAX_BUFFS = 4
MAX_CARGO = 8
MAX_EFFECTS = 64
MAX_SNAPSHOTS = 384
MAX_ALERTS = 16
MAX_EVENTS = 4096
MAX_ERRORS = 256
PLAYERS = 3  # rows 1 and 2 are the players; row 0 is unused so that ids index directly
OWNER_NEUTRAL = 16
# What an order, a command or a rally point aims at.
TARGET_NONE, TARGET_POINT, TARGET_UNIT = 0, 1, 2
TYPE_LIMIT = 2048  # raw unit type ids are below this
UPGRADE_LIMIT = 320
TAG_SHIFT = 18
# Slots of `World.clock`.
LOOP, ROWS, EVENTS, ERRORS, RNG, CHANGED, FLAGS, NEXT_FIELD = range(8)
# Not hashed: the record that holds the rest, and logs that were or were not read.
DERIVED = frozenset(("state", "events", "errors"))
GRID = 176  # cells of the largest map, each way
FIELD_SLOTS = 48

# One unit. Meaning beyond the name:
#   alive: 0 free row, 1 alive. A passenger is alive with carrier >= 0 and has no position.
#   build_progress: 0 to 1; below 1 under construction.
#   cooldown: loops until it may attack again. engaged: tag of the unit it fights, 0 none.
#   cloaked: hidden from enemies without detection (cloak or burrow).
#   seen, detected: bit p set when player p sees the position / has detection over it.
#   addon: row of the add-on, -1 none. host: row of the building that an add-on belongs to,
#     the hatchery of a larva, the townhall of a worker; -1 none.
#   order_count, buff_count, cargo_count: how many rows of the side arrays are in use.
#   life: loops to live, -1 for ever. buff_remain, buff_max: of its timed buff or life, 0 none.
#   autocast: bit set of autocasts that were switched from their default.
#   wait: loops of mining left (workers), loops since the last larva (hatcheries), else the
#     loop from which the unit's cooling ability can be used again.
#   path_*: the next corner of its way, valid while path_until > loop.
UNIT = np.dtype(
    [
        ("tag", "i8"),
        ("engaged", "i8"),
        ("rally_tag", "i8"),
        ("x", "f8"),
        ("y", "f8"),
        ("z", "f8"),
        ("facing", "f8"),
        ("radius", "f8"),
        ("health", "f8"),
        ("health_max", "f8"),
        ("shield", "f8"),
        ("shield_max", "f8"),
        ("energy", "f8"),
        ("energy_max", "f8"),
        ("build_progress", "f8"),
        ("cooldown", "f8"),
        ("life", "f8"),
        ("wait", "f8"),
        ("rally_x", "f8"),
        ("rally_y", "f8"),
        ("path_x", "f8"),
        ("path_y", "f8"),
        ("unit_type", "i8"),
        ("owner", "i8"),
        ("recycle", "i8"),
        ("order_count", "i8"),
        ("buff_count", "i8"),
        ("cargo_count", "i8"),
        ("cargo_used", "i8"),
        ("cargo_max", "i8"),
        ("carrier", "i8"),
        ("addon", "i8"),
        ("host", "i8"),
        ("minerals", "i8"),
        ("vespene", "i8"),
        ("assigned", "i8"),
        ("ideal", "i8"),
        ("carry_minerals", "i8"),
        ("carry_vespene", "i8"),
        ("buff_remain", "i8"),
        ("buff_max", "i8"),
        ("life_max", "i8"),
        ("attack_level", "i8"),
        ("armor_level", "i8"),
        ("shield_level", "i8"),
        ("born_loop", "i8"),
        ("hurt_loop", "i8"),
        ("path_until", "i8"),
        ("autocast", "i8"),
        ("next_type", "i8"),
        ("alive", "i8"),
        ("cloaked", "i8"),
        ("burrowed", "i8"),
        ("flying", "i8"),
        ("powered", "i8"),
        ("hallucination", "i8"),
        ("selected", "i8"),
        ("active", "i8"),
        ("seen", "i8"),
        ("detected", "i8"),
        ("hold", "i8"),
        ("rally_kind", "i8"),
    ],
    align=True,
)

# One order. ability: the specific id. kind of target: 0 none, 1 point, 2 unit (tag, with the
# point where it was last). progress: 0 to 1 of training or research, else 0.
# paid: 1 once its cost was taken. product_row: the egg or building that it makes, -1 none.
ORDER = np.dtype(
    [
        ("target_tag", "i8"),
        ("x", "f8"),
        ("y", "f8"),
        ("progress", "f8"),
        ("ability", "i8"),
        ("stage", "i8"),
        ("product_row", "i8"),
        ("target", "i8"),
        ("paid", "i8"),
    ],
    align=True,
)
BUFF = np.dtype(
    [("id", "i8"), ("remain", "i8"), ("duration", "i8"), ("source", "i8")], align=True
)
# One area effect; several positions are several rows. radius and loops left as the rules say.
EFFECT = np.dtype(
    [
        ("x", "f8"),
        ("y", "f8"),
        ("radius", "f8"),
        ("id", "i8"),
        ("owner", "i8"),
        ("remain", "i8"),
        ("source", "i8"),
        ("alive", "i8"),
    ],
    align=True,
)
# One player. Food is counted in halves (a zergling is one half). Sums since the start:
# collected, spent, killed_value, lost_value; *_loop: last loop with income, production or
# destruction (for the draw by stalemate).
PLAYER = np.dtype(
    [
        ("camera_x", "f8"),
        ("camera_y", "f8"),
        ("income", "f8"),
        ("race", "i8"),
        ("race_requested", "i8"),
        ("minerals", "i8"),
        ("vespene", "i8"),
        ("food_used_halves", "i8"),
        ("food_army_halves", "i8"),
        ("food_workers_halves", "i8"),
        ("food_cap", "i8"),
        ("idle_worker_count", "i8"),
        ("army_count", "i8"),
        ("warp_gate_count", "i8"),
        ("larva_count", "i8"),
        ("building_count", "i8"),
        ("collected_minerals", "i8"),
        ("collected_vespene", "i8"),
        ("spent_minerals", "i8"),
        ("spent_vespene", "i8"),
        ("killed_minerals", "i8"),
        ("killed_vespene", "i8"),
        ("lost_minerals", "i8"),
        ("lost_vespene", "i8"),
        ("killed_structures", "i8"),
        ("killed_units", "i8"),
        ("idle_production_loops", "i8"),
        ("idle_worker_loops", "i8"),
        ("alert_count", "i8"),
        ("left", "i8"),
        ("all_visible", "i8"),
    ],
    align=True,
)
# kind: a value of sc2api's Alert. Kept for the newest MAX_ALERTS per player.
ALERT = np.dtype([("x", "f8"), ("y", "f8"), ("kind", "i8"), ("loop", "i8")], align=True)
# Something that happened, for replays' tracker events and statistics; kind: EVENT_*.
EVENT = np.dtype(
    [
        ("tag", "i8"),
        ("other_tag", "i8"),
        ("x", "f8"),
        ("y", "f8"),
        ("loop", "i8"),
        ("kind", "i8"),
        ("player", "i8"),
        ("unit_type", "i8"),
    ],
    align=True,
)
# A refused command. code: a value of sc2api's ActionResult.
ERROR = np.dtype(
    [
        ("tag", "i8"),
        ("loop", "i8"),
        ("player", "i8"),
        ("ability", "i8"),
        ("code", "i8"),
    ],
    align=True,
)

# Values of EVENT's `kind`.
EVENT_BORN = 1  # appeared complete
EVENT_STARTED = 2  # its construction began
EVENT_FINISHED = 3  # its construction ended
EVENT_DIED = 4  # other_tag: the killer
EVENT_TYPE_CHANGED = 5  # unit_type: the new type
EVENT_UPGRADED = 6  # unit_type: the upgrade's id

# The record of type `state.STATE` that kernels work on: numba knows its fields, mypy does not.
State = Any


class World(NamedTuple):
    """Views of all arrays of one game. H, W: the map's height and width; [row, column] = [y, x].

    state: [1] of state.STATE, what kernels take; everything below is part of it.
    clock: [8] int64: LOOP, ROWS in use, EVENTS and ERRORS logged, RNG state, last loop at which
        anything CHANGED (income, production, destruction), FLAGS, NEXT_FIELD to overwrite.
    units: [U + 1] UNIT; the last is the blank that new ones are copied from.
    orders: [U + 1, 8] ORDER. buffs: [U + 1, 4] BUFF. cargo: [U + 1, 8] rows, -1 none.
    players: [3] PLAYER. upgrades: [3, 320] 1 once finished. researching: [3, 320] 1 while
        under research. counts: [3, 2048] finished units by raw type.
    pending: [3, 2048] unfinished or ordered units by raw type.
    visibility: [3, H, W] 0 hidden, 1 fogged, 2 visible. detection: [3, H, W] 1 where cloaked
        units are revealed to the player. creep: [H, W]. power: [3, H, W].
    occupied: [H, W] bit 0: under a building or resource; bit 1: too near resources for a
        town hall. pathable, placeable, height: the map's.
    walkable: [H/2, W/2] what ground units can cross now, on the coarse grid of the paths.
    effects: [64] EFFECT. snapshots: [3, S] UNIT as last seen by that player, alive = 1 in use.
    alerts: [3, 16]. events, errors: logs, see EVENTS and ERRORS.
    """

    state: np.ndarray
    clock: NDArray[np.int64]
    units: np.ndarray
    orders: np.ndarray
    buffs: np.ndarray
    cargo: NDArray[np.int32]
    players: np.ndarray
    upgrades: NDArray[np.uint8]
    researching: NDArray[np.uint8]
    counts: NDArray[np.int32]
    pending: NDArray[np.int32]
    visibility: NDArray[np.uint8]
    detection: NDArray[np.uint8]
    creep: NDArray[np.uint8]
    power: NDArray[np.uint8]
    occupied: NDArray[np.uint8]
    pathable: NDArray[np.uint8]
    placeable: NDArray[np.uint8]
    height: NDArray[np.uint8]
    walkable: NDArray[np.uint8]
    effects: np.ndarray
    snapshots: np.ndarray
    alerts: np.ndarray
    events: np.ndarray
    errors: np.ndarray


def canonical_bytes(array: np.ndarray) -> bytes:
    """Returns the array's values as bytes, without the padding between fields of records.

    The counts of logged events and errors in the clock are left out by zeroing them: whether
    somebody has read the log is no part of the game.
    """
    names = array.dtype.names
    if names is not None:
        return b"".join(np.ascontiguousarray(array[name]).tobytes() for name in names)
    return np.ascontiguousarray(array).tobytes()
