import numpy as np
import pytest

from starmill.engines.skirmish.simulation import entry_points, maps, rules
from tests.factories import arena

NAMES = list(maps.MAPS)


def _reachable(walkable: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """Flood fill in the obvious way."""
    seen = np.zeros_like(walkable, bool)
    stack = [start]
    while stack:
        row, column = stack.pop()
        if seen[row, column] or not walkable[row, column]:
            continue
        seen[row, column] = True
        stack += [
            (row + 1, column),
            (row - 1, column),
            (row, column + 1),
            (row, column - 1),
        ]
    return seen


def test_there_are_several_sizes_and_some_are_not_square() -> None:
    sizes = {(m.width, m.height) for m in maps.MAPS.values()}
    assert len(sizes) == 5
    assert any(width > height for width, height in sizes)
    assert any(width < height for width, height in sizes)


@pytest.mark.parametrize("name", NAMES)
def test_both_halves_are_the_same(name: str) -> None:
    game_map = maps.MAPS[name]
    assert np.array_equal(game_map.pathable, game_map.pathable[::-1, ::-1])
    assert np.array_equal(game_map.placeable, game_map.placeable[::-1, ::-1])
    (x0, y0), (x1, y1) = game_map.starts
    assert (x0 + x1, y0 + y1) == (game_map.width, game_map.height)


@pytest.mark.parametrize("name", NAMES)
def test_every_base_can_be_reached_on_foot(name: str) -> None:
    game_map = maps.MAPS[name]
    start = (int(game_map.starts[0][1]), int(game_map.starts[0][0]))
    seen = _reachable(game_map.pathable, start)
    assert all(seen[int(base.y), int(base.x)] for base in game_map.bases)


@pytest.mark.parametrize("name", NAMES)
def test_a_town_hall_fits_at_every_free_base(name: str) -> None:
    game = arena.new_game(name=name)
    game.world.visibility[1] = 2
    hall = rules.unit_id("CommandCenter")
    codes = [
        entry_points.placement_error(game.world.state, 1, hall, base.x, base.y)
        for base in game.map.bases[2:]
    ]
    assert codes == [1] * len(codes)


@pytest.mark.parametrize("name", NAMES)
def test_high_ground_middle_ground_and_ramps(name: str) -> None:
    game_map = maps.MAPS[name]
    main, natural = game_map.bases[0], game_map.bases[2]
    assert game_map.terrain[int(main.y), int(main.x)] == maps.LEVEL_HEIGHTS[2]
    assert game_map.terrain[int(natural.y), int(natural.x)] == maps.LEVEL_HEIGHTS[1]
    ramps = game_map.pathable & ~game_map.placeable
    assert ramps.sum() > 50


@pytest.mark.parametrize("size", [32, 48, 64, 96, 128])
def test_flat_maps_are_flat_and_as_large_as_their_name_says(size: int) -> None:
    game_map = maps.map_named(f"Flat{size}")
    left, bottom, right, top = game_map.playable
    assert (right - left, top - bottom) == (size, size)
    assert game_map.pathable.sum() == game_map.placeable.sum() == size * size
    assert len(np.unique(game_map.terrain)) == 1
    inside = [
        left < r.x < right and bottom < r.y < top
        for base in game_map.bases
        for r in base.resources
    ]
    assert len(inside) == (40 if size >= 64 else 20)
    assert all(inside)


def test_nobody_has_units_on_the_empty_map_and_nobody_loses() -> None:
    game = arena.new_game(name="Empty128")
    game.advance(6000)
    assert game.loop == 6000
    assert not game.world.units["alive"].any()
    assert game.result is None


def test_a_map_that_does_not_exist_has_no_name() -> None:
    with pytest.raises(KeyError):
        maps.map_named("Ulrena")
