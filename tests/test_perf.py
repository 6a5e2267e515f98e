"""`make perf` measures what this clone makes: no file outside of it, nothing downloaded."""

import subprocess
import sys
from pathlib import Path

import pytest

from perf import converter, first_use, recorded, row
from starmill.converters import capture, protos

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def middle():
    return recorded.mid_game_capture()


def test_the_capture_is_the_crowded_middle_of_a_game(middle):
    assert len(middle.steps) == recorded.STEPS
    for step in middle.steps:
        message = protos.sc2api_pb2.ResponseObservation.FromString(step.player)
        assert len(message.observation.raw_data.units) > 150
        assert len(message.observation.feature_layer_data.minimap_renders.ListFields())
    arrays = capture.convert(middle)
    assert arrays["minimap_height_map"].shape == (recorded.STEPS, 128, 128)
    assert (arrays["action/function"] > 0).sum() > recorded.STEPS // 2


def test_the_peer_takes_the_same_messages(middle):
    transform = converter._peer(middle)
    for step in middle.steps[:3]:
        message = protos.sc2api_pb2.ResponseObservation.FromString(step.player)
        rows = transform(message)["raw_units"]
        assert len(rows) >= len(message.observation.raw_data.units)


def test_an_unknown_section_is_refused():
    command = [sys.executable, "-m", "perf", "--only", "converter,none"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "none" in done.stderr


def test_the_reader_is_what_no_extra_brings():
    packages = first_use.reader_packages()
    assert {"numpy", "numba", "llvmlite", "pyarrow", "zstandard", "fsspec"} <= packages
    assert not packages & {"apache-beam", "jax", "pysc2", "pytest"}


def test_a_ratio_says_how_many_times_better_ours_is():
    faster = row.beside("x", "steps/s", 30.0, 10.0, "peer", floor=3.0)
    assert (faster.ratio, faster.ok) == (3.0, True)
    assert not row.beside("x", "steps/s", 29.0, 10.0, "peer", floor=3.0).ok
    smaller = row.beside("x", "MB", 2.0, 10.0, "peer", floor=5.0, less_is_better=True)
    assert (smaller.ratio, smaller.ok) == (5.0, True)
    assert row.beside("x", "MB", 20.0, 10.0, "peer", floor=None).ok
