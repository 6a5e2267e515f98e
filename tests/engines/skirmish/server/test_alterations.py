"""Each alteration changes the answer that it is about, and leaves all others alone."""

import pytest

from starmill.converters.protos import query_pb2, sc2api_pb2
from starmill.engines.skirmish.server import alterations, faults
from tests.factories import games

STATUS = {"no_status", "wrong_status", "no_end"}


def _observation():
    client = games.LocalClient()
    client.start_replay(games.played().replay)
    client.step(5)
    message = client.observe()
    message.player_result.add(player_id=1, result=sc2api_pb2.Victory)
    message.actions.add(game_loop=3).action_chat.message = "hello"
    camera = message.observation.raw_data.player.camera
    camera.x += 1.0
    return sc2api_pb2.Response(observation=message)


def _answers():
    refused = sc2api_pb2.ResponseReplayInfo(error=1)
    info = sc2api_pb2.ResponseReplayInfo(game_duration_loops=5)
    info.player_info.add(player_mmr=4000)
    query = query_pb2.ResponseQuery()
    for tag in (1, 2):
        query.abilities.add(unit_tag=tag)
    data = sc2api_pb2.ResponseData()
    data.abilities.add(ability_id=16)
    answers = [
        sc2api_pb2.Response(ping=sc2api_pb2.ResponsePing(base_build=5)),
        sc2api_pb2.Response(replay_info=refused),
        sc2api_pb2.Response(replay_info=info),
        sc2api_pb2.Response(start_replay=sc2api_pb2.ResponseStartReplay()),
        sc2api_pb2.Response(game_info=sc2api_pb2.ResponseGameInfo()),
        sc2api_pb2.Response(data=data),
        sc2api_pb2.Response(query=query),
        sc2api_pb2.Response(
            available_maps=sc2api_pb2.ResponseAvailableMaps(local_map_paths=["a"])
        ),
        sc2api_pb2.Response(action=sc2api_pb2.ResponseAction(result=[1])),
        sc2api_pb2.Response(save_replay=sc2api_pb2.ResponseSaveReplay(data=b"abcd")),
        sc2api_pb2.Response(step=sc2api_pb2.ResponseStep(simulation_loop=5)),
        _observation(),
    ]
    for answer in answers:
        answer.status = sc2api_pb2.ended
    return answers


@pytest.fixture(scope="module")
def answers():
    return _answers()


def _history():
    """A process that has observed a replay before this one."""
    action = sc2api_pb2.Action(game_loop=2)
    return alterations.History(
        replays=2, observations=1, actions=[action], camera=(5.0, 5.0)
    )


@pytest.mark.parametrize("kind", alterations.KINDS)
def test_an_alteration_changes_the_answers_that_it_is_about(kind, answers):
    changed = set()
    for answer in answers:
        # Repeated actions are those of an observation without any of its own.
        if kind == "repeated_actions" and answer.HasField("observation"):
            answer = sc2api_pb2.Response.FromString(answer.SerializeToString())
            answer.observation.ClearField("actions")
        data = answer.SerializeToString()
        altered = alterations.alter(kind, data, _history())
        if sc2api_pb2.Response.FromString(altered) != answer:
            changed.add(answer.WhichOneof("response"))
    if kind in STATUS:
        assert len(changed) == len({a.WhichOneof("response") for a in answers})
    elif kind == "lenient":
        assert changed == {"replay_info"}
    else:
        assert len(changed) == 1


def test_a_stub_of_an_observation_is_left_alone():
    stub = sc2api_pb2.Response()
    stub.observation.observation.game_loop = 2**32 - 1
    data = stub.SerializeToString()
    assert alterations.alter("unknown_unit", data, _history()) == data


class Wire:
    def __init__(self):
        self.sent = []

    def send(self, payload):
        self.sent.append(sc2api_pb2.Response.FromString(payload))


@pytest.mark.parametrize("from_start", [True, False])
def test_a_rule_can_apply_before_the_first_replay(from_start):
    rule = faults.Rule(kind="other_version", from_start=from_start)
    injector = faults.FaultInjector((rule,))
    wire = Wire()
    ping = sc2api_pb2.Response(ping=sc2api_pb2.ResponsePing(base_build=5))
    injector.send(wire, ping.SerializeToString(), 1)
    assert wire.sent[0].ping.base_build == (6 if from_start else 5)


def test_the_second_replay_of_a_process_is_stale():
    injector = faults.FaultInjector((faults.Rule(kind="stale"),))
    wire = Wire()
    answer = _observation()
    for number in range(2):
        injector.begin(f"{number:064x}", 1)
        injector.send(wire, answer.SerializeToString(), 1)
    assert wire.sent[0] == answer
    assert wire.sent[1] != answer
