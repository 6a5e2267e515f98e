"""Actions both ways: what goes in comes back, for every function; and what is refused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from starmill.converters import protos
from starmill.converters.observation import Converter
from starmill.schema import errors, vocab
from starmill.schema.settings import UNPLUGGED

UNITS = 40
RAW = UNPLUGGED.raw_settings
# Every function that the table has can be decoded.
SETTINGS = dataclasses.replace(
    UNPLUGGED,
    num_action_types=len(vocab.functions()),
    minimap_features=(),
    raw_settings=dataclasses.replace(RAW, resolution=(64, 64), max_unit_count=48),
)


def _game_info() -> bytes:
    info = protos.sc2api_pb2.ResponseGameInfo()
    for race in (1, 3):
        info.player_info.add(type=1, race_requested=race)
    info.start_raw.map_size.x, info.start_raw.map_size.y = 64, 48
    return info.SerializeToString()


def _observation() -> bytes:
    message = protos.sc2api_pb2.ResponseObservation()
    message.observation.player_common.player_id = 1
    raw = message.observation.raw_data
    raw.player.camera.x, raw.player.camera.y = 20.0, 20.0
    for index in range(UNITS):
        raw.units.add(tag=2**40 + index, unit_type=48)
    return message.SerializeToString()


OBSERVATION = _observation()


def _converter(settings=SETTINGS) -> Converter:
    converter = Converter(settings, _game_info())
    converter.convert(OBSERVATION, delay=1)
    return converter


def _round_trip(action):
    """Encodes the action, then decodes the request on the same observation."""
    request, delay = _converter().action(action)
    again = _converter().convert(OBSERVATION, force_action=request, delay=delay)
    return {name: again[f"action/{name}"] for name in action}


def _canonical(function: vocab.Function) -> bool:
    """Whether decoding gives this function: not where a general one stands for it."""
    if function.kind in ("no_op", "camera_move"):
        return True
    result = vocab.decode_functions(function.kind).get(function.ability_id, 0)
    return result == function.id


def _action(function, rows, world, target, queued, repeat, delay):
    """Arguments that the function does not take are 0, as decoding leaves them."""
    takes = set(function.args)
    tags = np.full(64, 48, np.int32)
    tags[: len(rows)] = rows
    return {
        "function": np.int32(function.id),
        "delay": np.int32(delay),
        "queued": np.int32(queued if "queued" in takes else 0),
        "repeat": np.int32(repeat if function.kind == "cmd" else 0),
        "unit_tags": tags,
        "target_unit_tag": np.int32(target if "target_unit_tag" in takes else 0),
        "world": np.int32(world if "world" in takes else 0),
    }


CANONICAL = [f for f in vocab.functions() if f.id and _canonical(f)]


def _assert_same(action):
    for name, value in _round_trip(action).items():
        np.testing.assert_array_equal(value, action[name], err_msg=name)


@pytest.mark.parametrize("kind", [*vocab.KINDS, "camera_move"])
def test_decode_of_encode_is_the_action_for_every_function(kind):
    functions = [function for function in CANONICAL if function.kind == kind]
    assert functions
    for function in functions:
        rows = [] if kind == "camera_move" else [1, 5, 39]
        _assert_same(_action(function, rows, 40 * 64 + 63, 7, 1, 2, 9))


def test_functions_that_a_general_one_stands_for_decode_to_it():
    others = [f for f in vocab.functions() if f.id and f not in CANONICAL]
    assert others
    for function in others:
        action = _action(function, [2], 5, 3, 0, 0, 1)
        decoded_id = int(_round_trip(action)["function"])
        assert decoded_id == vocab.decode_functions(function.kind).get(
            function.ability_id, 0
        )


@hypothesis_settings(deadline=None, derandomize=True)
@given(
    function=st.sampled_from([f for f in CANONICAL if f.kind != "camera_move"]),
    rows=st.sets(st.integers(0, UNITS - 1), min_size=1, max_size=UNITS),
    world=st.integers(0, 48 * 64 - 1),
    target=st.integers(0, UNITS - 1),
    queued=st.integers(0, 1),
    repeat=st.integers(0, 2),
    delay=st.integers(1, 1000),
)
def test_decode_of_encode_is_the_action(
    function, rows, world, target, queued, repeat, delay
):
    _assert_same(_action(function, sorted(rows), world, target, queued, repeat, delay))


def test_a_no_op_is_an_empty_request_and_leaves_the_memory():
    converter = _converter()
    before = converter.memory
    for function in (0, -1, 564, 10**6):
        request, delay = converter.action({"function": function, "delay": 4})
        assert not request.actions
        assert delay == 4
    assert converter.memory == before


def test_a_command_is_remembered_in_the_extra_columns():
    converter = _converter()
    attack = vocab.function_named("Attack_unit")
    converter.action(_action(attack, [1, 5], 0, 7, 0, 0, 1))
    rows = converter.convert(OBSERVATION, delay=1)["raw_units"]
    assert np.flatnonzero(rows[:, -2]).tolist() == [1, 5]
    assert np.flatnonzero(rows[:, -1]).tolist() == [7]


def test_a_camera_move_moves_the_virtual_camera_only():
    converter = _converter()
    move = vocab.functions()[vocab.CAMERA_FUNCTION]
    converter.action(_action(move, [], 10 * 64 + 30, 0, 0, 0, 1))
    step = converter.convert(OBSERVATION, delay=1)
    assert step["camera_position"].tolist() == [30, 10]
    assert not step["raw_units"][:, -2:].any()


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        ("Attack_pt", "world"),
        ("Attack_pt", "queued"),
        ("Attack_pt", "repeat"),
        ("Attack_unit", "target_unit_tag"),
        ("Stop_quick", "unit_tags"),
        ("Stop_quick", "delay"),
        ("Stop_quick", "function"),
    ],
)
def test_a_missing_argument_is_named(function, missing):
    action = _action(vocab.function_named(function), [1], 0, 0, 0, 0, 1)
    del action[missing]
    with pytest.raises(errors.ConverterError, match=missing):
        _converter().action(action)


def test_an_argument_with_too_many_numbers_is_refused():
    with pytest.raises(errors.ConverterError, match="one number"):
        _converter().action({"function": np.array([1, 2]), "delay": 1})


def test_a_selection_is_cut_and_ended():
    settings = dataclasses.replace(
        SETTINGS,
        raw_settings=dataclasses.replace(
            SETTINGS.raw_settings, max_unit_selection_size=16
        ),
    )
    request = protos.sc2api_pb2.RequestAction()
    command = request.actions.add().action_raw.unit_command
    command.ability_id = vocab.function_named("Stop_quick").ability_id
    command.unit_tags.extend(2**40 + i for i in range(30))
    converter = _converter(settings)
    step = converter.convert(OBSERVATION, force_action=request, delay=1)
    assert step["action/unit_tags"].tolist() == list(range(16))
