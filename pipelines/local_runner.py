"""Handles what Beam's local runner does not: a worker process that dies, and ending them all.

Beam's local runner waits forever for a worker process that was killed. It only raises in a
background thread. Beam also waits for its workers after an interrupt, and they may be waiting for
it. So `LocalRunner` runs the job on a thread, and waits for the job's end, an interrupt, or the end
of a worker. After the latter two, it ends all workers and goes on without the job. The command can
start again; it skips what is finished. The workers themselves ignore interrupts.
"""

import atexit
import concurrent.futures
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from apache_beam import pipeline as beam_pipeline
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers

from starmill.schema import errors

_LOG = logging.getLogger(__name__)
# How Beam's thread reports that the process it waits for ended with an error.
_DIED = "Worker subprocess exited with return code"
# Python processes that inherit it do not import from the folder that they are started in.
SAFE_PATH = "PYTHONSAFEPATH"
# In front of a worker's command line. What a shell ignores, the program that it becomes ignores.
_IGNORING_INTERRUPTS = b"trap '' INT; exec "
_WORKER = b"sdk_worker_main"
_LOCAL = "FnApiRunner"
# For so long, Beam's threads may start workers that they had begun to start.
_LATE_ROUNDS, _LATE_SECONDS = 50, 0.1


class WorkerLost(errors.StarmillError):
    """A worker process on this machine died. The job can start again."""


class LocalRunner(fn_runner.FnApiRunner):  # type: ignore[misc]  # Beam has no types
    """Beam's runner on this machine, which an interrupt ends at any moment."""

    def run_via_runner_api(
        self, pipeline_proto: beam_runner_api_pb2.Pipeline, options: PipelineOptions
    ) -> Any:
        """Runs the job to its end; on an interrupt, kills the worker processes first."""
        environments = pipeline_proto.components.environments.values()
        in_processes = False
        for environment in environments:
            if environment.urn == python_urns.SUBPROCESS_SDK:
                environment.payload = _IGNORING_INTERRUPTS + environment.payload
                in_processes = True
        run = super().run_via_runner_api
        if not in_processes:
            return run(pipeline_proto, options)
        outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def work() -> None:
            try:
                result = run(pipeline_proto, options)
            except BaseException as error:  # noqa: BLE001  # the thread that waits raises it
                _settle(outcome, error)
            else:
                _settle(outcome, None, result)

        job = threading.Thread(target=work, daemon=True, name="job")
        with _watched(outcome):
            job.start()
            try:
                return outcome.result()
            except (KeyboardInterrupt, WorkerLost):
                _ignore_ends_of_workers()
                _end_workers()
                atexit.register(_end_workers_at_exit)
                late = threading.Thread(
                    target=_end_late_workers, args=(job,), daemon=True
                )
                late.start()
                raise


def _settle(
    outcome: concurrent.futures.Future[Any],
    error: BaseException | None,
    result: Any = None,
) -> None:
    """Ends the wait for a job; what comes first counts."""
    with contextlib.suppress(concurrent.futures.InvalidStateError):
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)


@contextlib.contextmanager
def _watched(outcome: concurrent.futures.Future[Any]) -> Iterator[None]:
    """Ends the wait for a job when one of Beam's worker processes dies inside the block."""

    def hook(args: threading.ExceptHookArgs) -> None:
        text = str(args.exc_value)
        if _DIED not in text:
            before(args)
        elif text.endswith(f"code {-signal.SIGINT}"):
            # Ctrl-C reaches the whole process group, and a worker's shell ignores it only a
            # moment after its start. A worker that died of it means that the user wants to
            # stop, even if this process has not seen its own signal yet.
            _settle(outcome, KeyboardInterrupt())
        else:
            _settle(outcome, WorkerLost(text))

    before = threading.excepthook
    threading.excepthook = hook
    try:
        yield
    finally:
        # After an interrupt, a hook over this one ignores the ends of workers.
        if threading.excepthook is hook:
            threading.excepthook = before


def _end_late_workers(job: threading.Thread) -> None:
    """Ends the workers that Beam's threads were about to start; the job waits for them."""
    for _ in range(_LATE_ROUNDS):
        if job.is_alive():
            time.sleep(_LATE_SECONDS)
            _end_workers()


def _end_workers_at_exit() -> None:
    """Ends the workers that Beam's threads started last, and lets them start no more."""
    worker_handlers.SUBPROCESS_LOCK.acquire()
    _end_workers()


def _end_workers() -> None:
    for pid in _descendants(os.getpid()):
        with contextlib.suppress(OSError):
            if _WORKER in Path(f"/proc/{pid}/cmdline").read_bytes():
                for process in [pid, *_descendants(pid)]:
                    _kill(process)


def _ignore_ends_of_workers() -> None:
    """Lets Beam's threads end without a traceback: what they talk to is gone.

    These are the threads of now, and those that wait for workers which they start later. Errors
    of other threads are shown.
    """
    ending = set(threading.enumerate())
    before = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        if args.thread in ending or _DIED in str(args.exc_value):
            _LOG.debug("a thread ended with its workers: %r", args.exc_value)
        else:
            before(args)

    threading.excepthook = hook


def new_pipeline(options: PipelineOptions) -> beam_pipeline.Pipeline:
    """Returns an empty pipeline for the runner that the options name."""
    is_local = options.view_as(StandardOptions).runner == _LOCAL
    return beam_pipeline.Pipeline(
        runner=LocalRunner() if is_local else None, options=options
    )


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


def ignore_interrupts() -> None:
    """Makes this process ignore interrupts from now on, whose end nothing shall disturb.

    One that has arrived and was not raised yet is dropped.
    """
    while signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        with contextlib.suppress(KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_children() -> None:
    """Kills this process's workers and what they started in the same session.

    Each worker's spawner then ends the worker's games.
    """
    _ignore_ends_of_workers()
    for pid in _descendants(os.getpid()):
        _kill(pid)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def exit_at_once(code: int) -> NoReturn:
    """Ends this process and its workers. A normal exit would wait for Beam's threads."""
    worker_handlers.SUBPROCESS_LOCK.acquire()  # no thread starts another worker
    end_children()
    os._exit(code)


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
