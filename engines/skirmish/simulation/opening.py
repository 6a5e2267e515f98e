"""The world at the start of a game: resources, and a town hall with twelve workers a player.

In: a map and both players' races, starts and advantages. Out: a `World` at loop 0, whose state is
one numpy record, the only argument that kernels need: numba passes a record by its address; with
one argument per array, compiling took longer and a call cost a fraction of a millisecond. Grids
have the size of the largest map; a game on a smaller map uses their corner.
"""

import numpy as np

from starmill.engines.skirmish.simulation import (
    entry_points,
    ids,
    maps,
    records,
    rules,
)
from starmill.engines.skirmish.simulation.records import (
    GRID,
    MAX_UNITS,
    PLAYERS,
    WATCHER,
    World,
)
from starmill.schema.game_constants import PROTOSS, TERRAN, ZERG

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

START_MINERALS = 50
START_WORKERS = 12
START_LARVAE = 3
TOWN_HALLS = {TERRAN: "CommandCenter", ZERG: "Hatchery", PROTOSS: "Nexus"}
WORKERS = {TERRAN: "SCV", ZERG: "Drone", PROTOSS: "Probe"}
RESOURCE_MARGIN = 3  # cells between a town hall and resources
_FIELD_HALF_SIZE, _GEYSER_HALF_SIZE = (1.0, 0.5), (1.5, 1.5)
_ROCK_HALF_SIZE, _TOWER_HALF_SIZE = (3.0, 3.0), (1.0, 1.0)
_WORKER_START = 0.55  # of the way from the town hall to a mineral field
_SEED_MASK = 0x7FFFFFFFFFFFFFFF


def new_state(width: int, height: int) -> World:
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
    for name in World._fields[1:]:
        view = state[name][0]
        if name in _GRIDS:
            view = view[..., :height, :width]
        elif name == "walkable":
            view = view[: height // 2, : width // 2]
        views[name] = view
    return World(state=state, **views)


def _empty_world(game_map: maps.GameMap) -> World:
    """Returns a world with the map's terrain and no units."""
    world = new_state(game_map.width, game_map.height)
    world.pathable[:] = game_map.pathable
    world.placeable[:] = game_map.placeable
    world.height[:] = game_map.terrain
    blocks = world.pathable.reshape(game_map.height // 2, 2, game_map.width // 2, 2)
    world.walkable[:] = blocks.min(axis=(1, 3))
    return world


def _put_neutrals(world: World, game_map: maps.GameMap) -> None:
    """Places resources, towers, rocks and critters, and marks the cells that they occupy."""
    for base in game_map.bases:
        for item in base.resources:
            row = entry_points.spawn(
                world.state, item.unit_type, records.OWNER_NEUTRAL, item.x, item.y, 1.0
            )
            world.units[row]["minerals"] = item.minerals
            world.units[row]["vespene"] = item.vespene
            half = _GEYSER_HALF_SIZE if item.vespene else _FIELD_HALF_SIZE
            _mark(world, item.x, item.y, half, records.OCCUPIED_BUILT)
            margin = (half[0] + RESOURCE_MARGIN, half[1] + RESOURCE_MARGIN)
            _mark(world, item.x, item.y, margin, records.OCCUPIED_NEAR_RESOURCES)
    for base in game_map.bases:  # a town hall may stand exactly here
        column, line = int(base.x), int(base.y)
        place = world.occupied[line - 2 : line + 3, column - 2 : column + 3]
        place &= records.OCCUPIED_BUILT
    for unit_type, x, y in game_map.neutrals:
        entry_points.spawn(world.state, unit_type, records.OWNER_NEUTRAL, x, y, 1.0)
        if unit_type == ids.UNIT_ROCK:
            _mark(world, x, y, _ROCK_HALF_SIZE, records.OCCUPIED_BUILT)
            world.walkable[int(y) // 2 - 1 : int(y) // 2 + 1, int(x) // 2] = 0
        elif unit_type == ids.UNIT_XELNAGA_TOWER:
            _mark(world, x, y, _TOWER_HALF_SIZE, records.OCCUPIED_BUILT)


def _mark(
    world: World, x: float, y: float, half: tuple[float, float], bit: int
) -> None:
    """Sets a bit of `occupied` in the cells within half a size of a centre."""
    left, bottom = int(x - half[0] + 0.5), int(y - half[1] + 0.5)
    right, top = int(x + half[0] + 0.5), int(y + half[1] + 0.5)
    world.occupied[bottom:top, left:right] |= bit


def put_player(world: World, player: int, race: int, base: maps.Base) -> None:
    """Places a player's town hall, and workers that start mining."""
    hall = entry_points.spawn(
        world.state, rules.unit_id(TOWN_HALLS[race]), player, base.x, base.y, 1.0
    )
    world.units[hall]["born_loop"] = records.LONG_AGO  # its creep has spread already
    worker = rules.unit_id(WORKERS[race])
    fields = [r for r in base.resources if r.minerals]
    units = world.units
    for index in range(START_WORKERS):
        field = fields[index % len(fields)]
        x = base.x + (field.x - base.x) * _WORKER_START
        y = base.y + (field.y - base.y) * _WORKER_START + 0.4 * (index // len(fields))
        row = entry_points.spawn(world.state, worker, player, x, y, 1.0)
        field_row = int(
            np.flatnonzero((units["x"] == field.x) & (units["y"] == field.y))[0]
        )
        gather = int(rules.unit_rules()[worker]["gather"])
        tag = int(units[field_row]["tag"])
        entry_points.push_order(
            world.state, row, gather, records.TARGET_UNIT, tag, 0.0, 0.0
        )
    if race == ZERG:
        for index in range(START_LARVAE):
            row = entry_points.spawn(
                world.state,
                ids.UNIT_LARVA,
                player,
                base.x - 2.0 + index,
                base.y - 3.2,
                1.0,
            )
            units[row]["host"] = hall
        entry_points.spawn(
            world.state, ids.UNIT_OVERLORD, player, base.x + 3.0, base.y, 1.0
        )


def _centre(game_map: maps.GameMap) -> tuple[float, float]:
    """Returns the middle of the playable area."""
    left, bottom, right, top = game_map.playable
    return (left + right) / 2, (bottom + top) / 2


def new_world(
    game_map: maps.GameMap,
    *,
    races: tuple[int, int],
    requested: tuple[int, int],
    starts: tuple[int, int],
    income: tuple[float, float],
    all_visible: tuple[bool, bool],
    present: tuple[bool, bool] = (True, True),
    seed: int,
) -> World:
    """Returns the world at loop 0. Pairs are by player: the first is player 1's.

    Args:
        game_map: where it is played.
        races: TERRAN, ZERG or PROTOSS.
        requested: the same, or RANDOM.
        starts: indices of the map's start locations.
        income: what deliveries are multiplied by.
        all_visible: who sees the whole map.
        present: who takes part; others have no units.
        seed: of the game's random numbers.
    """
    rules.ability_rules()  # completes the unit rules, so it must come before their use
    world = _empty_world(game_map)
    world.clock[records.RNG] = np.int64(seed & _SEED_MASK)
    watcher = world.players[WATCHER]
    watcher["all_visible"] = 1
    watcher["camera_x"], watcher["camera_y"] = game_map.width / 2, game_map.height / 2
    _put_neutrals(world, game_map)
    for index in range(2):
        player = index + 1
        record = world.players[player]
        record["race"] = races[index]
        record["race_requested"] = requested[index]
        record["minerals"] = START_MINERALS
        record["income"] = income[index]
        record["all_visible"] = all_visible[index]
        centre = game_map.starts[starts[index]] if game_map.melee else _centre(game_map)
        record["camera_x"], record["camera_y"] = centre
        if game_map.melee and present[index]:
            put_player(world, player, races[index], game_map.bases[starts[index]])
    entry_points.prepare(world.state)
    entry_points.remember_resources(world.state)
    return world
