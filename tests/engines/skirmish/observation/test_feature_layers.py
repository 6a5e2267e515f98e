"""Pictures of parts of the map, and the bytes that hold their planes."""

import numpy as np
import pytest

from starmill.converters.protos import common_pb2, spatial_pb2
from starmill.engines.skirmish.observation import feature_layers
from starmill.engines.skirmish.observation.feature_layers import (
    MINIMAP_PLANES,
    SCREEN_PLANES,
    Canvas,
    Layers,
    Raster,
)
from tests.factories import arena


def test_a_map_that_is_not_square_fills_the_upper_left():
    raster = Raster.over((64, 64), (0.0, 10.0), (20.0, 20.0), (10, 20))
    grid = np.arange(200).reshape(10, 20) + 1
    picture = raster.sample(grid)
    assert picture[0, 0] == grid[9, 0]
    assert picture[0, 63] == grid[9, 19]
    assert picture[31, 0] == grid[0, 0]
    assert (picture[32:] == 0).all()


def test_points_and_pixels_agree():
    raster = Raster.over((32, 16), (8.0, 24.0), (16.0, 8.0), (40, 40))
    columns, rows = raster.pixels(
        np.array([8.0, 23.9, 24.1]), np.array([24.0, 16.1, 15.9])
    )
    assert list(columns) == [0, 31, 32]
    assert list(rows) == [0, 15, 16]
    assert (raster.columns[31], raster.rows[15]) == (23, 16)


@pytest.mark.parametrize(("bits", "dtype"), [(8, "u1"), (32, "<i4")])
def test_an_image_holds_its_plane(bits, dtype):
    plane = np.arange(12).reshape(3, 4) * 11
    image = common_pb2.ImageData.FromString(feature_layers.image(plane, bits))
    assert (image.size.x, image.size.y, image.bits_per_pixel) == (4, 3, bits)
    np.testing.assert_array_equal(np.frombuffer(image.data, dtype).reshape(3, 4), plane)


def test_pixels_of_one_bit_fill_bytes_from_the_highest_bit():
    plane = np.zeros((2, 5), bool)
    plane[0, 0] = plane[1, 4] = True
    image = common_pb2.ImageData.FromString(feature_layers.image(plane, 1))
    assert image.data == bytes([0b10000000, 0b01000000])


@pytest.mark.parametrize(
    ("planes", "message"),
    [
        (MINIMAP_PLANES, spatial_pb2.FeatureLayersMinimap),
        (SCREEN_PLANES, spatial_pb2.FeatureLayers),
    ],
)
def test_planes_have_the_protocols_field_numbers(planes, message):
    fields = message.DESCRIPTOR.fields_by_name
    assert {name: fields[name].number for name in planes} == {
        name: number for name, (number, _) in planes.items()
    }


def test_a_canvas_is_a_message_of_its_planes():
    canvas = Canvas(MINIMAP_PLANES, (5, 3))
    height = np.arange(15).reshape(3, 5)
    canvas.set("height_map", height)
    canvas.set("camera", height % 2 == 1)
    canvas.bytes_of("alerts")[2, 4] = 1
    parsed = spatial_pb2.FeatureLayersMinimap.FromString(canvas.bytes.tobytes())
    assert parsed.height_map.data == bytes(range(15))
    assert parsed.alerts.data == bytes(14) + b"\x01"
    bits = np.unpackbits(np.frombuffer(parsed.camera.data, np.uint8))[:15]
    assert list(bits) == [0, 1] * 7 + [0]
    canvas.clear()
    parsed = spatial_pb2.FeatureLayersMinimap.FromString(canvas.bytes.tobytes())
    assert not any(getattr(parsed, name).data.strip(b"\0") for name in MINIMAP_PLANES)


def test_points_off_the_map_are_not_seen():
    game = arena.new_game()
    layers = Layers(game, 1, None, None, 24.0)
    x, y = game.map.starts[0]
    assert layers.sees(x, y)
    assert not layers.sees(*game.map.starts[1])
    assert not layers.sees(-1.0, y)
    assert not layers.sees(x, 120.0)
    game.world.players["all_visible"][1] = 1
    assert layers.sees(*game.map.starts[1])
