"""What the ground allows: creep, pylon power, and where buildings can stand.

In: the state. Out: the grids of creep and power, and reasons why a building cannot stand
somewhere. Creep grows around its sources as they age and disappears with them; power covers a
disc around each finished pylon. Both are redrawn from the living units every few loops.
"""

import numpy as np

from starmill.engines.skirmish.simulation import action_results
from starmill.engines.skirmish.simulation.records import (
    LOOP,
    OCCUPIED_ANY,
    OCCUPIED_BUILT,
    OCCUPIED_NEAR_RESOURCES,
    ROWS,
    State,
)
from starmill.schema.compilation import kernel
from starmill.schema.game_constants import TERRAN, ZERG

NO_CEILING = 255  # no ground is higher
CREEP_START = 3.0  # cells around a new source
CREEP_LOOPS_PER_CELL = 40.0
ADD_ON_WIDTH = 3  # cells to keep free to the east of a building that can have an add-on
SEARCH_RADIUS = 20  # cells around a point in which `find_place` looks
MARGIN = 4  # cells along the map's edge in which it does not look


@kernel
def fill_disc(
    w: State,
    grid: np.ndarray,
    x: float,
    y: float,
    radius: float,
    ceiling: int,
    value: int,
) -> None:
    """Sets the cells of a grid whose centre is within the radius of a point.

    ceiling: leave out cells whose ground is higher than this; NO_CEILING takes all.
    """
    rows, columns = w.map_height, w.map_width
    for row in range(max(int(y - radius), 0), min(int(y + radius) + 1, rows)):
        dy = row + 0.5 - y
        rest = radius * radius - dy * dy
        if rest <= 0.0:
            continue
        half = np.sqrt(rest)
        first = max(int(np.ceil(x - half - 0.5)), 0)
        last = min(int(np.floor(x + half - 0.5)), columns - 1)
        for column in range(first, last + 1):
            if w.height[row, column] <= ceiling:
                grid[row, column] = value


@kernel
def draw_creep(w: State) -> None:
    """Draws the creep around its finished sources."""
    w.creep[:] = 0
    loop = w.clock[LOOP]
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.build_progress < 1.0:
            continue
        reach = w.unit_rules[unit.unit_type].creep
        if reach <= 0.0:
            continue
        grown = CREEP_START + (loop - unit.born_loop) / CREEP_LOOPS_PER_CELL
        radius = min(reach + 0.5, grown)
        fill_disc(w, w.creep, unit.x, unit.y, radius, NO_CEILING, 1)
    rows, columns = w.map_height, w.map_width
    for row in range(rows):
        for column in range(columns):
            if w.pathable[row, column] == 0:
                w.creep[row, column] = 0


@kernel
def draw_power(w: State) -> None:
    """Draws pylon power, and sets which of the buildings that need it have it."""
    w.power[:] = 0
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.build_progress < 1.0 or unit.carrier >= 0:
            continue
        reach = w.unit_rules[unit.unit_type].power
        if reach > 0.0 and unit.hallucination == 0:
            power = w.power[unit.owner]
            fill_disc(w, power, unit.x, unit.y, reach, NO_CEILING, 1)
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive and w.unit_rules[unit.unit_type].needs_power:
            unit.powered = w.power[unit.owner, int(unit.y), int(unit.x)]


@kernel
def geyser_at(w: State, x: float, y: float) -> int:
    """Returns the row of a geyser at a point that no gas mine stands on, or -1."""
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or w.unit_rules[unit.unit_type].geyser == 0:
            continue
        if abs(unit.x - x) > 1.5 or abs(unit.y - y) > 1.5:
            continue
        for other in range(w.clock[ROWS]):
            mine = w.units[other]
            gas_mine = mine.alive and w.unit_rules[mine.unit_type].gas_mine
            if gas_mine and abs(mine.x - unit.x) < 1.0 and abs(mine.y - unit.y) < 1.0:
                return -1
        return row
    return -1


@kernel
def snap(size: int, value: float) -> float:
    """Returns the nearest coordinate at which a building of this size fits the cells."""
    if size % 2:
        return np.floor(value) + 0.5
    return np.floor(value + 0.5)


@kernel
def _ground_error(w: State, x0: int, y0: int, size: int, hall: bool) -> int:
    """Returns why a square of cells cannot be built on, or SUCCESS.

    The terrain is known from the start, so players can build where they have not been.
    """
    rows, columns = w.map_height, w.map_width
    if x0 < 1 or y0 < 1 or x0 + size >= columns or y0 + size >= rows:
        return action_results.CANT_BUILD_LOCATION_INVALID
    for row in range(y0, y0 + size):
        for column in range(x0, x0 + size):
            if (
                w.placeable[row, column] == 0
                or w.occupied[row, column] & OCCUPIED_BUILT
            ):
                return action_results.CANT_BUILD_LOCATION_INVALID
            if hall and w.occupied[row, column] & OCCUPIED_NEAR_RESOURCES:
                return action_results.CANT_BUILD_TOO_CLOSE_TO_RESOURCES
    return action_results.SUCCESS


@kernel
def placement_error(w: State, player: int, unit_type: int, x: float, y: float) -> int:
    """Returns SUCCESS if the player can place this building at the point, or why not.

    x, y: the building's centre.
    """
    rule = w.unit_rules[unit_type]
    if rule.gas_mine:
        return (
            action_results.SUCCESS
            if geyser_at(w, x, y) >= 0
            else action_results.CANT_BUILD_ON_THAT
        )
    size = rule.footprint
    sx, sy = snap(size, x), snap(size, y)
    x0, y0 = int(sx - size / 2.0), int(sy - size / 2.0)
    code = _ground_error(w, x0, y0, size, rule.town_hall != 0)
    if code != action_results.SUCCESS:
        return code
    column, row = int(sx), int(sy)
    if rule.needs_power and w.power[player, row, column] == 0:
        return action_results.CANT_BUILD_TOO_FAR_FROM_POWER
    if rule.needs_creep and w.creep[row, column] == 0:
        return action_results.CANT_BUILD_TOO_FAR_FROM_CREEP
    if rule.race != ZERG and w.creep[row, column]:
        return action_results.CANT_BUILD_LOCATION_INVALID
    return action_results.SUCCESS


@kernel
def _fits(w: State, player: int, unit_type: int, x: float, y: float) -> bool:
    """Returns whether a building fits here without blocking workers or add-ons."""
    if placement_error(w, player, unit_type, x, y) != action_results.SUCCESS:
        return False
    rule = w.unit_rules[unit_type]
    size = rule.footprint
    x0, y0 = int(snap(size, x) - size / 2.0), int(snap(size, y) - size / 2.0)
    # A margin of one cell, and room to the east for an add-on.
    has_add_on = rule.race == TERRAN and size == 3
    right = x0 + size + (ADD_ON_WIDTH if has_add_on else 1)
    blocked = OCCUPIED_BUILT if rule.town_hall else OCCUPIED_ANY
    for row in range(y0 - 1, y0 + size + 1):
        for column in range(x0 - 1, right):
            if w.occupied[row, column] & blocked:
                return False
    return True


@kernel
def find_place(
    w: State, player: int, unit_type: int, x: float, y: float, skip: int
) -> tuple[float, float]:
    """Returns the free place for a building nearest to a point, or (-1, -1) if there is none.

    skip: how many of the nearest places to pass over, so that not everybody builds on one spot.
    """
    for radius in range(SEARCH_RADIUS):
        for dy in range(-radius, radius + 1):
            step = 1 if dy == -radius or dy == radius else max(2 * radius, 1)
            for dx in range(-radius, radius + 1, step):
                px, py = x + dx, y + dy
                if px < MARGIN or px >= w.map_width - MARGIN:
                    continue
                if py < MARGIN or py >= w.map_height - MARGIN:
                    continue
                if _fits(w, player, unit_type, px, py):
                    if skip == 0:
                        return px, py
                    skip -= 1
    return -1.0, -1.0
