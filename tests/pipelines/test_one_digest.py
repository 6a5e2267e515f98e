"""One digest: whatever runs the build and whatever happens to it. `make soak` does more."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from starmill import cli
from tests.factories import builds
from tests.pipelines import disturb


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    return builds.make_ladder(tmp_path_factory.mktemp("ladder"), 8, loops=250)


@pytest.fixture(scope="module")
def expected(ladder, tmp_path_factory) -> str:
    output = tmp_path_factory.mktemp("alone") / "data"
    done = builds.build(ladder, output, "--workers", "1")
    assert done.returncode == 0, done.stderr
    return builds.digest(output)


@pytest.fixture
def nothing_left(monkeypatch):
    """No temp folder of games may be left by the test, which has a temp folder of its own."""
    with tempfile.TemporaryDirectory() as own:
        monkeypatch.setenv("TMPDIR", own)
        yield
        builds.wait_for(lambda: not list(Path(own).glob("starmill-games-*")), 60)


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("nothing_left")
def test_two_processes_another_order_and_games_killed(ladder, expected, tmp_path):
    done = builds.build(
        ladder.files[::-1],
        tmp_path / "data",
        "--workers",
        "2",
        during=disturb.kill_games(seed=3, every_seconds=1.5, most=5),
    )
    assert done.returncode == 0, done.stderr
    assert builds.digest(tmp_path / "data") == expected
    assert done.stdout.splitlines()[-1].endswith(expected)


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("nothing_left")
def test_a_killed_worker_then_ctrl_c_then_a_second_run(ladder, expected, tmp_path):
    output = tmp_path / "data"
    done = builds.build(
        ladder, output, "--workers", "2", during=disturb.interrupt(output, 2)
    )
    assert done.returncode == 130, done.stderr
    assert "run the same command again" in done.stderr
    assert not (output / "manifest.json").exists()
    before = builds.parts(output)
    assert before >= 2
    done = builds.build(
        ladder,
        output,
        "--workers",
        "2",
        during=disturb.kill_a_worker(output, before + 1),
    )
    assert done.returncode == 0, done.stderr
    assert builds.digest(output) == expected
    assert cli.main(["verify", str(output)]) == 0


@pytest.mark.timeout(1500)
@pytest.mark.slow
def test_prism(ladder, expected, tmp_path):
    prism = builds.ROOT / ".cache/prism/prism"
    if not prism.exists():
        pytest.skip("needs deploy/prism/setup")
    done = builds.build(
        ladder,
        tmp_path / "data",
        "--runner=PrismRunner",
        f"--prism_location={prism}",
    )
    assert done.returncode == 0, done.stderr
    assert builds.digest(tmp_path / "data") == expected


@pytest.fixture(scope="module")
def flink():
    """A real cluster with two task slots, on a port of its own."""
    script = builds.ROOT / "deploy/flink"
    setup = subprocess.run([script / "setup"], capture_output=True, text=True)
    if setup.returncode != 0:
        pytest.skip(f"deploy/flink/setup: {setup.stderr.strip()}")
    environment = {**os.environ, "PORT": "8187", "SLOTS": "2"}
    subprocess.run([script / "cluster", "start"], check=True, env=environment)
    yield [
        "--runner=FlinkRunner",
        "--flink_master=localhost:8187",
        *_flink_options(),
    ]
    subprocess.run([script / "cluster", "stop"], check=True, env=environment)


def _flink_options() -> list[str]:
    result = dict(
        line.split("=", 1)
        for line in (builds.ROOT / ".cache/flink/env").read_text().split()
    )
    return [
        "--parallelism=2",
        f"--flink_version={result['FLINK_LINE']}",
        f"--flink_job_server_jar={result['FLINK_JOB_SERVER']}",
    ]


@pytest.mark.flink
@pytest.mark.timeout(1500)
def test_flink_with_two_task_slots(ladder, expected, flink, tmp_path):
    done = builds.build(
        ladder, tmp_path / "data", *flink, "--environment_type=LOOPBACK"
    )
    assert done.returncode == 0, done.stderr
    assert builds.digest(tmp_path / "data") == expected


@pytest.fixture
def task_managers():
    """Runs `deploy/flink/cluster`, with two task managers in networks of their own."""
    script = builds.ROOT / "deploy/flink"
    setup = subprocess.run([script / "setup"], capture_output=True, text=True)
    if setup.returncode != 0:
        pytest.skip(f"deploy/flink/setup: {setup.stderr.strip()}")
    environment = {**os.environ, "PORT": "8191"}

    def cluster(*words: str) -> subprocess.CompletedProcess:
        # Its processes live on, so they must not keep a pipe of ours open.
        with tempfile.TemporaryFile("w+") as shown:
            done = subprocess.run(
                [script / "cluster", *words],
                env=environment,
                stdout=shown,
                stderr=subprocess.STDOUT,
            )
            shown.seek(0)
            return subprocess.CompletedProcess(words, done.returncode, shown.read())

    started = cluster("start", "--task-managers", "2")
    if started.returncode == 2:
        pytest.skip(started.stdout.strip())
    assert started.returncode == 0, started.stdout
    yield cluster
    stopped = cluster("stop")
    assert stopped.returncode == 0, stopped.stdout


@pytest.mark.flink
@pytest.mark.timeout(1500)
def test_flink_with_two_task_managers_one_of_them_killed(
    ladder, expected, task_managers, tmp_path
):
    output = tmp_path / "data"
    killed_after = []

    def kill_one(process: subprocess.Popen) -> None:
        builds.wait_for(lambda: builds.parts(output) >= 2, 1200)
        killed_after.append(builds.parts(output))
        task_managers("kill", "2")
        task_managers("replace", "2")

    done = builds.build(
        ladder,
        output,
        "--runner=FlinkRunner",
        f"--flink_master={task_managers('address').stdout.strip()}",
        *_flink_options(),
        "--environment_type=EXTERNAL",
        "--environment_config=localhost:15555",
        during=kill_one,
    )
    assert done.returncode == 0, done.stderr
    assert len(killed_after) == 1
    assert 2 <= killed_after[0] < len(ladder.files)
    assert builds.digest(output) == expected
