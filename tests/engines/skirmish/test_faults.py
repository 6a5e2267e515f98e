"""Which misbehaviour is ordered when: decided by seed, replay, player and attempt alone."""

import json

import pytest

from starmill.engines.skirmish import faults
from starmill.schema import errors

REPLAY = "3f9a" + "0" * 60
OTHER = "77bc" + "0" * 60


class Wire:
    def __init__(self):
        self.sent, self.halves = [], []

    def send(self, payload):
        self.sent.append(payload)

    def send_half(self, payload):
        self.halves.append(payload)


def _orders(tmp_path, *rules, seed=1):
    (tmp_path / faults.FILE_NAME).write_text(json.dumps({"seed": seed, "rules": rules}))
    return faults.Orders.load(str(tmp_path), {})


def test_without_a_file_nothing_goes_wrong(tmp_path):
    orders = faults.Orders.load(str(tmp_path), {})
    orders.at_start()
    orders.begin(REPLAY, 1)
    wire = Wire()
    assert orders.send(wire, b"answer", 1)
    assert wire.sent == [b"answer"]


def test_the_variable_goes_before_the_file(tmp_path):
    _orders(tmp_path, {"kind": "garbage"})
    variable = {faults.VARIABLE: json.dumps({"rules": [{"kind": "crash", "loop": 7}]})}
    orders = faults.Orders.load(str(tmp_path), variable)
    orders.begin(REPLAY, 1)
    assert orders.stop_at() == 7


def test_a_rule_names_its_replay_player_and_attempt(tmp_path):
    rule = {"kind": "crash", "loop": 9, "replay": "3f9a", "player": 2, "attempts": [2]}
    orders = _orders(tmp_path, rule)
    seen = []
    for replay, player in [
        (REPLAY, 2),
        (REPLAY, 2),
        (REPLAY, 2),
        (REPLAY, 1),
        (OTHER, 2),
    ]:
        orders.begin(replay, player)
        seen.append(orders.stop_at())
    assert seen == [None, 9, None, None, None]


def test_attempts_are_counted_across_processes(tmp_path):
    rule = {"kind": "short", "loop": 50, "attempts": [1]}
    first = _orders(tmp_path, rule)
    first.begin(REPLAY, 1)
    second = faults.Orders.load(str(tmp_path), {})
    second.begin(REPLAY, 1)
    assert (first.short_end(), second.short_end()) == (50, None)


def test_a_replay_can_be_named_by_its_number(tmp_path):
    orders = _orders(tmp_path, {"kind": "stub", "replay": 1})
    seen = []
    for replay in (REPLAY, OTHER, REPLAY):
        orders.begin(replay, 1)
        seen.append(orders.stub_at_end())
    assert seen == [False, True, False]


def test_probability_is_drawn_from_seed_replay_player_and_attempt(tmp_path):
    orders = _orders(tmp_path, {"kind": "crash", "probability": 0.3}, seed=5)
    hit = 0
    for number in range(300):
        replay = f"{number:064x}"
        orders.begin(replay, 1)
        expected = faults.draw(5, 0, replay, 1, 1) < 0.3
        assert (orders.stop_at() is not None) == expected
        hit += expected
    assert 60 < hit < 120


def test_the_draw_is_stable():
    assert faults.draw(1, 0, REPLAY, 1, 1) == 0.4288415003699623


def test_wire_faults_wait_for_their_loop(tmp_path):
    orders = _orders(tmp_path, {"kind": "garbage", "loop": 100})
    orders.begin(REPLAY, 1)
    wire = Wire()
    orders.send(wire, b"early", 1)
    orders.at_loop(100)
    orders.send(wire, b"late", 2)
    assert wire.sent[0] == b"early"
    assert wire.sent[1] != b"late"


def test_close_sends_half_and_says_so(tmp_path):
    orders = _orders(tmp_path, {"kind": "close"})
    orders.begin(REPLAY, 1)
    wire = Wire()
    assert not orders.send(wire, b"answer", 1)
    assert wire.halves == [b"answer"]


def test_a_process_can_be_told_not_to_start(tmp_path):
    orders = _orders(tmp_path, {"kind": "no_start", "attempts": [1]})
    with pytest.raises(SystemExit, match="told not to start"):
        orders.at_start()
    faults.Orders.load(str(tmp_path), {}).at_start()


@pytest.mark.parametrize(
    "content",
    ['{"rules": [{"kind": "sulk"}]}', '{"rules": [{"knd": "crash"}]}', "[1", "[]"],
)
def test_orders_that_make_no_sense_are_refused(tmp_path, content):
    (tmp_path / faults.FILE_NAME).write_text(content)
    with pytest.raises(errors.ConfigError, match="faults"):
        faults.Orders.load(str(tmp_path), {})


def test_a_probability_outside_its_range_is_refused():
    with pytest.raises(errors.ConfigError, match="probability"):
        faults.Rule(kind="crash", probability=1.5)
