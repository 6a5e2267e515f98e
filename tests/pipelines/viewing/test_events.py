"""Build orders and losses of a small army, counted by hand."""

import numpy as np

from starmill.pipelines.viewing import events
from starmill.schema import vocab

LOOPS = np.array([0, 100, 200, 300], np.int32)
SUPPLY = np.array([12, 13, 14, 15], np.int32)


def units(*rows):
    """Columns of rows (tag, step, name, alliance), at x = tag and y = step."""
    ids = {
        name.split(".")[-1]: dense for name, dense in vocab.ids("unit_types").items()
    }
    ordered = sorted(rows)
    return {
        "tag": np.array([row[0] for row in ordered], np.int32),
        "step": np.array([row[1] for row in ordered], np.int32),
        "unit_type": np.array([ids[row[2]] for row in ordered], np.int32),
        "alliance": np.array([row[3] for row in ordered], np.int32),
        "x": np.array([row[0] for row in ordered], np.int32),
        "y": np.array([row[1] for row in ordered], np.int32),
    }


ARMY = units(
    *[(1, step, "SCV", 1) for step in range(4)],
    (2, 1, "Marine", 1),
    (3, 1, "Marine", 1),
    (3, 2, "Marine", 1),
    (3, 3, "Marine", 1),
    (4, 2, "Barracks", 1),
    (4, 3, "Barracks", 1),
    (5, 1, "Zealot", 4),
    (6, 1, "Larva", 1),
    (-7, 3, "Marine", 1),
)


def test_units_are_listed_when_they_are_first_seen():
    assert events.build_order(ARMY, LOOPS, SUPPLY) == [
        [100, 13, "Marine", 2],
        [200, 14, "Barracks", 1],
        [300, 15, "Marine", 1],
    ]


def test_own_units_that_vanish_are_lost_where_they_were_last_seen():
    assert events.losses(ARMY, LOOPS) == [[100, 2, 1]]


def test_a_player_without_units_has_neither():
    nothing = units()
    assert events.build_order(nothing, LOOPS, SUPPLY) == []
    assert events.losses(nothing, LOOPS) == []
