"""What each player sees: visible cells, detection, and buildings remembered in the fog.

In: the state. Out: its grids of visibility and detection, the units' flags `seen` and `detected`,
and snapshots. Runs every few loops. High ground hides what is on it from ground units below. Which
units an observation then shows is decided in the room `observation`.
"""

from starmill.engines.skirmish.simulation import ids
from starmill.engines.skirmish.simulation.records import (
    CELL_FOGGED,
    CELL_VISIBLE,
    MAX_EFFECTS,
    MAX_SNAPSHOTS,
    OWNER_NEUTRAL,
    PLAYERS,
    ROWS,
    State,
)
from starmill.engines.skirmish.simulation.terrain import NO_CEILING, fill_disc
from starmill.engines.skirmish.simulation.units import cell_at
from starmill.schema.compilation import kernel

VISION_LOOPS = 8  # between two updates
CLIFF = 5  # difference in height that hides high ground
SITE_SIGHT = 3.0  # of an unfinished building, beyond its radius
TOWER_REACH = 3.0  # how near to a watch tower a unit must be to use it
SENSOR_RANGE = 30.0


@kernel
def _fade(w: State, p: int) -> None:
    """Makes visible cells fogged, unless the player sees everything."""
    rows, columns = w.map_height, w.map_width
    everything = w.players[p].all_visible != 0
    for row in range(rows):
        for column in range(columns):
            if everything:
                w.visibility[p, row, column] = CELL_VISIBLE
            elif w.visibility[p, row, column] == CELL_VISIBLE:
                w.visibility[p, row, column] = CELL_FOGGED
            w.detection[p, row, column] = 0


@kernel
def _look_from_unit(w: State, row: int) -> None:
    """Reveals what a unit sees and detects to its owner."""
    unit = w.units[row]
    rule = w.unit_rules[unit.unit_type]
    p = unit.owner
    sight = rule.sight
    if unit.build_progress < 1.0:
        sight = min(sight, unit.radius + SITE_SIGHT)
    ceiling = NO_CEILING
    if unit.flying == 0:
        line, column = cell_at(w, unit.x, unit.y)
        ceiling = w.height[line, column] + CLIFF
    fill_disc(w, w.visibility[p], unit.x, unit.y, sight, ceiling, CELL_VISIBLE)
    detects = rule.detects > 0.0 and unit.build_progress >= 1.0
    if detects and (rule.needs_power == 0 or unit.powered):
        fill_disc(w, w.detection[p], unit.x, unit.y, rule.detects, NO_CEILING, 1)


@kernel
def _look_from_tower(w: State, row: int) -> None:
    """Reveals what a watch tower sees to the only player who has ground units beside it."""
    tower = w.units[row]
    near = 0  # bit p: player p is there
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
    sight = w.unit_rules[tower.unit_type].sight
    for p in range(1, PLAYERS):
        if near == 1 << p:
            grid = w.visibility[p]
            fill_disc(w, grid, tower.x, tower.y, sight, NO_CEILING, CELL_VISIBLE)


@kernel
def _remember(w: State, p: int, row: int) -> None:
    """Keeps a snapshot of a unit as the player last saw it, if there is room for it."""
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
    """Drops the snapshots at places that the player sees again."""
    for k in range(MAX_SNAPSHOTS):
        snapshot = w.snapshots[p, k]
        if snapshot.alive == 0:
            continue
        if w.visibility[p, int(snapshot.y), int(snapshot.x)] == CELL_VISIBLE:
            snapshot.alive = 0


@kernel
def _mark_units(w: State) -> None:
    """Sets who sees and detects each unit, and remembers buildings that go out of sight."""
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0:
            continue
        line, column = cell_at(w, unit.x, unit.y)
        fixed = (
            unit.owner == OWNER_NEUTRAL and w.unit_rules[unit.unit_type].critter == 0
        ) or (w.unit_rules[unit.unit_type].footprint > 0 and unit.cloaked == 0)
        before = unit.seen
        seen = 0
        detected = 0
        for p in range(1, PLAYERS):
            bit = 1 << p
            if unit.owner == p or w.visibility[p, line, column] == CELL_VISIBLE:
                seen |= bit
            elif before & bit and fixed and unit.flying == 0:
                _remember(w, p, row)
            if w.detection[p, line, column]:
                detected |= bit
        unit.seen = seen
        unit.detected = detected


@kernel
def refresh_vision(w: State) -> None:
    """Updates what both players see."""
    for p in range(1, PLAYERS):
        _fade(w, p)
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.carrier >= 0:
            continue
        if unit.owner != OWNER_NEUTRAL:
            _look_from_unit(w, row)
        elif w.unit_rules[unit.unit_type].tower:
            _look_from_tower(w, row)
    for k in range(MAX_EFFECTS):
        entry = w.effects[k]
        if entry.alive and entry.id == ids.EFFECT_SCAN:
            seen, detected = w.visibility[entry.owner], w.detection[entry.owner]
            x, y, radius = entry.x, entry.y, entry.radius
            fill_disc(w, seen, x, y, radius, NO_CEILING, CELL_VISIBLE)
            fill_disc(w, detected, x, y, radius, NO_CEILING, 1)
    _mark_units(w)
    for p in range(1, PLAYERS):
        _forget_seen(w, p)


@kernel
def remember_resources(w: State) -> None:
    """Gives both players snapshots of all resources, rocks and towers, as at the start."""
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.owner != OWNER_NEUTRAL:
            continue
        for p in range(1, PLAYERS):
            if w.unit_rules[unit.unit_type].critter == 0:
                _remember(w, p, row)
