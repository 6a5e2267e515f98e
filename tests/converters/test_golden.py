"""The converter against what DeepMind's compiled converter made of the same messages."""

import json
from pathlib import Path

import numpy as np
import pytest

from starmill.converters import capture, protos
from starmill.schema import errors
from tests.conftest import ROOT, SHARED
from tests.factories import odd_captures, random_captures
from tests.golden import make_converter

OWN = ROOT / "tests/golden/converter"
GIVEN = SHARED / "golden/converter"
REAL = SHARED / "golden/real"


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.npz"))


def _requests(arrays):
    offsets = arrays["__encoded_action_offsets"]
    data = arrays["__encoded_action"].tobytes()
    return [
        protos.sc2api_pb2.RequestAction.FromString(data[start:stop])
        for start, stop in zip(offsets[:-1], offsets[1:], strict=True)
    ]


def _sort_tags(requests):
    for request in requests:
        for action in request.actions:
            kind = action.action_raw.WhichOneof("action")
            if kind in ("unit_command", "toggle_autocast"):
                command = getattr(action.action_raw, kind)
                tags = sorted(command.unit_tags)
                del command.unit_tags[:]
                command.unit_tags.extend(tags)


def _assert_equal(case, expected):
    arrays = capture.convert(case)
    assert sorted(arrays) == sorted(expected)
    shuffled = case.meta.get("compare_unit_tags") == "multiset"
    ours, theirs = _requests(arrays), _requests(expected)
    if shuffled:
        for side in (arrays, expected):
            side["action/unit_tags"] = np.sort(side["action/unit_tags"], axis=1)
        _sort_tags(ours)
        _sort_tags(theirs)
    assert ours == theirs
    for key, want in expected.items():
        if key.startswith("__encoded_action"):
            continue  # compared as messages above
        assert arrays[key].dtype == want.dtype, key
        assert arrays[key].shape == want.shape, key
        np.testing.assert_array_equal(arrays[key], want, err_msg=key)


def _load(path: Path):
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


@pytest.mark.parametrize("name", _names(OWN / "inputs"))
def test_recorded_episodes_are_equal(name):
    case = capture.load(OWN / "inputs" / f"{name}.npz")
    _assert_equal(case, _load(OWN / "expected" / f"{name}.npz"))


@pytest.mark.parametrize("name", _names(GIVEN / "inputs") or ["none"])
def test_given_episodes_are_equal(shared, name):
    folder = shared / "golden/converter"
    case = capture.load(folder / "inputs" / f"{name}.npz")
    _assert_equal(case, _load(folder / "expected" / f"{name}.npz"))


@pytest.mark.parametrize("name", _names(REAL / "inputs") or ["none"])
def test_observations_of_the_real_game_are_equal(shared, name):
    folder = shared / "golden/real"
    case = capture.load(folder / "inputs" / f"{name}.npz")
    _assert_equal(case, _load(folder / "expected" / f"{name}.npz"))


def _outcome(case):
    """(ok or exception, stage, step) as the recordings name them; arrays if ok."""
    try:
        arrays = capture.convert(case)
    except (errors.ConverterError, errors.ConfigError) as error:
        stage, _, rest = str(error).partition(": ")
        step = int(rest.split(":")[0].split()[1]) if rest.startswith("step ") else -1
        return ("exception", stage, step), None
    return ("ok", "done", len(case.steps)), arrays


def _told(entry):
    refused = "ok" if entry["outcome"] == "ok" else "exception"
    return refused, entry["stage"], entry["step"]


@pytest.mark.parametrize("name", _names(GIVEN / "errors/inputs") or ["none"])
def test_given_errors_come_at_the_same_stage_and_step(shared, name):
    folder = shared / "golden/converter/errors"
    entry = json.loads((folder / "expected.json").read_text())[name]
    case = capture.load(folder / "inputs" / f"{name}.npz")
    outcome, arrays = _outcome(case)
    assert outcome == _told(entry)
    if arrays is None:
        return
    summary = dict(entry["summary"])
    keys = [key for key in sorted(arrays) if not key.startswith("__")]
    assert keys == summary.pop("keys")
    for key, want in summary.items():
        assert arrays[key].tolist() == want, key


@pytest.mark.parametrize("name", sorted(odd_captures.ODDITIES))
def test_oddities_end_as_the_reference_ended(name):
    entry = json.loads((OWN / "oddities.json").read_text())[name]
    case = odd_captures.odd(name, make_converter.ODD_SEED)
    outcome, _ = _outcome(case)
    if entry["stage"] == "done" and entry["outcome"] != "ok":
        # Planes changed their size midway: steps convert, but do not stack.
        assert outcome[:2] == ("exception", "done")
    else:
        assert outcome == _told(entry)


def test_the_recorded_set_covers_what_it_should():
    captures = [capture.load(OWN / f"inputs/{n}.npz") for n in _names(OWN / "inputs")]
    raw = [case.settings["raw_settings"] for case in captures]
    for switch in random_captures.BOOLEANS:
        assert {entry[switch] for entry in raw} == {True, False}, switch
    assert {c.settings["add_opponent_features"] for c in captures} == {True, False}
    assert len({entry["num_unit_features"] for entry in raw}) >= 6
    assert any(case.agent_actions for case in captures)
    assert any(case.replay_info is None for case in captures)
