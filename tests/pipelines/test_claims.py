"""Claims: one process at a time, taken over when it has ended, on disks and object stores."""

import itertools
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from starmill.pipelines import claims
from starmill.schema import errors, storage
from tests import s3_server

_FOLDER = itertools.count()


@pytest.fixture(scope="module")
def bucket():
    with s3_server.running() as (url, _):
        yield url


@pytest.fixture(
    params=[
        "disk",
        "memory",
        pytest.param(
            "s3", marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
        ),
    ]
)
def folder(request, tmp_path) -> str:
    if request.param == "memory":
        return f"memory://claims-{next(_FOLDER)}"
    if request.param == "s3":
        return f"{request.getfixturevalue('bucket')}/claims-{next(_FOLDER)}"
    return str(tmp_path / "data")


def test_a_folder_has_one_owner_at_a_time(folder):
    with claims.held([folder]) as (ours,):
        ours.check()
        with pytest.raises(
            errors.ConfigError, match=f"process {os.getpid()} on .* is writing to it"
        ):
            claims.claim(folder)
    with claims.held([folder]) as (again,):
        again.check()
        with pytest.raises(errors.ConfigError, match="has taken it over"):
            claims.check(folder, ours.token)
    assert storage.names(folder) == []


def test_of_many_that_claim_at_once_one_succeeds(folder):
    owners, refused = [], []
    barrier = threading.Barrier(8)

    def contend():
        barrier.wait()
        try:
            owners.append(claims.claim(folder))
        except errors.ConfigError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(owners), len(refused)) == (1, 7)
    owners[0].release()


def _hold(folder, ready):
    claims.claim(folder)
    ready.set()
    time.sleep(600)


def test_the_claim_of_a_killed_process_is_taken_over(tmp_path):
    folder = str(tmp_path)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(folder, ready))
    process.start()
    assert ready.wait(60)
    with pytest.raises(errors.ConfigError, match=f"process {process.pid}"):
        claims.claim(folder)
    process.kill()
    process.join()
    with claims.held([folder]) as (ours,):
        ours.check()
    assert storage.names(folder) == []


def _owner(**changes) -> bytes:
    return json.dumps({**json.loads(claims._facts("theirs")), **changes}).encode()


def _claimed_by(folder: str, **changes) -> None:
    storage.write(claims._numbered_url(folder, 3), _owner(**changes))


@pytest.mark.parametrize(
    "ended",
    [
        {"pid": 2**22 + 1},  # above the highest number that Linux gives
        {"began": 1},  # the number belongs to another process now
        {"boot": "an earlier start of the machine"},
        {"pid": "x"},
    ],
)
def test_on_a_store_the_claim_of_a_process_that_ended_here_is_taken_over(ended):
    folder = f"memory://ended-{next(_FOLDER)}"
    _claimed_by(folder, **ended)
    with claims.held([folder]) as (ours,):
        ours.check()
        with pytest.raises(errors.ConfigError, match="has taken it over"):
            claims.check(folder, "theirs")
    assert storage.names(folder) == []


def test_on_a_store_another_machines_claim_is_taken_over_on_demand():
    folder = f"memory://other-{next(_FOLDER)}"
    _claimed_by(folder, host=f"not-{socket.gethostname()}", pid=12)
    with pytest.raises(errors.ConfigError, match="process 12 on not-.*--take-over"):
        claims.claim(folder)
    with claims.held([folder], take_over=True) as (ours,):
        ours.check()


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"token": null}', b"\xff"])
def test_a_damaged_claim_is_not_taken_for_an_ended_one(content):
    folder = f"memory://damaged-{next(_FOLDER)}"
    storage.write(claims._numbered_url(folder, 1), content)
    with pytest.raises(errors.ConfigError, match="--take-over"):
        claims.claim(folder)
    with claims.held([folder], take_over=True):
        pass


def test_a_store_that_answers_badly_does_not_give_the_claim_twice(monkeypatch):
    """The request arrived, but its answer did not: what the store holds decides."""
    folder = f"memory://cut-{next(_FOLDER)}"
    filesystem, _ = storage.filesystem_of(folder)
    real = filesystem.pipe_file

    def cut(path, data, **options):
        real(path, data, **options)
        raise OSError("connection lost")

    monkeypatch.setattr(type(filesystem), "pipe_file", staticmethod(cut))
    with claims.held([folder]) as (ours,):
        ours.check()
        with pytest.raises(errors.ConfigError):
            claims.claim(folder)


def test_a_process_that_starts_anew_can_claim_again(tmp_path):
    """`generate` starts itself again, with the same number, when it loses a worker."""
    script = (
        "import os, sys\n"
        "from starmill.pipelines import claims\n"
        "claims.claim(sys.argv[1])\n"
        "claims.claim(sys.argv[2]) if len(sys.argv) > 2 else None\n"
        "print('claimed', flush=True)\n"
        "if not os.environ.get('AGAIN'):\n"
        "    os.environ['AGAIN'] = '1'\n"
        "    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["claimed", "claimed"], done.stderr


def test_children_do_not_keep_the_claim(tmp_path):
    ours = claims.claim(str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        ours.release()
        claims.claim(str(tmp_path)).release()
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
