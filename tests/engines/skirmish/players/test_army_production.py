import dataclasses

import pytest

from starmill.engines.skirmish.players import army_production, macro, strategies
from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.situation import Situation
from starmill.engines.skirmish.players.strategies import BotStrategy
from starmill.engines.skirmish.simulation import rules
from starmill.schema.game_constants import TERRAN
from tests.factories import arena

MARINE = rules.ability_id("Train_Marine")
MARAUDER = rules.ability_id("Train_Marauder")


@pytest.fixture
def game():
    """A barracks with a tech lab, which can train marines and marauders."""
    game = arena.new_game(home=1)
    x, y = arena.OPEN
    barracks = arena.put(game, "Barracks", 1, x, y)
    lab = arena.put(game, "BarracksTechLab", 1, x + 2.5, y - 0.5)
    game.world.units["addon"][barracks] = lab
    arena.put(game, "SupplyDepot", 1, x, y + 8)
    arena.put(game, "EngineeringBay", 1, x + 12, y)
    game.advance(5)
    return game


def _strategy(game, *, spends_gas_first):
    style = {
        "mix": {"Marine": 6, "Marauder": 2},
        "upgrades": ["TerranInfantryWeapons"],
    }
    return BotStrategy(
        race=strategies.of_race(TERRAN),
        style=style,
        max_workers=40,
        max_bases=2,
        spends_gas_first=spends_gas_first,
        supply_slack=1.0,
        guard_food=1.0,
        army_food=100.0,
        start=game.map.starts[0],
        expansions=tuple(game.map.bases),
    )


def _trained(game, minerals, vespene, *, spends_gas_first=True):
    game.world.players["minerals"][1] = minerals
    game.world.players["vespene"][1] = vespene
    strategy = _strategy(game, spends_gas_first=spends_gas_first)
    intents = army_production.army(Situation(game, 1), strategy, Dice(1))
    return [intent.ability for intent in intents]


def test_much_gas_makes_the_unit_that_needs_gas(game):
    assert _trained(game, 120, 30)[0] == MARINE
    assert _trained(game, 120, 300)[0] == MARAUDER
    assert _trained(game, 120, 300, spends_gas_first=False)[0] == MARINE


def test_with_gas_but_few_minerals_a_player_saves_and_it_shows_in_the_bank(game):
    assert _trained(game, 60, 300) == []
    assert _trained(game, 60, 300, spends_gas_first=False) == [MARINE]


def test_without_gas_nobody_saves_for_what_needs_it(game):
    x, y = arena.OPEN
    for i in range(9):  # marauders are behind now
        arena.put(game, "Marine", 1, x + i, y - 6)
    game.advance(1)
    assert _trained(game, 60, 0) == [MARINE]
    assert _trained(game, 60, 0, spends_gas_first=False) == []
    assert _trained(game, 60, 100) == []


def test_minerals_are_kept_for_an_upgrade_whose_gas_is_there(game):
    research = rules.ability_id("Research_TerranInfantryWeaponsLevel1")
    cost = rules.ability_rules()[research]
    players = game.world.players
    players["minerals"][1] = cost["minerals"] - 20
    left = {}
    for gas in (int(cost["vespene"]), int(cost["vespene"]) - 20):
        players["vespene"][1] = gas
        situation = Situation(game, 1)
        strategy = _strategy(game, spends_gas_first=True)
        assert macro.upgrades(situation, strategy) == []
        left[gas - int(cost["vespene"])] = situation.minerals
    assert left == {0: -20, -20: cost["minerals"] - 20}
    players["vespene"][1] = 500
    situation = Situation(game, 1)
    careless = dataclasses.replace(strategy, spends_gas_first=False)
    assert macro.upgrades(situation, careless) == []
    assert situation.minerals == cost["minerals"] - 20


def test_a_building_without_power_researches_nothing():
    game = arena.new_game(home=3)
    x, y = arena.OPEN
    forge = arena.put(game, "Forge", 1, x, y)
    arena.rich(game, 1)
    game.advance(5)
    style = {"mix": {}, "upgrades": ["ProtossShields"]}
    strategy = dataclasses.replace(_strategy(game, spends_gas_first=True), style=style)
    assert macro.upgrades(Situation(game, 1), strategy) == []
    arena.put(game, "Pylon", 1, x, y + 3)
    game.advance(40)
    (intent,) = macro.upgrades(Situation(game, 1), strategy)
    assert intent.tags == (arena.tag(game, forge),)
