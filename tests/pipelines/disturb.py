"""What is done to a running build, on a thread beside it."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.factories import builds

# Marks in command lines: a game of the embedded engine, a worker of Beam's local runner.
GAME, WORKER = "skirmish import server", "sdk_worker_main"

During = Callable[[subprocess.Popen], None]


def kill_games(seed: int, every_seconds: float, most: int = 10**9) -> During:
    """Kills one game of the build now and then, chosen by a seeded draw."""
    rng = random.Random(seed)

    def during(process: subprocess.Popen) -> None:
        killed = 0
        while process.poll() is None and killed < most:
            games = sorted(builds.processes(GAME, process.pid))
            if games:
                builds.kill(rng.choice(games))
                killed += 1
            time.sleep(every_seconds)

    return during


def kill_a_worker(output: Path, after_parts: int = 1) -> During:
    """Kills a worker process when some replays are done and others are not."""

    def during(process: subprocess.Popen) -> None:
        while process.poll() is None and builds.parts(output) < after_parts:
            time.sleep(0.02)
        for pid in builds.processes(WORKER, process.pid)[:1]:
            builds.kill(pid)

    return during


def interrupt(output: Path, after_parts: int = 1) -> During:
    """Presses Ctrl-C, as a terminal does it: for the whole process group."""

    def during(process: subprocess.Popen) -> None:
        while process.poll() is None and builds.parts(output) < after_parts:
            time.sleep(0.02)
        # The session's leader is the command itself (start_new_session).
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)

    return during
