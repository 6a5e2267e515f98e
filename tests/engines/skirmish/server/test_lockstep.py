"""Two sessions joined by a port play one game."""

import socket

import pytest

from starmill.converters.protos import common_pb2, raw_pb2, sc2api_pb2
from starmill.engines.skirmish.server import lockstep
from starmill.engines.skirmish.simulation import game
from starmill.schema import errors
from tests.factories import games

ENDED = 5


@pytest.mark.parametrize(
    "item",
    [
        game.UnitCommand(1, 16, (1, 2), target_point=(0.1, 1 / 3), queued=True),
        game.UnitCommand(2, 3674, (7,), target_tag=2**31 + 5),
        game.Autocast(1, 31, (3,)),
        game.CameraMove(2, 33.125, 9.5),
        game.Select(1, ()),
        game.ControlGroup(1, 9, 5),
        game.Leave(2),
    ],
)
def test_inputs_cross_the_wire_unchanged(item):
    assert lockstep.decode_input(lockstep.encode_input(item)) == item


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["Nothing", 1],
        ["Leave"],
        ["Leave", 3],
        ["Leave", 1, 2, 3],
        ["Select", 1, 5],
        ["Select", 1, [1 << 63]],
        ["Select", 1, ["tag"]],
        ["UnitCommand", 1, 16, [1], 0, [float("nan"), 1.0], False],
        ["UnitCommand", 1, 16, [1], 0, [float("inf"), 1.0], False],
        ["UnitCommand", 1, 16, [1], 0, [1.0], False],
        ["UnitCommand", 1, 1 << 70, [1], 0, None, False],
        ["CameraMove", 1, float("nan"), 1.0],
        ["ControlGroup", 1, 10, 1],
        ["ControlGroup", 1, 1, 9],
    ],
)
def test_what_is_no_input_is_refused(values):
    with pytest.raises(errors.EngineError, match="sent no input"):
        lockstep.decode_input(values)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\2{{",
        b"\0\0\0\2[]",
        b"\0\0\0\2{}",
        b"\0\0\0\x2a" + b'{"inputs": 5, "loop": 1, "until": "never"}',
        b"\0\1\0\0" + b"[" * 65536,
    ],
)
def test_a_process_that_talks_nonsense_is_gone(data):
    here, there = socket.socketpair()
    with there:
        here.settimeout(10)
        peer = lockstep.Peer(_Quiet(here))
        there.sendall(data)
        assert not peer.wait_for(0)
        assert peer.gone
        peer.close()


class _Quiet:
    """A socket that takes the options of TCP, although it is none of TCP's."""

    def __init__(self, inner):
        self._inner = inner

    def setsockopt(self, *_):
        pass

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_nobody_to_join_is_an_error(free_port):
    with pytest.raises(errors.EngineError, match="expected a game to join"):
        lockstep.join("127.0.0.1", free_port, timeout_seconds=0.2)
    with pytest.raises(errors.EngineError, match="expected another process to join"):
        lockstep.host("127.0.0.1", free_port, timeout_seconds=0.1)


def _move(client, unit_type):
    seen = client.observe().observation.raw_data.units
    worker = next(u for u in seen if u.unit_type == unit_type and u.alliance == 1)
    command = raw_pb2.ActionRawUnitCommand(
        ability_id=16,
        unit_tags=[worker.tag],
        target_world_space_pos=common_pb2.Point2D(x=60, y=60),
    )
    action = sc2api_pb2.Action(action_raw=raw_pb2.ActionRaw(unit_command=command))
    client.ask(action=sc2api_pb2.RequestAction(actions=[action]))


def test_both_processes_have_the_same_game(linked_clients):
    host, guest = linked_clients
    _move(host, 45)
    _move(guest, 84)
    games.both(lambda: host.step(40), lambda: [guest.step(8) for _ in range(5)])
    games_now = [client.session._play.game for client in linked_clients]
    assert games_now[0].loop == games_now[1].loop == 40
    assert games_now[0].state_digest() == games_now[1].state_digest()
    infos = [
        c.ask(game_info=sc2api_pb2.RequestGameInfo()).game_info for c in linked_clients
    ]
    assert [p.player_name for p in infos[0].player_info] == ["race 1", "race 3"]
    assert infos[0].player_info[1].race_requested == 3
    replays = [
        c.ask(save_replay=sc2api_pb2.RequestSaveReplay()) for c in linked_clients
    ]
    assert replays[0].save_replay.data == replays[1].save_replay.data


def test_an_action_is_played_one_loop_later_than_against_the_computer(linked_clients):
    host, guest = linked_clients
    games.both(lambda: host.step(4), lambda: guest.step(4))
    host.observe()
    _move(host, 45)
    games.both(host.step, guest.step)
    assert not host.observe().actions
    games.both(host.step, guest.step)
    (action,) = host.observe().actions
    assert action.game_loop == 5  # it was given on loop 4


def test_the_one_who_leaves_loses(linked_clients):
    host, guest = linked_clients
    games.both(lambda: host.step(16), lambda: guest.step(16))
    guest.ask(leave_game=sc2api_pb2.RequestLeaveGame())
    host.step(8)
    assert host.status == ENDED
    results = {r.player_id: r.result for r in host.observe().player_result}
    assert results == {1: sc2api_pb2.Victory, 2: sc2api_pb2.Defeat}


def test_a_broken_connection_ends_the_game(linked_clients):
    host, guest = linked_clients
    games.both(lambda: host.step(4), lambda: guest.step(4))
    host.session.close()
    guest.step(8)
    assert guest.status == ENDED
    results = {r.player_id: r.result for r in guest.observe().player_result}
    assert results == {1: sc2api_pb2.Defeat, 2: sc2api_pb2.Victory}
