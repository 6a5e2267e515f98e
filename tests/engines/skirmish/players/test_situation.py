import math

import numpy as np

from starmill.engines.skirmish.players.situation import (
    Situation,
    ability_makers,
    distance,
    mean,
)
from starmill.engines.skirmish.simulation import entry_points, ids, rules
from tests.factories import arena


def test_it_holds_the_own_units_and_the_enemies_in_sight() -> None:
    game = arena.new_game(home=1, away=2)
    arena.put(game, "Zergling", 2, *arena.OPEN)
    game.advance(20)
    before = Situation(game, 1)
    assert len(before.enemies) == 0
    x, y = arena.OPEN
    marine = arena.put(game, "Marine", 1, x + 3, y)
    arena.look(game)
    after = Situation(game, 1)
    types = after.enemies["unit_type"].tolist()
    assert types == [rules.unit_id("Zergling")]
    (index,) = after.named("Marine")
    assert after.tag(index) == (arena.tag(game, marine),)
    assert after.point(int(index)) == (x + 3, y)
    assert index in after.army
    assert len(after.workers) == 12
    assert len(after.halls) == 1


def test_a_cloaked_enemy_is_not_shown_but_suspected() -> None:
    game = arena.new_game(home=1, away=3)
    x, y = arena.OPEN
    arena.put(game, "Marine", 1, x, y)
    arena.put(game, "DarkTemplar", 2, x + 3, y)
    arena.look(game)
    situation = Situation(game, 1)
    assert len(situation.enemies) == 0
    assert situation.has_hidden_enemies


def test_unfinished_buildings_are_no_halls_and_count_as_pending() -> None:
    game = arena.new_game()
    site = arena.put(game, "CommandCenter", 1, *arena.OPEN, done=0.3)
    game.advance(2)
    situation = Situation(game, 1)
    hall = rules.unit_id("CommandCenter")
    assert len(situation.of_type(hall)) == 1
    assert len(situation.of_type(hall, finished=False)) == 2
    assert arena.tag(game, site) in situation.tags_of(
        situation.of_type(hall, finished=False)
    )
    assert situation.total(hall) == 2


def test_money_for_buildings_on_the_way_is_set_aside() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    worker = arena.rows_of(game, "SCV", 1)[0]
    x, y = game.map.starts[0]
    depot = rules.unit_id("SupplyDepot")
    point = entry_points.find_place(game.world.state, 1, depot, x + 6, y + 6, 0)
    arena.command(game, 1, "Build_SupplyDepot", [worker], point=point)
    situation = Situation(game, 1)
    money = int(game.world.players["minerals"][1])
    assert money == 5000
    assert situation.minerals == money - 100
    situation.spend(rules.ability_id("Build_Barracks"))
    assert situation.minerals == money - 250


def test_tech_needs_the_building() -> None:
    game = arena.new_game()
    barracks = rules.ability_id("Build_Barracks")
    assert not Situation(game, 1).has_tech(barracks)
    arena.put(game, "SupplyDepot", 1, *arena.OPEN)
    game.advance(1)
    assert Situation(game, 1).has_tech(barracks)


def test_units_are_filtered_by_energy_and_buffs() -> None:
    game = arena.new_game(home=2, away=1)
    x, y = arena.OPEN
    poor = arena.put(game, "Queen", 1, x, y)
    ready = arena.put(game, "Queen", 1, x + 4, y)
    game.world.units["energy"][poor] = 10
    game.world.units["energy"][ready] = 60
    game.world.buffs["id"][ready, 0] = ids.BUFF_CHARGE
    game.world.units["buff_count"][ready] = 1
    situation = Situation(game, 1)
    queens = situation.named("Queen")
    assert situation.tags_of(situation.with_energy(queens, 50)) == (
        arena.tag(game, ready),
    )
    assert situation.tags_of(situation.without_buff(queens, ids.BUFF_CHARGE)) == (
        arena.tag(game, poor),
    )
    # A buff that has ended leaves its id in the array.
    game.world.units["buff_count"][ready] = 0
    assert len(Situation(game, 1).without_buff(queens, ids.BUFF_CHARGE)) == 2


def test_the_nearest_unit_is_the_nearest() -> None:
    situation = Situation(arena.new_game(), 1)
    x, y = situation.point(int(situation.workers[3]))
    assert situation.nearest(situation.workers, x, y) == situation.workers[3]
    assert situation.nearest(situation.workers[:0], x, y) == -1


def test_means_and_distances_do_not_depend_on_the_order() -> None:
    values = np.random.default_rng(5).normal(size=1000) * 10.0 ** np.arange(1000).clip(
        0, 12
    )
    assert mean(values) == mean(values[::-1].copy()) == mean(np.sort(values))
    assert math.isclose(distance(3.0, 4.0), 5.0)


def test_makers_are_the_units_that_have_an_ability() -> None:
    makers = ability_makers()
    assert makers["Train_Marine"] == (rules.unit_id("Barracks"),)
    assert rules.unit_id("Hatchery") in makers["Train_Queen"]
