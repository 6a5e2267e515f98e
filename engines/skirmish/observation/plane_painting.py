"""Paints terrain, units and effects into the bytes of feature layers.

In: the game's state, a `View`, and where each plane begins in the bytes of a
`feature_layers.Canvas`. Out: those bytes, painted. A unit is a square of its radius, and later
units cover earlier ones; row 0 is in the north. Planes have 1, 8 or 32 bits a pixel; pixels of one
bit fill a byte from its highest bit. Knows no messages.

A picture is an array of six numbers: world coordinates of its left and top edge, pixels per
cell in x and y, width and height in pixels.
"""

import numpy as np

from starmill.engines.skirmish.observation.visible_units import (
    CLOAKED,
    DISPLAY_PLACEHOLDER,
    DISPLAY_VISIBLE,
    View,
)
from starmill.engines.skirmish.simulation.records import (
    CELL_HIDDEN,
    CELL_VISIBLE,
    OCCUPIED_BUILT,
    State,
)
from starmill.schema.compilation import entry, kernel

MAX_RADIUS_PIXELS = 24
# What `paint_terrain` paints, in this order; minimap and screen have these planes.
TERRAIN = ("visibility_map", "creep", "buildable", "pathable")
# What `paint_units` paints, in this order: the screen has all of them, the minimap the first
# MINIMAP_UNITS.
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
(
    _PLAYER_ID,
    _PLAYER_RELATIVE,
    _SELECTED,
    _UNIT_TYPE,
    _HIT_POINTS,
    _ENERGY,
    _SHIELDS,
    _HIT_POINTS_RATIO,
    _ENERGY_RATIO,
    _SHIELDS_RATIO,
    _HALLUCINATIONS,
    _CLOAKED,
    _BLIP,
    _BUFFS,
    _BUFF_DURATION,
    _ACTIVE,
    _BUILD_PROGRESS,
    _PLACEHOLDER,
) = range(len(UNITS))
# Slots of a picture.
_LEFT, _TOP, _SCALE_X, _SCALE_Y, _WIDTH, _HEIGHT = range(6)
_FULL = 255.0  # of ratios and progress
_VISIBILITY, _CREEP, _BUILDABLE, _PATHABLE = range(len(TERRAIN))


@kernel
def _put(out: np.ndarray, begin: int, bits: int, pixel: int, value: int) -> None:
    """Sets one pixel of the plane that begins at `begin`."""
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
    picture: np.ndarray, x: float, y: float, radius: float
) -> tuple[int, int, int, int]:
    """Returns left, right, top and bottom of a unit's square, without right and bottom.

    It is empty outside the picture.
    """
    column = int(np.floor((x - picture[_LEFT]) * picture[_SCALE_X]))
    row = int(np.floor((picture[_TOP] - y) * picture[_SCALE_Y]))
    reach = min(int(np.floor(radius * picture[_SCALE_X])), MAX_RADIUS_PIXELS)
    return (
        max(column - reach, 0),
        min(column + reach + 1, int(picture[_WIDTH])),
        max(row - reach, 0),
        min(row + reach + 1, int(picture[_HEIGHT])),
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
    """Paints the planes TERRAIN.

    columns: [X] and rows: [Y], the map's cells under the pixels, -1 off the map. begins: where
    the planes begin in `out`.
    """
    w = state[0]
    all_visible = w.players[player].all_visible != 0
    pixel = -1
    for y in rows:
        for x in columns:
            pixel += 1
            if x < 0 or y < 0:
                continue
            cell = CELL_VISIBLE if all_visible else int(w.visibility[player, y, x])
            out[begins[_VISIBILITY] + pixel] = cell
            mask = np.uint8(128 >> (pixel & 7))
            byte = pixel >> 3
            if w.creep[y, x] == 1 and cell != CELL_HIDDEN:
                out[begins[_CREEP] + byte] |= mask
            if w.occupied[y, x] & OCCUPIED_BUILT == 0:
                if w.placeable[y, x] != 0:
                    out[begins[_BUILDABLE] + byte] |= mask
                if w.pathable[y, x] != 0:
                    out[begins[_PATHABLE] + byte] |= mask


@kernel
def _ratio(value: float, most: float) -> int:
    return int(min(max(value * _FULL / max(most, 1.0), 0.0), _FULL))


@kernel
def _set_details(
    w: State, unit: State, row: int, known: bool, values: np.ndarray
) -> None:
    """Sets the values that the minimap does not have, except blip and placeholder."""
    values[MINIMAP_UNITS:] = 0
    values[_HALLUCINATIONS] = unit.hallucination
    values[_CLOAKED] = unit.cloaked
    values[_BUILD_PROGRESS] = int(unit.build_progress * _FULL)
    if not known:
        return
    values[_HIT_POINTS] = int(unit.health)
    values[_ENERGY] = int(unit.energy)
    values[_SHIELDS] = int(unit.shield)
    values[_HIT_POINTS_RATIO] = _ratio(unit.health, unit.health_max)
    values[_ENERGY_RATIO] = _ratio(unit.energy, unit.energy_max)
    values[_SHIELDS_RATIO] = _ratio(unit.shield, unit.shield_max)
    if unit.buff_count > 0:
        values[_BUFFS] = w.buffs[max(row, 0), 0].id
    if unit.buff_max > 0:
        values[_BUFF_DURATION] = int(unit.buff_remain * _FULL / unit.buff_max)
    values[_ACTIVE] = unit.active


@entry
def paint_units(
    state: np.ndarray,
    picture: np.ndarray,
    view: View,
    shown: np.ndarray,
    begins: np.ndarray,
    bits: np.ndarray,
    out: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Paints the first len(begins) planes of UNITS, and counts the units at each pixel.

    shown: [N] which units of the view to paint. begins: where the planes begin in `out`. bits: of
    their pixels. counts: [pixels] to add to, or empty if the counts are not needed.
    """
    w = state[0]
    units, display = view.units, view.display
    values = np.zeros(len(UNITS), np.int64)
    width = int(picture[_WIDTH])
    for i in range(len(units)):
        if not shown[i]:
            continue
        unit = units[i]
        left, right, top, bottom = _square(picture, unit.x, unit.y, unit.radius)
        if left >= right or top >= bottom:
            continue
        values[_PLAYER_ID], values[_PLAYER_RELATIVE] = unit.owner, view.alliance[i]
        values[_SELECTED], values[_UNIT_TYPE] = unit.selected, unit.unit_type
        if len(begins) > MINIMAP_UNITS:
            known = display[i] == DISPLAY_VISIBLE and view.cloak[i] != CLOAKED
            _set_details(w, unit, view.rows[i], known, values)
            values[_BLIP] = view.blip[i]
            values[_PLACEHOLDER] = 1 if display[i] == DISPLAY_PLACEHOLDER else 0
        for y in range(top, bottom):
            for x in range(left, right):
                pixel = y * width + x
                if len(counts):
                    counts[pixel] += 1
                for k in range(len(begins)):
                    _put(out, begins[k], bits[k], pixel, values[k])


@entry
def paint_effects(
    state: np.ndarray, player: int, picture: np.ndarray, begin: int, out: np.ndarray
) -> None:
    """Paints the ids of the area effects that the player owns or sees, 8 bits a pixel."""
    w = state[0]
    for k in range(len(w.effects)):
        effect = w.effects[k]
        if effect.alive != 1:
            continue
        if effect.owner != player and w.players[player].all_visible == 0:
            x, y = int(effect.x), int(effect.y)
            inside = 0 <= x < w.map_width and 0 <= y < w.map_height
            if not inside or w.visibility[player, y, x] != CELL_VISIBLE:
                continue
        left, right, top, bottom = _square(picture, effect.x, effect.y, effect.radius)
        for row in range(top, bottom):
            for column in range(left, right):
                out[begin + row * int(picture[_WIDTH]) + column] = effect.id & 255
