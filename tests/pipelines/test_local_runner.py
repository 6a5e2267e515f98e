"""Signals to a build on this machine: one line, and no process is left."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from starmill.pipelines import local_runner
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


def test_a_worker_that_dies_while_replays_are_indexed_is_replaced(ladder, tmp_path):
    """A pack and files are two units of work, so workers share them."""
    pack = tmp_path / "pack.zip"
    with zipfile.ZipFile(pack, "w") as file:
        for path in ladder.files[:3]:
            file.write(path, Path(path).name)
    killed = []

    def during(process):
        while process.poll() is None and not killed:
            for pid in builds.processes(disturb.WORKER, process.pid)[:1]:
                builds.kill(pid)
                killed.append(pid)
            time.sleep(0.01)

    replays = [str(pack), *ladder.files[3:]]
    done = builds.build(
        replays, tmp_path / "data", "--workers", "2", "--dry-run", during=during
    )
    assert killed
    assert done.returncode == 0, done.stderr
    assert "generate  a worker died" in done.stderr
    assert "6 selected" in done.stdout


def raised_by(thread, printed):
    thread.start()
    thread.join()
    return [str(args.exc_value) for args in printed]


def failing(text, gate=None):
    def work():
        if gate is not None:
            gate.wait()
        raise RuntimeError(text)

    return threading.Thread(target=work)


def test_only_threads_of_the_moment_end_quietly(monkeypatch):
    printed = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    gate = threading.Event()
    before = failing("of Beam", gate)
    before.start()
    local_runner._ignore_ends_of_workers()
    gate.set()
    before.join()
    assert printed == []
    died = "Worker subprocess exited with return code -9"
    assert raised_by(failing(died), printed) == []
    assert raised_by(failing("of another"), printed) == ["of another"]


@pytest.mark.parametrize(
    ("code", "error"), [(-9, local_runner.WorkerLost), (-2, KeyboardInterrupt)]
)
def test_the_end_of_a_worker_ends_the_wait_for_the_job(monkeypatch, code, error):
    """A worker that died of an interrupt means one, and no signal is sent for it."""
    printed = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    outcome = concurrent.futures.Future()
    with local_runner._watched(outcome):
        hook = threading.excepthook
        died = f"Worker subprocess exited with return code {code}"
        assert raised_by(failing(died), printed) == []
        assert raised_by(failing("of another"), printed) == ["of another"]
        with pytest.raises(error):
            outcome.result(timeout=0)
        raised_by(failing(died), printed)  # what comes second changes nothing
    assert threading.excepthook is not hook


def test_interrupts_are_ignored_even_if_one_waits():
    before = signal.getsignal(signal.SIGINT)
    try:
        local_runner.ignore_interrupts()
        os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# A process of its own: it kills all of its children, and Beam's threads outlive the job.
JOB = """
import os, signal
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from starmill.pipelines import local_runner

options = PipelineOptions(
    [
        "--runner=FnApiRunner",
        "--direct_running_mode=multi_processing",
        "--direct_num_workers=2",
    ]
)
pipeline = local_runner.new_pipeline(options)
_ = pipeline | beam.Create([1]) | beam.Map(lambda _: os.kill(os.getpid(), signal.SIGKILL))
try:
    pipeline.run()
except local_runner.WorkerLost as error:
    print("lost:", error, flush=True)
    local_runner.exit_at_once(7)
"""


def test_a_worker_that_dies_ends_any_job(tmp_path):
    """The jobs of an index and of shards are run by the same runner as a build's."""
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith("lost: ")
    assert "code -9" in done.stdout
    assert commands.left_processes(tmp_path) == []
