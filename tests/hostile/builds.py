"""Two builds that want the same folder."""

import contextlib
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.factories import builds


def together(
    lines: Sequence[tuple[list[str], Path | str, list[str]]], **environment: str
) -> list[subprocess.CompletedProcess]:
    """Runs `generate` for each (replays, output, more arguments) at the same time."""
    results: dict[int, subprocess.CompletedProcess] = {}

    def run(number: int) -> None:
        replays, output, more = lines[number]
        results[number] = builds.build(replays, output, *more, **environment)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(lines))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in range(len(lines))]


def kill_when(output: Path, marks: Sequence[str]):
    """Kills a build and all it started as soon as the output has one of these files."""

    def during(process: subprocess.Popen) -> None:
        with contextlib.suppress(AssertionError):
            builds.wait_for(
                lambda: (
                    process.poll() is not None
                    or any(list(output.glob(mark)) for mark in marks)
                )
            )
        builds.kill(process.pid)

    return during
