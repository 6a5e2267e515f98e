import pytest

from starmill.engines.skirmish.players import idle_actions, intents, tactics
from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.situation import Situation
from starmill.engines.skirmish.simulation import rules
from tests.factories import arena


def _round(game, **front):
    start, enemy_start = game.map.starts
    state = tactics.Front(
        wave=30.0,
        control=0.5,
        human=True,
        start=start,
        enemy_start=enemy_start,
        **front,
    )
    return idle_actions.next_round(Situation(game, 1), state, Dice(3))


@pytest.fixture
def game():
    game = arena.new_game(home=2, away=1)
    x, y = arena.OPEN
    arena.put(game, "Roach", 1, x, y)
    arena.put(game, "Roach", 1, x + 20, y)
    game.advance(30)
    return game


def _abilities(game, **front):
    return [intent.ability for intent in _round(game, **front)]


def test_a_round_is_of_different_commands_and_none_is_an_attack(game):
    abilities = _abilities(game)
    assert len(abilities) >= 4
    assert len(set(abilities)) == len(abilities)
    assert intents.ABILITY_ATTACK not in abilities


def test_the_army_is_left_alone_while_it_attacks(game):
    assert intents.ABILITY_SMART in _abilities(game)
    assert intents.ABILITY_SMART not in _abilities(game, attacking=True)


def test_the_foremost_unit_is_the_one_that_moves(game):
    situation = Situation(game, 1)
    (moved,) = [i for i in _round(game) if i.ability == intents.ABILITY_SMART]
    x, y = game.map.starts[1]
    roaches = situation.named("Roach")
    gaps = {
        situation.tag(i): (situation.x[i] - x) ** 2 + (situation.y[i] - y) ** 2
        for i in roaches
    }
    assert moved.tags == min(gaps, key=lambda tags: gaps[tags])


def test_a_worker_with_a_load_or_a_building_to_place_is_not_called_back(game):
    workers = arena.rows_of(game, "Drone", 1)
    game.world.units["carry_minerals"][workers] = 5
    rally = intents.ABILITY_RALLY_WORKERS
    abilities = _abilities(game)
    assert rally in abilities
    assert intents.ABILITY_GATHER not in abilities
    game.world.units["carry_minerals"][workers[0]] = 0
    (gather,) = [i for i in _round(game) if i.ability == intents.ABILITY_GATHER]
    assert gather.tags == (arena.tag(game, workers[0]),)


def test_without_a_town_hall_only_the_army_is_moved(game):
    hall = rules.unit_id("Hatchery")
    units = game.world.units
    units["unit_type"][units["unit_type"] == hall] = rules.unit_id("EvolutionChamber")
    assert set(_abilities(game)) <= {
        intents.ABILITY_SMART,
        intents.ABILITY_RALLY_UNITS,
    }
