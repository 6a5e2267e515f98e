"""Debug commands as inputs: they change the game on the next loop, and replays hold them."""

import pytest

from starmill.converters.protos import debug_pb2
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.replays import reader
from starmill.engines.skirmish.server import (
    debug_commands,
    live_game,
    replay_playback,
)
from starmill.engines.skirmish.simulation import game, rules
from tests.factories import games


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


def _apply(play, **fields):
    debug_commands.apply(play, debug_pb2.DebugCommand(**fields))


def _units(play, kind, owner=1):
    units = play.game.world.units
    match = (units["alive"] == 1) & (units["owner"] == owner)
    return units[match & (units["unit_type"] == rules.unit_id(kind))]


def _create(play, kind, quantity, owner=1):
    create = debug_pb2.DebugCreateUnit(
        unit_type=rules.unit_id(kind), owner=owner, quantity=quantity
    )
    create.pos.x, create.pos.y = 60.0, 60.0
    _apply(play, create_unit=create)


def test_units_are_created_changed_and_killed_on_the_next_loop(play):
    _create(play, "Marine", 3)
    assert not len(_units(play, "Marine"))
    play.step(1)
    tags = [int(tag) for tag in _units(play, "Marine")["tag"]]
    values = debug_pb2.DebugSetUnitValue
    for tag, value in zip(tags, (7.5, 1e9, 20.0), strict=True):
        change = values(unit_tag=tag, unit_value=values.Life, value=value)
        _apply(play, unit_value=change)
    play.step(1)
    assert sorted(_units(play, "Marine")["health"].tolist()) == [7.5, 20.0, 45.0]
    _apply(play, kill_unit=debug_pb2.DebugKillUnit(tag=[tags[0], 1 << 40]))
    play.step(1)
    assert len(_units(play, "Marine")) == 2


def test_kills_of_many_units_fit_into_the_replays_events(play):
    _create(play, "Marine", 100)
    play.step(1)
    tags = [int(tag) for tag in _units(play, "Marine")["tag"]]
    _apply(play, kill_unit=debug_pb2.DebugKillUnit(tag=tags))
    play.step(1)
    assert not len(_units(play, "Marine"))
    assert reader.read(play.replay())


def test_a_replay_plays_the_changed_game_again(play):
    _apply(play, game_state=debug_pb2.all_resources)
    _apply(play, game_state=debug_pb2.god)
    _create(play, "SiegeTank", 2)
    _create(play, "Zergling", 6, owner=2)
    play.step(1)
    tanks = tuple(int(tag) for tag in _units(play, "SiegeTank")["tag"])
    attack = rules.ability_id("Attack_Attack")
    for loop in range(1, 300):
        goal = (50.0 + loop % 30, 70.0)
        play.give([game.UnitCommand(1, attack, tanks, target_point=goal)])
        play.step(1)
    recording = reader.read(play.replay())
    assert [player.prompt for player in recording.players] == [True, False]
    again = replay_playback.ReplayPlayback(recording, 1)
    again.step(300)
    assert again.game.state_digest() == recording.end_digest
    assert again.game.world.players[1]["minerals"] > 5000


def test_both_processes_follow_a_debug_command(linked_clients):
    host, guest = linked_clients
    request = games.sc2api_pb2.RequestDebug()
    create = request.debug.add().create_unit
    create.unit_type, create.owner, create.quantity = 48, 2, 4
    create.pos.x = create.pos.y = 60.0
    host.ask(debug=request)
    games.both(lambda: host.step(4), lambda: guest.step(4))
    for client in (host, guest):
        units = client.session._play.game.world.units
        assert (units["unit_type"][units["alive"] == 1] == 48).sum() == 4
    digests = {c.session._play.game.state_digest() for c in (host, guest)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("end", "result"),
    [
        (debug_pb2.DebugEndGame.Surrender, {1: "loss", 2: "win"}),
        (debug_pb2.DebugEndGame.DeclareVictory, {1: "win", 2: "loss"}),
    ],
)
def test_the_game_ends_as_ordered_and_has_a_replay(play, end, result):
    _apply(play, end_game=debug_pb2.DebugEndGame(end_result=end))
    assert play.results == result
    assert play.replay()


def test_drawings_change_nothing(play):
    digest = play.game.state_digest()
    _apply(play, draw=debug_pb2.DebugDraw())
    assert play.game.state_digest() == digest
    play.step(1)
    assert not play.take_played()
