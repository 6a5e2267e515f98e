"""Streams: units scattered to their cells, and the camera as a plane."""

import numpy as np

from starmill.learners import rollouts
from starmill.learners.networks import streams
from tests.factories import small_agents


def test_units_are_scattered_to_where_they_are():
    units = np.zeros((1, 4, 2), np.int32)
    units[0] = [[0, 0], [7, 3], [7, 3], [99, 0]]  # x, y; the last is off the grid
    values = np.array([[[1.0], [10.0], [5.0], [100.0]]], np.float32)
    plane = streams.scatter_units(values, units, x=0, y=1, scale=0.5, size=4)[0, ..., 0]
    expected = np.zeros((4, 4))
    expected[0, 0], expected[1, 3] = 1, 15
    np.testing.assert_array_equal(plane, expected)


def test_planes_are_categories_then_the_camera_then_positions():
    """Each channel, compared with the batch's planes one cell at a time."""
    dense = small_agents.arrays(seed=5, size=2, steps=1)
    frames = rollouts.flatten(rollouts.trim_units(dense, small_agents.SETTINGS))
    inputs = streams.PlaneInputs(settings=small_agents.SETTINGS, pool=1)
    planes = np.asarray(inputs(frames))
    side = small_agents.SIDE
    assert planes.shape == (2, side, side, inputs.channels)
    creep = frames["minimap_creep"]
    visibility = frames["minimap_visibility_map"]
    names = small_agents.SETTINGS.minimap_features
    at = sum(inputs._depth(name) for name in names[: names.index("visibility_map")])
    for value in range(inputs._depth("visibility_map")):
        np.testing.assert_array_equal(planes[..., at + value], visibility == value)
    at = sum(inputs._depth(name) for name in names[: names.index("creep")])
    assert inputs._depth("creep") == 1
    np.testing.assert_array_equal(planes[..., at], creep)
    # The small grid is as fine as the minimap, so the plane is the camera itself.
    np.testing.assert_array_equal(planes[..., -3], dense["camera"][:, 0] > 0)
    rows, columns = planes[0, :, :, -2], planes[0, :, :, -1]
    np.testing.assert_allclose(rows[:, 0], np.linspace(-1, 1, side), atol=1e-6)
    np.testing.assert_allclose(columns, rows.T, atol=1e-6)
