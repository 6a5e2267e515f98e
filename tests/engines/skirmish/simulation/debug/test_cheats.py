"""What debug commands change, and what they leave alone."""

import pytest

from starmill.engines.skirmish.simulation import rules
from starmill.engines.skirmish.simulation.debug.cheats import (
    CREATE,
    ENERGY,
    HEALTH,
    KILL,
    SET,
    SWITCH,
    Cheat,
)
from starmill.engines.skirmish.simulation.game import Game, UnitCommand
from tests.factories import arena

X, Y = arena.OPEN
# The protocol's DebugGameState.
SHOW_MAP, FOOD, FREE, ALL_RESOURCES, GOD, MINERALS, GAS = 1, 3, 4, 5, 6, 7, 8
COOLDOWN, TECH_TREE, UPGRADES, FAST_BUILD = 9, 10, 11, 12
INFANTRY_WEAPONS, STIMPACK = 7, 15  # ids of upgrades


def _switch(game: Game, state: int, player: int = 1) -> None:
    game.step([Cheat(player, SWITCH, (state,))])


def test_units_are_created_set_and_killed() -> None:
    game = arena.new_game()
    marine = rules.unit_id("Marine")
    game.step([Cheat(1, CREATE, (marine, 1, X, Y, 3))])
    rows = arena.rows_of(game, "Marine", 1)
    assert len(rows) == 3
    tag = arena.tag(game, rows[0])
    raven = arena.put(game, "Raven", 2, X, Y)
    game.step(
        [
            Cheat(1, SET, (tag, HEALTH, 7.5)),
            Cheat(1, SET, (arena.tag(game, rows[1]), HEALTH, 1e9)),
            Cheat(1, SET, (arena.tag(game, raven), ENERGY, 120.0)),
        ]
    )
    assert arena.unit(game, rows[0], "health") == 7.5
    assert arena.unit(game, rows[1], "health") == 45.0
    assert arena.unit(game, raven, "energy") == pytest.approx(120.0, abs=0.1)
    game.step([Cheat(1, KILL, (tag, 1 << 40, 1 << 80, -5))])
    assert len(arena.rows_of(game, "Marine", 1)) == 2


@pytest.mark.parametrize(
    ("verb", "numbers"),
    [
        (CREATE, (0, 1, X, Y, 1)),
        (CREATE, (10**6, 1, X, Y, 1)),
        (CREATE, (48, 3, X, Y, 1)),
        (CREATE, (48, 1, float("nan"), Y, 1)),
        (CREATE, (48, 1)),
        (SET, (1, 7, 3.0)),
        (SWITCH, ()),
        (SWITCH, (99,)),
        ("sing", (1,)),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    verb: str, numbers: tuple[float, ...]
) -> None:
    game, other = arena.new_game(), arena.new_game()
    game.step([Cheat(1, verb, numbers)])
    other.step()
    assert game.state_digest() == other.state_digest()


def test_resources_and_sight() -> None:
    game = arena.new_game()
    before = game.world.players[1].copy()
    for state in (ALL_RESOURCES, MINERALS, GAS, SHOW_MAP):
        _switch(game, state)
    after = game.world.players[1]
    assert after["minerals"] - before["minerals"] == 10_000
    assert after["vespene"] - before["vespene"] == 10_000
    assert after["all_visible"] == 1
    _switch(game, SHOW_MAP)
    assert game.world.players[1]["all_visible"] == 0


def test_the_units_of_a_god_take_no_damage() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    arena.put(game, "Zergling", 2, X + 1, Y)
    arena.look(game)
    _switch(game, GOD)
    game.advance(60)
    assert arena.unit(game, marine, "health") == 45.0
    _switch(game, GOD)
    arena.put(game, "Zergling", 2, X + 1, Y)
    game.advance(60)
    assert not len(arena.rows_of(game, "Marine", 1)) or (
        arena.unit(game, marine, "health") < 45.0
    )


def test_free_things_need_neither_money_nor_technology_nor_supply() -> None:
    game = arena.new_game()
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    game.world.players["minerals"][1] = 0
    marine = UnitCommand(
        1, rules.ability_id("Train_Marine"), (arena.tag(game, barracks),)
    )
    assert game.command_error(marine) == 9
    _switch(game, FREE)
    assert game.command_error(marine) == 1
    engineering_bay = rules.ability_id("Build_Armory")
    worker = arena.tag(game, arena.rows_of(game, "SCV", 1)[0])
    build = UnitCommand(1, engineering_bay, (worker,), target_point=(X + 8.5, Y + 8.5))
    assert game.command_error(build) == 40
    _switch(game, TECH_TREE)
    game.world.visibility[1] = 2
    assert game.command_error(build) == 1
    _switch(game, FAST_BUILD)
    game.step([marine])
    game.advance(int(18 * 22.4 / 10) + 2)
    assert len(arena.rows_of(game, "Marine", 1)) == 1
    assert game.world.players["minerals"][1] >= 0
    assert game.world.players["spent_minerals"][1] == 0


def test_upgrades_are_given_level_by_level() -> None:
    game = arena.new_game(home=3)
    zealot = arena.put(game, "Zealot", 1, X, Y)
    levels = ("attack_level", "armor_level", "shield_level")
    for level in (1, 2, 3, 3):
        _switch(game, UPGRADES)
        assert [arena.unit(game, zealot, field) for field in levels] == [level] * 3
    assert not game.world.upgrades[2].any()


def test_upgrades_without_levels_are_given_at_once() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    _switch(game, UPGRADES)
    assert arena.unit(game, marine, "health") == 55.0  # combat shield
    assert game.world.upgrades[1, STIMPACK] == 1


def test_levels_that_were_researched_count_before_upgrades_are_given() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    game.world.upgrades[1, INFANTRY_WEAPONS] = 1
    _switch(game, UPGRADES)
    assert arena.unit(game, marine, "attack_level") == 2
    assert arena.unit(game, marine, "armor_level") == 1


def test_created_units_have_their_owners_levels() -> None:
    game = arena.new_game(home=1, away=3)
    for _ in range(2):
        _switch(game, UPGRADES)
    _switch(game, UPGRADES, player=2)
    for kind, owner in (("Marine", 1), ("Marine", 2), ("Zealot", 2), ("Medivac", 1)):
        game.step([Cheat(1, CREATE, (rules.unit_id(kind), owner, X, Y, 1))])
    levels = {
        (kind, owner): tuple(
            arena.unit(game, arena.rows_of(game, kind, owner)[0], field)
            for field in ("attack_level", "armor_level", "shield_level")
        )
        for kind, owner in (("Marine", 1), ("Marine", 2), ("Zealot", 2), ("Medivac", 1))
    }
    assert levels == {
        ("Marine", 1): (2, 2, 0),
        ("Marine", 2): (1, 1, 0),
        ("Zealot", 2): (1, 1, 1),
        ("Medivac", 1): (0, 2, 0),
    }
