"""A player's observation stream to the steps of an episode, one at a time or whole.

In: what an engine observed while following a step plan. Out: a dict of arrays per step, with
the keys and shapes of `specs.episode_specs`, in the reference's order of doing things: a step
is converted with the actions that the *next* observation reports, and its action then goes
back through the converter, which moves the virtual camera and remembers the command.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.converters import columns, protos, timing
from starmill.converters.observation import Converter
from starmill.schema import errors
from starmill.schema.settings import ConverterSettings

Arrays = dict[str, NDArray[Any]]
_PREFIX = "action/"
_OUTCOMES = {
    protos.sc2api_pb2.Victory: 1,
    protos.sc2api_pb2.Tie: 0,
    protos.sc2api_pb2.Defeat: -1,
}


class Observed(NamedTuple):
    """What a stream has for one game loop.

    Attributes:
        player: serialized ResponseObservation of the player.
        opponent: the same of the other player on the same loop; None if nobody observed
            it.
    """

    player: bytes
    opponent: bytes | None = None


def action_of(arrays: Arrays) -> Arrays:
    """Returns a step's `action/*` arrays by argument name.

    Raises ConverterError where there are none: the settings are not `supervised`.
    """
    action = {
        key.removeprefix(_PREFIX): value
        for key, value in arrays.items()
        if key.startswith(_PREFIX)
    }
    if not action:
        raise errors.ConverterError(
            "expected action/* in the step, found none: the settings must be supervised"
        )
    return action


def squeezed(arrays: Arrays) -> Arrays:
    """Returns a step as episodes hold it: the reference's arrays of shape (1,) as scalars."""
    return {
        key: array.reshape(()) if array.shape == (1,) else array
        for key, array in arrays.items()
    }


def convert_stream(
    converter: Converter,
    stream: Iterable[tuple[int, Observed]],
    frames: Iterable[int],
) -> Iterator[Arrays]:
    """Yields the converted steps of one player's episode, holding three observations at most.

    Args:
        converter: new, with supervised settings. If it reuses its buffers, each step is
            valid only until the next is asked for.
        stream: (game loop, observation), as observed by following
            `timing.step_plan(frames)`.
        frames: the game loops on which the player acted.

    Raises ConverterError, naming the loop, for what cannot be converted.
    """
    for step in timing.training_steps(stream, frames):
        try:
            arrays = converter.convert(
                step.observation.player,
                opponent=step.observation.opponent,
                force_action=columns.reported_actions(step.reporting.player),
                delay=step.delay_loops,
            )
            converter.action(action_of(arrays))
        except errors.ConverterError as error:
            raise errors.ConverterError(f"loop {step.loop}: {error}") from error
        yield squeezed(arrays)


def convert_replay(
    settings: ConverterSettings,
    game_info: bytes,
    replay_info: bytes,
    stream: Iterable[tuple[int, Observed]],
    frames: Iterable[int],
) -> Iterator[Arrays]:
    """Yields the converted steps of one player's episode; each is valid until the next.

    Args:
        settings: supervised settings.
        game_info: serialized ResponseGameInfo of the game that plays the replay.
        replay_info: serialized ResponseReplayInfo.
        stream: (game loop, observation), as for `convert_stream`.
        frames: the game loops on which the player acted.
    """
    converter = Converter(settings, game_info, replay_info, reuse=True)
    return convert_stream(converter, stream, frames)


def stack(steps: Iterable[Arrays]) -> Arrays:
    """Returns an episode's arrays, [T, *shape]; the steps must own theirs.

    An episode of an hour takes a gigabyte this way: pipelines encode steps as they come.
    """
    rows = list(steps)
    if not rows:
        raise errors.ConverterError("episode: expected at least one step, found none")
    out = {}
    for key in list(rows[0]):
        arrays = [row.pop(key) for row in rows]
        shapes = sorted({array.shape for array in arrays})
        if len(shapes) > 1:
            raise errors.ConverterError(
                f"{key}: expected one shape in all steps, found {shapes}"
            )
        out[key] = np.stack(arrays)
    return out


def outcome(observation: bytes, player_id: int) -> int | None:
    """Returns +1, 0 or -1 as the observation's result says; None while undecided."""
    try:
        message = protos.sc2api_pb2.ResponseObservation.FromString(observation)
    except protos.DecodeError as error:
        raise errors.ConverterError(
            f"expected the bytes of a ResponseObservation: {error}"
        ) from error
    for result in message.player_result:
        if result.player_id == player_id:
            return _OUTCOMES.get(result.result)
    return None
