"""Forged captures: hostile messages, settings and arrays in the files of `starmill convert`."""

import contextlib
import functools
import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from starmill.converters import capture, protos
from tests.factories import random_captures
from tests.hostile import mutations

_COMPRESSIONS = (
    zipfile.ZIP_STORED,
    zipfile.ZIP_DEFLATED,
    zipfile.ZIP_LZMA,
    zipfile.ZIP_BZIP2,
)


@functools.cache
def originals() -> list[dict[str, Any]]:
    """The arrays of some short captures."""
    return [
        capture.to_arrays(random_captures.capture(seed, steps=3, tame=True))
        for seed in range(3)
    ]


def forged(rng: random.Random) -> bytes:
    """The bytes of a capture's file, with something hostile in it."""
    arrays = dict(rng.choice(originals()))
    kind = rng.randrange(9)
    if kind == 0:
        return mutations.damaged(_file(arrays, rng), rng)
    if kind == 1:
        del arrays[rng.choice(sorted(arrays))]
    elif kind == 2:
        name = rng.choice([key for key in arrays if key.endswith("_json")])
        value = mutations.changed(json.loads(arrays[name].tobytes()), rng)
        with contextlib.suppress(RecursionError, UnicodeEncodeError):
            arrays[name] = np.frombuffer(json.dumps(value).encode(), np.uint8)
    elif kind == 3:
        name = rng.choice(["game_info", "replay_info", "player", "force_action"])
        if name in arrays:
            data = mutations.damaged(arrays[name].tobytes(), rng)
            arrays[name] = np.frombuffer(data, np.uint8)
    elif kind == 4:
        arrays["game_info"] = np.frombuffer(_large_map(arrays, rng), np.uint8)
    elif kind == 5:
        _agent_actions(arrays, rng)
    else:
        name = rng.choice(sorted(arrays))
        arrays[name] = rng.choice(
            [
                np.full(arrays[name].shape, 1e300),
                np.full(3, 2**62),
                np.array("text"),
                np.zeros((2, 0, 3)),
                arrays[name].reshape(-1, 1),
                np.array([b"x" * 40]),
                -arrays[name].astype(np.int64),
            ]
        )
    return _file(arrays, rng)


def _large_map(arrays: dict[str, Any], rng: random.Random) -> bytes:
    """A message about a map that is said to be huge, or to have other bits per pixel."""
    message = protos.sc2api_pb2.ResponseGameInfo.FromString(
        arrays["game_info"].tobytes()
    )
    raw = message.start_raw
    for image in (raw.pathing_grid, raw.placement_grid, raw.terrain_height):
        if rng.random() < 0.6:
            image.size.x = rng.choice([0, 1, 200, 40_000, 2**31 - 1, -5])
            image.size.y = rng.choice([0, 1, 200, 40_000, 2**31 - 1, -5])
        if rng.random() < 0.2:
            image.bits_per_pixel = rng.choice([0, 1, 8, 32, -8, 2**31 - 1])
    area = raw.playable_area
    for corner in (area.p0, area.p1):
        if rng.random() < 0.4:
            corner.x = rng.choice([-(2**31), -1, 0, 255, 2**31 - 1])
            corner.y = rng.choice([-(2**31), -1, 0, 255, 2**31 - 1])
    raw.map_size.x = rng.choice([0, -1, 200, 2**31 - 1])
    data: bytes = message.SerializeToString()
    return data


def _agent_actions(arrays: dict[str, Any], rng: random.Random) -> None:
    steps = len(arrays["delay"])
    action: dict[str, Any] = {
        "function": rng.choice([0, 1, 5, 555, *mutations.NUMBERS]),
        "delay": rng.choice([1, 5, *mutations.NUMBERS]),
        "queued": 0,
        "repeat": rng.choice([0, 1, 2, 10**7, *mutations.NUMBERS]),
        "unit_tags": [0] * rng.choice([0, 1, 64, 100_000]),
        "target_unit_tag": rng.choice([0, 1, *mutations.NUMBERS]),
        "world": rng.choice([0, 1, *mutations.NUMBERS]),
    }
    if rng.random() < 0.3:
        action = mutations.changed(action, rng)
    with contextlib.suppress(RecursionError, UnicodeEncodeError):
        text = json.dumps([action] * steps)
        arrays["agent_actions_json"] = np.frombuffer(text.encode(), np.uint8)


def _file(arrays: dict[str, Any], rng: random.Random) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", compression=rng.choice(_COMPRESSIONS)) as file:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            file.writestr(f"{name}.npy", member.getvalue())
    return body.getvalue()


def consume(path: Path) -> None:
    """Converts the capture, as `starmill convert` does."""
    capture.to_bytes(capture.convert(capture.load(path)))
