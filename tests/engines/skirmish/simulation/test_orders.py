"""Which units obey a command, and which order each of them gets."""

import pytest

from starmill.engines.skirmish.simulation.game import Autocast, Game, UnitCommand
from tests.factories import arena

X, Y = arena.OPEN
# Ability ids of the game.
SMART, MOVE, SCAN_MOVE, ATTACK, GATHER_SCV, RETURN_SCV, REPAIR_SCV = (
    1,
    16,
    19,
    23,
    295,
    296,
    316,
)


def _abilities(game: Game, row: int) -> list[int]:
    count = int(arena.unit(game, row, "order_count"))
    return [int(a) for a in game.world.orders["ability"][row, :count]]


def _smart(game: Game, row: int, *, target: int | None = None, point=None) -> None:
    tag = arena.tag(game, target) if target is not None else 0
    game.step([UnitCommand(1, SMART, (arena.tag(game, row),), tag, point)])


def _field(game: Game) -> int:
    units, resource = game.world.units, game.map.bases[0].resources[0]
    at = (units["x"] == resource.x) & (units["y"] == resource.y)
    return int(at.nonzero()[0][0])


def _set_up(game: Game, target: str) -> int:
    """Returns the row of the unit that is clicked."""
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    if target == "field":
        return _field(game)
    if target == "damaged hall":
        game.world.units["health"][hall] = 500.0
    if target in {"hall", "damaged hall"}:
        return hall
    row = arena.put(game, target, 2 if target == "Zergling" else 1, X + 12, Y)
    arena.look(game)
    return row


@pytest.mark.parametrize(
    ("unit", "clicked", "ability"),
    [
        ("SCV", "field", GATHER_SCV),
        ("SCV", "damaged hall", REPAIR_SCV),
        ("SCV", "hall", MOVE),
        ("SCV", "Zergling", ATTACK),
        ("Marine", "field", MOVE),
        ("Marine", "Zergling", ATTACK),
        ("Marine", "Bunker", SMART),  # get in
        ("Marine", "Barracks", MOVE),
        ("Medivac", "Zergling", SCAN_MOVE),  # goes along with the army
    ],
)
def test_what_a_right_click_means(unit: str, clicked: str, ability: int) -> None:
    game = arena.new_game()
    game.world.visibility[1] = 2
    row = arena.put(game, unit, 1, X, Y)
    target = _set_up(game, clicked)
    game.world.units["seen"][target] = 6
    _smart(game, row, target=target)
    assert _abilities(game, row) == [ability]
    assert game.world.orders["target_tag"][row, 0] == arena.tag(game, target)


def test_a_right_click_with_a_building_sets_its_rally_point() -> None:
    game = arena.new_game()
    barracks = arena.put(game, "Barracks", 1, X + 0.5, Y + 0.5)
    _smart(game, barracks, point=(X + 5, Y))
    rally = [arena.unit(game, barracks, f"rally_{key}") for key in ("kind", "x", "y")]
    assert rally == [1, X + 5, Y]
    assert _abilities(game, barracks) == []


def test_a_worker_with_a_load_carries_it_home_first() -> None:
    game = arena.new_game()
    worker = arena.rows_of(game, "SCV", 1)[0]
    game.world.units["carry_minerals"][worker] = 5
    arena.command(game, 1, "Harvest_Gather", [worker], target=_field(game))
    assert _abilities(game, worker) == [RETURN_SCV]


def test_all_move_but_only_the_nearest_builds() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    far, near = (arena.put(game, "SCV", 1, X + dx, Y) for dx in (10.0, 6.0))
    arena.look(game)
    arena.command(game, 1, "Move_Move", [far, near], point=(X, Y))
    assert (_abilities(game, far), _abilities(game, near)) == ([MOVE], [MOVE])
    arena.command(game, 1, "Build_SupplyDepot", [far, near], point=(X + 1, Y))
    assert (_abilities(game, far), _abilities(game, near)) == ([MOVE], [319])
    assert game.world.players["minerals"][1] == 5000  # paid when the site is begun


def test_units_are_trained_where_the_queue_is_shortest() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    arena.put(game, "SupplyDepot", 1, X - 10, Y)
    rows = [arena.put(game, "Barracks", 1, X + 0.5, Y + dy + 0.5) for dy in (-6, 0, 6)]
    reactor = arena.put(game, "BarracksReactor", 1, X + 3, Y + 6)
    game.world.units["addon"][rows[2]] = reactor
    for _ in range(8):
        arena.command(game, 1, "Train_Marine", rows)
    # A reactor counts twice.
    assert [len(_abilities(game, row)) for row in rows] == [2, 2, 4]


def test_a_unit_queues_eight_orders() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    for step in range(10):
        point = (X + 20, Y + 2 * step)
        arena.command(game, 1, "Move_Move", [marine], point=point, queued=True)
    assert _abilities(game, marine) == [MOVE] * 8
    assert [e.code for e in game.take_errors()] == [7, 7]


def test_units_that_cannot_obey_are_skipped() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    drone = arena.rows_of(game, "Drone", 2)[0]
    dead = arena.put(game, "Marine", 1, X + 2, Y)
    game.world.units["alive"][dead] = 0
    rows = [hall, drone, dead, marine]
    arena.command(game, 1, "Attack_Attack", rows, point=(X + 9, Y))
    assert _abilities(game, marine) == [ATTACK]
    assert _abilities(game, drone) != [ATTACK]
    assert game.take_errors() == []


def test_a_command_that_nobody_obeys_is_refused_with_the_last_reason() -> None:
    game = arena.new_game()
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    arena.command(game, 1, "Attack_Attack", [hall], point=(X, Y))
    (error,) = game.take_errors()
    assert (error.player, error.ability_id, error.code) == (1, ATTACK, 2)
    assert error.tag == arena.tag(game, hall)
    game.step([UnitCommand(1, MOVE, (), 0, (X, Y))])
    (error,) = game.take_errors()
    assert (error.tag, error.code) == (0, 2)


def test_stop_and_hold() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    arena.command(game, 1, "Move_Move", [marine], point=(X + 9, Y))
    arena.command(game, 1, "HoldPosition_Hold", [marine])
    assert (_abilities(game, marine), arena.unit(game, marine, "hold")) == ([], 1)
    arena.command(game, 1, "Stop_Stop", [marine])
    assert arena.unit(game, marine, "hold") == 0


def test_an_egg_takes_no_orders_but_a_rally_point() -> None:
    game = arena.new_game(home=2)
    larva = arena.rows_of(game, "Larva", 1)[0]
    arena.command(game, 1, "Train_Drone", [larva])
    arena.command(game, 1, "Train_Overlord", [larva])
    assert [e.code for e in game.take_errors()] == [2]
    arena.command(game, 1, "Rally_Morphing_Unit", [larva], point=(X, Y))
    assert game.take_errors() == []
    assert arena.unit(game, larva, "rally_kind") == 1
    assert arena.rows_of(game, "Cocoon", 1) == [larva]


def test_an_autocast_is_switched_and_switched_back() -> None:
    game = arena.new_game()
    worker = arena.rows_of(game, "SCV", 1)[0]
    enemy = arena.rows_of(game, "Drone", 2)[0]
    tags = (arena.tag(game, worker), arena.tag(game, enemy))
    before = arena.unit(game, worker, "autocast")
    game.step([Autocast(1, REPAIR_SCV, tags)])
    assert arena.unit(game, worker, "autocast") != before
    assert arena.unit(game, enemy, "autocast") == 0
    game.step([Autocast(1, REPAIR_SCV, tags)])
    assert arena.unit(game, worker, "autocast") == before
    game.step([Autocast(1, MOVE, tags)])  # not an autocast
    assert arena.unit(game, worker, "autocast") == before


def test_an_odd_templar_is_left_over() -> None:
    game = arena.new_game(home=3)
    rows = [arena.put(game, "HighTemplar", 1, X + 2 * k, Y) for k in range(3)]
    arena.command(game, 1, "Morph_Archon", rows)
    targets = [int(game.world.orders["target_tag"][row, 0]) for row in rows[:2]]
    assert targets == [arena.tag(game, rows[1]), arena.tag(game, rows[0])]
    assert _abilities(game, rows[2]) == []
