"""The same episodes as DeepMind's own code makes, through the same engine.

`reference_player.py` plays a replay through the unmodified pysc2 4.0.0 wheel on Python 3.10;
the worker plays it in its own way. Every array of every step must be equal, `unit_tags` as
multisets (the reference may list them in another order).
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from starmill.engines import client
from starmill.engines.pool import Pool, PoolConfig
from starmill.engines.replays import replay_file
from starmill.engines.skirmish import install, versions
from starmill.pipelines import episode_maker
from starmill.schema import codec
from starmill.schema.settings import UNPLUGGED, ConverterSettings
from tests.conftest import ROOT
from tests.factories import short_games

pytestmark = [pytest.mark.reference, pytest.mark.timeout(1200)]
DEADLINES = client.Deadlines(start=600, load=600, play=600)


@pytest.fixture(scope="module")
def python() -> str:
    named = os.environ.get("STARMILL_REFERENCE_PYTHON")
    path = Path(named) if named else ROOT / ".venv-reference/bin/python"
    if not path.exists():
        pytest.skip("needs `make reference`, or STARMILL_REFERENCE_PYTHON")
    return str(path)


@pytest.fixture(scope="module")
def game(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("game")
    install.install(folder, versions.VERSIONS)
    return folder


def reference_arrays(python, shared, game, replay: Path, opponent: bool):
    settings = json.dumps({"add_opponent_features": opponent})
    done = subprocess.run(
        [
            python,
            str(shared / "golden/reference_player.py"),
            str(replay),
            "--player=both",
            f"--out={replay.with_suffix('.npz')}",
            f"--settings={settings}",
            "--sc2_timeout=600",
        ],
        env={**os.environ, "SC2PATH": str(game)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    summary = json.loads(done.stdout.splitlines()[-1])
    return summary, [
        dict(np.load(replay.with_suffix(f".p{side}.npz"))) for side in (1, 2)
    ]


@pytest.mark.parametrize(
    ("seed", "opponent"), [(0, False), (1, False), (2, True), (3, True)]
)
def test_every_array_of_every_step(python, shared, game, tmp_path, seed, opponent):
    data = short_games.short_game(seed, loops=400, version="4.9.2")
    replay = tmp_path / "game.SC2Replay"
    replay.write_bytes(data)
    summary, theirs = reference_arrays(python, shared, game, replay, opponent)
    settings = ConverterSettings.from_json(
        {**UNPLUGGED.to_json(), "add_opponent_features": opponent}
    )
    pool = Pool(PoolConfig(root=str(game), deadlines=DEADLINES))
    try:
        result = episode_maker.EpisodeMaker(
            pool, episode_maker.MakerConfig(settings=settings)
        ).run(data, replay_file.replay_row(data, str(replay)))
        started = pool.started
    finally:
        pool.close()
    assert result.quarantine == ()
    # A game is played by two processes instead of four, and half the loops.
    assert (summary["process_launches"], started) == (4, 2)
    assert result.loops_played * 2 <= summary["game_loops_stepped"] + 4
    for ours, reference in zip(result.episodes, theirs, strict=True):
        arrays = codec.decode(list(ours.records), settings)
        compare(arrays, reference)


def compare(arrays, reference) -> None:
    keys = {key for key in reference if not key.startswith("__")}
    assert set(arrays) == keys
    for key in sorted(keys):
        mine, theirs = arrays[key], reference[key]
        if key == "action/unit_tags":
            mine, theirs = np.sort(mine, axis=1), np.sort(theirs, axis=1)
        assert mine.dtype == theirs.dtype, key
        assert mine.shape == theirs.shape, key
        different = np.nonzero((mine != theirs).reshape(len(mine), -1).any(axis=1))[0]
        assert len(different) == 0, f"{key}: differs from step {different[:5]}"
