"""Flat maps: those of tests, and the fields of mini-games.

In: a size, and where bases are. Out: a `GameMap` without cliffs, ramps, rocks and towers. Knows
unit types, but no rules.
"""

import numpy as np

from starmill.engines.skirmish.simulation.maps import bases, mini_games
from starmill.engines.skirmish.simulation.maps.game_map import (
    BORDER,
    LEVEL_HEIGHTS,
    Base,
    GameMap,
)
from starmill.engines.skirmish.simulation.maps.mini_games import MiniGame

SIZES = (32, 48, 64, 96, 128)  # of the flat maps, each way
EMPTY_NAME, EMPTY_SIZE = "Empty128", 128
_MAIN_INSET = 11.5  # of a start from the playable area's west and south edges
_NATURAL_GAP = 24.0  # between a start and its natural base
# One column nearer to the town hall than on other maps: pysc2's test of replays builds beside it.
_GEYSERS = ((4, 7), (-7, -6))
_NATURAL_SIZE = 64  # maps from this size on have natural bases
_MINI_GAME_SIZE = 64  # of mini-games' maps, each way


def _flat(
    name: str,
    size: tuple[int, int],
    playable: tuple[int, int, int, int],
    all_bases: tuple[Base, ...] = (),
    mini_game: MiniGame | None = None,
) -> GameMap:
    """Returns a flat map; without bases it has no players' units at the start either.

    playable: x0, y0, x1, y1.
    """
    width, height = size
    left, bottom, right, top = playable
    inner = np.zeros((height, width), bool)
    inner[bottom:top, left:right] = True
    terrain = np.full((height, width), LEVEL_HEIGHTS[0], np.uint8)
    for array in (inner, terrain):
        array.setflags(write=False)
    middle = (bottom + top) / 2
    starts = ((left + 4.5, middle), (right - 4.5, middle))
    if all_bases:
        first, second = all_bases[:2]
        starts = ((first.x, first.y), (second.x, second.y))
    return GameMap(
        name=name,
        width=width,
        height=height,
        playable=playable,
        pathable=inner,
        placeable=inner,
        terrain=terrain,
        starts=starts,
        bases=all_bases,
        neutrals=(),
        melee=bool(all_bases) and mini_game is None,
        mini_game=mini_game,
    )


def flat_map(size: int) -> GameMap:
    """Returns the map "Flat<size>": a start in two corners, and natural bases if they fit."""
    whole = (size + 2 * BORDER, size + 2 * BORDER)
    corner = BORDER + _MAIN_INSET
    spots = [(corner, corner)]
    if size >= _NATURAL_SIZE:
        spots.append((corner + _NATURAL_GAP, corner))
    pairs = [bases.pair(x, y, whole, geysers=_GEYSERS) for x, y in spots]
    return _flat(
        f"Flat{size}",
        whole,
        (BORDER, BORDER, BORDER + size, BORDER + size),
        tuple(base for pair in pairs for base in pair),
    )


def empty_map() -> GameMap:
    """Returns the map "Empty128", on which nobody has units, and nobody wins or loses."""
    whole = EMPTY_SIZE + 2 * BORDER
    edge = BORDER + EMPTY_SIZE
    return _flat(EMPTY_NAME, (whole, whole), (BORDER, BORDER, edge, edge))


def mini_game_map(name: str) -> GameMap:
    """Returns the map of a mini-game: a field in the middle, with a base if the game has one."""
    mini_game = mini_games.MINI_GAMES[name]
    width, height = mini_game.arena
    size = (_MINI_GAME_SIZE, _MINI_GAME_SIZE)
    left, bottom = (size[0] - width) // 2, (size[1] - height) // 2
    all_bases: tuple[Base, ...] = ()
    if mini_game.bases:
        all_bases = bases.pair(left + _MAIN_INSET, bottom + _MAIN_INSET, size)
    if mini_game.bases == 1:
        bare = Base(x=all_bases[1].x, y=all_bases[1].y, resources=())
        all_bases = (all_bases[0], bare)
    playable = (left, bottom, left + width, bottom + height)
    return _flat(name, size, playable, all_bases, mini_game)


def names() -> tuple[str, ...]:
    """Returns the names of all maps of this module."""
    return (*(f"Flat{size}" for size in SIZES), EMPTY_NAME, *mini_games.MINI_GAMES)


def map_named(name: str) -> GameMap:
    """Returns the map of this name. Raises KeyError if there is none."""
    if name == EMPTY_NAME:
        return empty_map()
    if name in mini_games.MINI_GAMES:
        return mini_game_map(name)
    return flat_map({f"Flat{size}": size for size in SIZES}[name])
