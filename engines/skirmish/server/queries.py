"""Answers to `query`: path lengths, what a unit can do, and whether a building fits.

In: a game, the asking player, the request. Out: a ResponseQuery. Path lengths are measured on the
coarse grid that the game's own pathfinding uses. Places are judged by what the player sees: an
enemy building that it has not seen does not block one, and enemies that stand there do.
"""

import contextlib
import heapq
from collections.abc import Iterator

import numpy as np

from starmill.converters.protos import query_pb2
from starmill.engines.skirmish.observation import selection_panels, visible_units
from starmill.engines.skirmish.observation.visible_units import View
from starmill.engines.skirmish.simulation import (
    action_results,
    entry_points,
    ids,
    records,
    rules,
)
from starmill.engines.skirmish.simulation.game import Game
from starmill.engines.skirmish.simulation.records import World

_TAG_LIMIT = 1 << 62  # the game's arrays hold signed numbers
_CELL = 2.0  # world units per cell of the coarse grid
_MOVES = tuple(
    (dy, dx, float(np.hypot(dy, dx)) * _CELL)
    for dy in (-1, 0, 1)
    for dx in (-1, 0, 1)
    if dy or dx
)


def response(
    game: Game, player: int, request: query_pb2.RequestQuery
) -> query_pb2.ResponseQuery:
    """Returns the answers, in the order of the questions."""
    answer = query_pb2.ResponseQuery()
    for question in request.pathing:
        answer.pathing.add(distance=_pathing(game, question))
    for asked in request.abilities:
        entry = answer.abilities.add(unit_tag=asked.unit_tag)
        rows = _rows(game, asked.unit_tag)
        if not len(rows) or game.world.units["owner"][rows[0]] != player:
            continue
        row = int(rows[0])
        entry.unit_type_id = int(game.world.units["unit_type"][row])
        abilities = _abilities(game, row, request.ignore_resource_requirements)
        entry.abilities.extend(
            selection_panels.available(ability) for ability in abilities
        )
    if request.placements:
        view = visible_units.player_view(
            game, player, show_cloaked=False, show_burrowed=False
        )
        with _unseen_buildings_left_out(game, player, view):
            for place in request.placements:
                code = _placement(game, player, view, place)
                answer.placements.add(result=code)  # type: ignore[arg-type]  # the enum's numbers
    return answer


def _rows(game: Game, tag: int) -> np.ndarray:
    return game.rows_of([tag]) if 0 < tag < _TAG_LIMIT else np.zeros(0, np.int64)


def _abilities(game: Game, row: int, ignore_cost: bool) -> list[int]:
    """Returns what the unit can do now: nothing to cancel, unload or return if it has nothing."""
    unit, order = game.world.units[row], game.world.orders[row, 0]
    table = rules.ability_rules()
    work = (
        int(table["kind"][order["ability"]]) if unit["order_count"] else ids.KIND_NONE
    )
    started = order["stage"] == records.STAGE_STARTED
    changing = work == ids.KIND_HATCH or (
        started and work in (ids.KIND_MORPH, ids.KIND_ARCHON)
    )
    if changing:
        named = (rules.sources() == unit["unit_type"]).any(axis=1) & (
            table["by_count"] > 0
        )
        allowed = (ids.KIND_CANCEL_MORPH, ids.KIND_RALLY)
        usable = named & np.isin(table["kind"], allowed)
        return [int(ability) for ability in np.flatnonzero(usable)]
    pointless = {
        ids.KIND_RETURN: unit["carry_minerals"] + unit["carry_vespene"] == 0,
        ids.KIND_HALT: work != ids.KIND_BUILD or not started,
        ids.KIND_CANCEL_LAST: unit["order_count"] == 0,
        ids.KIND_CANCEL_MORPH: True,
        ids.KIND_UNLOAD_ALL: unit["cargo_count"] == 0,
        ids.KIND_UNLOAD_AT: unit["cargo_count"] == 0,
        ids.KIND_UNLOAD_ONE: unit["cargo_count"] == 0,
    }
    abilities = game.available_abilities(row, ignore_cost=ignore_cost)
    return [a for a in abilities if not pointless.get(int(table["kind"][a]), False)]


def _placement(
    game: Game,
    player: int,
    view: View,
    place: query_pb2.RequestQueryBuildingPlacement,
) -> int:
    if not 0 < place.ability_id < rules.ABILITY_LIMIT:
        return action_results.NOT_SUPPORTED
    building = int(rules.ability_rules()["makes"][place.ability_id])
    x, y = place.target_pos.x, place.target_pos.y
    inside = 0.0 <= x < game.map.width and 0.0 <= y < game.map.height
    if not building or not inside:
        return action_results.CANT_BUILD_LOCATION_INVALID
    if rules.ability_rules()["kind"][place.ability_id] == ids.KIND_WARP:
        return _warp_in(game.world, player, int(x), int(y))
    code = int(entry_points.placement_error(game.world.state, player, building, x, y))
    rule = rules.unit_rules()[building]
    if code == action_results.SUCCESS and not rule["gas_mine"]:
        size = int(rule["footprint"])
        if _is_stood_on(view, size, _corner(size, x), _corner(size, y)):
            return action_results.CANT_BUILD_LOCATION_INVALID
    return code


def _warp_in(world: World, player: int, column: int, line: int) -> int:
    """Returns SUCCESS if units can be warped into a cell, as for the command."""
    powered = world.pathable[line, column] and world.power[player, line, column]
    built_on = world.occupied[line, column] & records.OCCUPIED_BUILT
    if powered and not built_on:
        return action_results.SUCCESS
    return action_results.CANT_WARP_IN_THERE


def _corner(size: int, centre: float) -> int:
    """Returns the first cell of a building of this size whose centre is nearest to a point."""
    return int(np.floor(centre - size / 2.0 + 0.5))


def _is_stood_on(view: View, size: int, x0: int, y0: int) -> bool:
    """Returns whether a unit that the player sees keeps a square of cells from being built on.

    Visible enemies on the ground do, and the player's own sieged tanks. Its other units go away.
    """
    units = view.units
    footprint = rules.unit_rules()["footprint"][units["unit_type"]]
    tank = units["unit_type"] == rules.unit_id("SiegeTankSieged")
    stays = tank & (view.alliance == visible_units.ALLIANCE_SELF)
    stays |= view.alliance == visible_units.ALLIANCE_ENEMY
    stays &= (view.display == visible_units.DISPLAY_VISIBLE) & (units["flying"] == 0)
    dx = units["x"] - np.clip(units["x"], x0, x0 + size)
    dy = units["y"] - np.clip(units["y"], y0, y0 + size)
    near = dx * dx + dy * dy < units["radius"] ** 2
    return bool((stays & (footprint == 0) & near).any())


@contextlib.contextmanager
def _unseen_buildings_left_out(game: Game, player: int, view: View) -> Iterator[None]:
    """Frees the cells of enemy buildings that the player has not seen, until the block ends."""
    units = game.world.units
    size = rules.unit_rules()["footprint"][units["unit_type"]]
    enemy = (units["owner"] != player) & (units["owner"] != records.OWNER_NEUTRAL)
    unseen = enemy & (units["alive"] == 1) & (size > 0) & (units["flying"] == 0)
    unseen &= ~np.isin(units["tag"], view.units["tag"])
    occupied = game.world.occupied
    before = occupied.copy()
    for row in unseen.nonzero()[0]:
        x0 = max(_corner(int(size[row]), units["x"][row]), 0)
        y0 = max(_corner(int(size[row]), units["y"][row]), 0)
        cells = occupied[y0 : y0 + size[row], x0 : x0 + size[row]]
        cells &= ~np.array(records.OCCUPIED_BUILT, cells.dtype)
    try:
        yield
    finally:
        occupied[:] = before


def _pathing(game: Game, question: query_pb2.RequestQueryPathing) -> float:
    """Returns the length of the path, 0 if there is none (like the real game)."""
    end = (question.end_pos.x, question.end_pos.y)
    start = (question.start_pos.x, question.start_pos.y)
    if question.HasField("unit_tag"):
        rows = _rows(game, question.unit_tag)
        if not len(rows):
            return 0.0
        unit = game.world.units[rows[0]]
        start = (float(unit["x"]), float(unit["y"]))
        if unit["flying"]:
            length = float(np.hypot(end[0] - start[0], end[1] - start[1]))
            return length if np.isfinite(length) else 0.0
    if not np.isfinite([*start, *end]).all():
        return 0.0
    return path_length(game.world.walkable, start, end)


def path_length(
    walkable: np.ndarray, start: tuple[float, float], end: tuple[float, float]
) -> float:
    """Returns the length of the shortest path, 0 if there is none.

    walkable: the coarse grid, shape [H/2, W/2] for a map of H times W cells.
    """
    height, width = walkable.shape
    first = (int(start[1] // _CELL), int(start[0] // _CELL))
    last = (int(end[1] // _CELL), int(end[0] // _CELL))
    for row, column in (first, last):
        if not (0 <= row < height and 0 <= column < width):
            return 0.0
    if not walkable[last]:
        return 0.0
    straight = float(np.hypot(end[0] - start[0], end[1] - start[1]))
    best = {first: 0.0}
    queue = [(0.0, first)]
    while queue:
        length, cell = heapq.heappop(queue)
        if cell == last:
            return max(length, straight)
        if length > best[cell]:
            continue
        for after, neighbour in _neighbours(walkable, cell, length):
            if after < best.get(neighbour, np.inf):
                best[neighbour] = after
                heapq.heappush(queue, (after, neighbour))
    return 0.0


def _neighbours(
    walkable: np.ndarray, cell: tuple[int, int], length: float
) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yields the walkable cells around a cell, each with the length of the path to it."""
    height, width = walkable.shape
    for dy, dx, cost in _MOVES:
        row, column = cell[0] + dy, cell[1] + dx
        if 0 <= row < height and 0 <= column < width and walkable[row, column]:
            yield length + cost, (row, column)
