"""The first moment of a game: the map's resources, and a town hall with twelve workers each."""

import numpy as np

from starmill.engines.skirmish.simulation import (
    entry_points,
    ids,
    maps,
    records,
    rules,
)
from starmill.engines.skirmish.simulation import (
    world as state,
)
from starmill.engines.skirmish.simulation.records import World

START_MINERALS = 50
START_WORKERS = 12
TOWN_HALLS = {1: "CommandCenter", 2: "Hatchery", 3: "Nexus"}
WORKERS = {1: "SCV", 2: "Drone", 3: "Probe"}
RESOURCE_MARGIN = 3  # cells between a town hall and resources


def _arrays(game_map: maps.GameMap) -> World:
    """Returns a world with the map's ground and no units."""
    world = state.new_state(game_map.width, game_map.height)
    world.pathable[:] = game_map.pathable
    world.placeable[:] = game_map.placeable
    world.height[:] = game_map.terrain
    blocks = world.pathable.reshape(game_map.height // 2, 2, game_map.width // 2, 2)
    world.walkable[:] = blocks.min(axis=(1, 3))
    return world


def _put_neutrals(world: World, game_map: maps.GameMap) -> None:
    """Places resources, towers, rocks and critters, and marks the cells that they take."""
    for base in game_map.bases:
        for item in base.resources:
            row = entry_points.spawn(
                world.state, item.unit_type, records.OWNER_NEUTRAL, item.x, item.y, 1.0
            )
            world.units[row]["minerals"] = item.minerals
            world.units[row]["vespene"] = item.vespene
            half = (1.5, 1.5) if item.vespene else (1.0, 0.5)
            _mark(world, item.x, item.y, half, 1)
            margin = (half[0] + RESOURCE_MARGIN, half[1] + RESOURCE_MARGIN)
            _mark(world, item.x, item.y, margin, 2)
    for base in game_map.bases:  # the one place that is near enough and not too near
        column, line = int(base.x), int(base.y)
        world.occupied[line - 2 : line + 3, column - 2 : column + 3] &= 1
    for unit_type, x, y in game_map.neutrals:
        entry_points.spawn(world.state, unit_type, records.OWNER_NEUTRAL, x, y, 1.0)
        if unit_type == maps.ROCK:
            _mark(world, x, y, (3.0, 3.0), 1)
            world.walkable[int(y) // 2 - 1 : int(y) // 2 + 1, int(x) // 2] = 0
        elif unit_type == maps.TOWER:
            _mark(world, x, y, (1.0, 1.0), 1)


def _mark(
    world: World, x: float, y: float, half: tuple[float, float], bit: int
) -> None:
    left, bottom = int(x - half[0] + 0.5), int(y - half[1] + 0.5)
    right, top = int(x + half[0] + 0.5), int(y + half[1] + 0.5)
    world.occupied[bottom:top, left:right] |= bit


def _put_player(world: World, player: int, race: int, base: maps.Base) -> None:
    """Places a player's town hall and workers, who start mining."""
    hall = entry_points.spawn(
        world.state, rules.unit_id(TOWN_HALLS[race]), player, base.x, base.y, 1.0
    )
    world.units[hall]["born_loop"] = -10000  # its creep is grown
    worker = rules.unit_id(WORKERS[race])
    fields = [r for r in base.resources if r.minerals]
    units = world.units
    for index in range(START_WORKERS):
        field = fields[index % len(fields)]
        x = base.x + (field.x - base.x) * 0.55
        y = base.y + (field.y - base.y) * 0.55 + 0.4 * (index // len(fields))
        row = entry_points.spawn(world.state, worker, player, x, y, 1.0)
        patch = int(
            np.flatnonzero((units["x"] == field.x) & (units["y"] == field.y))[0]
        )
        gather = int(rules.unit_rules()[worker]["gather"])
        entry_points.push_order(
            world.state, row, gather, 2, int(units[patch]["tag"]), 0.0, 0.0
        )
    if race == 2:
        for index in range(3):
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
    world.players[player]["camera_x"] = base.x
    world.players[player]["camera_y"] = base.y


def new_world(
    game_map: maps.GameMap,
    *,
    races: tuple[int, int],
    requested: tuple[int, int],
    starts: tuple[int, int],
    income: tuple[float, float],
    all_visible: tuple[bool, bool],
    seed: int,
) -> World:
    """Returns the world at loop 0."""
    rules.ability_rules()  # also completes the unit rules; must come before they are used
    world = _arrays(game_map)
    world.clock[records.RNG] = np.int64(seed & 0x7FFFFFFFFFFFFFFF)
    _put_neutrals(world, game_map)
    for index in range(2):
        player = index + 1
        record = world.players[player]
        record["race"] = races[index]
        record["race_requested"] = requested[index]
        record["minerals"] = START_MINERALS
        record["income"] = income[index]
        record["all_visible"] = all_visible[index]
        _put_player(world, player, races[index], game_map.bases[starts[index]])
    entry_points.prepare(world.state)
    entry_points.remember_resources(world.state)
    return world
