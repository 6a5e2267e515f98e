"""A pool of real processes of the embedded game."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from starmill.converters.protos import sc2api_pb2
from starmill.engines.pool import (
    SKIRMISH,
    Deadlines,
    Pool,
    PoolConfig,
    close_shared,
    open_shared,
)
from starmill.engines.skirmish import install, versions
from starmill.schema import errors

DEADLINES = Deadlines(start=60, load=60, play=20)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sc2")
    install.install(folder, versions.VERSIONS[-2:])
    return folder


@contextlib.contextmanager
def open_pool(root: Path, **options):
    pool = Pool(PoolConfig(root=str(root), deadlines=DEADLINES, **options))
    try:
        yield pool
    finally:
        pool.close()


def newest(pool: Pool):
    return pool.installation.executable("4.9.2.74741", 74741, None)


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


def test_games_are_reused_and_nothing_of_them_is_left(root):
    with open_pool(root) as pool:
        folder = pool._spawner.folder
        with pool.lease(newest(pool), 2) as games:
            pids = {game.pid for game in games}
            assert all(is_running(pid) for pid in pids)
        with pool.lease(newest(pool)) as (game,):
            assert game.pid in pids
        assert pool.started == 2
        assert len(list(folder.iterdir())) == 2
    assert not any(is_running(pid) for pid in pids)
    assert not folder.exists()


def test_threads_share_the_pool_and_never_a_game(root):
    at_once: set[int] = set()
    clashes: list[int] = []
    lock = threading.Lock()

    def use(pool):
        for _ in range(10):
            with pool.lease(newest(pool)) as (game,):
                with lock:
                    clashes.extend(at_once & {game.pid})
                    at_once.add(game.pid)
                game.client.call(_ping(), 10)
                with lock:
                    at_once.remove(game.pid)

    with open_pool(root) as pool:
        threads = [threading.Thread(target=use, args=(pool,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pool.started <= 3
    assert clashes == []


def _ping():
    return sc2api_pb2.Request(ping=sc2api_pb2.RequestPing())


def test_a_game_is_replaced_after_its_replays_and_after_an_error(root):
    with open_pool(root, max_replays=2) as pool:
        seen = []
        for _ in range(3):
            with pool.lease(newest(pool)) as (game,):
                seen.append(game.pid)
        assert seen[0] == seen[1] != seen[2]
        with pytest.raises(errors.EngineDesync), pool.lease(newest(pool)) as (game,):
            assert game.pid == seen[2]
            raise errors.EngineDesync("not what was recorded")
        assert not is_running(seen[2])


def test_a_game_with_an_unread_answer_is_not_reused(root):
    with open_pool(root) as pool:
        with pool.lease(newest(pool)) as (game,):
            first = game.pid
            game.client.send(_ping(), 10)
        with pool.lease(newest(pool)) as (game,):
            assert game.pid != first


def test_a_game_that_grew_is_replaced(root):
    with open_pool(root, max_growth_bytes=1 << 20) as pool:
        with pool.lease(newest(pool)) as (game,):
            first = game.pid
            game._first_rss_bytes = game.rss_bytes() - (2 << 20)
        with pool.lease(newest(pool)) as (game,):
            assert game.pid != first


def test_refused_replays_leave_the_game_as_it_was(root):
    with open_pool(root) as pool:
        with pytest.raises(errors.ReplayError), pool.lease(newest(pool)) as (game,):
            first = game.pid
            raise errors.ReplayError("engine_refused", "no")
        with pool.lease(newest(pool)) as (game,):
            assert game.pid == first


def test_the_longest_unused_version_goes_when_too_many_wait(root):
    with open_pool(root, max_idle=1) as pool:
        older = pool.installation.executable("4.9.1", 74456, None)
        with pool.lease(older) as (game,):
            first = game.pid
        with pool.lease(newest(pool)):
            pass
        assert not is_running(first)
        assert [g.executable.base_build for g in pool._idle] == [74741]


def test_a_switch_of_version_ends_the_games_that_do_not_fit(root):
    with open_pool(root) as pool:
        older = pool.installation.executable("4.9.1", 74456, None)
        with pool.lease(older) as (game,):
            first, size = game.pid, game.rss_bytes()
        with pool.lease(newest(pool)) as (game,):
            assert is_running(first)  # there is room for both
    with open_pool(root, max_idle_bytes=round(1.7 * size)) as pool:
        with pool.lease(older) as (game,):
            first = game.pid
        with pool.lease(older) as (game,):
            assert game.pid == first
        with pool.lease(newest(pool)) as (game,):
            assert not is_running(first)
            second = game.pid
        assert [game.pid for game in pool._idle] == [second]


def test_a_game_killed_from_outside_is_told_from_one_that_crashed(root):
    with open_pool(root) as pool:
        with pytest.raises(errors.EngineKilled), pool.lease(newest(pool)) as (game,):
            os.kill(game.pid, signal.SIGKILL)
            game.client.call(_ping(), 10)
        with (
            pytest.raises(errors.EngineCrashed) as caught,
            pool.lease(newest(pool)) as (game,),
        ):
            os.kill(game.pid, signal.SIGSEGV)
            game.client.call(_ping(), 10)
        assert not isinstance(caught.value, errors.EngineKilled)


def test_a_game_that_died_while_it_waited_is_not_handed_out(root):
    with open_pool(root) as pool:
        with pool.lease(newest(pool)) as (game,):
            first = game
        os.kill(first.pid, signal.SIGKILL)
        # Not only a zombie: its threads hold the connection a moment longer.
        assert wait_until(lambda: first.exit_status() is not None)
        with pool.lease(newest(pool)) as (game,):
            assert game is not first
            game.client.call(_ping(), 10)


def test_a_game_that_does_not_start_is_an_engines_error(root, tmp_path):
    binary = tmp_path / "Versions/Base74741/SC2_x64"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    binary.chmod(0o755)
    with open_pool(tmp_path) as pool:
        with (
            pytest.raises(errors.EngineCrashed, match="while it was starting"),
            pool.lease(newest(pool)),
        ):
            pass
        assert list(pool._spawner.folder.iterdir()) == []


def test_the_spawners_death_ends_its_games_and_the_pool_recovers(root):
    with open_pool(root) as pool:
        with pool.lease(newest(pool)) as (game,):
            first = game.pid
        os.kill(pool._spawner._process.pid, signal.SIGKILL)
        assert wait_until(lambda: not is_running(first))
        with pool.lease(newest(pool)) as (game,):
            assert game.pid != first


# A parent that leases two games, one of them with a child of its own, and then waits.
_PARENT = """
import sys, time
from starmill.engines.pool import Pool, PoolConfig
pool = Pool(PoolConfig(root=sys.argv[1]))
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
    with open_pool(tmp_path) as pool, pool.lease(newest(pool)) as (game,):
        group = game.pid
        members = _group_members(group)
        assert len(members) >= 3
    assert wait_until(lambda: not any(is_running(pid) for pid in members))


def _group_members(group: int) -> list[int]:
    collected = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(int(folder.name)) == group:
                    collected.append(int(folder.name))
    return collected


def test_shared_pools_are_one_per_configuration_and_close_with_the_last_user(root):
    config = PoolConfig(root=str(root), deadlines=DEADLINES)
    first, second = open_shared(config), open_shared(config)
    assert first is second
    close_shared(first)
    with second.lease(newest(second)) as (game,):
        pid = game.pid
    close_shared(second)
    assert not is_running(pid)
    third = open_shared(config)
    assert third is not first
    close_shared(third)


def test_the_embedded_game_needs_no_installation():
    with open_pool(Path(SKIRMISH)) as pool:
        assert 74741 in pool.installation.builds
        folder = pool._spawner.folder
        with pool.lease(newest(pool)) as (game,):
            game.client.call(_ping(), 10)
    assert not folder.exists()


def test_pool_bounds_are_checked():
    with pytest.raises(errors.ConfigError, match="max_replays"):
        PoolConfig(root="x", max_replays=0)


def test_an_executable_outlives_the_spawner(root):
    """The embedded game's binary is in the spawner's folder; callers keep its path."""
    with open_pool(Path(SKIRMISH)) as pool:
        executable = newest(pool)
        with (
            pytest.raises(errors.EngineKilled),
            pool.lease(executable) as (game,),
        ):
            os.kill(pool._spawner._process.pid, signal.SIGKILL)
            assert wait_until(lambda: not is_running(game.pid))
            game.client.call(_ping(), 10)
        with pool.lease(executable) as (game,):
            game.client.call(_ping(), 10)
        assert newest(pool) == executable
        folder = pool._spawner.folder
        assert len([entry for entry in folder.iterdir() if entry.name.isdigit()]) == 1
    assert not folder.exists()
