"""Starmill's long commands in processes of their own, which steps kill and start again."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.factories import builds

GRACE_SECONDS = 60.0
# Python hears a signal only when JAX has compiled a function, which can take minutes.
END_SECONDS = 300.0
_POLL_SECONDS = 0.002


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command ended.

    code: its exit code, or minus the signal.  text: what it printed.
    """

    code: int
    text: str


@contextlib.contextmanager
def running(line: list[str], temp: Path) -> Iterator[subprocess.Popen]:
    """Runs `starmill` with these words; `temp` marks its descendants and takes their files."""
    temp.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "starmill", *line],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=builds.ROOT,
            env={**os.environ, "TMPDIR": str(temp), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            # A shell's background jobs ignore Ctrl-C, and so would their children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            log.seek(0)
            process.printed = log.read().decode(errors="replace")


def run(line: list[str], temp: Path, seconds: float = 3600) -> Ended:
    """Runs a command to its end."""
    with running(line, temp) as process:
        process.wait(seconds)
    return Ended(process.returncode, process.printed)


def run_and_kill(
    line: list[str],
    temp: Path,
    when: Callable[[], object],
    *,
    number: int = signal.SIGKILL,
) -> Ended:
    """Runs a command and sends it a signal once `when()` is true; waits for its end."""
    with running(line, temp) as process:
        while process.poll() is None and not when():
            time.sleep(_POLL_SECONDS)
        builds.kill(process.pid, number)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired as error:
            name = signal.Signals(number).name
            raise AssertionError(
                f"{line[0]} still runs {END_SECONDS:g} s after {name}"
            ) from error
    return Ended(process.returncode, process.printed)


def after(seconds: float) -> Callable[[], bool]:
    """Returns a condition that becomes true after so many seconds."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def left_processes(temp: Path) -> list[str]:
    """Returns the processes that were given this temp folder, after a moment of grace."""
    mark = f"TMPDIR={temp}".encode()
    end = time.monotonic() + GRACE_SECONDS
    while (left := list(_marked(mark))) and time.monotonic() < end:
        time.sleep(0.2)
    return left


def _marked(mark: bytes) -> Iterator[str]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    if line:  # a zombie has none
                        yield f"{folder.name} {line.decode(errors='replace')[:80]}"


@contextlib.contextmanager
def small_disk(folder: Path, size_kb: int) -> Iterator[Callable[[int], None]]:
    """Mounts a disk of that size on the folder; yields a function that resizes it.

    Raises Skipped where this user may not mount anything.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size_kb}k"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        raise Skipped(f"cannot mount a small disk: {mounted.stderr.strip()}")

    def resize(new_kb: int) -> None:
        remount = f"remount,size={new_kb}k"
        subprocess.run(["mount", "-o", remount, str(folder)], check=True)

    try:
        yield resize
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class Skipped(Exception):  # noqa: N818  # not an error: the step says why it was not run
    """A step that cannot run here."""


def is_sentence(text: str) -> bool:
    """Returns whether a failed command explained itself instead of printing a traceback."""
    return "Traceback" not in text and bool(text.strip())
