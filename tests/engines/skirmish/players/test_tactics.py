import numpy as np
import pytest

from starmill.engines.skirmish.players import intents, tactics
from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.situation import Situation
from starmill.engines.skirmish.simulation import records
from tests.factories import arena


@pytest.fixture
def game():
    """Six roaches in the open; the enemy has one marine far away."""
    game = arena.new_game(home=2, away=1)
    x, y = arena.OPEN
    for i in range(6):
        arena.put(game, "Roach", 1, x + i, y)
    game.advance(30)
    return game


def _front(game, **values):
    start, enemy_start = game.map.starts
    options = {"human": True, "attacking": True, "target": enemy_start, **values}
    return tactics.Front(
        wave=10.0, control=0.9, start=start, enemy_start=enemy_start, **options
    )


def _lead(game, front):
    return tactics.lead(Situation(game, 1), front, Dice(3))


def _explore(game, *, start_only=False):
    """Shows player 1 the enemy's start location, or the whole map, without any building."""
    seen = game.world.visibility[1]
    x, y = game.map.starts[1]
    if start_only:
        seen[int(y), int(x)] = records.CELL_FOGGED
    else:
        seen[seen == records.CELL_HIDDEN] = records.CELL_FOGGED


def _march(game, tags, point):
    """Sends units somewhere, so that they are not idle."""
    rows = [int(r) for r in np.flatnonzero(np.isin(game.world.units["tag"], tags))]
    arena.command(game, 1, "Attack_Attack", rows, point=point)


def test_the_whole_army_gets_one_order_until_something_changes(game):
    front = _front(game)
    (intent,) = _lead(game, front)
    assert intent.ability == intents.ABILITY_ATTACK
    assert (len(intent.tags), intent.point) == (6, game.map.starts[1])
    _march(game, intent.tags, intent.point)
    game.advance(200)
    assert _lead(game, front) == []
    x, y = game.map.starts[0]
    for _ in range(5):
        arena.put(game, "Roach", 1, x + 8, y)
    (again,) = _lead(game, front)
    assert (len(again.tags), again.point) == (11, intent.point)


def test_people_do_not_attack_their_own_middle_and_computers_do(game):
    x, y = arena.OPEN
    rows = arena.rows_of(game, "Roach", 1)
    game.world.units["x"][rows[:3]] = x - 25
    orders = {}
    for human in (True, False):
        front = _front(game, human=human)
        points = {intent.point for k in range(9) for intent in _at(game, front, k)}
        orders[human] = points
    assert orders[True] == {game.map.starts[1]}
    assert orders[False] - orders[True]


def _at(game, front, seed):
    front.last_order = -1000
    return tactics.lead(Situation(game, 1), front, Dice(seed))


def test_squads_search_the_bases_when_no_building_is_known(game):
    _explore(game, start_only=True)
    front = _front(game)
    orders = _lead(game, front)
    bases = {(base.x, base.y) for base in game.map.bases}
    assert len(orders) == 3
    assert {intent.point for intent in orders} <= bases
    assert len({intent.point for intent in orders}) == 3
    told = [tag for intent in orders for tag in intent.tags]
    assert len(told) == len(set(told)) == 6
    # The nearest one that nobody has seen comes first.
    x, y = game.map.starts[1]
    hidden = [b for b in bases if not Situation(game, 1).has_seen(*b)]
    roach = Situation(game, 1).point(int(Situation(game, 1).army[0]))
    nearest = min(hidden, key=lambda b: (b[0] - roach[0]) ** 2 + (b[1] - roach[1]) ** 2)
    assert orders[0].point == nearest
    for intent in orders:
        _march(game, intent.tags, intent.point)
    assert _lead(game, front) == []


def test_squads_visit_every_base_before_any_again(game):
    _explore(game)
    front = _front(game)
    points = []
    for _ in range(6):
        points += [intent.point for intent in _lead(game, front)]
    outside = [
        (base.x, base.y)
        for base in game.map.bases
        if not Situation(game, 1).sees(base.x, base.y)
    ]
    assert sorted(points[: len(outside)]) == sorted(outside)
    front.visited = dict.fromkeys(front.visited, -5000)
    assert _lead(game, front)[0].point in outside


def test_a_known_building_ends_the_search(game):
    _explore(game)
    x, y = arena.OPEN
    arena.put(game, "Bunker", 2, x, y + 6)
    arena.look(game)
    game.advance(20)
    front = _front(game)
    (intent,) = _lead(game, front)
    assert len(intent.tags) == 6
    assert intent.point == pytest.approx((x, y + 6), abs=1)


def test_an_army_before_a_stronger_one_goes_home(game):
    x, y = arena.OPEN
    for i in range(14):
        arena.put(game, "Marauder", 2, x + i / 2, y + 8)
    arena.look(game)
    game.advance(2)
    front = _front(game, began_food=12.0)
    (intent,) = _lead(game, front)
    assert intent.ability == intents.ABILITY_MOVE
    assert not front.attacking


def test_stragglers_are_called_together_and_not_one_by_one(game):
    x, y = arena.OPEN
    front = _front(game, attacking=False)
    front.wave = 100.0
    (intent,) = _lead(game, front)
    assert len(intent.tags) == 6
    home = tactics.rally_point(Situation(game, 1), front)
    rows = arena.rows_of(game, "Roach", 1)
    game.world.units["x"][rows[2:]], game.world.units["y"][rows[2:]] = home
    assert _lead(game, front) == []
