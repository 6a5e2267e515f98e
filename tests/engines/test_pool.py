"""Installations, and a pool of real processes of the embedded game."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from starmill.converters.protos import sc2api_pb2
from starmill.engines import client
from starmill.engines import pool as sc2
from starmill.engines.skirmish import install, versions
from starmill.schema import errors

DEADLINES = client.Deadlines(start=60, load=60, play=20)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sc2")
    install.install(folder, versions.VERSIONS[-2:])
    return folder


@contextlib.contextmanager
def pool(root: Path, **options):
    made = sc2.Pool(sc2.PoolConfig(root=str(root), deadlines=DEADLINES, **options))
    try:
        yield made
    finally:
        made.close()


def newest(made: sc2.Pool):
    return made.installation.executable("4.9.2.74741", 74741, None)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def test_installations_name_their_builds_and_ignore_the_rest(root, tmp_path):
    found = sc2.installation(root)
    assert found.builds == (74456, 74741)
    assert found.describe() == "4.9.1 (build 74456), 4.9.2 (build 74741)"
    (tmp_path / "Versions/Base75689.old").mkdir(parents=True)
    (tmp_path / "Versions/Base11111").mkdir()
    (tmp_path / "Versions/Base22222").mkdir()
    (tmp_path / "Versions/Base22222/SC2_x64").write_text("not executable")
    assert sc2.installation(tmp_path).builds == ()


def test_a_folder_without_a_game_says_what_to_do(tmp_path):
    with pytest.raises(errors.ConfigError, match="--sc2 skirmish"):
        sc2.installation(tmp_path)


def test_a_missing_version_names_the_versions_found(root):
    found = sc2.installation(root)
    with pytest.raises(errors.EngineMissing) as caught:
        found.executable("4.10.0.75689", 75689, None)
    assert "needs game version 4.10.0 (build 75689)" in str(caught.value)
    assert "found 4.9.1 (build 74456), 4.9.2 (build 74741)" in str(caught.value)


def test_the_replays_data_version_wins_over_the_table(root):
    found = sc2.installation(root)
    known = found.executable("4.9.2", 74741, None)
    assert known.data_version == "614480EF79264B5BD084E57F912172FF"
    assert found.executable("4.9.2", 74741, "AB" * 16).data_version == "AB" * 16


def test_the_version_table_is_pysc2s():
    # A process of its own: pysc2 defines flags when it is imported.
    code = (
        "import json\nfrom starmill.converters import protos\n"
        "from pysc2.run_configs import lib\n"
        "print(json.dumps([[v.game_version, v.build_version, v.data_version] "
        "for v in lib.VERSIONS.values()]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert [list(row) for row in sc2.GAME_VERSIONS.values()] == theirs


def test_games_are_reused_and_nothing_of_them_is_left(root):
    with pool(root) as made:
        folder = made._spawner.folder
        with made.lease(newest(made), 2) as games:
            pids = {game.pid for game in games}
            assert all(is_running(pid) for pid in pids)
        with made.lease(newest(made)) as (game,):
            assert game.pid in pids
        assert made.started == 2
        assert len(list(folder.iterdir())) == 2
    assert not any(is_running(pid) for pid in pids)
    assert not folder.exists()


def test_threads_share_the_pool_and_never_a_game(root):
    at_once: set[int] = set()
    clashes: list[int] = []
    lock = threading.Lock()

    def use(made):
        for _ in range(10):
            with made.lease(newest(made)) as (game,):
                with lock:
                    clashes.extend(at_once & {game.pid})
                    at_once.add(game.pid)
                game.client.call(_ping(), 10)
                with lock:
                    at_once.remove(game.pid)

    with pool(root) as made:
        threads = [threading.Thread(target=use, args=(made,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made.started <= 3
    assert clashes == []


def _ping():
    return sc2api_pb2.Request(ping=sc2api_pb2.RequestPing())


def test_a_game_is_replaced_after_its_replays_and_after_an_error(root):
    with pool(root, max_replays=2) as made:
        seen = []
        for _ in range(3):
            with made.lease(newest(made)) as (game,):
                seen.append(game.pid)
        assert seen[0] == seen[1] != seen[2]
        with pytest.raises(errors.EngineDesync), made.lease(newest(made)) as (game,):
            assert game.pid == seen[2]
            raise errors.EngineDesync("not what was recorded")
        assert not is_running(seen[2])


def test_a_game_with_an_unread_answer_is_not_reused(root):
    with pool(root) as made:
        with made.lease(newest(made)) as (game,):
            first = game.pid
            game.client.send(_ping(), 10)
        with made.lease(newest(made)) as (game,):
            assert game.pid != first


def test_a_game_that_grew_is_replaced(root):
    with pool(root, max_growth_bytes=1 << 20) as made:
        with made.lease(newest(made)) as (game,):
            first = game.pid
            game._first_rss_bytes = game.rss_bytes() - (2 << 20)
        with made.lease(newest(made)) as (game,):
            assert game.pid != first


def test_refused_replays_leave_the_game_as_it_was(root):
    with pool(root) as made:
        with pytest.raises(errors.ReplayError), made.lease(newest(made)) as (game,):
            first = game.pid
            raise errors.ReplayError("engine_refused", "no")
        with made.lease(newest(made)) as (game,):
            assert game.pid == first


def test_the_longest_unused_version_goes_when_too_many_wait(root):
    with pool(root, max_idle=1) as made:
        older = made.installation.executable("4.9.1", 74456, None)
        with made.lease(older) as (game,):
            first = game.pid
        with made.lease(newest(made)):
            pass
        assert not is_running(first)
        assert [g.executable.base_build for g in made._idle] == [74741]


def test_a_game_killed_from_outside_is_told_from_one_that_crashed(root):
    with pool(root) as made:
        with pytest.raises(errors.EngineKilled), made.lease(newest(made)) as (game,):
            os.kill(game.pid, signal.SIGKILL)
            game.client.call(_ping(), 10)
        with (
            pytest.raises(errors.EngineCrashed) as caught,
            made.lease(newest(made)) as (game,),
        ):
            os.kill(game.pid, signal.SIGSEGV)
            game.client.call(_ping(), 10)
        assert not isinstance(caught.value, errors.EngineKilled)


def test_a_game_that_died_while_it_waited_is_not_handed_out(root):
    with pool(root) as made:
        with made.lease(newest(made)) as (game,):
            first = game
        os.kill(first.pid, signal.SIGKILL)
        # Not only a zombie: its threads hold the connection a moment longer.
        assert wait_until(lambda: first.exit_status() is not None)
        with made.lease(newest(made)) as (game,):
            assert game is not first
            game.client.call(_ping(), 10)


def test_a_game_that_does_not_start_is_an_engines_error(root, tmp_path):
    binary = tmp_path / "Versions/Base74741/SC2_x64"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    binary.chmod(0o755)
    with pool(tmp_path) as made:
        with (
            pytest.raises(errors.EngineCrashed, match="while it was starting"),
            made.lease(newest(made)),
        ):
            pass
        assert list(made._spawner.folder.iterdir()) == []


def test_the_spawners_death_ends_its_games_and_the_pool_recovers(root):
    with pool(root) as made:
        with made.lease(newest(made)) as (game,):
            first = game.pid
        os.kill(made._spawner._process.pid, signal.SIGKILL)
        assert wait_until(lambda: not is_running(first))
        with made.lease(newest(made)) as (game,):
            assert game.pid != first


# A parent that leases two games, one of them with a child of its own, and then waits.
_PARENT = """
import sys, time
from starmill.engines import sc2
pool = sc2.Pool(sc2.PoolConfig(root=sys.argv[1]))
exe = pool.installation.executable("4.9.2", 74741, None)
with pool.lease(exe, 2) as games:
    print(*[g.pid for g in games], pool._spawner.folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_orphans_whatever_ends_the_parent(root, number):
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with parent:
        *pids, folder = parent.stdout.readline().split()
        assert all(is_running(int(pid)) for pid in pids)
        os.killpg(parent.pid, number)
        parent.wait(30)
    assert wait_until(lambda: not any(is_running(int(pid)) for pid in pids))
    assert wait_until(lambda: not Path(folder).exists())


def test_a_wrapped_game_ends_with_its_group(root, tmp_path):
    # A launcher that does not exec: the game is a grandchild.
    real = root / "Versions/Base74741/SC2_x64"
    binary = tmp_path / "Versions/Base74741/SC2_x64"
    binary.parent.mkdir(parents=True)
    binary.write_text(f'#!/bin/sh\nsleep 1000 & "{real}" "$@"\n')
    binary.chmod(0o755)
    with pool(tmp_path) as made, made.lease(newest(made)) as (game,):
        group = game.pid
        members = _group_members(group)
        assert len(members) >= 3
    assert wait_until(lambda: not any(is_running(pid) for pid in members))


def _group_members(group: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(int(folder.name)) == group:
                    found.append(int(folder.name))
    return found


def test_shared_pools_are_one_per_configuration_and_close_with_the_last_user(root):
    config = sc2.PoolConfig(root=str(root), deadlines=DEADLINES)
    first, second = sc2.open_shared(config), sc2.open_shared(config)
    assert first is second
    sc2.close_shared(first)
    with second.lease(newest(second)) as (game,):
        pid = game.pid
    sc2.close_shared(second)
    assert not is_running(pid)
    third = sc2.open_shared(config)
    assert third is not first
    sc2.close_shared(third)


def test_the_embedded_game_needs_no_installation():
    with pool(Path("skirmish")) as made:
        assert 74741 in made.installation.builds
        folder = made._spawner.folder
        with made.lease(newest(made)) as (game,):
            game.client.call(_ping(), 10)
    assert not folder.exists()


def test_pool_bounds_are_checked():
    with pytest.raises(errors.ConfigError, match="max_replays"):
        sc2.PoolConfig(root="x", max_replays=0)
