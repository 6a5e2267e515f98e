"""States of units by hand, in numpy and in JAX."""

import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners.counts import states

COLUMN = {
    name: i
    for i, name in enumerate(
        ("alliance", "build_progress", "order_length", "energy", "buff_id_0")
    )
}
# alliance, progress, orders, energy, buff; and the three states.
UNITS = [
    ((1, 99, 3, 0, 0), (0, 0, 0)),
    ((1, 100, 0, 24, 7), (1, 0, 1)),
    ((1, 100, 1, 25, 0), (2, 1, 0)),
    ((1, 100, 2, 74, 0), (3, 2, 0)),
    ((1, 100, 9, 200, 0), (3, 3, 0)),
    ((3, 100, 0, 0, 5), (1, 0, 2)),
    ((4, 100, 0, 50, 5), (1, 2, 3)),
    ((2, 50, 0, 0, 0), (0, 0, 3)),
]


@pytest.mark.parametrize("library", [np, jnp])
def test_states_of_units(library):
    units = library.asarray([[unit for unit, _ in UNITS]])
    expected = np.array([state for _, state in UNITS]).T
    for function, values in zip(
        (states.commanded, states.energies, states.targeted), expected, strict=True
    ):
        np.testing.assert_array_equal(np.asarray(function(units, COLUMN))[0], values)


def test_the_bank_has_free_supply():
    column = {"food_cap": 0, "food_used": 1, "minerals": 2, "vespene": 3}
    minerals, vespene, supply = states.bank(np.array([[30, 22, 400, 75]]), column)
    assert (minerals[0], vespene[0], supply[0]) == (400, 75, 8)


def test_shapes_have_room_for_every_feature():
    shapes = states.shapes(5, planes=4)
    assert shapes["ground"] == (5, 2 * (4 + 4 + 3))
    assert shapes["commanded"] == (5, states.TYPES)
