"""Observation streams to episodes: which actions go with which step, and the memory between."""

import dataclasses

import numpy as np
import pytest

from starmill.converters import episode, protos, timing
from starmill.converters.observation import Converter
from starmill.schema import errors, settings, specs, vocab
from starmill.schema.episode import InMemoryEpisode
from tests.factories import random_captures, records

SETTINGS = dataclasses.replace(
    records.SMALL,
    raw_settings=dataclasses.replace(
        records.SMALL.raw_settings, max_unit_selection_size=16
    ),
)
STOP = vocab.function_named("Stop_quick")
CAPTURE = random_captures.capture(0)


def _observation(loop: int, reported: tuple[int, ...] = ()) -> bytes:
    """Loops whose actions it reports; an action commands the unit with the loop as tag."""
    message = protos.sc2api_pb2.ResponseObservation()
    for taken in reported:
        command = message.actions.add().action_raw.unit_command
        command.ability_id = STOP.ability_id
        command.unit_tags.append(taken)
    message.observation.game_loop = loop
    message.observation.player_common.player_id = 1
    for tag in range(40):
        message.observation.raw_data.units.add(tag=tag, unit_type=48)
    renders = message.observation.feature_layer_data.minimap_renders
    renders.height_map.size.x = renders.height_map.size.y = SETTINGS.minimap[0]
    return message.SerializeToString()


def _converter() -> Converter:
    return Converter(SETTINGS, CAPTURE.game_info)


FRAMES = [3, 10, 11]
STREAM = [
    (0, ()),
    (3, ()),
    (4, (3,)),
    (10, ()),
    (11, (10, 10)),
]


def _stream():
    for loop, reported in STREAM:
        yield loop, episode.Observed(_observation(loop, reported))


def _steps():
    return list(episode.convert_stream(_converter(), _stream(), FRAMES))


def test_a_step_has_the_action_that_the_next_observation_reports():
    steps = _steps()
    assert [int(step["game_loop"]) for step in steps] == [0, 3, 10, 11]
    functions = [int(step["action/function"]) for step in steps]
    assert functions == [0, STOP.id, STOP.id, STOP.id]
    tags = [int(step["action/unit_tags"][0]) for step in steps[1:]]
    assert tags == [3, 10, 10]
    assert [int(step["action/repeat"]) for step in steps] == [0, 0, 1, 1]
    assert [int(step["action/delay"]) for step in steps] == [3, 7, 1, 1]


def test_the_action_of_a_step_is_remembered_in_the_next():
    selected = [np.flatnonzero(step["raw_units"][:, -2]).tolist() for step in _steps()]
    assert selected == [[], [], [3], [10]]


def test_steps_have_the_shapes_of_the_episode_specs():
    described = specs.episode_specs(SETTINGS)
    for step in _steps():
        assert sorted(step) == sorted(described)
        for key, spec in described.items():
            assert step[key].shape == spec.shape, key


def test_stacked_steps_are_an_episode_of_their_settings():
    arrays = episode.stack(_steps())
    assert arrays["raw_units"].shape[0] == 4
    assert arrays["game_loop"].tolist() == [0, 3, 10, 11]
    meta = records.episode_meta(steps=4, game_loops=11)
    result = InMemoryEpisode(meta=meta, arrays=arrays)
    result.check(SETTINGS)
    with pytest.raises(errors.SpecError):
        result.check(settings.UNPLUGGED)


def test_the_stream_follows_the_step_plan():
    loops = np.cumsum([0, *timing.step_plan(FRAMES)]).tolist()
    assert loops == [loop for loop, _ in STREAM]


def test_errors_name_the_loop():
    stream = [(0, episode.Observed(_observation(0))), (3, episode.Observed(b"\xff"))]
    with pytest.raises(errors.ConverterError, match="loop 0"):
        list(episode.convert_stream(_converter(), stream, [3]))


def test_an_episode_needs_steps_of_one_shape():
    with pytest.raises(errors.ConverterError, match="at least one step"):
        episode.stack([])
    with pytest.raises(errors.ConverterError, match="one shape"):
        episode.stack([{"a": np.zeros(2)}, {"a": np.zeros(3)}])


@pytest.mark.parametrize(("result", "want"), [(1, 1), (2, -1), (3, 0), (4, None)])
def test_outcomes_are_read_from_the_last_observation(result, want):
    message = protos.sc2api_pb2.ResponseObservation()
    message.player_result.add(player_id=2, result=1)
    message.player_result.add(player_id=1, result=result)
    assert episode.outcome(message.SerializeToString(), 1) == want
    assert episode.outcome(b"", 1) is None
    with pytest.raises(errors.ConverterError):
        episode.outcome(b"\xff", 1)
