"""Feature layers as pixels: terrain and units painted straight into an answer's bytes.

In: the game's state, the columns of a `view.View`, and where each plane's data begins in the
buffer (`layers.Canvas`, which has the planes in the order of the constants here). Units are
squares of their radius, the later over the earlier; row 0 is the north. Planes have 1, 8 or 32
bits per pixel, one-bit pixels from the highest bit of a byte down.
"""

import numpy as np

from starmill.engines.skirmish.observation.unit_messages import Columns
from starmill.engines.skirmish.simulation.records import State
from starmill.schema.compilation import entry, kernel

MAX_RADIUS_PX = 24
_HIDDEN, _SEEN = 0, 2
_VISIBLE, _PLACEHOLDER, _CLOAKED = 1, 4, 1
# What `paint_terrain` paints, in this order; both pictures have these.
TERRAIN = ("visibility_map", "creep", "buildable", "pathable")
# What `paint_units` paints, in this order: the first four on the minimap, all on the screen.
UNITS = (
    "player_id",
    "player_relative",
    "selected",
    "unit_type",
    "unit_hit_points",
    "unit_energy",
    "unit_shields",
    "unit_hit_points_ratio",
    "unit_energy_ratio",
    "unit_shields_ratio",
    "hallucinations",
    "cloaked",
    "blip",
    "buffs",
    "buff_duration",
    "active",
    "build_progress",
    "placeholder",
)
MINIMAP_UNITS = 4


@kernel
def _put(out: np.ndarray, begin: int, bits: int, pixel: int, value: int) -> None:
    if bits == 8:
        out[begin + pixel] = value & 255
    elif bits == 1:
        mask = np.uint8(128 >> (pixel & 7))
        if value != 0:
            out[begin + (pixel >> 3)] |= mask
        else:
            out[begin + (pixel >> 3)] &= ~mask
    else:
        for k in range(4):
            out[begin + 4 * pixel + k] = (value >> (8 * k)) & 255


@kernel
def _square(
    place: np.ndarray, x: float, y: float, radius: float
) -> tuple[int, int, int, int]:
    """Returns columns and rows [first, last) of a unit's square; empty off the picture."""
    column = int(np.floor((x - place[0]) * place[2]))
    row = int(np.floor((place[1] - y) * place[3]))
    reach = min(int(np.floor(radius * place[2])), MAX_RADIUS_PX)
    return (
        max(column - reach, 0),
        min(column + reach + 1, int(place[4])),
        max(row - reach, 0),
        min(row + reach + 1, int(place[5])),
    )


@entry
def paint_terrain(
    state: np.ndarray,
    player: int,
    columns: np.ndarray,
    rows: np.ndarray,
    begins: np.ndarray,
    out: np.ndarray,
) -> None:
    """Paints TERRAIN. columns, rows: the map's cell under each pixel, -1 off the map."""
    w = state[0]
    all_visible = w.players[player].all_visible != 0
    pixel = -1
    for y in rows:
        for x in columns:
            pixel += 1
            if x < 0 or y < 0:
                continue
            seen = _SEEN if all_visible else int(w.visibility[player, y, x])
            out[begins[0] + pixel] = seen
            mask = np.uint8(128 >> (pixel & 7))
            byte = pixel >> 3
            if w.creep[y, x] == 1 and seen != _HIDDEN:
                out[begins[1] + byte] |= mask
            if w.occupied[y, x] & 1 == 0:  # the second bit marks cells near resources
                if w.placeable[y, x] != 0:
                    out[begins[2] + byte] |= mask
                if w.pathable[y, x] != 0:
                    out[begins[3] + byte] |= mask


@kernel
def _share(value: float, most: float) -> int:
    return int(min(max(value * 255.0 / max(most, 1.0), 0.0), 255.0))


@kernel
def _fill(w: State, unit: State, row: int, known: bool, values: np.ndarray) -> None:
    """Sets the values of UNITS from the fifth on; blip and placeholder are the caller's."""
    values[4:] = 0
    values[10] = unit.hallucination
    values[11] = unit.cloaked
    values[16] = int(unit.build_progress * 255.0)
    if not known:
        return
    values[4] = int(unit.health)
    values[5] = int(unit.energy)
    values[6] = int(unit.shield)
    values[7] = _share(unit.health, unit.health_max)
    values[8] = _share(unit.energy, unit.energy_max)
    values[9] = _share(unit.shield, unit.shield_max)
    if unit.buff_count > 0:
        values[13] = w.buffs[max(row, 0), 0].id
    if unit.buff_max > 0:
        values[14] = int(unit.buff_remain * 255.0 / unit.buff_max)
    values[15] = unit.active


@entry
def paint_units(
    state: np.ndarray,
    place: np.ndarray,
    view: Columns,
    shown: np.ndarray,
    begins: np.ndarray,
    bits: np.ndarray,
    out: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Paints the first len(begins) of UNITS, and counts units per pixel.

    place: left, top, pixels per cell (x, y), width, height. shown: which units to paint.
    counts: [pixels] to add to; empty where nobody asks.
    """
    w = state[0]
    units, display = view.units, view.display
    values = np.zeros(len(UNITS), np.int64)
    width = int(place[4])
    for i in range(len(units)):
        if not shown[i]:
            continue
        unit = units[i]
        left, right, top, bottom = _square(place, unit.x, unit.y, unit.radius)
        if left >= right or top >= bottom:
            continue
        values[0], values[1] = unit.owner, view.alliance[i]
        values[2], values[3] = unit.selected, unit.unit_type
        if len(begins) > MINIMAP_UNITS:
            known = display[i] == _VISIBLE and view.cloak[i] != _CLOAKED
            _fill(w, unit, view.rows[i], known, values)
            values[12] = view.blip[i]
            values[17] = 1 if display[i] == _PLACEHOLDER else 0
        for y in range(top, bottom):
            for x in range(left, right):
                pixel = y * width + x
                if len(counts):
                    counts[pixel] += 1
                for k in range(len(begins)):
                    _put(out, begins[k], bits[k], pixel, values[k])


@entry
def paint_effects(
    state: np.ndarray, player: int, place: np.ndarray, begin: int, out: np.ndarray
) -> None:
    """Paints the ids of area effects that the player owns or sees, 8 bits per pixel."""
    w = state[0]
    for k in range(len(w.effects)):
        effect = w.effects[k]
        if effect.alive != 1:
            continue
        if effect.owner != player and w.players[player].all_visible == 0:
            x, y = int(effect.x), int(effect.y)
            inside = 0 <= x < w.map_width and 0 <= y < w.map_height
            if not inside or w.visibility[player, y, x] != _SEEN:
                continue
        left, right, top, bottom = _square(place, effect.x, effect.y, effect.radius)
        for row in range(top, bottom):
            for column in range(left, right):
                out[begin + row * int(place[4]) + column] = effect.id & 255
