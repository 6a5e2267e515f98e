"""Signals to a build on this machine: one line, and no process is left."""

import os
import signal
import time

import pytest

from tests.endurance import commands
from tests.factories import builds
from tests.pipelines import disturb

SPAWNER = "spawner.py"
INTERRUPTED = "interrupted; run the same command again to continue"
# Before Beam's workers have connected, before their first game, and while games play.
EVENTS = [disturb.WORKER, SPAWNER, disturb.GAME]


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    return builds.make_ladder(tmp_path_factory.mktemp("replays"), 6, loops=400)


def interrupt_at(mark, send):
    """Sends an interrupt as soon as the build has a process whose command line has `mark`."""

    def during(process):
        while process.poll() is None and not builds.processes(mark, process.pid):
            time.sleep(0.01)
        if process.poll() is None:
            send(process.pid, signal.SIGINT)

    return during


@pytest.mark.slow
@pytest.mark.parametrize("mark", EVENTS)
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
def test_an_interrupt_ends_a_build_with_one_line(ladder, tmp_path, mark, send):
    """A service manager interrupts the process alone; Ctrl-C its whole group."""
    temp = tmp_path / "temp"
    temp.mkdir()
    done = builds.build(
        ladder,
        tmp_path / "data",
        "--workers",
        "2",
        during=interrupt_at(mark, send),
        TMPDIR=str(temp),
    )
    assert done.returncode == 130, done.stderr
    assert commands.left_processes(temp) == []
    lines = done.stderr.splitlines()
    assert lines[-1] == INTERRUPTED
    ours = ("generate  ", "INFO compiling")
    assert [line for line in lines[:-1] if not line.startswith(ours)] == []
    assert done.stdout == ""


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
def test_an_interrupt_ends_an_index_with_one_line(ladder, tmp_path, send):
    line = ["index", *ladder.files, "--out", str(tmp_path / "index.parquet")]
    temp = tmp_path / "temp"
    with commands.running([*line, "--workers", "2"], temp) as process:
        interrupt_at(disturb.WORKER, send)(process)
        process.wait()
    assert process.returncode == 130, process.printed
    assert commands.left_processes(temp) == []
    lines = process.printed.splitlines()
    assert lines[-1] == INTERRUPTED
    ours = ("index  ", "INFO compiling")
    assert [line for line in lines[:-1] if not line.startswith(ours)] == []
