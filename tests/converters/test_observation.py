"""The converter as a whole: ownership, properties of random messages, and its errors."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from starmill.converters import capture, episode, protos
from starmill.converters.observation import Converter
from starmill.schema import errors, specs
from starmill.schema.settings import UNPLUGGED, ConverterSettings
from tests.factories import odd_captures, random_captures


def _convert(case, *, reuse=False):
    settings = ConverterSettings.from_json(case.settings)
    converter = Converter(settings, case.game_info, case.replay_info, reuse=reuse)
    for step in case.steps:
        arrays = converter.convert(
            step.player,
            opponent=step.opponent,
            force_action=step.force_action,
            delay=step.delay,
        )
        yield arrays
        converter.action(episode.action_of(arrays))


def _tame_seed(seed):
    """Whether the case converts: a tiny virtual camera is the one thing left."""
    try:
        list(_convert(random_captures.capture(seed, tame=True)))
    except errors.ConverterError as error:
        assert "virtual camera" in str(error)
        return False
    return True


@hypothesis_settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much],
)
@given(st.integers(0, 2**32).filter(_tame_seed))
def test_random_messages_give_arrays_that_satisfy_the_specs(seed):
    case = random_captures.capture(seed, tame=True)
    settings = ConverterSettings.from_json(case.settings)
    described = specs.observation_specs(settings)
    for arrays in _convert(case):
        assert sorted(arrays) == sorted(described)
        for key, spec in described.items():
            assert arrays[key].shape == spec.shape, key
            assert arrays[key].dtype == np.dtype(spec.dtype), key


def test_settings_that_are_not_supervised_give_no_action():
    case = random_captures.capture(0, tame=True)
    settings = ConverterSettings.from_json({**case.settings, "supervised": False})
    converter = Converter(settings, case.game_info, case.replay_info)
    arrays = converter.convert(case.steps[0].player)
    assert sorted(arrays) == sorted(specs.observation_specs(settings))
    with pytest.raises(errors.ConverterError, match="supervised"):
        episode.action_of(arrays)


def test_fresh_arrays_stay_as_they_were():
    case = random_captures.capture(5, tame=True)
    steps, copies = [], []
    for arrays in _convert(case):
        steps.append(arrays)
        copies.append({key: array.copy() for key, array in arrays.items()})
    for arrays, copy in zip(steps, copies, strict=True):
        for key in copy:
            np.testing.assert_array_equal(arrays[key], copy[key], err_msg=key)


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 6, 8, 9])
def test_reused_buffers_hold_the_same_numbers_and_are_read_only(seed):
    case = random_captures.capture(seed, steps=6, tame=True)
    fresh = [dict(arrays) for arrays in _convert(case)]
    first = None
    for arrays, want in zip(_convert(case, reuse=True), fresh, strict=True):
        for key, array in arrays.items():
            np.testing.assert_array_equal(array, want[key], err_msg=key)
            assert not array.flags.writeable
        first = arrays if first is None else first
        assert arrays["raw_units"] is first["raw_units"]


def test_parsed_messages_are_accepted_too():
    case = random_captures.capture(2, tame=True)
    settings = ConverterSettings.from_json(case.settings)
    pb = protos.sc2api_pb2
    step = case.steps[0]
    parsed = Converter(settings, pb.ResponseGameInfo.FromString(case.game_info))
    plain = Converter(settings, case.game_info)
    ours = parsed.convert(
        pb.ResponseObservation.FromString(step.player),
        force_action=pb.RequestAction.FromString(step.force_action or b""),
        delay=3,
    )
    want = plain.convert(step.player, force_action=step.force_action, delay=3)
    for key in want:
        np.testing.assert_array_equal(ours[key], want[key], err_msg=key)


def test_an_unknown_unit_is_named_with_its_table_and_step():
    case = odd_captures.odd("unknown own unit", 7)
    with pytest.raises(errors.ConverterError, match=r"step 1: unit type 3999 .*table"):
        list(_convert(case))


def test_bytes_that_are_no_game_info_are_refused():
    case = random_captures.capture(0, tame=True)
    settings = ConverterSettings.from_json(case.settings)
    for info, replay in ((b"\xff", None), (case.game_info, b"\xff")):
        with pytest.raises(errors.ConverterError, match="expected the bytes"):
            Converter(settings, info, replay)


def test_a_player_who_is_not_in_the_replay_info_has_no_mmr():
    case = random_captures.capture(0, tame=True)
    settings = ConverterSettings.from_json(case.settings)
    converter = Converter(settings, case.game_info, b"")
    assert converter.convert(case.steps[0].player, delay=1)["mmr"] == 0


def test_more_features_than_there_are_stop_at_the_first_masked_enemy():
    settings = dataclasses.replace(
        UNPLUGGED,
        minimap_features=(),
        raw_settings=dataclasses.replace(UNPLUGGED.raw_settings, num_unit_features=47),
    )
    message = protos.sc2api_pb2.ResponseObservation()
    message.observation.player_common.player_id = 1
    units = message.observation.raw_data.units
    units.add(unit_type=48, alliance=1)
    case = random_captures.capture(0)
    converter = Converter(settings, case.game_info)
    rows = converter.convert(message, delay=1)["raw_units"]
    assert rows.shape == (512, 49)
    units.add(unit_type=48, alliance=4).pos.x = 100.0
    with pytest.raises(errors.ConverterError, match="masking"):
        converter.convert(message, delay=1)


def test_captures_survive_a_round_trip(tmp_path):
    case = random_captures.capture(3, agent=True)
    path = tmp_path / "capture.npz"
    path.write_bytes(capture.to_bytes(capture.to_arrays(case)))
    assert capture.load(path) == case


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda arrays: arrays.pop("delay"), "delay"),
        (lambda arrays: arrays.update(settings_json=np.uint8([1])), "settings_json"),
        (lambda arrays: arrays.update(player_offsets=np.int64([5, 1])), "offsets"),
        (lambda arrays: arrays.update(delay=np.int32([1])), "as many steps"),
        (lambda arrays: arrays.update(opponent_present=np.ones(1, bool)), "present"),
    ],
)
def test_captures_that_make_no_sense_are_refused(tmp_path, change, match):
    arrays = capture.to_arrays(random_captures.capture(3))
    change(arrays)
    path = tmp_path / "capture.npz"
    path.write_bytes(capture.to_bytes(arrays))
    with pytest.raises(errors.FormatError, match=match):
        capture.load(path)
    path.write_bytes(b"no zip")
    with pytest.raises(errors.FormatError, match="npz"):
        capture.load(path)
