"""How units move: paths around obstacles, steps along them, and pushing each other apart.

In: a unit's row and where it is going. Out: its new position. Paths are planned on a coarse grid
of 2 by 2 cells. For each goal cell, a field of distances is computed once and kept while there is
room. Fields depend on the terrain alone, so the cache never changes what happens. Flying units go
straight. Knows nothing of orders.
"""

import numpy as np

from starmill.engines.skirmish.simulation.records import (
    FIELD_SLOTS,
    LOOP,
    NEXT_FIELD,
    OWNER_NEUTRAL,
    ROWS,
    State,
)
from starmill.engines.skirmish.simulation.units import FLYING_HEIGHT, ground_z, speed_of
from starmill.schema.compilation import kernel

UNREACHABLE = 32000  # distance of a coarse cell from which no path leads to the goal
LOOK_AHEAD = 10  # coarse cells that a unit plans ahead along a field
REPLAN_LOOPS = 12
SEARCH_RADIUS = 24  # coarse cells around a cell in which to look for a walkable one
QUARTER_PI, HALF_PI, PI, TWO_PI = (
    0.7853981633974483,
    1.5707963267948966,
    3.141592653589793,
    6.283185307179586,
)
MAP_MARGIN = 2.0  # flying units come no nearer to the map's edge
PUSH_SHARE, MAX_PUSH = 0.25, 0.12  # of an overlap that is undone in a loop, world units


@kernel
def set_height(w: State, row: int) -> None:
    """Puts a unit on the ground under it, or above it if it flies."""
    unit = w.units[row]
    unit.z = ground_z(w, unit.x, unit.y) + (FLYING_HEIGHT if unit.flying else 0.0)


@kernel
def _cell(w: State, x: float, y: float) -> int:
    """Returns the index of the coarse cell at a point; points outside go to the grid's edge."""
    rows, columns = w.map_height // 2, w.map_width // 2
    column = min(max(int(x) // 2, 0), columns - 1)
    row = min(max(int(y) // 2, 0), rows - 1)
    return row * columns + column


@kernel
def _nearest_walkable(w: State, cell: int) -> int:
    """Returns the walkable coarse cell nearest to this one, which may be itself."""
    rows, columns = w.map_height // 2, w.map_width // 2
    row0, column0 = cell // columns, cell % columns
    if w.walkable[row0, column0]:
        return cell
    best, best_distance = cell, 1 << 30
    for radius in range(1, SEARCH_RADIUS):
        for row in range(max(row0 - radius, 0), min(row0 + radius + 1, rows)):
            for column in range(
                max(column0 - radius, 0), min(column0 + radius + 1, columns)
            ):
                if w.walkable[row, column]:
                    d = (row - row0) ** 2 + (column - column0) ** 2
                    if d < best_distance:
                        best, best_distance = row * columns + column, d
        if best_distance <= radius * radius:
            break
    return best


@kernel
def _fill_field(w: State, slot: int, goal: int) -> None:
    """Computes every coarse cell's distance to the goal: breadth first, in four directions."""
    rows, columns = w.map_height // 2, w.map_width // 2
    field = w.fields[slot]
    field[:] = UNREACHABLE
    queue = np.empty(rows * columns, np.int32)
    queue[0] = goal
    field[goal] = 0
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        row, column = cell // columns, cell % columns
        for k in range(4):
            r = row + (1 if k == 0 else (-1 if k == 1 else 0))
            c = column + (1 if k == 2 else (-1 if k == 3 else 0))
            if 0 <= r < rows and 0 <= c < columns and w.walkable[r, c]:
                other = r * columns + c
                if field[other] == UNREACHABLE:
                    field[other] = field[cell] + 1
                    queue[tail] = other
                    tail += 1


@kernel
def _field(w: State, goal: int) -> int:
    """Returns the slot of the field to a goal cell, and computes it if it is not there."""
    slots = FIELD_SLOTS
    for slot in range(slots):
        if w.field_goals[slot] == goal:
            return slot
    slot = w.clock[NEXT_FIELD] % slots
    w.clock[NEXT_FIELD] += 1
    w.field_goals[slot] = goal
    _fill_field(w, slot, goal)
    return slot


@kernel
def is_clear(w: State, x0: float, y0: float, x1: float, y1: float) -> bool:
    """Returns whether all cells on the straight line between two points are walkable."""
    dx, dy = x1 - x0, y1 - y0
    steps = int(max(abs(dx), abs(dy)) * 1.5) + 1
    rows, columns = w.map_height // 2, w.map_width // 2
    for k in range(1, steps + 1):
        x = x0 + dx * k / steps
        y = y0 + dy * k / steps
        column, row = int(x) // 2, int(y) // 2
        if row < 0 or column < 0 or row >= rows or column >= columns:
            return False
        if w.walkable[row, column] == 0:
            return False
    return True


@kernel
def _plan(w: State, row: int, x: float, y: float) -> None:
    """Chooses the next corner of a ground unit's path to a point."""
    unit = w.units[row]
    unit.path_until = w.clock[LOOP] + REPLAN_LOOPS + (row & 3)
    unit.path_x = x
    unit.path_y = y
    if is_clear(w, unit.x, unit.y, x, y):
        return
    goal = _nearest_walkable(w, _cell(w, x, y))
    field = w.fields[_field(w, goal)]
    rows, columns = w.map_height // 2, w.map_width // 2
    cell = _nearest_walkable(w, _cell(w, unit.x, unit.y))
    if field[cell] >= UNREACHABLE:
        return
    for ahead in range(LOOK_AHEAD):
        best = cell
        r0, c0 = cell // columns, cell % columns
        for r in range(max(r0 - 1, 0), min(r0 + 2, rows)):
            for c in range(max(c0 - 1, 0), min(c0 + 2, columns)):
                diagonal_cut = (
                    r != r0
                    and c != c0
                    and (w.walkable[r0, c] == 0 or w.walkable[r, c0] == 0)
                )
                if not diagonal_cut and field[r * columns + c] < field[best]:
                    best = r * columns + c
        if best == cell:
            break
        px = (best % columns) * 2.0 + 1.0
        py = (best // columns) * 2.0 + 1.0
        # Take the first cell even if the line to it grazes a corner: waiting never helps.
        if ahead > 0 and not is_clear(w, unit.x, unit.y, px, py):
            break
        unit.path_x = px
        unit.path_y = py
        cell = best


@kernel
def can_stand(w: State, x: float, y: float) -> bool:
    """Returns whether ground units can be at a point."""
    rows, columns = w.map_height, w.map_width
    if x < 1 or y < 1 or x >= columns - 1 or y >= rows - 1:
        return False
    return w.pathable[int(y), int(x)] != 0


@kernel
def exit_point(w: State, row: int, index: int) -> tuple[float, float]:
    """Returns a point beside a building where a unit can stand; `index` varies the side."""
    unit = w.units[row]
    reach = unit.radius + 0.8
    for k in range(8):
        side = (index + k) % 8
        dx = (0.0, 0.7, 1.0, 0.7, 0.0, -0.7, -1.0, -0.7)[side]
        dy = (-1.0, -0.7, 0.0, 0.7, 1.0, 0.7, 0.0, -0.7)[side]
        x, y = unit.x + dx * reach, unit.y + dy * reach
        if can_stand(w, x, y):
            return x, y
    return unit.x, unit.y


@kernel
def _turn(w: State, row: int, dx: float, dy: float) -> None:
    """Turns the unit to face a direction.

    Departs: no trigonometry, whose results differ between machines. The angle is linear in the
    tangent within each octant, so it is exact at multiples of 45 degrees.
    """
    ax, ay = abs(dx), abs(dy)
    if ax + ay <= 0.0:
        return

    steep = ay > ax
    angle = HALF_PI - QUARTER_PI * (ax / ay) if steep else QUARTER_PI * (ay / ax)
    if dx < 0.0:
        angle = PI - angle
    if dy < 0.0:
        angle = TWO_PI - angle
    w.units[row].facing = angle


@kernel
def face(w: State, row: int, x: float, y: float) -> None:
    """Turns the unit to face a point."""
    _turn(w, row, x - w.units[row].x, y - w.units[row].y)


@kernel
def _place(w: State, row: int, x: float, y: float) -> bool:
    """Moves a unit to a point if it can be there; returns whether it did."""
    unit = w.units[row]
    rows, columns = w.map_height, w.map_width
    if unit.flying:
        unit.x = min(max(x, MAP_MARGIN), columns - MAP_MARGIN)
        unit.y = min(max(y, MAP_MARGIN), rows - MAP_MARGIN)
        return True
    if not can_stand(w, x, y):
        return False
    unit.x = x
    unit.y = y
    return True


@kernel
def walk(w: State, row: int, x: float, y: float, stop: float) -> bool:
    """Takes one loop's step towards a point; returns True once it is within `stop` of it."""
    unit = w.units[row]
    dx, dy = x - unit.x, y - unit.y
    left = np.sqrt(dx * dx + dy * dy)
    if left <= stop:
        return True
    speed = speed_of(w, row)
    if speed <= 0.0:
        return False
    px, py = x, y
    if not unit.flying:
        near_corner = (
            abs(unit.path_x - unit.x) < 0.6 and abs(unit.path_y - unit.y) < 0.6
        )
        if w.clock[LOOP] >= unit.path_until or near_corner:
            _plan(w, row, x, y)
        px, py = unit.path_x, unit.path_y
    dx, dy = px - unit.x, py - unit.y
    length = np.sqrt(dx * dx + dy * dy)
    if length <= 0.0:
        return False
    reach = min(speed, max(left - stop, 0.0) + 0.01) if px == x and py == y else speed
    sx, sy = dx, dy  # the last step ends exactly at the point
    if reach < length:
        sx, sy = dx / length * reach, dy / length * reach
    _turn(w, row, dx, dy)
    moved = (
        _place(w, row, unit.x + sx, unit.y + sy)
        or _place(w, row, unit.x + sx, unit.y)
        or _place(w, row, unit.x, unit.y + sy)
    )
    if moved:
        set_height(w, row)
    return False


@kernel
def walk_to(w: State, row: int, x: float, y: float) -> bool:
    """Takes one loop's step towards a point; returns True once the unit is exactly there.

    A flying unit cannot leave the map: it goes to the nearest point inside.
    """
    unit = w.units[row]
    if unit.flying:
        x = min(max(x, MAP_MARGIN), w.map_width - MAP_MARGIN)
        y = min(max(y, MAP_MARGIN), w.map_height - MAP_MARGIN)
    walk(w, row, x, y, 0.0)
    return unit.x == x and unit.y == y


@kernel
def push_apart(w: State) -> None:
    """Pushes apart the mobile units that overlap on the ground or in the air, except workers."""
    rows = np.empty(w.clock[ROWS], np.int32)
    count = 0
    for row in range(w.clock[ROWS]):
        unit = w.units[row]
        if unit.alive == 0 or unit.carrier >= 0 or unit.owner == OWNER_NEUTRAL:
            continue
        rule = w.unit_rules[unit.unit_type]
        if rule.speed <= 0.0 or rule.structure or rule.worker:
            continue
        rows[count] = row
        count += 1
    for i in range(count):
        a = w.units[rows[i]]
        for j in range(i + 1, count):
            b = w.units[rows[j]]
            dx = b.x - a.x
            room = a.radius + b.radius
            if dx >= room or dx <= -room or a.flying != b.flying:
                continue
            dy = b.y - a.y
            if dy >= room or dy <= -room:
                continue
            _push(w, rows[i], rows[j], dx, dy, room)


@kernel
def _push(w: State, i: int, j: int, dx: float, dy: float, room: float) -> None:
    """Moves two overlapping units a little away from each other."""
    gap = np.sqrt(dx * dx + dy * dy)
    if gap >= room:
        return
    if gap < 0.001:  # on the same spot: choose a direction by their rows
        dx = 1.0 if (i + j) % 2 else 0.0
        dy = 1.0 - dx
        gap = 1.0
    push = min((room - gap) * PUSH_SHARE, MAX_PUSH) / gap
    a, b = w.units[i], w.units[j]
    _place(w, i, a.x - dx * push, a.y - dy * push)
    _place(w, j, b.x + dx * push, b.y + dy * push)
