"""Iterates over batches, built in this process or ahead of it in worker processes.

In: a `BatchMaker`. Out: its batches in order. Worker n modulo the number of workers builds batch
n, in shared memory. A batch depends on its number alone, so the batches and their order are the
same with any number of workers, and without any. Must not know what is in a batch.
"""

import contextlib
import mmap
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from multiprocessing import connection
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors
from starmill.schema.loader import batch_options, batches, slots
from starmill.schema.loader.batch_options import BatchPlan
from starmill.schema.loader.episode_index import EpisodeIndex
from starmill.schema.settings import ConverterSettings

_POLL_SECONDS = 1.0


class BatchIterator(Iterator[batches.Batch]):
    """Yields batches in order; made by `Dataset.batches`.

    As a context manager it ends its workers on leaving; so does the end of the iteration.
    Arrays of a batch stay valid for as long as something refers to them.

    Attributes:
        batch_bytes: the most that a batch's arrays take.
    """

    def __init__(
        self,
        maker: batches.BatchMaker,
        dataset: int,
        *,
        workers: int,
        position: int = 0,
    ) -> None:
        self._team: list[_Worker] = []
        if workers < 0:
            raise errors.ConfigError(f"workers: must be at least 0, found {workers}")
        self._maker = maker
        self.batch_bytes = maker.size_bytes
        self._dataset = dataset
        self._position = position
        self._workers = workers
        self._pool = batches.BufferPool(maker.size_bytes)
        self._next_request = position

    def get_state(self) -> dict[str, int]:
        """Returns where the iteration is, as three integers that can be stored as JSON."""
        return {
            "position": self._position,
            "options": self._maker.plan.fingerprint(),
            "dataset": self._dataset,
        }

    def set_state(self, state: dict[str, int]) -> None:
        """Continues where an earlier iteration was when its `get_state` returned `state`."""
        position = batch_options.check_state(state, self._maker.plan, self._dataset)
        self.close()
        self._position = position

    def __next__(self) -> batches.Batch:
        """Returns the next batch."""
        last = self._maker.batches
        if last is not None and self._position >= last:
            self.close()
            raise StopIteration
        batch = self._from_worker() if self._workers else self._local()
        self._position += 1
        return batch

    def close(self) -> None:
        """Ends the worker processes."""
        for worker in self._team:
            worker.stop()
        self._team = []

    def __enter__(self) -> "BatchIterator":
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the worker processes."""
        self.close()

    def __del__(self) -> None:
        self.close()

    def _local(self) -> batches.Batch:
        arrays = batches.views(self._maker.layout, self._pool.take())
        rows = self._maker.make(self._position, arrays)
        return batches.trim(arrays, rows)

    def _from_worker(self) -> batches.Batch:
        if not self._team:
            self._next_request = self._position
            self._start()
        self._request_ahead()
        worker = self._team[self._position % self._workers]
        slot, rows = worker.result(self._position)
        arrays = batches.views(self._maker.layout, worker.lend(slot))
        if worker.is_starved:
            # All its slots are lent. Copy, or the worker would wait until this batch is gone.
            copies = batches.views(self._maker.layout, self._pool.take())
            for key, array in batches.trim(arrays, rows).items():
                np.copyto(copies[key][: len(array)], array)
            arrays = copies
        self._request_ahead()
        return batches.trim(arrays, rows)

    def _start(self) -> None:
        """Starts the workers, which map one shared copy of the index."""
        maker = self._maker
        with maker.index.in_files() as shared:
            inputs = _MakerInputs(maker.plan, maker.settings, maker.folder, str(shared))
            size = max(maker.size_bytes, 1)
            place = slots.place(size, self._workers)
            self._team = [_Worker(inputs, size, place, n) for n in range(self._workers)]
            for worker in self._team:
                worker.wait_ready()

    def _request_ahead(self) -> None:
        """Requests the next batches, up to the first one whose worker has no free slot."""
        last = self._maker.batches
        while last is None or self._next_request < last:
            worker = self._team[self._next_request % self._workers]
            if not worker.is_free:
                return
            worker.request(self._next_request)
            self._next_request += 1


class _MakerInputs(NamedTuple):
    """What a worker process needs to build its own `BatchMaker`.

    Attributes:
        plan: what batches contain.
        settings: of the dataset.
        folder: path or URL of the dataset.
        shared: folder with the arrays of the index, for `EpisodeIndex.shared`.
    """

    plan: BatchPlan
    settings: ConverterSettings
    folder: str
    shared: str

    def maker(self) -> batches.BatchMaker:
        """Returns the maker."""
        index = EpisodeIndex.shared(Path(self.shared))
        return batches.BatchMaker(self.plan, self.settings, index, self.folder)


class _Worker:
    """A process that builds batches in slots of shared memory."""

    def __init__(
        self, inputs: "_MakerInputs", size: int, place: slots.Place, number: int
    ) -> None:
        self._paths = []
        self._slots = []
        for _ in range(place.slots):
            descriptor, path = tempfile.mkstemp(prefix="starmill-", dir=place.folder)
            os.ftruncate(descriptor, size)
            self._slots.append(mmap.mmap(descriptor, size))
            os.close(descriptor)
            self._paths.append(path)
        self._idle = list(range(place.slots))
        self._pending = 0
        context = multiprocessing.get_context("spawn")
        self._pipe, worker_end = context.Pipe()
        self._process = context.Process(
            target=_work,
            args=(worker_end, inputs, self._paths),
            name=f"starmill-loader-{number}",
            daemon=True,
        )
        self._process.start()
        worker_end.close()

    def wait_ready(self) -> None:
        """Waits until the process has mapped its slots."""
        try:
            self._receive("it was ready")
        finally:
            self._unlink()

    @property
    def is_free(self) -> bool:
        """Returns whether a slot is neither being filled nor lent."""
        return bool(self._idle)

    @property
    def is_starved(self) -> bool:
        """Returns whether all slots are lent to readers."""
        return not self._idle and self._pending == 0

    def request(self, batch: int) -> None:
        """Tells the process to build a batch; there must be an idle slot."""
        self._pending += 1
        try:
            self._pipe.send((batch, self._idle.pop()))
        except BrokenPipeError as error:
            raise self._death(f"it was asked for batch {batch}") from error

    def result(self, batch: int) -> tuple[int, int]:
        """Waits for a requested batch; returns its slot, and the rows of `units` in use."""
        number, slot, rows = self._receive(f"it delivered batch {batch}")
        if number != batch:
            raise AssertionError(f"expected batch {batch}, the worker built {number}")
        self._pending -= 1
        return slot, rows

    def lend(self, slot: int) -> NDArray[np.uint8]:
        """Returns a slot's memory; the slot is idle again once no array refers to it."""
        idle = self._idle
        return batches.lend(self._slots[slot], lambda _: idle.append(slot))

    def _unlink(self) -> None:
        # Both processes have mapped the files by now, or the worker has ended.
        while self._paths:
            Path(self._paths.pop()).unlink()

    def stop(self) -> None:
        """Ends the process."""
        self._unlink()
        with contextlib.suppress(BrokenPipeError, OSError):
            self._pipe.send(None)
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._process.close()

    def _receive(self, event: str) -> Any:
        try:
            while not self._pipe.poll(_POLL_SECONDS):
                if not self._process.is_alive() and not self._pipe.poll():
                    raise self._death(event)
            answer = self._pipe.recv()
        except (EOFError, ConnectionResetError) as error:
            raise self._death(event) from error
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _death(self, event: str) -> errors.StarmillError:
        """Returns the error for a process that ended before an event."""
        self._process.join(timeout=1)
        code = self._process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
        advice = "If it ran out of memory, use fewer workers or smaller batches"
        if code == -signal.SIGBUS:
            advice = (
                f"{slots.SHARED} or the disk of the temporary folder is full: start the "
                "container with a larger --shm-size, or use fewer workers or smaller batches"
            )
        return errors.StarmillError(
            f"loader worker {self._process.name} exited ({how}) before {event}. {advice}"
        )


def _work(pipe: connection.Connection, inputs: _MakerInputs, paths: list[str]) -> None:
    """Runs in a worker process: builds the requested batches until it is told to end."""
    # On an interrupt, the parent process ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    maker = inputs.maker()
    buffers = []
    for path in paths:
        with Path(path).open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
            buffers.append(np.frombuffer(memory, np.uint8))
    # The parent process may end at any moment; then the worker ends too.
    with contextlib.suppress(EOFError, ConnectionError):
        pipe.send("ready")
        while (task := pipe.recv()) is not None:
            batch, slot = task
            try:
                rows = maker.make(batch, batches.views(maker.layout, buffers[slot]))
            except errors.StarmillError as error:
                pipe.send(error)
                return
            pipe.send((batch, slot, rows))
