"""The viewer's payload against a slow, obvious reader of its documented layout."""

import base64
import zlib

import numpy as np
import pytest

from starmill.pipelines.report import viewer
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
        for _ in range(payload["steps"]):
            state = bytearray(
                a ^ b for a, b in zip(state, body[at : at + size], strict=True)
            )
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
    columns, planes = read(viewer.payload(episode, SETTINGS))
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
    columns, _ = read(viewer.payload(episode, settings))
    corners = columns["camera"].reshape(4, 3).T
    for step, (left, right, top, bottom) in enumerate(corners):
        drawn = np.zeros((256, 256), np.int32)
        if left >= 0:
            drawn[top : bottom + 1, left : right + 1] = 1
        np.testing.assert_array_equal(drawn, episode.arrays["camera"][step])
