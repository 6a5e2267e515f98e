"""Creep, power and places for buildings, against slow versions."""

import numpy as np
import pytest

from starmill.engines.skirmish.simulation import entry_points, rules
from starmill.engines.skirmish.simulation.game import Game
from tests.factories import arena

X, Y = arena.OPEN
# Codes of the protocol's ActionResult.
SUCCESS, CANT_BUILD_ON, INVALID, NEAR_RESOURCES = 1, 42, 44, 47
FAR_FROM_CREEP, FAR_FROM_POWER = 49, 50


def _slow_disc(game: Game, x: float, y: float, radius: float) -> np.ndarray:
    rows, columns = np.mgrid[0 : game.map.height, 0 : game.map.width]
    near = (columns + 0.5 - x) ** 2 + (rows + 0.5 - y) ** 2 <= radius**2
    return np.asarray(near)


def test_creep_is_a_disc_around_each_source_where_one_can_walk() -> None:
    game = arena.new_game(home=2, away=2)
    game.advance(32)
    expected = np.zeros((game.map.height, game.map.width), bool)
    for x, y in game.map.starts:
        expected |= _slow_disc(game, x, y, 10.5)
    np.testing.assert_array_equal(game.world.creep == 1, expected & game.map.pathable)


def test_creep_grows_a_cell_in_forty_loops() -> None:
    game = arena.new_game()
    arena.put(game, "CreepTumorBurrowed", 2, X + 0.5, Y + 0.5)
    for loops, radius in ((32, 3.8), (32, 4.6), (640, 8.5)):
        game.advance(loops)
        near = _slow_disc(game, X + 0.5, Y + 0.5, radius)
        around = game.world.creep[int(Y) - 14 : int(Y) + 15, int(X) - 14 : int(X) + 15]
        expected = (near & game.map.pathable)[
            int(Y) - 14 : int(Y) + 15, int(X) - 14 : int(X) + 15
        ]
        np.testing.assert_array_equal(around == 1, expected)


def test_power_is_a_disc_around_a_finished_pylon_of_ones_own() -> None:
    game = arena.new_game(home=3, away=3)
    arena.put(game, "Pylon", 1, X, Y)
    arena.put(game, "Pylon", 1, X + 20, Y, done=0.9)
    game.advance(8)
    expected = _slow_disc(game, X, Y, 6.5)
    np.testing.assert_array_equal(game.world.power[1] == 1, expected)
    assert game.world.power[2].sum() == 0


def _error(game: Game, name: str, x: float, y: float) -> int:
    kind = rules.unit_id(name)
    return int(entry_points.placement_error(game.world.state, 1, kind, x, y))


@pytest.mark.parametrize(
    ("race", "building", "place", "code"),
    [
        (1, "Barracks", (X + 0.5, Y + 0.5), SUCCESS),
        (1, "Barracks", (1.5, 1.5), INVALID),  # on the map's border
        (1, "Barracks", (X + 9.5, Y + 0.5), INVALID),  # under a depot
        (1, "Barracks", (X - 9.5, Y + 0.5), INVALID),  # on creep
        (1, "Refinery", (X, Y), CANT_BUILD_ON),
        (3, "Gateway", (X + 0.5, Y + 0.5), FAR_FROM_POWER),
        (3, "Pylon", (X, Y), SUCCESS),
        (2, "SpawningPool", (X + 0.5, Y + 0.5), FAR_FROM_CREEP),
        (2, "SpawningPool", (X - 9.5, Y + 0.5), SUCCESS),
        (2, "Hatchery", (X + 0.5, Y + 0.5), SUCCESS),
    ],
)
def test_where_a_building_can_stand(
    race: int, building: str, place: tuple[float, float], code: int
) -> None:
    game = arena.new_game(home=race)
    arena.put(game, "SupplyDepot", 1, X + 10, Y)
    arena.put(game, "CreepTumorBurrowed", 1, X - 9.5, Y + 3.5)
    game.advance(32)
    game.world.visibility[1] = 1
    assert _error(game, building, *place) == code


def test_town_halls_keep_off_resources() -> None:
    """Players know the terrain from the start: they may build where they have not been."""
    game = arena.new_game()
    base = game.map.bases[2]
    assert game.world.visibility[1][int(base.y), int(base.x)] == 0
    assert _error(game, "CommandCenter", base.x, base.y) == SUCCESS
    step = 1 if base.resources[0].x > base.x else -1
    code = _error(game, "CommandCenter", base.x + step, base.y)
    assert code == NEAR_RESOURCES
    assert _error(game, "SupplyDepot", base.x + step, base.y) == SUCCESS


def test_the_nearest_free_place_comes_first() -> None:
    game = arena.new_game()
    game.world.visibility[1] = 1
    state, depot = game.world.state, rules.unit_id("SupplyDepot")
    assert entry_points.find_place(state, 1, depot, X, Y, 0) == (X, Y)
    places = [
        entry_points.find_place(state, 1, depot, X, Y, skip) for skip in range(30)
    ]
    away = [max(abs(x - X), abs(y - Y)) for x, y in places]
    assert away == sorted(away) and len(set(places)) == 30
    arena.put(game, "SupplyDepot", 1, X, Y)
    x, y = entry_points.find_place(state, 1, depot, X, Y, 0)
    assert max(abs(x - X), abs(y - Y)) == 3  # two cells of depot and one between
    game.world.visibility[1] = 0  # where a player has not been makes no difference
    assert entry_points.find_place(state, 1, depot, X, Y, 0) == (x, y)
    game.world.placeable[:] = 0
    assert entry_points.find_place(state, 1, depot, X, Y, 0) == (-1.0, -1.0)
