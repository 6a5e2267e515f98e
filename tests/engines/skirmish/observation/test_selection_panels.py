"""What the interface shows of a selection, as messages of the protocol."""

from starmill.engines.skirmish.observation import selection_panels
from starmill.engines.skirmish.simulation import rules
from starmill.engines.skirmish.simulation.game import SET, ControlGroup, Select
from tests.factories import arena

X, Y = arena.OPEN


def _select(game, *rows):
    game.step([Select(1, tuple(arena.tag(game, row) for row in rows))])


def test_one_unit_shows_its_health_and_levels():
    game = arena.new_game(home=3)
    probe = arena.rows_of(game, "Probe", 1)[0]
    game.world.units["shield_level"][probe] = 2
    game.world.units["health"][probe] = 7.9
    _select(game, probe)
    panel = selection_panels.interface(game, 1)
    assert not panel.multi.units
    info = panel.single.unit
    assert (info.unit_type, info.health, info.max_shields) == (84, 7, 20)
    assert panel.single.shield_upgrade_level == 2
    assert selection_panels.interface(game, 2).single.unit.unit_type == 0


def test_several_units_show_one_entry_each():
    game = arena.new_game()
    rows = arena.rows_of(game, "SCV", 1)[:3]
    _select(game, *rows)
    panel = selection_panels.interface(game, 1)
    assert [unit.unit_type for unit in panel.multi.units] == [45, 45, 45]
    assert not panel.HasField("single")


def test_a_transport_shows_its_passengers():
    game = arena.new_game()
    medivac = arena.put(game, "Medivac", 1, X, Y)
    marine = arena.put(game, "Marine", 1, X + 1, Y)
    arena.command(game, 1, "Load_Medivac", [medivac], target=marine)
    game.advance(30)
    _select(game, medivac)
    cargo = selection_panels.interface(game, 1).cargo
    assert [unit.unit_type for unit in cargo.passengers] == [48]
    assert cargo.slots_available == 7


def test_a_building_shows_what_it_trains():
    game = arena.new_game()
    arena.rich(game, 1)
    hall = arena.rows_of(game, "CommandCenter", 1)[0]
    arena.command(game, 1, "Train_SCV", [hall])
    arena.command(game, 1, "Train_SCV", [hall])
    _select(game, hall)
    production = selection_panels.interface(game, 1).production
    assert [item.ability_id for item in production.production_queue] == [524, 524]
    assert [unit.unit_type for unit in production.build_queue] == [45, 45]
    first, second = (item.build_progress for item in production.production_queue)
    assert first > 0 and second == 0


def test_control_groups_count_the_living():
    game = arena.new_game()
    rows = arena.rows_of(game, "SCV", 1)[:3]
    _select(game, *rows)
    game.step([ControlGroup(1, 4, SET)])
    game.world.units["alive"][rows[0]] = 0
    (group,) = selection_panels.interface(game, 1).groups
    assert (group.control_group_index, group.count) == (4, 2)
    assert group.leader_unit_type == 45


def test_abilities_of_a_mixed_selection_are_listed_once():
    game = arena.new_game()
    marines = [arena.put(game, "Marine", 1, X + dx, Y) for dx in (0, 2)]
    medivac = arena.put(game, "Medivac", 1, X, Y + 3)
    _select(game, *marines, medivac)
    listed = [item.ability_id for item in selection_panels.abilities(game, 1)]
    assert listed == sorted(set(listed))
    assert rules.ability_id("Load_Medivac") in listed
    move = next(
        item for item in selection_panels.abilities(game, 1) if item.ability_id == 16
    )
    assert move.requires_point
    stop = rules.ability_id("Stop_Stop")
    assert not selection_panels.needs_target(stop)
