"""Handles what Beam's local runner does not: a worker process that dies, and ending them all.

Beam's local runner waits forever for a worker process that was killed. It only raises in a
background thread. This module turns that into `WorkerLost` in the main thread, so that the
command can start again; it skips what is finished.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from starmill.schema import errors

# How Beam's thread reports that the process it waits for ended with an error.
_DIED = "Worker subprocess exited with return code"
# Python processes that inherit it do not import from the folder that they are started in.
SAFE_PATH = "PYTHONSAFEPATH"


class WorkerLost(errors.StarmillError):
    """A worker process on this machine died. The job can start again."""


@contextlib.contextmanager
def imports_from_installation() -> Iterator[None]:
    """Keeps worker processes that start in the block from importing from the working folder.

    Beam starts them with `python -m`. A folder there that is called starmill, such as a clone,
    would take the place of the installed package.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Raises WorkerLost inside the block when one of Beam's worker processes dies.

    It does nothing outside the main thread, because only the main thread receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reports: list[str] = []

    def on_thread_error(args: threading.ExceptHookArgs) -> None:
        if _DIED in str(args.exc_value):
            reports.append(str(args.exc_value))
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            before_hook(args)

    def on_signal(number: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches the whole process group. A worker that died of it means that the
        # user wants to stop, even if this process has not seen its own signal yet.
        if any(text.endswith(f"code {-signal.SIGINT}") for text in reports):
            raise KeyboardInterrupt
        raise WorkerLost(reports[-1] if reports else "a worker process died")

    before_hook = threading.excepthook
    before_signal = signal.signal(signal.SIGUSR1, on_signal)
    threading.excepthook = on_thread_error
    try:
        yield
    finally:
        threading.excepthook = before_hook
        signal.signal(signal.SIGUSR1, before_signal)


def end_children() -> None:
    """Kills this process's workers and what they started in the same session.

    Each worker's spawner then ends the worker's games.
    """
    for pid in _descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Returns the descendants of a process that share this process's session."""
    descendants = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                # Spawners of games have their own sessions. They must live to clean up.
                with contextlib.suppress(ProcessLookupError):
                    if os.getsid(child) == os.getsid(0):
                        descendants += [child, *_descendants(child)]
    return descendants
