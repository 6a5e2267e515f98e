"""Work on shards in processes: the same results, and nothing waits for the dead."""

import multiprocessing
import os
import signal

import pytest

from starmill.pipelines.jobs import processes
from starmill.schema import errors


def square(number: int) -> int:
    return number * number


def die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(number: int) -> int:
    if number == 2:
        raise errors.ShardCorrupt(f"shard {number}")
    return number


@pytest.mark.parametrize("workers", [1, 3])
def test_results_are_in_order(workers):
    done = []
    results = processes.run(
        square, 7, processes=workers, on_done=lambda: done.append(1)
    )
    assert results == [0, 1, 4, 9, 16, 25, 36]
    assert len(done) == 7
    assert processes.run(square, 0, processes=workers) == []


def test_a_killed_process_is_an_error_that_says_what_to_do():
    with pytest.raises(errors.EngineError, match="fewer --workers"):
        processes.run(die, 6, processes=2)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_work_is_raised_here(workers):
    with pytest.raises(errors.ShardCorrupt, match="shard 2"):
        processes.run(fail, 6, processes=workers)
    assert multiprocessing.active_children() == []
