"""Workers end with whoever started them, even if that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import concurrent.futures, multiprocessing, os, time
from starmill.engines import lifeline
if __name__ == "__main__":
    pool = concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), lifeline.end_with_parent)
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 600).result()
"""


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        return stat.rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> None:
    """Returns once the process has ended; fails if it goes on for a minute."""
    deadline = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


def test_workers_end_when_their_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as it:
        worker = int(it.stdout.readline())
        os.kill(worker, 0)
        it.send_signal(signal.SIGKILL)
    wait_for_end(worker)
