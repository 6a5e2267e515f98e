"""The embedded game's server: hundreds of games in one process, and hostile requests."""

import concurrent.futures
import multiprocessing
import subprocess
import sys
from pathlib import Path

from starmill.converters.protos import sc2api_pb2
from tests.factories import builds, games, short_games

_STEPS, _STEP_LOOPS = 5, 60
# What the first games allocate for good: caches, compiled code, free lists.
_WARM_GAMES = 20
_MOST_GROWTH_BYTES = 24 << 20
_MOST_PER_GAME_BYTES = 150 << 10
_REQUESTS = 5000


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def memory(_: Path, count: int) -> str:
    """Plays so many games and replays in a process of its own, whose memory must not grow."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        growth = executor.submit(_growth_bytes, count).result()
    # Per game, so that a leak shows in a shorter run as well.
    most = min(_MOST_GROWTH_BYTES, _MOST_PER_GAME_BYTES * (count - _WARM_GAMES))
    assert growth < most, f"grew by {growth >> 20} MiB, expected at most {most >> 20}"
    return f"{count} games and replays, {growth / 2**20:.1f} MiB more memory"


def _growth_bytes(count: int) -> int:
    """Plays games and replays; returns how many bytes the process grew after the first ones."""
    client = games.LocalClient()
    replays = [short_games.short_game(seed, loops=200) for seed in range(5)]
    first = 0
    for number in range(count):
        if number == _WARM_GAMES:
            first = _resident_bytes()
        client.create(seed=number + 1, difficulty=1 + number % 7, race=1 + number % 3)
        for _ in range(_STEPS):
            client.step(_STEP_LOOPS)
            client.observe()
        client.ask(save_replay=sc2api_pb2.RequestSaveReplay())
        client.ask(leave_game=sc2api_pb2.RequestLeaveGame())
        client.start_replay(replays[number % 5], 1 + number % 2)
        while client.status == sc2api_pb2.in_replay:
            client.step(20)
            client.observe()
    return _resident_bytes() - first


def requests(_: Path) -> str:
    """Sends thousands of hostile requests; the server must answer all of them."""
    subprocess.run(
        [
            *(sys.executable, "-m", "tests.engines.skirmish.server.fuzz_requests"),
            *("--requests", str(_REQUESTS)),
        ],
        cwd=builds.ROOT,
        check=True,
        timeout=3600,
        stdout=subprocess.DEVNULL,
    )
    return f"{_REQUESTS:,} hostile requests"
