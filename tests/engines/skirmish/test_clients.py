"""Other people's clients play it: pysc2, DeepMind's replay code, python-sc2."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from starmill.converters import observation
from starmill.engines.skirmish import install, versions
from starmill.schema.settings import ConverterSettings
from tests.conftest import ROOT
from tests.engines.skirmish.server import fuzz_requests
from tests.factories import games

DIFFICULTIES = [
    "very_easy",
    "easy",
    "medium",
    "medium_hard",
    "hard",
    "harder",
    "very_hard",
    "cheat_vision",
    "cheat_money",
    "cheat_insane",
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sc2")
    install.install(directory, versions.VERSIONS)
    return directory


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "game.SC2Replay"
    path.write_bytes(games.played().replay)
    return path


def _run(installed, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.skirmish.client_scripts", *arguments],
        env={**os.environ, "SC2PATH": str(installed)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=280,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_pysc2_starts_and_stops_it(installed):
    assert _run(installed, "start") == {"version": "4.9.2.74741", "maps": 41}


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="s2protocol's look-up needs Python 3.11"
)
def test_pysc2s_replay_stream_plays_a_replay_to_its_end(installed, replay):
    seen = _run(installed, "stream", str(replay))
    assert (seen["first"], seen["last"]) == (0, games.played().loops)
    assert seen["actions"] > 20


def test_pysc2s_random_agent_plays_in_sc2env(installed):
    assert _run(installed, "environment", "very_easy", "400")["steps"] >= 49


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_pysc2s_random_agent_plays_against_each_difficulty(installed, difficulty):
    assert _run(installed, "environment", difficulty, "1600")["steps"] >= 199


@pytest.mark.slow
def test_a_bot_of_python_sc2_plays(installed):
    default = ROOT / ".venv-burnysc2/bin/python"
    python = os.environ.get("STARMILL_BURNYSC2_PYTHON", str(default))
    if not os.access(python, os.X_OK):
        pytest.skip("needs python-sc2: `make burnysc2`, or STARMILL_BURNYSC2_PYTHON")
    done = subprocess.run(
        [python, str(ROOT / "tests/engines/skirmish/burnysc2_bot.py")],
        env={**os.environ, "SC2PATH": str(installed)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=280,
    )
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["map"] == "Skirmish Amber Basin"
    assert seen["workers"] > 12
    assert seen["enemy_starts"] == 1
    assert seen["expansions"] >= 6


@pytest.mark.slow
def test_the_server_survives_random_requests():
    counts = fuzz_requests.run(requests=3000, seed=7)
    assert counts["answered"] > 500
    assert counts["error"] > 100


@pytest.mark.reference
@pytest.mark.timeout(1200)
def test_our_arrays_are_those_of_deepminds_converter(
    installed, replay, tmp_path, shared
):
    default = ROOT / ".venv-reference/bin/python"
    python = os.environ.get("STARMILL_REFERENCE_PYTHON", str(default))
    if not os.access(python, os.X_OK):
        pytest.skip("needs `make reference`, or STARMILL_REFERENCE_PYTHON")
    subprocess.run(
        [
            *(python, str(shared / "golden/reference_player.py"), str(replay)),
            *("--player", "both", "--out", str(tmp_path / "out.npz")),
            *("--raw", str(tmp_path / "raw.npz"), "--sc2_timeout=120"),
        ],
        env={**os.environ, "SC2PATH": str(installed)},
        check=True,
        timeout=900,
    )
    for player in (1, 2):
        expected = _arrays(tmp_path / f"out.p{player}.npz")
        captured = _arrays(tmp_path / f"raw.p{player}.npz")
        steps = _converted(captured)
        assert len(steps) == len(expected["game_loop"]) > 20
        for index, step in enumerate(steps):
            for name, value in step.items():
                want = expected[name][index]
                np.testing.assert_array_equal(np.squeeze(value), np.squeeze(want), name)


def _arrays(path):
    """All arrays of a file, unpacked once."""
    with np.load(path) as packed:
        return {name: packed[name] for name in packed.files}


def _converted(captured):
    """Our converter over a captured stream, step by step."""

    def message(name, index):
        if not captured[f"{name}_present"][index]:
            return None
        return part(name, index)

    def part(name, index):
        first, last = captured[f"{name}_offsets"][index : index + 2]
        return bytes(captured[name][first:last])

    converter = observation.Converter(
        ConverterSettings.from_json(json.loads(bytes(captured["settings_json"]))),
        bytes(captured["game_info"]),
        bytes(captured["replay_info"]),
    )
    steps = []
    for index, delay in enumerate(captured["delay"]):
        step = converter.convert(
            part("player", index),
            opponent=message("opponent", index),
            force_action=message("force_action", index),
            delay=int(delay),
        )
        steps.append(step)
        action = {
            name.removeprefix("action/"): value
            for name, value in step.items()
            if name.startswith("action/")
        }
        converter.action(action)
    return steps
