"""Painted planes against pixels set one by one."""

import numpy as np
import pytest

from starmill.engines.skirmish.observation import plane_painting, visible_units
from starmill.engines.skirmish.observation.feature_layers import (
    MINIMAP_PLANES,
    SCREEN_PLANES,
    Canvas,
    Raster,
)
from tests.factories import arena

SIZE = (37, 21)  # not a multiple of eight: pixels of one bit share bytes across rows


def _pixels(canvas, planes, name):
    """Returns a plane from the canvas's bytes, [Y, X]."""
    begin, bits = int(canvas.begins([name])[0]), planes[name][1]
    count = SIZE[0] * SIZE[1]
    data = canvas.bytes[begin : begin + -(-count * bits // 8)]
    if bits == 1:
        values = np.unpackbits(data)[:count]
    else:
        values = data.view("<i4") if bits == 32 else data
    return values.reshape(SIZE[1], SIZE[0])


@pytest.fixture(scope="module")
def scene():
    game = arena.new_game()
    x, y = game.map.starts[0]
    corner, extent = (x - 10.0, y + 10.0), (24.0, 20.0)
    grid = (game.map.height, game.map.width)
    return game, Raster.over(SIZE, corner, extent, grid)


def test_terrain(scene):
    game, raster = scene
    canvas = Canvas(MINIMAP_PLANES, SIZE)
    plane_painting.paint_terrain(
        game.world.state,
        1,
        raster.columns,
        raster.rows,
        canvas.begins(plane_painting.TERRAIN),
        canvas.bytes,
    )
    world = game.world
    free = world.occupied & 1 == 0
    expected = {
        "visibility_map": world.visibility[1],
        "creep": (world.creep == 1) & (world.visibility[1] > 0),
        "buildable": (world.placeable == 1) & free,
        "pathable": (world.pathable == 1) & free,
    }
    for name, grid in expected.items():
        picture = _pixels(canvas, MINIMAP_PLANES, name)
        np.testing.assert_array_equal(picture, raster.sample(grid), err_msg=name)
    assert expected["pathable"].any() and not expected["pathable"].all()


@pytest.mark.parametrize("names", [plane_painting.UNITS, plane_painting.UNITS[:4]])
def test_units_cover_earlier_ones(scene, names):
    game, raster = scene
    view = visible_units.player_view(game, 1)
    canvas = Canvas(SCREEN_PLANES, SIZE)
    shown = np.arange(len(view.units)) % 3 != 1
    counts = np.zeros(SIZE[0] * SIZE[1], np.int64)
    plane_painting.paint_units(
        game.world.state,
        raster.numbers,
        view,
        shown,
        canvas.begins(names),
        canvas.bits(names),
        canvas.bytes,
        counts,
    )
    types = np.zeros((SIZE[1], SIZE[0]), np.int64)
    density = np.zeros_like(types)
    for unit in view.units[shown]:
        column = int(np.floor((unit["x"] - raster.left) * raster.scale[0]))
        row = int(np.floor((raster.top - unit["y"]) * raster.scale[1]))
        reach = int(np.floor(unit["radius"] * raster.scale[0]))
        rows = slice(max(row - reach, 0), max(row + reach + 1, 0))
        columns = slice(max(column - reach, 0), max(column + reach + 1, 0))
        types[rows, columns] = unit["unit_type"]
        density[rows, columns] += 1
    np.testing.assert_array_equal(_pixels(canvas, SCREEN_PLANES, "unit_type"), types)
    np.testing.assert_array_equal(counts.reshape(density.shape), density)
    assert len(np.unique(types)) > 2


def test_effects_show_where_the_player_sees(scene):
    game = arena.new_game(home=3, away=1)
    x, y = arena.OPEN
    raster = Raster.over(SIZE, (x - 6.0, y + 4.0), (18.5, 10.5), (120, 120))
    effect = game.world.effects[0]
    effect["alive"], effect["id"], effect["owner"] = 1, 11, 2
    effect["x"], effect["y"], effect["radius"] = x, y, 1.0
    canvas = Canvas(SCREEN_PLANES, SIZE)
    begin = int(canvas.begins(["effects"])[0])
    painted = []
    for player, visible in ((1, 0), (1, 2), (2, 0)):
        canvas.clear()
        game.world.visibility[1, int(y), int(x)] = visible
        plane_painting.paint_effects(
            game.world.state, player, raster.numbers, begin, canvas.bytes
        )
        plane = _pixels(canvas, SCREEN_PLANES, "effects")
        painted.append(int((plane == 11).sum()))
        assert set(np.unique(plane)) <= {0, 11}
    assert painted == [0, 25, 25]
