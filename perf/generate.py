"""Measures how fast a build is, beside the predecessor's procedure.

Both procedures play the same ladder games of the embedded engine on the same cores. They take
turns (our build, then the predecessor's with half of the games, twice), so that other load on
the machine affects both. The core seconds of all processes are measured too, because other
load hardly changes them. Ours is `starmill generate` from index to manifest, including the start
of its workers. The predecessor's is `perf.predecessor_play`: two new game processes for each
player, its own step sequence, and one record for each episode in its format. If a Python 3.10
with DeepMind's wheel is available (`make reference`), DeepMind's own converter plays; otherwise
our converter takes its place, which makes the predecessor look faster than it is.
"""

import collections
import contextlib
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perf.row import Row, beside

_GAMES = 4
_ROUNDS = 2
_SEED = 11
_ROOT = Path(__file__).resolve().parents[1]
_PR_SET_CHILD_SUBREAPER = 36
# Game processes that the predecessor starts per 100 replays: two per player.
_PEER_STARTS = 400.0


def reference_python() -> str | None:
    """Returns the Python 3.10 with pysc2's wheel, if there is one."""
    named = os.environ.get("STARMILL_REFERENCE_PYTHON")
    path = Path(named) if named else _ROOT / ".venv-reference/bin/python"
    return str(path) if path.exists() else None


def _run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **environment},
    )


def _starmill(*arguments: str) -> str:
    return _run(sys.executable, "-m", "starmill", *arguments).stdout


def _ladder(folder: Path) -> list[Path]:
    _starmill(
        "skirmish", "ladder", "--games", str(_GAMES), "--seed", str(_SEED),
        "--out", str(folder), "--parallel", str(os.cpu_count() or 1),
    )  # fmt: skip
    return sorted(folder.glob("**/*.SC2Replay"))


def _core_seconds() -> float:
    """Returns the core seconds of all descendants of this process that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0):  # orphans become children of this process
            pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _ours(replays: Path, output: Path, game: Path, workers: int) -> tuple[float, dict]:
    began = time.monotonic()
    printed = _starmill(
        "generate", "--replays", str(replays), "--selection", "skirmish",
        "--output", str(output), "--sc2", str(game), "--workers", str(workers), "--json",
    )  # fmt: skip
    seconds = time.monotonic() - began
    summary = next(line for line in printed.splitlines() if line.startswith("{"))
    return seconds, json.loads(summary)


def _peer(replays: list[Path], game: Path, out: Path, workers: int) -> dict[str, float]:
    """Plays all sides as the predecessor does, with as many processes as our build."""
    jobs = [(path, side) for path in replays for side in (1, 2)]
    running = [
        subprocess.Popen(
            [
                sys.executable, "-m", "perf.predecessor_play",
                reference_python() or "-", str(out),
                *(f"{side}:{path}" for path, side in jobs[number::workers]),
            ],
            cwd=_ROOT,
            env={**os.environ, "SC2PATH": str(game)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(workers)
    ]  # fmt: skip
    totals: dict[str, float] = {"seconds": 0.0}
    for process in running:
        printed, _ = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"perf: the baseline failed with {process.returncode}")
        counts = json.loads(printed.splitlines()[-1])
        totals["seconds"] = max(totals["seconds"], counts.pop("seconds"))
        for name, value in counts.items():
            totals[name] = totals.get(name, 0.0) + value
    return totals


def measure() -> list[Row]:
    """Returns the measured rows. This takes minutes."""
    workers = os.cpu_count() or 1
    folder = Path(tempfile.mkdtemp(prefix="starmill-perf-"))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    ours: collections.Counter[str] = collections.Counter()
    peer: collections.Counter[str] = collections.Counter()
    try:
        game = folder / "game"
        _starmill("skirmish", "install", str(game))
        replays = _ladder(folder / "replays")
        # Once without measuring, so that neither side pays for compiling kernels.
        _ours(folder / "replays", folder / "warm", game, workers)
        for number in range(_ROUNDS):
            used = _core_seconds()
            data = folder / f"data{number}"
            seconds, summary = _ours(folder / "replays", data, game, workers)
            between = _core_seconds()
            ours.update(seconds=seconds, episodes=summary["episodes"])
            ours.update(core_seconds=between - used)
            share = replays[number::_ROUNDS]
            peer.update(_peer(share, game, folder / "peer", workers))
            peer.update(core_seconds=_core_seconds() - between)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _rows(ours, summary, peer, len(replays), workers)


def _rows(ours: dict, summary: dict, peer: dict, games: int, workers: int) -> list[Row]:
    name = (
        "pysc2 4.0.0's replay stream and converter, zlib records"
        if reference_python()
        else "pysc2 4.0.0's replay stream with our converter, zlib records"
    )
    counters = summary["counters"]
    rate = 60 * ours["episodes"] / ours["seconds"]
    peer_rate = 60 * peer["episodes"] / peer["seconds"]
    cost = ours["core_seconds"] / ours["episodes"]
    peer_cost = (peer["core_seconds"] - peer["import_core_seconds"]) / peer["episodes"]
    versions = summary["versions"]
    starts = 100 * counters["games_started"] / (games * workers * versions)
    most = max(2.0, 100 * 2 / games)  # a pair is needed, even for a single replay
    loops = counters["game_loops_played"] / games
    return [
        beside(
            "generate: episodes a minute",
            "episodes/min",
            rate,
            peer_rate,
            name,
            floor=5.0,
        ),
        beside(
            "generate: core seconds an episode, games included",
            "s",
            cost,
            peer_cost,
            name,
            floor=5.0,
            less_is_better=True,
        ),
        beside(
            "generate: games started per 100 replays, worker and version",
            "processes",
            starts,
            _PEER_STARTS,
            "two new ones for each player",
            floor=_PEER_STARTS / most,
            less_is_better=True,
        ),
        Row(
            name="generate: game loops played per game",
            unit="loops",
            ours=loops,
            peer=peer["game_loops"] / games,
            peer_name=name,
            ratio=peer["game_loops"] / games / loops,
            floor=2.0,
            ok=peer["game_loops"] / games >= 1.99 * loops,
        ),
    ]
