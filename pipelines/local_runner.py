"""What Beam's local runner leaves open: noticing that a worker process died, and ending all.

Beam's local runner waits forever for a worker process that was killed. It only raises in a
background thread; here that becomes `WorkerLost` in the main thread, so that the command can
begin again (what is finished is not played again).
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from starmill.schema import errors

# What Beam's thread says when the process it waits for has ended with an error.
_DIED = "Worker subprocess exited with return code"


class WorkerLost(errors.StarmillError):
    """A worker process on this machine died; the job can be begun again."""


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Raises WorkerLost in the block when a worker process of Beam's dies under it.

    Only in the main thread, where signals arrive; elsewhere it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    said: list[str] = []

    def on_thread_error(args: threading.ExceptHookArgs) -> None:
        if _DIED in str(args.exc_value):
            said.append(str(args.exc_value))
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            before_hook(args)

    def on_signal(number: int, frame: FrameType | None) -> None:
        # Ctrl-C reaches the whole process group: a worker that ended by it says that
        # somebody wants to stop, even where that is seen before our own signal.
        if any(text.endswith(f"code {-signal.SIGINT}") for text in said):
            raise KeyboardInterrupt
        raise WorkerLost(said[-1] if said else "a worker process died")

    before_hook = threading.excepthook
    before_signal = signal.signal(signal.SIGUSR1, on_signal)
    threading.excepthook = on_thread_error
    try:
        yield
    finally:
        threading.excepthook = before_hook
        signal.signal(signal.SIGUSR1, before_signal)


def end_children() -> None:
    """Kills the worker processes of this one, and what they started as shells.

    Their games end with them: each worker's spawner sees to that.
    """
    for pid in _descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Returns children, and theirs as long as they share this process's session."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                # Spawners of games have sessions of their own, and are left to clean up.
                with contextlib.suppress(ProcessLookupError):
                    if os.getsid(child) == os.getsid(0):
                        found += [child, *_descendants(child)]
    return found
