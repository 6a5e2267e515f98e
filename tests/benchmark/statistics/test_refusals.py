"""Refusals from messages that are written here by hand."""

import pytest

from starmill.benchmark.statistics.refusals import CommandLog, Refusal
from starmill.converters.protos import error_pb2, sc2api_pb2
from starmill.schema import errors

BUILD, TRAIN = 100, 200


def request(ability, copies=1):
    out = sc2api_pb2.RequestAction()
    for _ in range(copies):
        out.actions.add().action_raw.unit_command.ability_id = ability
    return out


def answer(*results):
    return sc2api_pb2.ResponseAction(result=results).SerializeToString()


def observation(*reports):
    out = sc2api_pb2.ResponseObservation()
    out.observation.game_loop = 7
    for ability, result in reports:
        out.action_errors.add(ability_id=ability, result=result)
    return out.SerializeToString()


OK, NO_GAS = error_pb2.Success, error_pb2.NotEnoughVespene
OCCUPIED = error_pb2.CantBuildLocationInvalid


def test_a_refusal_in_the_answer_counts_once_though_the_observation_repeats_it():
    log = CommandLog()
    assert log.note_request(10, 3, request(BUILD), answer(NO_GAS))
    log.note_observation(observation((BUILD, NO_GAS)))
    assert log.refused == [Refusal(10, 3, "NotEnoughVespene")]


def test_a_refusal_in_the_next_observation_counts():
    log = CommandLog()
    assert not log.note_request(10, 3, request(BUILD), answer(OK))
    assert log.refused == []
    log.note_observation(observation((BUILD, OCCUPIED)))
    log.note_observation(observation())
    assert log.refused == [Refusal(10, 3, "CantBuildLocationInvalid")]


def test_a_repeated_command_is_refused_when_all_its_copies_are():
    log = CommandLog()
    log.note_request(10, 5, request(TRAIN, copies=3), answer(OK, OK, OK))
    log.note_observation(observation((TRAIN, NO_GAS), (TRAIN, NO_GAS)))
    assert log.refused == []
    log.note_request(20, 5, request(TRAIN, copies=2), answer(OK, OK))
    log.note_observation(observation((TRAIN, NO_GAS), (TRAIN, NO_GAS)))
    assert log.refused == [Refusal(20, 5, "NotEnoughVespene")]


def test_a_late_report_is_about_the_command_that_asked_for_the_ability():
    log = CommandLog()
    log.note_request(10, 3, request(BUILD), answer(OK))
    log.note_observation(observation())
    log.note_request(20, 5, request(TRAIN), answer(OK))
    log.note_observation(observation((BUILD, OCCUPIED)))
    assert log.refused == [Refusal(10, 3, "CantBuildLocationInvalid")]


def test_an_unknown_ability_is_taken_for_that_of_the_latest_command_alone():
    log = CommandLog()
    log.note_request(10, 3, request(BUILD), answer(OK))
    log.note_observation(observation((999, NO_GAS)))
    log.note_observation(observation((998, NO_GAS)))
    assert log.refused == [Refusal(10, 3, "NotEnoughVespene")]


def test_bytes_that_are_no_observation_are_an_engines_fault():
    with pytest.raises(errors.EngineCrashed):
        CommandLog().note_observation(b"\xff\xff\xff")
