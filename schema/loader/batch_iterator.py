"""Iteration over batches: in this process, or ahead of it in worker processes.

In: a `BatchMaker`. Out: its batches in order. Batch n is made by worker n modulo the number
of workers, in shared memory; since a batch depends on its number alone, the order and the
content are the same with any number of workers, none included.
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
from starmill.schema.loader import batch_options, batches, windows
from starmill.schema.loader.batch_options import BatchPlan
from starmill.schema.settings import ConverterSettings

# Shared memory per worker that is filled ahead, where batches are small enough for two.
AHEAD_BYTES = 512 << 20
_MOST_SLOTS = 4
_POLL_SECONDS = 1.0


class BatchIterator(Iterator[batches.Batch]):
    """Batches, one after the other; `state()` at any time, `restore` before the first.

    A context manager: leaving it ends the workers, and so does the end of the iteration.
    Arrays may be kept as long as wanted.
    """

    def __init__(
        self,
        maker: batches.BatchMaker,
        dataset: int,
        *,
        workers: int,
        position: int = 0,
    ) -> None:
        self._crew: list[_Worker] = []
        if workers < 0:
            raise errors.ConfigError(f"workers: must be at least 0, found {workers}")
        self._maker = maker
        self._dataset = dataset
        self._position = position
        self._workers = workers
        self._pool = batches.BufferPool(maker.size_bytes)
        self._asked = position

    def get_state(self) -> dict[str, int]:
        """Returns where the iteration stands: three integers, JSON as they are."""
        return {
            "position": self._position,
            "options": self._maker.plan.fingerprint(),
            "dataset": self._dataset,
        }

    def set_state(self, state: dict[str, int]) -> None:
        """Continues after the batch that was the last one when the state was taken."""
        position = batch_options.check_state(state, self._maker.plan, self._dataset)
        self.close()
        self._position = position

    def __next__(self) -> batches.Batch:
        """Returns the next batch."""
        last = self._maker.batches
        if last is not None and self._position >= last:
            self.close()
            raise StopIteration
        out = self._remote() if self._workers else self._local()
        self._position += 1
        return out

    def close(self) -> None:
        """Ends the worker processes."""
        for worker in self._crew:
            worker.stop()
        self._crew = []

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
        out = batches.views(self._maker.layout, self._pool.take())
        rows = self._maker.make(self._position, out)
        return batches.trim(out, rows)

    def _remote(self) -> batches.Batch:
        if not self._crew:
            self._asked = self._position
            self._start()
        self._ask()
        worker = self._crew[self._position % self._workers]
        slot, rows = worker.result(self._position)
        arrays = batches.views(self._maker.layout, worker.lend(slot))
        if worker.is_starved:
            # All its slots are lent: copy, or the worker would wait for this batch to go.
            copied = batches.views(self._maker.layout, self._pool.take())
            for key, array in batches.trim(arrays, rows).items():
                np.copyto(copied[key][: len(array)], array)
            arrays = copied
        self._ask()
        return batches.trim(arrays, rows)

    def _start(self) -> None:
        """Starts the workers; they map one copy of the index, whose files then go."""
        maker = self._maker
        with tempfile.TemporaryDirectory(prefix="starmill-", dir=_folder()) as shared:
            maker.index.share(Path(shared))
            recipe = _Recipe(
                maker.plan,
                maker.settings,
                maker.folder,
                shared,
                maker.index.shard_names,
            )
            size = maker.size_bytes
            self._crew = [_Worker(recipe, size, n) for n in range(self._workers)]
            for worker in self._crew:
                worker.wait_ready()

    def _ask(self) -> None:
        """Sends the next batch numbers to workers as long as these have free slots."""
        last = self._maker.batches
        while last is None or self._asked < last:
            worker = self._crew[self._asked % self._workers]
            if not worker.is_free:
                return
            worker.ask(self._asked)
            self._asked += 1


class _Recipe(NamedTuple):
    """What a worker makes its `BatchMaker` of; shared: folder with the index's arrays."""

    plan: BatchPlan
    settings: ConverterSettings
    folder: str
    shared: str
    shard_names: tuple[str, ...]

    def maker(self) -> batches.BatchMaker:
        """Returns the maker."""
        index = windows.EpisodeIndex.shared(Path(self.shared), self.shard_names)
        return batches.BatchMaker(self.plan, self.settings, index, self.folder)


def _folder() -> str | None:
    """Returns a folder in memory, where the system has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class _Worker:
    """A process that fills slots of shared memory."""

    def __init__(self, recipe: "_Recipe", size_bytes: int, number: int) -> None:
        size = max(size_bytes, 1)
        count = max(1, min(_MOST_SLOTS, AHEAD_BYTES // size))
        self._paths = []
        self._slots = []
        for _ in range(count):
            descriptor, path = tempfile.mkstemp(prefix="starmill-", dir=_folder())
            os.ftruncate(descriptor, size)
            self._slots.append(mmap.mmap(descriptor, size))
            os.close(descriptor)
            self._paths.append(path)
        self._idle = list(range(count))
        self._pending = 0
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_work,
            args=(theirs, recipe, self._paths),
            name=f"starmill-loader-{number}",
            daemon=True,
        )
        self._process.start()
        theirs.close()

    def wait_ready(self) -> None:
        """Waits until the process has mapped the slots."""
        try:
            self._receive("to start")
        finally:
            self._unlink()

    @property
    def is_free(self) -> bool:
        """Returns whether there is a slot that nobody fills or reads."""
        return bool(self._idle)

    @property
    def is_starved(self) -> bool:
        """Returns whether all slots are lent to readers."""
        return not self._idle and self._pending == 0

    def ask(self, batch: int) -> None:
        """Has a batch made; there must be an idle slot."""
        self._pending += 1
        try:
            self._pipe.send((batch, self._idle.pop()))
        except BrokenPipeError as error:
            raise self._gone("before it was asked") from error

    def result(self, batch: int) -> tuple[int, int]:
        """Waits for a batch that was asked for; returns its slot and rows of `units`."""
        found, slot, rows = self._receive(f"for batch {batch}")
        if found != batch:
            raise AssertionError(f"worker made batch {found}, asked for {batch}")
        self._pending -= 1
        return slot, rows

    def lend(self, slot: int) -> NDArray[np.uint8]:
        """Returns a slot's memory; the slot is idle again when the last array of it goes."""
        idle = self._idle
        return batches.lend(self._slots[slot], lambda _: idle.append(slot))

    def _unlink(self) -> None:
        # Both have the slots mapped, or there is nobody left to want them.
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

    def _receive(self, what: str) -> Any:
        try:
            while not self._pipe.poll(_POLL_SECONDS):
                if not self._process.is_alive() and not self._pipe.poll():
                    raise self._gone(what)
            answer = self._pipe.recv()
        except (EOFError, ConnectionResetError) as error:
            raise self._gone(what) from error
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _gone(self, what: str) -> errors.StarmillError:
        self._process.join(timeout=1)
        return errors.StarmillError(
            f"loader worker {self._process.name} ended (exit code "
            f"{self._process.exitcode}) while waited {what}. If it was killed for its "
            f"memory, use fewer workers or smaller batches"
        )


def _work(pipe: connection.Connection, recipe: _Recipe, paths: list[str]) -> None:
    """What a worker process runs: makes the batches it is told to until told to end."""
    # An interrupt is for the parent, which then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    maker = recipe.maker()
    slots = []
    for path in paths:
        with Path(path).open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
            slots.append(np.frombuffer(memory, np.uint8))
    pipe.send("ready")
    # The parent may end at any moment: then there is nobody to tell.
    with contextlib.suppress(EOFError, BrokenPipeError):
        while (task := pipe.recv()) is not None:
            batch, slot = task
            try:
                rows = maker.make(batch, batches.views(maker.layout, slots[slot]))
            except errors.StarmillError as error:
                pipe.send(error)
                return
            pipe.send((batch, slot, rows))
