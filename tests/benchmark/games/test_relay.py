"""A seat that another program takes: what passes to the game, what is refused, who loses the seat."""

import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from starmill.benchmark.games import relay
from starmill.converters.protos import sc2api_pb2
from starmill.schema import errors

PORTS = (7001, 7002, 7003, 7004)
SEAT = relay.Seat(race="zerg", name="guest", ports=PORTS)
LAUNCHED, IN_GAME, ENDED = 1, 3, 5


class Game:
    """Answers like a game's client, and remembers what it was asked."""

    def __init__(self):
        self.asked = []
        self.status = LAUNCHED
        self.fails = False

    def relay(self, data, timeout_seconds):
        if self.fails:
            raise errors.EngineCrashed("the game closed the connection")
        request = sc2api_pb2.Request.FromString(data)
        kind = request.WhichOneof("request")
        self.asked.append(request)
        self.status = {"join_game": IN_GAME, "leave_game": LAUNCHED}.get(
            kind, self.status
        )
        answer = sc2api_pb2.Response(id=request.id, status=self.status)
        getattr(answer, kind).SetInParent()
        return answer.SerializeToString()

    def kinds(self):
        return [request.WhichOneof("request") for request in self.asked]


@pytest.fixture
def game():
    return Game()


def _relay(game, start=5.0, move=5.0):
    patience = relay.Patience(start=start, move=move)
    return relay.Relay(game, SEAT, patience, game_seconds=5.0)


def _call(connection, **request):
    connection.send(sc2api_pb2.Request(id=7, **request).SerializeToString())
    return sc2api_pb2.Response.FromString(connection.recv(5.0))


def _connect(passage):
    return connect(f"ws://127.0.0.1:{passage.port}/sc2api", compression=None)


def _join():
    join = sc2api_pb2.RequestJoinGame(race=1, player_name="someone else")
    join.options.raw = True
    join.options.score = True
    return join


def _wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_joins_with_the_evaluations_race_name_and_ports(game):
    with _relay(game) as passage, _connect(passage) as program:
        answer = _call(program, join_game=_join())
        assert (answer.id, answer.status) == (7, IN_GAME)
        join = game.asked[0].join_game
        assert (join.race, join.player_name) == (2, "guest")
        assert (join.server_ports.game_port, join.server_ports.base_port) == PORTS[:2]
        assert (join.client_ports[0].game_port, join.client_ports[0].base_port) == (
            PORTS[2:]
        )
        assert join.options.score
    assert game.kinds() == ["join_game", "leave_game"]


def test_cheats_are_refused_and_the_fog_stays(game):
    with _relay(game) as passage, _connect(passage) as program:
        _call(program, join_game=_join())
        for kind in ("debug", "quit", "create_game", "restart_game", "map_command"):
            request = sc2api_pb2.Request(id=8)
            getattr(request, kind).SetInParent()
            program.send(request.SerializeToString())
            answer = sc2api_pb2.Response.FromString(program.recv(5.0))
            assert answer.error == [f"{kind} is not allowed in a rated game"]
            assert (answer.id, answer.status) == (8, IN_GAME)
        look = sc2api_pb2.RequestObservation(disable_fog=True)
        _call(program, observation=look)
        assert not game.asked[-1].observation.disable_fog
        program.send(b"\xff\xff")
        refused = sc2api_pb2.Response.FromString(program.recv(5.0))
        assert refused.error == ["the request is not a message"]
    assert game.kinds() == ["join_game", "observation", "leave_game"]


def test_a_program_that_breaks_off_gives_up_its_game(game):
    with _relay(game) as passage:
        with _connect(passage) as program:
            _call(program, join_game=_join())
            _call(program, step=sc2api_pb2.RequestStep(count=8))
        _wait_for(lambda: passage.failure)
        assert passage.failure == "left its connection at loop 8"
        _wait_for(lambda: game.status == LAUNCHED)
    assert game.kinds() == ["join_game", "step", "leave_game"]


def test_a_silent_program_gives_up_its_game(game):
    with _relay(game, move=0.2) as passage, _connect(passage) as program:
        _call(program, join_game=_join())
        _wait_for(lambda: passage.failure)
        assert passage.failure == "sent no request for 0.2 seconds at loop 0"
        with pytest.raises(ConnectionClosed):
            program.recv(5.0)
    assert game.kinds() == ["join_game", "leave_game"]


@pytest.mark.parametrize(
    ("alive", "start", "failure"),
    [
        (False, 5.0, "ended before it joined the game"),
        (True, 0.2, "did not join within 0.2 seconds"),
    ],
)
def test_a_program_that_never_comes_leaves_its_seat_to_nobody(
    game, alive, start, failure
):
    """The other player waits until somebody joins, so the relay joins, and leaves."""
    passage = _relay(game, start=start)
    passage.alive = lambda: alive
    with passage:
        _wait_for(lambda: passage.failure)
        _wait_for(lambda: "leave_game" in game.kinds())
    assert passage.failure == failure
    assert game.kinds() == ["join_game", "leave_game"]


def test_after_the_end_of_the_game_a_program_may_do_as_it_likes(game):
    with _relay(game, move=0.3) as passage:
        with _connect(passage) as program:
            _call(program, join_game=_join())
            game.status = ENDED
            _call(program, observation=sc2api_pb2.RequestObservation())
            time.sleep(0.5)
        assert passage.failure == ""


def test_a_program_that_surrenders_has_not_failed(game):
    with _relay(game) as passage:
        with _connect(passage) as program:
            _call(program, join_game=_join())
            _call(program, leave_game=sc2api_pb2.RequestLeaveGame())
        assert passage.failure == ""
    assert game.kinds() == ["join_game", "leave_game"]


def test_a_second_program_is_turned_away(game):
    with _relay(game) as passage, _connect(passage) as program:
        _call(program, join_game=_join())
        with _connect(passage) as second, pytest.raises(ConnectionClosed):
            second.recv(5.0)
        assert _call(program, game_info=sc2api_pb2.RequestGameInfo()).id == 7


def test_a_game_that_fails_ends_the_seat(game):
    with _relay(game) as passage, _connect(passage) as program:
        _call(program, join_game=_join())
        game.fails = True
        step = sc2api_pb2.Request(step=sc2api_pb2.RequestStep(count=1))
        program.send(step.SerializeToString())
        _wait_for(lambda: passage.failure)
        assert passage.failure.startswith("its game failed at loop 0")
        game.status = LAUNCHED


def test_no_thread_is_left():
    before = threading.active_count()
    with _relay(Game()) as passage, _connect(passage) as program:
        _call(program, join_game=_join())
    _wait_for(lambda: threading.active_count() <= before)


def test_patience_is_checked():
    with pytest.raises(errors.ConfigError, match="above 0"):
        relay.Patience(move=0.0)
