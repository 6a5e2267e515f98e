import pytest

from starmill.converters.protos import debug_pb2
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.server import debug_commands, live_game
from starmill.engines.skirmish.simulation import rules
from starmill.schema import errors


@pytest.fixture
def play():
    seats = (
        live_game.Seat(race=1, name="own"),
        live_game.Seat(race=2, name="enemy", difficulty=1),
    )
    setup = live_game.GameSetup(
        map_name="Amber Basin", seed=3, disable_fog=False, seats=seats
    )
    return live_game.LiveGame(setup, 1, versions.LATEST)


def _command(**fields):
    return debug_pb2.DebugCommand(**fields)


def _units(play, kind, owner=1):
    units = play.game.world.units
    match = (units["alive"] == 1) & (units["owner"] == owner)
    return units[match & (units["unit_type"] == rules.unit_id(kind))]


def test_resources_and_sight_change_the_game(play):
    before = play.game.world.players[1].copy()
    assert debug_commands.apply(play, _command(game_state=debug_pb2.all_resources))
    assert debug_commands.apply(play, _command(game_state=debug_pb2.minerals))
    assert debug_commands.apply(play, _command(game_state=debug_pb2.show_map))
    after = play.game.world.players[1]
    assert after["minerals"] - before["minerals"] == 10_000
    assert after["vespene"] - before["vespene"] == 5_000
    assert after["all_visible"] == 1
    debug_commands.apply(play, _command(game_state=debug_pb2.show_map))
    assert play.game.world.players[1]["all_visible"] == 0


def test_units_are_created_changed_and_killed(play):
    create = debug_pb2.DebugCreateUnit(
        unit_type=rules.unit_id("Marine"), owner=1, quantity=3
    )
    create.pos.x, create.pos.y = 60.0, 60.0
    assert debug_commands.apply(play, _command(create_unit=create))
    marines = _units(play, "Marine")
    assert len(marines) == 3
    first = int(marines["tag"][0])
    value = debug_pb2.DebugSetUnitValue(
        unit_tag=first, unit_value=debug_pb2.DebugSetUnitValue.Life, value=7.5
    )
    debug_commands.apply(play, _command(unit_value=value))
    value.value = 1e9
    value.unit_tag = int(marines["tag"][1])
    debug_commands.apply(play, _command(unit_value=value))
    assert sorted(_units(play, "Marine")["health"].tolist()) == [7.5, 45.0, 45.0]
    kill = debug_pb2.DebugKillUnit(tag=[first, 1 << 40])
    assert debug_commands.apply(play, _command(kill_unit=kill))
    assert len(_units(play, "Marine")) == 2


def test_units_that_do_not_exist_are_not_created(play):
    count = int(play.game.world.units["alive"].sum())
    for unit_type, owner in ((0, 1), (10**6, 1), (rules.unit_id("Marine"), 3)):
        create = debug_pb2.DebugCreateUnit(unit_type=unit_type, owner=owner, quantity=1)
        debug_commands.apply(play, _command(create_unit=create))
    assert int(play.game.world.units["alive"].sum()) == count


@pytest.mark.parametrize(
    ("end", "result"),
    [
        (debug_pb2.DebugEndGame.Surrender, {1: "loss", 2: "win"}),
        (debug_pb2.DebugEndGame.DeclareVictory, {1: "win", 2: "loss"}),
    ],
)
def test_the_game_ends_as_ordered_and_has_a_replay(play, end, result):
    command = _command(end_game=debug_pb2.DebugEndGame(end_result=end))
    assert not debug_commands.apply(play, command)
    assert play.results == result
    assert play.replay()


def test_drawings_change_nothing(play):
    digest = play.game.state_digest()
    assert not debug_commands.apply(play, _command(draw=debug_pb2.DebugDraw()))
    assert play.game.state_digest() == digest


def test_a_game_that_was_changed_has_no_replay(play):
    play.touched |= debug_commands.apply(play, _command(game_state=debug_pb2.minerals))
    with pytest.raises(errors.EngineError, match="debug commands changed the game"):
        play.replay()
