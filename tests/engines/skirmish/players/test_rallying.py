from starmill.engines.skirmish.players import intents, rallying, tactics
from starmill.engines.skirmish.players.situation import Situation
from starmill.engines.skirmish.simulation import rules
from tests.factories import arena


def _front(game):
    start, enemy_start = game.map.starts
    return tactics.Front(
        wave=30.0, control=0.5, human=True, start=start, enemy_start=enemy_start
    )


def _intents(game):
    return rallying.set_rally_points(Situation(game, 1), _front(game))


def test_a_hall_gets_its_minerals_once():
    game = arena.new_game(home=1)
    (intent,) = _intents(game)
    assert intent.ability == intents.ABILITY_RALLY_WORKERS
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    assert intent.tags == (arena.tag(game, hall),)
    row = int((game.world.units["tag"] == intent.target_tag).nonzero()[0][0])
    kind = game.world.units["unit_type"][row]
    assert rules.unit_rules()[kind]["mineral_field"] == 1
    arena.command(game, 1, "Rally_CommandCenter", [hall], target=row)
    assert _intents(game) == []


def test_production_sends_units_to_where_the_army_waits():
    game = arena.new_game(home=1)
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    field = _intents(game)[0].target_tag
    row = int((game.world.units["tag"] == field).nonzero()[0][0])
    arena.command(game, 1, "Rally_CommandCenter", [hall], target=row)
    x, y = arena.OPEN
    barracks = arena.put(game, "Barracks", 1, x, y)
    (intent,) = _intents(game)
    point = tactics.rally_point(Situation(game, 1), _front(game))
    assert intent.ability == intents.ABILITY_RALLY_UNITS
    assert (intent.tags, intent.point) == ((arena.tag(game, barracks),), point)
    near = (point[0] + 3.0, point[1])
    arena.command(game, 1, "Rally_Building", [barracks], point=near)
    assert _intents(game) == []
    away = (point[0] + 15.0, point[1])
    arena.command(game, 1, "Rally_Building", [barracks], point=away)
    assert [intent.point for intent in _intents(game)] == [point]
