"""The viewer's payload against a slow, obvious reader of its documented layout."""

import base64
import zlib

import numpy as np
import pytest

from starmill.pipelines.viewing import packing
from starmill.schema import specs
from starmill.schema.settings import UNPLUGGED
from tests.factories import records

SETTINGS = records.SMALL


def read(payload):
    """Reads columns and planes one number at a time."""
    body = zlib.decompress(base64.b64decode(payload["data"]), -15)
    at, columns, planes = 0, {}, {}
    for column in payload["columns"]:
        length, value, series = column["length"], 0, []
        for i in range(length):
            code = sum(
                body[at + plane * length + i] << (8 * plane)
                for plane in range(column["planes"])
            )
            value += (code >> 1) ^ -(code & 1)
            series.append((value + 2**31) % 2**32 - 2**31)
        columns[column["name"]] = np.array(series, np.int64)
        at += length * column["planes"]
    for plane in payload["planes"]:
        rows, width = plane["size"]
        size = -(-rows * width * plane["bits"] // 8)
        state, frames = bytearray(size), []
        changes = columns[f"plane/{plane['name']}"].tolist()
        assert len(changes) == plane["frames"]
        for step in range(payload["steps"]):
            if step in changes:
                frame = body[at : at + size]
                state = bytearray(a ^ b for a, b in zip(state, frame, strict=True))
                at += size
            per_byte, mask = 8 // plane["bits"], (1 << plane["bits"]) - 1
            cells = [
                (state[cell // per_byte] >> (cell % per_byte * plane["bits"])) & mask
                for cell in range(rows * width)
            ]
            frames.append(np.array(cells).reshape(rows, width))
        planes[plane["name"]] = np.array(frames)
    assert at == len(body)
    return columns, planes


@pytest.mark.parametrize("seed", range(3))
def test_payload_holds_the_episode(seed):
    episode = records.episode(seed, steps=1 + seed * 4, settings=SETTINGS)
    columns, planes = read(packing.pack(episode.arrays, SETTINGS))
    units = np.zeros_like(episode.arrays["raw_units"])
    for index, name in enumerate(specs.unit_columns(SETTINGS)):
        units[columns["unit/step"], columns["unit/row"], index] = columns[
            f"unit/{name}"
        ]
    np.testing.assert_array_equal(units, episode.arrays["raw_units"])
    for name in SETTINGS.minimap_features:
        np.testing.assert_array_equal(
            planes[name], episode.arrays[f"minimap_{name}"], name
        )
    for name in ("function", "delay", "queued", "target_unit_tag", "world"):
        np.testing.assert_array_equal(
            columns[f"action/{name}"], episode.arrays[f"action/{name}"]
        )
    steps = episode.meta.steps
    tags = columns["action/unit_tags"].reshape(-1, steps).T
    np.testing.assert_array_equal(tags, episode.arrays["action/unit_tags"])


def test_camera_corners_draw_the_camera():
    settings = UNPLUGGED
    episode = records.episode(5, steps=3, settings=settings)
    columns, _ = read(packing.pack(episode.arrays, settings))
    corners = columns["camera"].reshape(4, 3).T
    for step, (left, right, top, bottom) in enumerate(corners):
        drawn = np.zeros((256, 256), np.int32)
        if left >= 0:
            drawn[top : bottom + 1, left : right + 1] = 1
        np.testing.assert_array_equal(drawn, episode.arrays["camera"][step])


def test_steps_added_a_few_at_a_time_give_the_same_payload():
    episode = records.episode(4, steps=23, settings=SETTINGS)
    packer = packing.EpisodePacker(SETTINGS)
    for start in range(0, 23, 7):
        piece = {key: array[start : start + 7] for key, array in episode.arrays.items()}
        packer.add({key: piece[key].copy() for key in packing.keys(SETTINGS)})
    assert packer.finish({"id": "x"}) == packing.pack(episode.arrays, SETTINGS, id="x")


def test_the_crop_is_the_playable_area_with_a_border():
    episode = records.episode(1, steps=2, settings=SETTINGS)
    for name in ("pathable", "buildable"):
        episode.arrays[f"minimap_{name}"][:] = 0
    episode.arrays["minimap_pathable"][0, 8, 10:20] = 1
    episode.arrays["minimap_buildable"][0, 5:7, 12] = 1
    left, top, right, bottom = packing.pack(episode.arrays, SETTINGS)["crop"]
    assert (left * 32, top * 32, right * 32, bottom * 32) == (8, 3, 22, 11)
    episode.arrays["minimap_pathable"][:] = episode.arrays["minimap_buildable"][:] = 0
    assert packing.pack(episode.arrays, SETTINGS)["crop"] == [0, 0, 1, 1]
