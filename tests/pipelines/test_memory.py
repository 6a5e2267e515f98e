"""A worker's memory does not follow the length of the game.

The longest replay of the packs has 303,109 loops. Both sides' 30,000 steps here would be 14 GB
as arrays; converted and encoded a chunk at a time, only their records may show.
"""

import json
import subprocess
import sys

import pytest

from tests.factories import builds, short_games

# Above the engine's: the games are processes of their own and are not counted.
_MOST_BYTES = 1 << 30


def play(tmp_path, loops: int) -> dict:
    replay = tmp_path / f"{loops}.SC2Replay"
    replay.write_bytes(short_games.short_game(6, loops=loops, busy=0.07, peaceful=True))
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipelines.play_one", str(replay)],
        cwd=builds.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout.splitlines()[-1])
    assert content["failed"] == []
    assert content["loops"] >= loops
    return content


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_replay_of_300_000_loops_stays_under_a_gigabyte(tmp_path):
    short = play(tmp_path, 3_000)
    long = play(tmp_path, 300_000)
    assert sum(long["steps"]) > 25_000
    assert long["peak_bytes"] < _MOST_BYTES
    # Beyond the records themselves, a hundredfold game takes what a short one does.
    allowed = short["peak_bytes"] + 3 * long["record_bytes"] + (100 << 20)
    assert long["peak_bytes"] < allowed, (short, long)
