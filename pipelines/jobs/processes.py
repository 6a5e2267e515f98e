"""Applies a function to every shard of a dataset, in processes of this machine.

In: a function of a shard's number. Out: its results, ordered by number. `shard_job` does the same
as a Beam job. Must not know what the function does, or Beam.
"""

import concurrent.futures
import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from starmill.schema import errors

# Number of a shard -> a result that JSON can hold. It must be possible to pickle it.
Work = Callable[[int], Any]
# (work, number of shards) -> results in order.
Run = Callable[[Work, int], list[Any]]

# What this worker process does with each number.
_work: list[Work] = []


def run(
    work: Work,
    count: int,
    *,
    processes: int = 1,
    on_done: Callable[[], None] = lambda: None,
) -> list[Any]:
    """Returns work(0) to work(count - 1).

    Args:
        work: is pickled once for each process; with one process it is called here.
        count: how many shards there are.
        processes: of this machine.
        on_done: called here after each shard.
    """
    processes = min(processes, count)
    if processes <= 1:
        return [_noted(work(number), on_done) for number in range(count)]
    others = set(multiprocessing.active_children())
    with concurrent.futures.ProcessPoolExecutor(
        processes,
        # Not fork: this process may have threads that hold locks.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(work,),
    ) as pool:
        try:
            futures = [pool.submit(_call, number) for number in range(count)]
            for future in concurrent.futures.as_completed(futures):
                future.result()
                on_done()
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise errors.EngineError(
                "a worker process died; this machine may be short of memory: run the "
                "command again with fewer --workers"
            ) from error
        finally:
            # Cancels what nobody needs any more, for example after Ctrl-C.
            for future in futures:
                future.cancel()
            if any(not future.done() for future in futures):
                for process in set(multiprocessing.active_children()) - others:
                    process.kill()


def _noted(result: Any, on_done: Callable[[], None]) -> Any:
    on_done()
    return result


def _start(work: Work) -> None:
    # Ctrl-C reaches all processes, but the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work[:] = [work]


def _call(number: int) -> Any:
    return _work[0](number)
