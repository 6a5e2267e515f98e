"""How units turn, go around obstacles and make room for each other."""

import math

import numpy as np
import pytest

from tests.factories import arena

X, Y = arena.OPEN


@pytest.mark.parametrize("eighth", range(8))
def test_facing_is_exact_at_multiples_of_45_degrees(eighth: int) -> None:
    game = arena.new_game()
    medivac = arena.put(game, "Medivac", 1, X, Y)
    dx = (1, 1, 0, -1, -1, -1, 0, 1)[eighth]
    dy = (0, 1, 1, 1, 0, -1, -1, -1)[eighth]
    arena.command(game, 1, "Move_Move", [medivac], point=(X + 20.0 * dx, Y + 20.0 * dy))
    facing = arena.unit(game, medivac, "facing") % (2 * math.pi)
    assert facing == pytest.approx(eighth * math.pi / 4, abs=1e-12)


def test_facing_is_near_the_true_angle() -> None:
    game = arena.new_game()
    for degrees in range(3, 360, 17):
        angle = math.radians(degrees)
        medivac = arena.put(game, "Medivac", 1, X, Y)
        point = (X + 20 * math.cos(angle), Y + 20 * math.sin(angle))
        arena.command(game, 1, "Move_Move", [medivac], point=point)
        facing = arena.unit(game, medivac, "facing")
        assert facing == pytest.approx(angle, abs=math.radians(4.1))


def test_who_flies_goes_straight_and_who_walks_goes_around() -> None:
    game = arena.new_game()
    # The first wall of Amber Basin: x 57 to 63, y 44 to 56.
    assert not game.map.pathable[50, 60]
    marine = arena.put(game, "Marine", 1, 52.0, 50.0)
    medivac = arena.put(game, "Medivac", 1, 52.0, 50.0)
    walked, aside = 0.0, 0.0
    for row in (marine, medivac):
        arena.command(game, 1, "Move_Move", [row], point=(68.0, 50.0))
    before = (52.0, 50.0)
    for _ in range(250):
        game.advance(1)
        x, y = arena.unit(game, marine, "x"), arena.unit(game, marine, "y")
        assert game.map.pathable[int(y), int(x)]
        walked += math.dist(before, (x, y))
        aside = max(aside, abs(y - 50.0))
        before = (x, y)
        assert arena.unit(game, medivac, "y") == 50.0
    assert before == pytest.approx((68.0, 50.0), abs=1.6)
    assert arena.unit(game, medivac, "x") == pytest.approx(68.0, abs=0.2)
    assert aside > 6.0
    assert walked < 1.35 * 2 * math.dist((52, 50), (60, 57))


def test_a_crowd_on_one_spot_spreads_until_nobody_overlaps() -> None:
    game = arena.new_game()
    rows = [arena.put(game, "Marauder", 1, X, Y) for _ in range(6)]
    flyer = arena.put(game, "Medivac", 1, X, Y)
    game.advance(200)
    units = game.world.units
    places = np.stack([units["x"][rows], units["y"][rows]], 1)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
    gaps += np.eye(6) * 10
    radius = arena.unit(game, rows[0], "radius")
    assert gaps.min() > 2 * radius - 0.05
    assert (arena.unit(game, flyer, "x"), arena.unit(game, flyer, "y")) == (X, Y)


def test_height_follows_the_ground() -> None:
    game = arena.new_game()
    x, y = game.map.starts[0]
    marine = arena.put(game, "Marine", 1, x + 4, y + 4)
    medivac = arena.put(game, "Medivac", 1, x + 4, y + 4)
    assert arena.unit(game, marine, "z") == (143 - 127) / 8  # high ground
    assert arena.unit(game, medivac, "z") == (143 - 127) / 8 + 3.75
    low = arena.put(game, "Marine", 1, X, Y)
    assert arena.unit(game, low, "z") == (111 - 127) / 8


@pytest.mark.parametrize("ability", ["Move_Move", "Attack_Attack"])
def test_single_units_arrive_exactly_where_they_were_sent(ability: str) -> None:
    game = arena.new_game(home=3)
    zealot = arena.put(game, "Zealot", 1, X, Y)
    observer = arena.put(game, "Observer", 1, X, Y)
    point = (X + 2.125, Y - 1.75)
    arena.command(game, 1, ability, [zealot, observer], point=point)
    game.advance(40)
    for row in (zealot, observer):
        assert (arena.unit(game, row, "x"), arena.unit(game, row, "y")) == point
        assert arena.unit(game, row, "order_count") == 0


def test_who_flies_to_the_edge_stops_at_it() -> None:
    game = arena.new_game()
    medivac = arena.put(game, "Medivac", 1, 6.0, Y)
    arena.command(game, 1, "Move_Move", [medivac], point=(0.0, Y))
    game.advance(80)
    assert arena.unit(game, medivac, "x") == 2.0
    assert arena.unit(game, medivac, "order_count") == 0
