"""Which fault happens when depends on the seed, the replay, the player and the attempt alone."""

import json
import resource
import time
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from websockets.exceptions import ConnectionClosed

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish.server import faults
from starmill.schema import errors
from tests.factories import games

REPLAY = "3f9a" + "0" * 60
OTHER = "77bc" + "0" * 60


class Wire:
    def __init__(self):
        self.sent, self.halves = [], []

    def send(self, payload):
        self.sent.append(payload)

    def send_half(self, payload):
        self.halves.append(payload)


def _injector(tmp_path, *rules, seed=1):
    (tmp_path / faults.FILE_NAME).write_text(json.dumps({"seed": seed, "rules": rules}))
    return faults.FaultInjector.load(str(tmp_path), {})


def test_without_a_file_nothing_goes_wrong(tmp_path):
    injector = faults.FaultInjector.load(str(tmp_path), {})
    injector.at_start()
    injector.begin(REPLAY, 1)
    wire = Wire()
    assert injector.send(wire, b"answer", 1)
    assert wire.sent == [b"answer"]


def test_the_variable_goes_before_the_file(tmp_path):
    _injector(tmp_path, {"kind": "garbage"})
    variable = {faults.VARIABLE: json.dumps({"rules": [{"kind": "crash", "loop": 7}]})}
    injector = faults.FaultInjector.load(str(tmp_path), variable)
    injector.begin(REPLAY, 1)
    assert injector.stop_at() == 7


def test_a_rule_names_its_replay_player_and_attempt(tmp_path):
    rule = {"kind": "crash", "loop": 9, "replay": "3f9a", "player": 2, "attempts": [2]}
    injector = _injector(tmp_path, rule)
    seen = []
    for replay, player in [
        (REPLAY, 2),
        (REPLAY, 2),
        (REPLAY, 2),
        (REPLAY, 1),
        (OTHER, 2),
    ]:
        injector.begin(replay, player)
        seen.append(injector.stop_at())
    assert seen == [None, 9, None, None, None]


def test_attempts_are_counted_across_processes(tmp_path):
    rule = {"kind": "short", "loop": 50, "attempts": [1]}
    first = _injector(tmp_path, rule)
    first.begin(REPLAY, 1)
    second = faults.FaultInjector.load(str(tmp_path), {})
    second.begin(REPLAY, 1)
    assert (first.short_end(), second.short_end()) == (50, None)


def test_a_replay_can_be_named_by_its_number(tmp_path):
    injector = _injector(tmp_path, {"kind": "stub", "replay": 1})
    seen = []
    for replay in (REPLAY, OTHER, REPLAY):
        injector.begin(replay, 1)
        seen.append(injector.stub_at_end())
    assert seen == [False, True, False]


def test_probability_is_drawn_from_seed_replay_player_and_attempt(tmp_path):
    injector = _injector(tmp_path, {"kind": "crash", "probability": 0.3}, seed=5)
    hit = 0
    for number in range(300):
        replay = f"{number:064x}"
        injector.begin(replay, 1)
        expected = faults.draw(5, 0, replay, 1, 1) < 0.3
        assert (injector.stop_at() is not None) == expected
        hit += expected
    assert 60 < hit < 120


def test_the_draw_is_stable():
    assert faults.draw(1, 0, REPLAY, 1, 1) == 0.4288415003699623


def test_wire_faults_wait_for_their_loop(tmp_path):
    injector = _injector(tmp_path, {"kind": "garbage", "loop": 100})
    injector.begin(REPLAY, 1)
    wire = Wire()
    injector.send(wire, b"early", 1)
    injector.at_loop(100)
    injector.send(wire, b"late", 2)
    assert wire.sent[0] == b"early"
    assert wire.sent[1] != b"late"


def test_close_sends_half_and_says_so(tmp_path):
    injector = _injector(tmp_path, {"kind": "close"})
    injector.begin(REPLAY, 1)
    wire = Wire()
    assert not injector.send(wire, b"answer", 1)
    assert wire.halves == [b"answer"]


def test_a_process_can_be_told_not_to_start(tmp_path):
    injector = _injector(tmp_path, {"kind": "no_start", "attempts": [1]})
    with pytest.raises(SystemExit, match="does not start"):
        injector.at_start()
    faults.FaultInjector.load(str(tmp_path), {}).at_start()


@pytest.mark.parametrize(
    "content",
    ['{"rules": [{"kind": "sulk"}]}', '{"rules": [{"knd": "crash"}]}', "[1", "[]"],
)
def test_rules_that_are_not_valid_are_refused(tmp_path, content):
    (tmp_path / faults.FILE_NAME).write_text(content)
    with pytest.raises(errors.ConfigError, match="faults"):
        faults.FaultInjector.load(str(tmp_path), {})


def test_a_probability_outside_its_range_is_refused():
    with pytest.raises(errors.ConfigError, match="probability"):
        faults.Rule(kind="crash", probability=1.5)


# Each kind, seen from a client


@pytest.fixture(scope="module")
def replay():
    return games.played().replay


def _start(process, replay):
    start = sc2api_pb2.RequestStartReplay(
        replay_data=replay, observed_player_id=1, options=games.replay_options()
    )
    return process.ask(start_replay=start)


def _step(process, count=100):
    return process.ask(step=sc2api_pb2.RequestStep(count=count))


def _process(tmp_path, free_port, *rules):
    _injector(tmp_path, *rules)
    return games.Process(free_port, data_dir=tmp_path)


def test_no_start_is_seen_as_an_exit(tmp_path, free_port):
    with (
        _process(tmp_path, free_port, {"kind": "no_start"}) as process,
        pytest.raises(ConnectionError, match="exit 1"),
    ):
        process.connect()


def test_crash_is_seen_as_a_broken_connection(tmp_path, free_port, replay):
    with _process(tmp_path, free_port, {"kind": "crash", "loop": 150}) as process:
        process.connect()
        _start(process, replay)
        assert _step(process).step.simulation_loop == 100
        with pytest.raises(ConnectionClosed):
            _step(process)
        assert process.process.wait(30) == faults.CRASH_EXIT_CODE


def test_close_garbage_and_wrong_id_are_seen_in_the_answer(tmp_path, free_port, replay):
    rules = [
        {"kind": "garbage", "loop": 50, "attempts": [1]},
        {"kind": "wrong_id", "loop": 50, "attempts": [2]},
        {"kind": "close", "loop": 50, "attempts": [3]},
    ]
    with _process(tmp_path, free_port, *rules) as process:
        process.connect()
        _start(process, replay)
        with pytest.raises(DecodeError):
            _step(process)
        _start_anyway(process, replay)
        assert _step(process).id != process.ids
        _start_anyway(process, replay)
        with pytest.raises(ConnectionClosed):
            _step(process)


def _start_anyway(process, replay):
    """Starts the replay again. The rule of the last start no longer applies."""
    assert _start(process, replay).status == 4


def test_hang_and_slow_are_seen_as_silence(tmp_path, free_port, replay):
    rules = [
        {"kind": "slow", "seconds": 0.3, "attempts": [1], "loop": 1},
        {"kind": "hang", "attempts": [2], "loop": 1},
    ]
    with _process(tmp_path, free_port, *rules) as process:
        process.connect()
        _start(process, replay)
        began = time.monotonic()
        _step(process)
        assert time.monotonic() - began >= 0.3
        _start(process, replay)
        with pytest.raises(TimeoutError):
            process.ids += 1
            request = sc2api_pb2.Request(id=process.ids)
            request.step.count = 5
            process.socket.send(request.SerializeToString())
            process.socket.recv(timeout=1.0)
        process.process.kill()


def test_leak_is_seen_in_the_memory(tmp_path, free_port, replay):
    rule = {"kind": "leak", "megabytes": 32, "loop": 1}
    with _process(tmp_path, free_port, rule) as process:
        process.connect()
        _start(process, replay)
        before = _resident_megabytes(process.process.pid)
        for _ in range(4):
            _step(process, 1)
        assert _resident_megabytes(process.process.pid) > before + 90


def _resident_megabytes(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def test_stub_and_short_are_seen_at_the_end(tmp_path, replay):
    client = games.LocalClient(injector=_injector(tmp_path, {"kind": "stub"}))
    client.start_replay(replay)
    client.step(5000)
    end = client.observe()
    assert end.observation.game_loop == 2**32 - 1
    assert len(end.player_result) == 2
    assert not end.observation.raw_data.units
    client = games.LocalClient(
        injector=_injector(tmp_path, {"kind": "short", "loop": 70})
    )
    client.start_replay(replay)
    client.step(5000)
    end = client.observe()
    assert end.observation.game_loop == 70
    assert len(end.player_result) == 2
