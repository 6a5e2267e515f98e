"""Distances between target points and units: by hand, and against a slow count."""

import numpy as np

from starmill.learners.counts import spacing, states

FUNCTION = 1


def _counter(points, units):
    """Counts points among units of (x, y, type, is own)."""
    counter = spacing.SpacingCounter(3)
    places = np.array([unit[:2] for unit in units], np.int32)
    types = np.array([unit[2] for unit in units])
    own = np.array([unit[3] for unit in units])
    for point in points:
        counter.add(FUNCTION, point, places, types, own)
    return counter


def test_points_stay_apart_from_what_they_never_come_near():
    rng = np.random.default_rng(0)
    points = [(10 + int(rng.integers(4, 9)), 10) for _ in range(200)]
    tables = _counter(points, [(10, 10, 7, False)]).tables()
    assert tables["apart"][FUNCTION, 7] == 4
    assert not tables["apart"][0].any()
    assert not tables["near"].any()


def test_a_few_odd_points_do_not_count():
    usual = [(16, 10)] * 98
    units = [(10, 10, 7, True)]
    assert (
        _counter([*usual, (11, 10), (11, 10)], units).tables()["apart"][FUNCTION, 7]
        == 6
    )
    odd = [(11, 10)] * 5
    assert _counter(usual + odd, units).tables()["apart"][FUNCTION, 7] == 1


def test_few_points_say_nothing():
    points = [(16, 10)] * (states.ENOUGH - 1)
    tables = _counter(points, [(10, 10, 7, True)]).tables()
    assert not tables["apart"].any()
    assert not tables["near"].any()


def test_points_need_the_type_that_is_always_nearest():
    """Type 7 is always within three cells, type 8 within nine; type 9 is not the player's."""
    points = [(10, 10), (13, 10), (10, 7)] * 40
    units = [
        (10, 10, 7, True),
        (60, 60, 7, True),
        (19, 10, 8, True),
        (10, 10, 9, False),
    ]
    near = _counter(points, units).tables()["near"]
    assert near[FUNCTION, 7] == 3 + 1
    assert near.sum() == 3 + 1


def test_equals_a_slow_count():
    rng = np.random.default_rng(1)
    counter = spacing.SpacingCounter(1)
    nearest = {}
    for _ in range(300):
        units = rng.integers(0, 40, (12, 2)).astype(np.int32)
        types = rng.integers(0, 6, 12)
        point = tuple(int(v) for v in rng.integers(0, 40, 2))
        counter.add(0, point, units, types, np.zeros(12, bool))
        for kind in range(6):
            away = [
                max(abs(x - point[0]), abs(y - point[1]))
                for (x, y), each in zip(units.tolist(), types, strict=True)
                if each == kind
            ]
            if away and min(away) < 16:
                nearest.setdefault(kind, []).append(min(away))
    apart = counter.tables()["apart"][0]
    for kind, distances in nearest.items():
        assert len(distances) >= states.ENOUGH
        expected = max(
            d
            for d in range(17)
            if sum(a < d for a in distances) <= 0.02 * len(distances)
        )
        assert apart[kind] == expected
