"""The process: its entry point, its flags, its socket, and how it ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish import install, server, versions
from starmill.engines.skirmish.server import process
from tests.factories import games

LAUNCHED, IN_REPLAY = 1, 4


def test_installed_launchers_find_the_entry_point():
    # Their text is `from starmill.engines.skirmish import server; server.main()`.
    assert server.main is process.main
    assert "from starmill.engines.skirmish import server" in install.launcher(
        versions.LATEST
    )


def test_flags_are_read_as_the_game_reads_them():
    flags = process.parse_flags(
        [
            "-listen",
            "0.0.0.0",
            "-port",
            "5000",
            "-dataDir",
            "/g/",
            "-tempDir",
            "/t/",
            "-dataVersion",
            "AB",
            "-displayMode",
            "0",
            "-verbose",
            "-unknown",
            "-baseBuild",
            "71663",
        ]
    )
    assert (flags.listen, flags.port, flags.base_build) == ("0.0.0.0", 5000, 71663)
    assert (flags.data_dir, flags.data_version) == ("/g/", "AB")
    with pytest.raises(SystemExit, match="-port is required"):
        process.parse_flags(["-listen", "127.0.0.1"])


def test_the_process_answers_pings_replays_and_nonsense(free_port):
    with games.Process(free_port) as running:
        running.connect()
        pong = running.ask(ping=sc2api_pb2.RequestPing())
        assert (pong.id, pong.status) == (1, LAUNCHED)
        assert pong.ping.base_build == 74741
        running.socket.send(b"\xff\xff\xff")
        answer = sc2api_pb2.Response.FromString(running.socket.recv())
        assert "does not parse" in answer.error[0]
        start = sc2api_pb2.RequestStartReplay(
            replay_data=games.played().replay,
            observed_player_id=1,
            options=games.replay_options(),
        )
        assert running.ask(start_replay=start).status == IN_REPLAY
        assert (
            running.ask(step=sc2api_pb2.RequestStep(count=10)).step.simulation_loop
            == 10
        )
        seen = running.ask(observation=sc2api_pb2.RequestObservation())
        assert seen.observation.observation.game_loop == 10
        quit_answer = running.ask(quit=sc2api_pb2.RequestQuit())
        assert quit_answer.status == sc2api_pb2.quit
        assert running.process.wait(20) == 0


def test_a_client_may_leave_and_another_goes_on(free_port):
    with games.Process(free_port) as running:
        running.connect()
        start = sc2api_pb2.RequestStartReplay(
            replay_data=games.played().replay,
            observed_player_id=1,
            options=games.replay_options(),
        )
        running.ask(start_replay=start)
        running.ask(step=sc2api_pb2.RequestStep(count=7))
        running.socket.close()
        running.connect()
        assert running.ask(ping=sc2api_pb2.RequestPing()).status == IN_REPLAY
        seen = running.ask(observation=sc2api_pb2.RequestObservation())
        assert seen.observation.observation.game_loop == 7
        running.ask(quit=sc2api_pb2.RequestQuit())
        assert running.process.wait(20) == 0


def test_the_process_exits_when_its_client_and_its_parent_are_gone(free_port):
    # The child of this shell starts the game and ends at once.
    script = (
        f"{sys.executable} -m starmill.engines.skirmish.server.process "
        f"-listen 127.0.0.1 -port {free_port} & echo $!; sleep 3"
    )
    parent = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    client = games.Process.attached(free_port)
    with client:
        client.connect()
        client.ask(ping=sc2api_pb2.RequestPing())
        parent.stdout.close()
        parent.wait(20)
        client.socket.close()
        deadline = time.monotonic() + 20
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()


def test_the_process_exits_when_a_signal_comes(free_port):
    with games.Process(free_port) as running:
        running.connect()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
