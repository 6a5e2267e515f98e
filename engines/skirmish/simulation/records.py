"""The state of one game as a few numpy arrays: a row is a unit, an order, an effect.

In: nothing. Out: record types and the `World` that holds them. Everything that can influence
the future is in these arrays, so a hash of them is a hash of the game. Knows no rules.

Rows of `units` are reused after a death. A tag is not: it names the row and how often that row
was used, as the game's own tags do. Positions are in world units with y pointing up, angles in
radians (0 is east, counter-clockwise), durations in game loops. Flags are 0 or 1. A row index
of -1 and a tag of 0 mean "none".
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_UNITS = 2048
BLANK_ROW = MAX_UNITS  # new units are copied from this row
MAX_ORDERS = 8
MAX_BUFFS = 4
MAX_CARGO = 8
MAX_EFFECTS = 64
MAX_SNAPSHOTS = 384
MAX_ALERTS = 16
MAX_EVENTS = 4096
MAX_ERRORS = 256
PLAYERS = 3  # rows 1 and 2 are the players, row 0 is who watches without playing
WATCHER = 0  # sees the whole map and owns nothing
TYPE_LIMIT = 2048  # raw unit type ids are below this
UPGRADE_LIMIT = 320
TAG_SHIFT = 18
GRID = 176  # cells of the largest map, each way
FIELD_SLOTS = 48
# Slots of `World.clock`.
LOOP, ROWS, EVENTS, ERRORS, RNG, CHANGED, FLAGS, NEXT_FIELD = range(8)
# Not hashed: the record that contains all the rest, and logs that may have been read or not.
DERIVED = frozenset(("state", "events", "errors"))

OWNER_NEUTRAL = 16  # the players' own units have owner 1 or 2
LONG_AGO = -10000  # a loop before the game
# Categories of the score.
(
    CATEGORY_NONE,
    CATEGORY_ARMY,
    CATEGORY_ECONOMY,
    CATEGORY_TECHNOLOGY,
    CATEGORY_UPGRADE,
) = range(5)
CATEGORIES = 5
RATE_LOOPS = 160  # between two updates of the collection rate
# Cheats of a player, for tests of clients.
CHEAT_GOD = 1  # its units take no damage
CHEAT_FREE = 2  # everything costs nothing
CHEAT_FOOD = 4  # supply does not matter
CHEAT_TECH_TREE = 8  # nothing needs other buildings or upgrades
CHEAT_FAST_BUILD = 16  # everything is made ten times as fast
CHEAT_COOLDOWN = 32  # abilities have no cooldown
# What an order, a command or a rally point aims at.
TARGET_NONE, TARGET_POINT, TARGET_UNIT = 0, 1, 2
# How far an order is. Gathering and patrolling have stages of their own.
STAGE_WAITING, STAGE_STARTED = 0, 1
# What a player knows of a cell (`World.visibility`).
CELL_HIDDEN, CELL_FOGGED, CELL_VISIBLE = 0, 1, 2
# Bits of `World.occupied`.
OCCUPIED_BUILT = 1  # under a building or resource
OCCUPIED_NEAR_RESOURCES = 2  # too near resources for a town hall
OCCUPIED_ANY = OCCUPIED_BUILT | OCCUPIED_NEAR_RESOURCES

# One unit.
UNIT = np.dtype(
    [
        ("tag", "i8"),
        ("engaged", "i8"),  # tag of what it attacks, heals or builds; a field's miner
        ("rally_tag", "i8"),  # the rally point's unit
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
        ("build_progress", "f8"),  # 0 to 1; below 1 it is under construction
        ("cooldown", "f8"),  # loops until it may attack again
        ("life", "f8"),  # loops left to live, -1 for ever
        # Workers: loops of mining left. Hatcheries: loops since the last larva. Others: the
        # loop from which an ability with a cooldown can be used again.
        ("wait", "f8"),
        ("rally_x", "f8"),  # also where a patrol began
        ("rally_y", "f8"),
        ("path_x", "f8"),  # the next corner of its path, valid while path_until > loop
        ("path_y", "f8"),
        ("unit_type", "i8"),
        ("owner", "i8"),  # 1, 2 or OWNER_NEUTRAL
        ("recycle", "i8"),  # how often the row was used
        ("order_count", "i8"),  # rows in use of `orders`
        ("buff_count", "i8"),  # rows in use of `buffs`
        ("cargo_count", "i8"),  # rows in use of `cargo`
        ("cargo_used", "i8"),  # cargo space taken by passengers
        ("cargo_max", "i8"),
        ("carrier", "i8"),  # row of the unit that it rides in
        ("addon", "i8"),  # row of its add-on
        # Row of an add-on's building, a larva's or egg's hatchery, a worker's town hall, a gas
        # mine's geyser.
        ("host", "i8"),
        ("minerals", "i8"),  # left in a mineral field
        ("vespene", "i8"),  # left in a geyser or gas mine
        ("assigned", "i8"),  # workers at a town hall or gas mine
        ("ideal", "i8"),  # workers that would be best there
        ("carry_minerals", "i8"),
        ("carry_vespene", "i8"),
        ("buff_remain", "i8"),  # loops left of its timed buff or life, 0 without one
        ("buff_max", "i8"),  # that buff's or life's whole duration
        ("life_max", "i8"),
        ("attack_level", "i8"),
        ("armor_level", "i8"),
        ("shield_level", "i8"),
        ("born_loop", "i8"),  # when it appeared; buildings: when they were finished
        ("hurt_loop", "i8"),  # when it last took damage
        ("path_until", "i8"),
        ("autocast", "i8"),  # bit set of autocasts switched from their default
        ("next_type", "i8"),  # what an egg or cocoon becomes, 0 otherwise
        # 0 marks a free row. A passenger is alive, has a carrier, and is nowhere on the map.
        ("alive", "i8"),
        ("cloaked", "i8"),  # hidden from enemies without detection (cloak or burrow)
        ("burrowed", "i8"),
        ("flying", "i8"),
        ("powered", "i8"),
        ("hallucination", "i8"),
        ("selected", "i8"),
        ("active", "i8"),  # it makes something, or works on an order
        ("seen", "i8"),  # bit p: player p sees its position
        ("detected", "i8"),  # bit p: player p has detection there
        ("hold", "i8"),  # it holds its position
        ("rally_kind", "i8"),  # TARGET_NONE, TARGET_POINT or TARGET_UNIT
    ],
    align=True,
)

# One order.
ORDER = np.dtype(
    [
        ("target_tag", "i8"),
        ("x", "f8"),  # the target point, or where the target unit was last
        ("y", "f8"),
        ("progress", "f8"),  # 0 to 1 of training, research or a change; otherwise 0
        ("ability", "i8"),  # specific id
        ("stage", "i8"),
        ("product_row", "i8"),  # the building or add-on that it makes
        ("target", "i8"),  # TARGET_NONE, TARGET_POINT or TARGET_UNIT
        ("paid", "i8"),  # 1 once its cost was taken
    ],
    align=True,
)
# One buff of a unit.
BUFF = np.dtype(
    [
        ("id", "i8"),
        ("remain", "i8"),  # loops left
        ("duration", "i8"),  # 0: it stays until it is removed
        ("source", "i8"),  # row of the unit that gave it
    ],
    align=True,
)
# One area effect. An effect with several positions takes several rows.
EFFECT = np.dtype(
    [
        ("x", "f8"),
        ("y", "f8"),
        ("radius", "f8"),
        ("id", "i8"),
        ("owner", "i8"),
        ("remain", "i8"),  # loops left
        ("source", "i8"),  # row of the unit that it follows
        ("alive", "i8"),
    ],
    align=True,
)
# One player. Food is counted in halves, as a zergling takes half a unit of it.
PLAYER = np.dtype(
    [
        ("camera_x", "f8"),
        ("camera_y", "f8"),
        ("income", "f8"),  # deliveries are multiplied by this
        ("race", "i8"),
        ("race_requested", "i8"),
        ("minerals", "i8"),
        ("vespene", "i8"),
        ("food_used_halves", "i8"),
        ("food_army_halves", "i8"),
        ("food_workers_halves", "i8"),
        ("food_cap", "i8"),  # in whole units
        ("idle_worker_count", "i8"),
        ("army_count", "i8"),
        ("warp_gate_count", "i8"),
        ("larva_count", "i8"),
        ("building_count", "i8"),  # with none left, the player has lost
        # Sums since the start of the game.
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
        # The score's values by category (CATEGORY_*), each in minerals and vespene. A Zerg
        # building's value includes the drone.
        ("killed_value", "i8", (CATEGORIES, 2)),
        ("lost_value", "i8", (CATEGORIES, 2)),
        (
            "made_value",
            "i8",
            (CATEGORIES, 2),
        ),  # units and upgrades that were ever finished
        ("made_units_value", "i8"),
        ("made_structures_value", "i8"),
        ("killed_structures_value", "i8"),
        ("killed_units_value", "i8"),
        # Life, shields and energy, in this order.
        ("damage_dealt", "f8", (3,)),
        ("damage_taken", "f8", (3,)),
        ("healed", "f8", (3,)),
        ("collection_rate", "i8", (2,)),  # per minute, over the last RATE_LOOPS
        ("collected_before", "i8", (2,)),  # at the last update of the rate
        ("idle_production_count", "i8"),
        ("idle_production_loops", "i8"),
        ("idle_worker_loops", "i8"),
        ("alert_count", "i8"),
        ("left", "i8"),  # the player surrendered
        ("all_visible", "i8"),  # the player sees the whole map
        ("cheats", "i8"),  # bit set of CHEAT_*, which debug commands switch
    ],
    align=True,
)
# One alert. Each player keeps the newest MAX_ALERTS.
ALERT = np.dtype(
    [
        ("x", "f8"),
        ("y", "f8"),
        ("kind", "i8"),  # ids.ALERT_*
        ("loop", "i8"),
    ],
    align=True,
)
# Something that happened, for replays' tracker events and for statistics.
EVENT = np.dtype(
    [
        ("tag", "i8"),
        ("other_tag", "i8"),  # the killer
        ("x", "f8"),
        ("y", "f8"),
        ("loop", "i8"),
        ("kind", "i8"),  # EVENT_*
        ("player", "i8"),  # the unit's owner
        ("unit_type", "i8"),
    ],
    align=True,
)
EVENT_BORN = 1  # appeared complete
EVENT_STARTED = 2  # its construction began
EVENT_FINISHED = 3  # its construction ended
EVENT_DIED = 4
EVENT_TYPE_CHANGED = 5  # unit_type is the new type
EVENT_UPGRADED = 6  # unit_type is the upgrade's id
# A refused command.
ERROR = np.dtype(
    [
        ("tag", "i8"),  # the first of the units that were told
        ("loop", "i8"),
        ("player", "i8"),
        ("ability", "i8"),
        ("code", "i8"),  # sc2api's ActionResult
    ],
    align=True,
)

# The record of type `opening.STATE` that kernels work on: numba knows its fields, mypy does not.
State = Any


class Command(NamedTuple):
    """A player's command to units, as kernels take it.

    Attributes:
        player: who gives it, 1 or 2.
        ability: general or specific ability id.
        unit_tags: [N] int64, the units that it is given to.
        target: TARGET_NONE, TARGET_POINT or TARGET_UNIT.
        target_tag: the target unit; 0 unless `target` is TARGET_UNIT.
        x: of the target point; meaningless unless `target` is TARGET_POINT.
        y: of the target point, likewise.
        queued: whether it waits for the units' present orders.
    """

    player: int
    ability: int
    unit_tags: NDArray[np.int64]
    target: int
    target_tag: int
    x: float
    y: float
    queued: bool


class World(NamedTuple):
    """Views of all arrays of one game. Grids are [H, W] = [y, x], of the map's size.

    Attributes:
        state: [1] opening.STATE, what kernels take; every other field is a part of it.
        clock: [8] the game loop, rows in use of `units`, lengths of both logs, state of the
            random generator, last loop with income, production or destruction, flags, and the
            next path field to overwrite. Slots are named by LOOP, ROWS, ...
        units: [U + 1] UNIT; the last row is the blank one.
        orders: [U + 1, 8] ORDER.
        buffs: [U + 1, 4] BUFF.
        cargo: [U + 1, 8] rows of passengers.
        players: [3] PLAYER.
        upgrades: [3, 320] 1 once finished.
        researching: [3, 320] 1 while under research.
        counts: [3, 2048] finished units by raw type.
        pending: [3, 2048] unfinished or ordered units by raw type.
        visibility: [3, H, W] CELL_HIDDEN, CELL_FOGGED or CELL_VISIBLE.
        detection: [3, H, W] 1 where cloaked units are revealed to the player.
        creep: [H, W] 1 where creep is.
        power: [3, H, W] 1 where the player's buildings have power.
        occupied: [H, W] OCCUPIED_* bits.
        pathable: [H, W] 1 where ground units can be; constant.
        placeable: [H, W] 1 where buildings can be; constant.
        height: [H, W] the terrain's height; constant.
        walkable: [H/2, W/2] 1 where ground units can cross now, on the coarse grid of paths.
        effects: [64] EFFECT.
        snapshots: [3, S] UNIT as that player last saw it; alive is 1 in rows in use.
        alerts: [3, 16] ALERT.
        events: [4096] EVENT, the first `clock[EVENTS]` of them logged.
        errors: [256] ERROR, the first `clock[ERRORS]` of them logged.
    """

    state: np.ndarray
    clock: NDArray[np.int64]
    units: np.ndarray
    orders: np.ndarray
    buffs: np.ndarray
    cargo: NDArray[np.int64]
    players: np.ndarray
    upgrades: NDArray[np.int64]
    researching: NDArray[np.int64]
    counts: NDArray[np.int64]
    pending: NDArray[np.int64]
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
    """Returns the array's values as bytes, without the padding between fields of records."""
    names = array.dtype.names
    if names is not None:
        return b"".join(np.ascontiguousarray(array[name]).tobytes() for name in names)
    return np.ascontiguousarray(array).tobytes()
