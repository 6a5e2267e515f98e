"""Running `starmill generate` in tests: the replays, the command, and what is killed."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from starmill.schema import manifest
from tests.factories import short_games

ROOT = Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Ladder:
    """A folder of replays. games: good ones. broken: files that are not replays."""

    folder: Path
    games: int
    broken: int
    duplicates: int

    @property
    def files(self) -> list[str]:
        return sorted(str(path) for path in self.folder.iterdir())


def make_ladder(folder: Path, games: int, *, first_seed: int = 0, **options) -> Ladder:
    """Writes short games of three versions, three broken files and one double."""
    paths = short_games.write_games(folder, games, first_seed=first_seed, **options)
    good = paths[0].read_bytes()
    (folder / "empty.SC2Replay").write_bytes(b"")
    (folder / "text.SC2Replay").write_bytes(b"this is no replay")
    (folder / "cut.SC2Replay").write_bytes(good[: len(good) // 2])
    (folder / "again.SC2Replay").write_bytes(paths[1].read_bytes())
    return Ladder(folder, games, 3, 1)


def command(ladder: Ladder | list[str], output: Path | str, *more: str) -> list[str]:
    """Returns the command line that builds a dataset of the replays."""
    replays = ladder.files if isinstance(ladder, Ladder) else ladder
    line = [sys.executable, "-m", "starmill", "generate", "--replays", *replays]
    line += ["--selection", "skirmish", "--output", str(output)]
    line += ["--replays-per-shard", "4"]
    if "--sc2" not in more:
        line += ["--sc2", "skirmish"]
    return [*line, *more]


def build(
    ladder: Ladder | list[str],
    output: Path | str,
    *more: str,
    during: Callable[[subprocess.Popen], None] | None = None,
    seconds: float | None = None,
    **environment: str,
) -> subprocess.CompletedProcess:
    """Runs the command to its end; `during` may do things to it on a thread.

    A command that takes longer than `seconds` is killed with its group: TimeoutExpired.
    """
    with subprocess.Popen(
        command(ladder, output, *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        start_new_session=True,
        # A shell's background jobs ignore Ctrl-C, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        stop = threading.Event()
        thread = None
        if during is not None:
            thread = threading.Thread(target=during, args=(process,), daemon=True)
            thread.start()
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            stop.set()
        if thread is not None:
            thread.join(30)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def digest(output: Path | str) -> str:
    """Returns the digest of a finished dataset."""
    return manifest.read(str(output)).digest()


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    """Waits until something is true; AssertionError if it never is."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def parts(output: Path | str) -> int:
    """Returns how many replays of an unfinished build are done."""
    return len(list(Path(output).glob("_work/parts/*/*.part")))


def processes(mark: str, root: int) -> list[int]:
    """Returns the descendants of a process whose command line holds `mark`."""
    parents, lines = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                if stat[0] != "Z":
                    parents[int(folder.name)] = int(stat[1])
                    text = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    lines[int(folder.name)] = text.decode(errors="replace")

    def descends(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return [pid for pid in lines if mark in lines[pid] and descends(pid)]


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Sends a signal to a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
