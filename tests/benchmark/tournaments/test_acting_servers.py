"""Processes of agents: when they start, that they start again, and that they end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from starmill.benchmark.opponents import contestants
from starmill.benchmark.tournaments import acting_servers, schedule
from starmill.schema import errors
from tests.conftest import ROOT
from tests.engines.test_lifeline import wait_for_end

SCRIPT = """
import sys
from starmill.benchmark.tournaments import acting_servers
from tests.benchmark.tournaments import test_acting_servers as t
if __name__ == "__main__":
    servers = acting_servers.ActingServers(t.players(sys.argv[1]), threads=1)
    servers.prepare(t.fixture("one", "two"))
    processes = servers._processes.values()
    print(servers._folder, *(process.pid for process in processes), flush=True)
    sys.stdin.read()
"""


def fixture(home, away):
    return schedule.Fixture(
        game="game",
        home=home,
        away=away,
        home_race="terran",
        away_race="zerg",
        map_path="x.SC2Map",
        seed=1,
    )


def players(folder):
    """Two trained agents, which cannot be loaded, and one that needs no process."""
    path = Path(folder) / "some.agent"
    path.write_bytes(b"")
    return contestants.contestants([f"one={path}", f"two={path}", "rush"])


def test_a_process_starts_with_the_first_game_that_needs_it(tmp_path):
    with acting_servers.ActingServers(players(tmp_path), threads=1) as servers:
        assert list(servers.addresses) == ["one", "two"]
        servers.prepare(fixture("rush", "two"))
        (process,) = servers._processes.values()
        servers.prepare(fixture("two", "rush"))
        servers.tend()
        assert list(servers._processes.items()) == [("two", process)]
        folder = servers._folder
    assert not process.is_alive()
    assert not folder.exists()


def test_a_process_that_died_starts_again_but_not_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(acting_servers, "MOST_STARTS", 2)
    with acting_servers.ActingServers(players(tmp_path), threads=1) as servers:
        servers.prepare(fixture("one", "rush"))
        for _ in range(2):
            process = servers._processes["one"]
            process.kill()
            process.join()
            if servers._starts["one"] == 1:
                servers.tend()
        assert servers._processes["one"] is process
        with pytest.raises(errors.AgentError, match="one: .* ended 2 times, .* -9"):
            servers.tend()


def test_a_folder_too_long_for_an_address_is_named(tmp_path, monkeypatch):
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with pytest.raises(errors.ConfigError, match="set TMPDIR"):
        acting_servers.ActingServers(players(tmp_path), threads=1)
    assert not list(long.iterdir())


def test_processes_and_addresses_end_with_a_tournament_that_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, script, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    ) as run:
        folder, *pids = run.stdout.readline().split()
        # Each process guards its parent from the moment it listens.
        for number in range(2):
            while not (Path(folder) / str(number)).exists():
                assert run.poll() is None
        run.send_signal(signal.SIGKILL)
    for pid in pids:
        wait_for_end(int(pid))
    assert not Path(folder).exists()
