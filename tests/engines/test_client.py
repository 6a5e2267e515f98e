"""The client against a server that answers well, badly, or not at all."""

import contextlib
import time

import pytest

from starmill.converters.protos import sc2api_pb2
from starmill.engines import websocket
from starmill.engines.client import Client, Deadlines
from starmill.schema import errors
from tests.engines.scripted_game import ScriptedGame, observation

QUICK = Deadlines(start=5, load=5, play=0.3)


@contextlib.contextmanager
def connected(game: ScriptedGame):
    client = Client.connect(game.port, QUICK, lambda: True)
    try:
        yield client
    finally:
        client.close()


def after_ping(answer):
    """Answers pings properly and leaves the rest to `answer`."""

    def respond(game: ScriptedGame, request: sc2api_pb2.Request) -> None:
        if request.HasField("ping"):
            pong = sc2api_pb2.Response(status=sc2api_pb2.launched)
            pong.ping.game_version = "4.9.2"
            game.reply(pong, request)
        else:
            answer(game, request)

    return respond


def test_an_observation_comes_back_as_the_bytes_the_game_sent():
    sent = observation(7, actions=2)
    sent.observation.observation.raw_data.units.add(tag=5)

    with (
        ScriptedGame(after_ping(lambda g, r: g.reply(sent, r))) as game,
        connected(game) as client,
    ):
        client.send_observation()
        received = client.receive()

    assert received == sent.observation.SerializeToString()
    asked = game.requests[1].observation
    assert asked.HasField("disable_fog") and asked.HasField("game_loop")
    assert [request.id for request in game.requests[:2]] == [1, 2]
    assert client.status == sc2api_pb2.in_replay


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, 300_000])
def test_messages_of_every_frame_size_pass_in_both_directions(size):
    def echo(game, request):
        response = sc2api_pb2.Response()
        response.save_map.SetInParent()
        response.replay_info.map_name = request.replay_info.replay_data.decode()
        game.reply(response, request)

    with ScriptedGame(after_ping(echo)) as game, connected(game) as client:
        answer = client.replay_info(b"x" * size)
        client.close()

    info = sc2api_pb2.ResponseReplayInfo.FromString(answer)
    assert info.map_name == "x" * size


def test_fragments_and_pings_between_them_are_put_together():
    def in_pieces(game, request):
        response = observation(3)
        response.id, response.status = request.id, sc2api_pb2.in_replay
        data = response.SerializeToString()
        game.send_frame(data[:2], opcode=2, final=False)
        game.send_frame(b"are you there", opcode=9)
        game.send_frame(data[2:], opcode=0)

    with ScriptedGame(after_ping(in_pieces)) as game, connected(game) as client:
        client.send_observation()
        received = client.receive()

    assert (
        sc2api_pb2.ResponseObservation.FromString(received).observation.game_loop == 3
    )


def garbled(game, request):
    game.send_frame(b"\xff" * 12)


def wrong_id(game, request):
    response = observation(1)
    response.id, response.status = request.id + 1, sc2api_pb2.in_replay
    game.send_frame(response.SerializeToString())


def no_status(game, request):
    response = observation(1)
    response.id = request.id
    game.send_frame(response.SerializeToString())


def other_answer(game, request):
    response = sc2api_pb2.Response()
    response.step.SetInParent()
    game.reply(response, request)


def half_a_message(game, request):
    game.connection.sendall(b"\x82\x7d" + b"half")
    game.hang_up()


def close_frame(game, request):
    game.send_frame(b"", opcode=8)


def masked_frame(game, request):
    game.connection.sendall(b"\x82\x81\0\0\0\0x")


@pytest.mark.parametrize(
    "misbehave",
    [
        garbled,
        wrong_id,
        no_status,
        other_answer,
        half_a_message,
        close_frame,
        masked_frame,
    ],
)
def test_nonsense_and_broken_connections_are_crashes(misbehave):
    with ScriptedGame(after_ping(misbehave)) as game, connected(game) as client:
        client.send_observation()
        with pytest.raises(errors.EngineCrashed):
            client.receive()


def test_an_error_in_the_answer_is_reported_with_its_text():
    def complain(game, request):
        game.reply(sc2api_pb2.Response(error=["Game has already ended"]), request)

    with ScriptedGame(after_ping(complain)) as game, connected(game) as client:
        client.send_step(5)
        with pytest.raises(errors.EngineError, match="step.*already ended"):
            client.receive()


def test_silence_becomes_a_timeout():
    with ScriptedGame(after_ping(lambda g, r: None)) as game, connected(game) as client:
        client.send_step(1)
        with pytest.raises(errors.EngineTimeout):
            client.receive()


def test_a_trickle_of_bytes_does_not_extend_the_deadline():
    def trickle(game, request):
        game.connection.sendall(b"\x82\x7f" + (1 << 20).to_bytes(8, "big"))
        for _ in range(100):
            time.sleep(0.05)
            game.connection.sendall(b".")

    with ScriptedGame(after_ping(trickle)) as game, connected(game) as client:
        client.send_step(1)
        with pytest.raises(errors.EngineTimeout):
            client.receive()


@pytest.mark.parametrize("kind", ["replay_info", "start_replay"])
def test_a_replay_that_the_game_refuses_is_the_replays_fault(kind):
    def refuse(game, request):
        response = sc2api_pb2.Response()
        if kind == "replay_info":
            response.replay_info.error = sc2api_pb2.ResponseReplayInfo.ParsingError
            response.replay_info.error_details = "no such version"
        else:
            response.start_replay.error = sc2api_pb2.ResponseStartReplay.LaunchError
            response.start_replay.error_details = "no such version"
        game.reply(response, request)

    with (
        ScriptedGame(after_ping(refuse)) as game,
        connected(game) as client,
        pytest.raises(errors.ReplayError, match="no such version") as caught,
    ):
        if kind == "replay_info":
            client.replay_info(b"x")
        else:
            client.start_replay(sc2api_pb2.RequestStartReplay())
    assert caught.value.reason == "engine_refused"


def test_one_request_at_a_time():
    with ScriptedGame(after_ping(lambda g, r: None)) as game, connected(game) as client:
        client.send_step(1)
        with pytest.raises(errors.EngineError, match="step is still under way"):
            client.send_observation()
        assert not client.is_idle()


def test_connecting_gives_up_when_the_process_has_ended():
    with ScriptedGame(lambda g, r: None) as game:
        unused = game.port
    with pytest.raises(errors.EngineCrashed, match="while it was starting"):
        Client.connect(unused, QUICK, lambda: False)


def test_connecting_waits_no_longer_than_the_deadline():
    with ScriptedGame(lambda g, r: None) as game:
        unused = game.port
    short = Deadlines(start=0.2, load=1, play=1)
    with pytest.raises(errors.EngineTimeout, match="did not start"):
        Client.connect(unused, short, lambda: True)


def test_a_refused_websocket_is_a_crash_and_404_is_not_yet():
    with (
        ScriptedGame(lambda g, r: None, b"HTTP/1.1 500 No\r\n\r\n") as game,
        pytest.raises(errors.EngineCrashed, match="refused"),
        connected(game),
    ):
        pass
    with ScriptedGame(lambda g, r: None, b"HTTP/1.1 404 No\r\n\r\n") as game:
        deadline = time.monotonic() + 5
        assert websocket.Connection.open(game.port, deadline) is None


def test_deadlines_leave_time_for_something():
    with pytest.raises(errors.ConfigError, match="deadline play"):
        Deadlines(play=0)
