"""What each player sees: the map's visibility, detection, and memories of buildings in the fog.

`refresh` is a kernel that runs every few loops; `view` answers, for one player, which units
there are to show now and how. High ground hides what is on it from ground units below.
"""

import numpy as np

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.records import (
    MAX_EFFECTS,
    MAX_SNAPSHOTS,
    OWNER_NEUTRAL,
    ROWS,
    State,
)
from starmill.schema.compilation import kernel

VISION_LOOPS = 8  # loops between two looks at the map
CLIFF = 5  # difference in the height map that hides high ground
TOWER_REACH = 3.0
SENSOR_RANGE = 30.0


@kernel
def _look(
    w: State,
    grid: np.ndarray,
    x: float,
    y: float,
    radius: float,
    ceiling: int,
    value: int,
) -> None:
    """Sets the cells within a radius whose ground is no higher than `ceiling`."""
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
def _fade(w: State, p: int) -> None:
    """What was visible becomes fogged, unless the player sees everything."""
    rows, columns = w.map_height, w.map_width
    everything = w.players[p].all_visible != 0
    for row in range(rows):
        for column in range(columns):
            if everything:
                w.visibility[p, row, column] = 2
            elif w.visibility[p, row, column] == 2:
                w.visibility[p, row, column] = 1
            w.detection[p, row, column] = 0


@kernel
def _unit_looks(w: State, row: int) -> None:
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    p = unit.owner
    sight = rule.sight
    if unit.build_progress < 1.0:
        sight = min(sight, unit.radius + 3.0)
    ceiling = 255
    if unit.flying == 0:
        line = min(max(int(unit.y), 0), w.map_height - 1)
        column = min(max(int(unit.x), 0), w.map_width - 1)
        ceiling = w.height[line, column] + CLIFF
    _look(w, w.visibility[p], unit.x, unit.y, sight, ceiling, 2)
    detects = rule.detects > 0.0 and unit.build_progress >= 1.0
    if detects and (rule.needs_power == 0 or unit.powered):
        _look(w, w.detection[p], unit.x, unit.y, rule.detects, 255, 1)


@kernel
def _tower_looks(w: State, row: int) -> None:
    """A watch tower serves the player who alone has ground units beside it."""
    tower = w.units[row]
    near = 0
    for other in range(w.clock[ROWS]):
        unit = w.units[other]
        if (
            unit.alive == 0
            or unit.owner == OWNER_NEUTRAL
            or unit.flying
            or unit.carrier >= 0
        ):
            continue
        dx, dy = unit.x - tower.x, unit.y - tower.y
        if dx * dx + dy * dy < TOWER_REACH * TOWER_REACH:
            near |= 1 << unit.owner
    if near == 2 or near == 4:
        sight = w.unit_rules[tower.unit_type].sight
        _look(w, w.visibility[near // 2], tower.x, tower.y, sight, 255, 2)


@kernel
def _remember(w: State, p: int, row: int) -> None:
    """Keeps a copy of a building as the player last saw it."""
    tag = w.units[row].tag
    free = -1
    for k in range(MAX_SNAPSHOTS):
        if w.snapshots[p, k].alive == 0:
            if free < 0:
                free = k
        elif w.snapshots[p, k].tag == tag:
            free = k
            break
    if free >= 0:
        w.snapshots[p, free] = w.units[row]


@kernel
def _forget_seen(w: State, p: int) -> None:
    """Drops memories of places that the player sees again."""
    for k in range(MAX_SNAPSHOTS):
        memory = w.snapshots[p, k]
        if memory.alive and w.visibility[p, int(memory.y), int(memory.x)] == 2:
            memory.alive = 0


@kernel
def _mark_units(w: State) -> None:
    """Writes who sees and detects each unit, and remembers buildings that go out of sight."""
    rows, columns = w.map_height, w.map_width
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0:
            continue
        line = min(max(int(unit.y), 0), rows - 1)
        column = min(max(int(unit.x), 0), columns - 1)
        fixed = (
            unit.owner == OWNER_NEUTRAL and w.unit_rules[unit.unit_type].critter == 0
        ) or (w.unit_rules[unit.unit_type].footprint > 0 and unit.cloaked == 0)
        before = unit.seen
        seen = 0
        detected = 0
        for p in range(1, 3):
            bit = 1 << p
            if unit.owner == p or w.visibility[p, line, column] == 2:
                seen |= bit
            elif before & bit and fixed and unit.flying == 0:
                _remember(w, p, row)
            if w.detection[p, line, column]:
                detected |= bit
        unit.seen = seen
        unit.detected = detected


@kernel
def refresh(w: State) -> None:
    """Looks at the map for both players."""
    for p in range(1, 3):
        _fade(w, p)
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.carrier >= 0:
            continue
        if unit.owner != OWNER_NEUTRAL:
            _unit_looks(w, row)
        elif w.unit_rules[unit.unit_type].tower:
            _tower_looks(w, row)
    for k in range(MAX_EFFECTS):
        entry = w.effects[k]
        if entry.alive and entry.id == ids.EFFECT_SCAN:
            _look(w, w.visibility[entry.owner], entry.x, entry.y, entry.radius, 255, 2)
            _look(w, w.detection[entry.owner], entry.x, entry.y, entry.radius, 255, 1)
    _mark_units(w)
    for p in range(1, 3):
        _forget_seen(w, p)


@kernel
def remember_resources(w: State) -> None:
    """At the start both players know where resources, rocks and towers are."""
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.owner != OWNER_NEUTRAL:
            continue
        for p in range(1, 3):
            if w.unit_rules[unit.unit_type].critter == 0:
                _remember(w, p, row)
