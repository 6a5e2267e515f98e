"""Captured observation streams: the input and output files of `starmill convert`.

In: an `.npz` that holds one episode's settings and messages. Out: an `.npz` of the arrays
that they become. The layouts are those of the recordings made with the reference converter,
so that ours can be compared with them array by array. See docs/converter.md.
"""

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.converters import episode
from starmill.converters.observation import Converter
from starmill.schema import errors, specs
from starmill.schema.archives import npz
from starmill.schema.settings import ConverterSettings

Arrays = dict[str, NDArray[Any]]
# Zip members carry a date; a fixed one keeps equal arrays equal bytes.
_DATE = (2020, 1, 1, 0, 0, 0)
_MESSAGES = ("player", "opponent", "force_action")
_REQUIRED = (
    "settings_json",
    "game_info",
    "delay",
    "delay_present",
    *(f"{name}{part}" for name in _MESSAGES for part in ("", "_offsets")),
    "opponent_present",
    "force_action_present",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """The messages of one step, as `Converter.convert` takes them.

    Attributes:
        player: serialized ResponseObservation of the player.
        opponent: the same of the opponent; None if the capture has none.
        force_action: serialized RequestAction that the player answered with; None if
            there is none.
        delay: game loops until the next step; None if the step has no action.
    """

    player: bytes
    opponent: bytes | None
    force_action: bytes | None
    delay: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Capture:
    """One captured episode.

    Attributes:
        settings: JSON of the converter's settings, not yet checked.
        game_info: serialized ResponseGameInfo.
        replay_info: serialized ResponseReplayInfo; None if the capture has none.
        steps: the messages, in order.
        agent_actions: per step, the action to give back in place of the step's own;
            None to give back the step's own.
        meta: notes about the capture.
    """

    settings: Mapping[str, Any]
    game_info: bytes
    replay_info: bytes | None
    steps: tuple[Step, ...]
    agent_actions: tuple[Mapping[str, Any], ...] | None = None
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _json(arrays: Mapping[str, NDArray[Any]], key: str, kind: type) -> Any:
    try:
        value = json.loads(arrays[key].tobytes())
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{key}: expected UTF-8 JSON: {error}") from error
    if not isinstance(value, kind):
        raise errors.FormatError(
            f"{key}: expected a {kind.__name__}, found a {type(value).__name__}"
        )
    return value


def _vector(arrays: Mapping[str, NDArray[Any]], key: str) -> NDArray[np.int64]:
    """Returns whole numbers, [N]."""
    array = arrays[key]
    if array.ndim != 1 or array.dtype.kind not in "biu":
        raise errors.FormatError(
            f"{key}: expected a list of whole numbers, found {array.dtype} {array.shape}"
        )
    return array.astype(np.int64)


def _messages(arrays: Mapping[str, NDArray[Any]], name: str) -> list[bytes | None]:
    data, offsets = arrays[name].tobytes(), _vector(arrays, f"{name}_offsets")
    bounds = [0, *offsets.tolist(), len(data)]
    if bounds != sorted(bounds) or not len(offsets):
        raise errors.FormatError(
            f"{name}_offsets: expected ascending offsets within {len(data)} bytes"
        )
    # Player's messages are always there, and older captures do not say so.
    present = [1] * (len(offsets) - 1)
    if f"{name}_present" in arrays:
        present = _vector(arrays, f"{name}_present").tolist()
    if len(present) != len(offsets) - 1:
        raise errors.FormatError(
            f"{name}_present: expected {len(offsets) - 1} entries, found {len(present)}"
        )
    return [
        data[start:stop] if there else None
        for start, stop, there in zip(offsets[:-1], offsets[1:], present, strict=True)
    ]


def load(path: Path) -> Capture:
    """Returns the capture in a file; FormatError where it is not one."""
    if not path.exists():
        raise errors.ConfigError(f"{path}: no such file")
    arrays = {
        name.removesuffix(".npy"): npz.array(data, f"{path}: {name!r:.100}")
        for name, data in npz.read_members(path).items()
    }
    missing = sorted(set(_REQUIRED) - set(arrays))
    if missing:
        raise errors.FormatError(f"{path}: expected the arrays {missing}, found none")
    try:
        return _capture(arrays)
    except errors.FormatError as error:
        raise errors.FormatError(f"{path}: {error}") from error


def _capture(arrays: Mapping[str, NDArray[Any]]) -> Capture:
    columns = [_messages(arrays, name) for name in _MESSAGES]
    delays = [
        int(delay) if there else None
        for delay, there in zip(
            _vector(arrays, "delay").tolist(),
            _vector(arrays, "delay_present").tolist(),
            strict=False,
        )
    ]
    lengths = {len(column) for column in columns} | {len(delays)}
    agent = None
    if "agent_actions_json" in arrays:
        agent = tuple(_json(arrays, "agent_actions_json", list))
        if not all(isinstance(action, dict) for action in agent):
            raise errors.FormatError("agent_actions_json: expected an object per step")
        lengths.add(len(agent))
    if len(lengths) != 1:
        raise errors.FormatError(
            f"expected as many steps in every array, found {sorted(lengths)}"
        )
    replay = arrays.get("replay_info")
    return Capture(
        settings=_json(arrays, "settings_json", dict),
        game_info=arrays["game_info"].tobytes(),
        replay_info=None if replay is None else replay.tobytes(),
        steps=tuple(
            Step(player=p or b"", opponent=o, force_action=f, delay=d)
            for p, o, f, d in zip(*columns, delays, strict=True)
        ),
        agent_actions=agent,
        meta=_json(arrays, "meta_json", dict) if "meta_json" in arrays else {},
    )


def _uint8(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _packed(blobs: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    offsets = np.zeros(len(blobs) + 1, np.int64)
    offsets[1:] = np.cumsum([len(blob) for blob in blobs])
    return _uint8(b"".join(blobs)), offsets


def to_arrays(capture: Capture) -> Arrays:
    """Returns the arrays of a capture's file: what `load` reads."""
    out: Arrays = {
        "settings_json": _uint8(json.dumps(capture.settings, sort_keys=True).encode()),
        "meta_json": _uint8(json.dumps(capture.meta, sort_keys=True).encode()),
        "game_info": _uint8(capture.game_info),
    }
    if capture.replay_info is not None:
        out["replay_info"] = _uint8(capture.replay_info)
    for name in _MESSAGES:
        blobs = [getattr(step, name) for step in capture.steps]
        out[name], out[f"{name}_offsets"] = _packed([blob or b"" for blob in blobs])
        out[f"{name}_present"] = np.array([blob is not None for blob in blobs], bool)
    delays = [step.delay for step in capture.steps]
    out["delay"] = np.array([delay or 0 for delay in delays], np.int32)
    out["delay_present"] = np.array([delay is not None for delay in delays], bool)
    if capture.agent_actions is not None:
        text = json.dumps(list(capture.agent_actions))
        out["agent_actions_json"] = _uint8(text.encode())
    return out


class _Stage:
    """Names the stage and step in the errors raised inside it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, errors.StarmillError):
            raise type(error)(f"{self._name}: {error}") from error


def convert(capture: Capture) -> Arrays:
    """Returns the capture's arrays over time, and what its actions become.

    Besides the episode's arrays: `__encoded_action` (RequestAction bytes, one after the
    other) with `__encoded_action_offsets`, `__encoded_delay`, and `__spec_json`.

    Raises ConverterError or ConfigError; the message begins with the stage
    (make_converter, convert_observation, convert_action, done) and the step.
    """
    with _Stage("make_converter"):
        settings = ConverterSettings.from_json(capture.settings)
        converter = Converter(settings, capture.game_info, capture.replay_info)
    steps, encoded, delays = [], [], []
    for index, step in enumerate(capture.steps):
        with _Stage("convert_observation"):
            arrays = converter.convert(
                step.player,
                opponent=step.opponent,
                force_action=step.force_action,
                delay=step.delay,
            )
        with _Stage(f"convert_observation: step {index}"):
            action: Mapping[str, Any] = (
                episode.action_of(arrays)
                if capture.agent_actions is None
                else capture.agent_actions[index]
            )
        with _Stage(f"convert_action: step {index}"):
            request, delay = converter.action(action)
        steps.append(episode.squeezed(arrays))
        encoded.append(request.SerializeToString(deterministic=True))
        delays.append(delay)
    with _Stage("done"):
        out = episode.stack(steps)
    out["__encoded_action"], out["__encoded_action_offsets"] = _packed(encoded)
    out["__encoded_delay"] = np.array(delays, np.int32)
    described = {
        "action": specs.to_json(specs.action_specs(settings)),
        "observation": specs.to_json(specs.observation_specs(settings)),
    }
    out["__spec_json"] = _uint8(json.dumps(described, sort_keys=True).encode())
    return out


def to_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Returns an `.npz` file (LZMA) with these arrays: equal arrays give equal bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression=zipfile.ZIP_LZMA) as archive:
        for key in sorted(arrays):
            member = io.BytesIO()
            array = np.ascontiguousarray(arrays[key])
            np.lib.format.write_array(member, array, allow_pickle=False)
            info = zipfile.ZipInfo(f"{key}.npy", date_time=_DATE)
            info.compress_type = zipfile.ZIP_LZMA
            archive.writestr(info, member.getvalue())
    return file.getvalue()
