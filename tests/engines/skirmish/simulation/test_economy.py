import numpy as np
import pytest

from starmill.engines.skirmish.simulation import ids
from tests.factories import arena


@pytest.mark.parametrize("race", [1, 2, 3])
def test_twelve_workers_earn_what_they_earn_in_the_game(race: int) -> None:
    game = arena.new_game(home=race)
    game.advance(1344)  # one minute
    collected = int(game.world.players["collected_minerals"][1])
    # About 55 to 62 a minute and worker on the ladder with twelve workers.
    assert 560 <= collected <= 780


def test_a_load_is_carried_as_a_buff_and_an_order_to_return() -> None:
    game = arena.new_game()
    units = game.world.units
    carrying = np.zeros(len(units), bool)
    while not carrying.any() and game.loop < 300:
        game.advance(1)
        carrying = (units["carry_minerals"] == 5) & (units["owner"] == 1)
    assert carrying.any()
    for row in carrying.nonzero()[0]:
        assert game.world.buffs["id"][row, 0] == ids.BUFF_CARRY_MINERALS
        assert game.world.orders["ability"][row, 0] == 296


def test_training_takes_money_food_and_time() -> None:
    game = arena.new_game()
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    arena.command(game, 1, "Train_SCV", [hall])
    assert game.world.players["minerals"][1] == 0
    game.advance(1)
    assert game.world.players["food_used_halves"][1] == 26
    assert 0 < game.world.orders["progress"][hall, 0] < 0.02
    game.advance(270)
    assert len(arena.rows_of(game, "SCV", 1)) == 13
    assert arena.unit(game, hall, "order_count") == 0


def test_what_cannot_be_paid_is_refused_with_the_games_code() -> None:
    game = arena.new_game()
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    arena.command(game, 1, "Train_SCV", [hall])
    arena.command(game, 1, "Train_SCV", [hall])
    assert [e.code for e in game.take_errors()] == [9]
    assert game.take_errors() == []


def test_a_queue_that_is_cancelled_is_paid_back() -> None:
    game = arena.new_game()
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    arena.command(game, 1, "Train_SCV", [hall])
    arena.command(game, 1, "Cancel_Queue5", [hall])
    assert game.world.players["minerals"][1] == 50


def test_gas_comes_from_a_refinery_on_a_geyser() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    units = game.world.units
    worker = arena.rows_of(game, "SCV", 1)[0]
    geyser = next(r for r in game.map.bases[0].resources if r.vespene)
    row = int(((units["x"] == geyser.x) & (units["y"] == geyser.y)).nonzero()[0][0])
    arena.command(game, 1, "Build_Refinery", [worker], target=row)
    game.advance(800)
    mine = arena.rows_of(game, "Refinery", 1)[0]
    assert arena.unit(game, mine, "build_progress") == 1.0
    workers = arena.rows_of(game, "SCV", 1)[1:4]
    arena.command(game, 1, "Harvest_Gather", workers, target=mine)
    before = int(game.world.players["vespene"][1])
    game.advance(1344)
    assert 100 < int(game.world.players["vespene"][1]) - before < 240
    assert arena.unit(game, mine, "assigned") == 3
    assert arena.unit(game, mine, "vespene") < 2250


def test_hatcheries_make_three_larvae_and_injects_three_more() -> None:
    game = arena.new_game(home=2)
    hall = arena.rows_of(game, "Hatchery", 1)[0]
    larvae = arena.rows_of(game, "Larva", 1)
    assert len(larvae) == 3
    arena.command(game, 1, "Train_Drone", larvae)
    assert len(arena.rows_of(game, "Larva", 1)) == 2
    game.advance(250)
    assert len(arena.rows_of(game, "Larva", 1)) == 3
    queen = arena.put(game, "Queen", 1, *arena.OPEN)
    game.world.units["x"][queen] = game.world.units["x"][hall] + 4
    game.world.units["y"][queen] = game.world.units["y"][hall]
    arena.command(game, 1, "Effect_InjectLarva", [queen], target=hall)
    game.advance(800)
    assert len(arena.rows_of(game, "Larva", 1)) >= 6


def test_supply_stops_training() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    for _ in range(5):
        arena.command(game, 1, "Train_SCV", [hall])
    game.advance(272 * 5)
    assert len(arena.rows_of(game, "SCV", 1)) == 15
    assert game.world.players["food_used_halves"][1] == 30
    assert arena.unit(game, hall, "order_count") == 2
