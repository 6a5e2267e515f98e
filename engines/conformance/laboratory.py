"""Games under observation: leased from the pipeline's own pool, with a transcript each.

In: an installation and limits. Out: connected games whose every answer is checked, and for
whatever ends a stage early the assumption that it contradicts. Knows no scenario.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError

from starmill.engines import playback
from starmill.engines.client import Client, Deadlines
from starmill.engines.conformance.ledger import Ledger
from starmill.engines.conformance.transcript import Transcript
from starmill.engines.game_process import Executable, GameProcess
from starmill.engines.pool import Pool, PoolConfig
from starmill.schema import errors


class Bench(NamedTuple):
    """A game and the transcript of its client.

    Attributes:
        game: the process.
        client: connected to it.
        transcript: watches the client.
        start_seconds: from the launch to the first answer; 0 for a process that ran already.
    """

    game: GameProcess
    client: Client
    transcript: Transcript
    start_seconds: float


@dataclasses.dataclass
class _Memory:
    """Resident memory of one process.

    Attributes:
        first_bytes: after its first replay.
        latest_bytes: after its latest replay.
        replays: how many it has played.
    """

    first_bytes: int
    latest_bytes: int
    replays: int


class Laboratory:
    """A pool of games, the ledger, and what is measured of processes.

    Attributes:
        ledger: takes what is found out.
        pool: the pipeline's.
        largest_bytes: the largest resident memory of any process so far.
    """

    def __init__(self, root: str, deadlines: Deadlines, ledger: Ledger) -> None:
        self.ledger = ledger
        self.pool = Pool(PoolConfig(root=root, deadlines=deadlines))
        # A process of this pool is replaced after each lease.
        self._fresh = Pool(PoolConfig(root=root, deadlines=deadlines, max_replays=1))
        self._has_started = False
        self._is_closed = False
        self.largest_bytes = 0
        self._transcripts: list[Transcript] = []
        self._memory: dict[int, _Memory] = {}

    @contextlib.contextmanager
    def lease(
        self, executable: Executable, count: int = 1, *, fresh: bool = False
    ) -> Iterator[list[Bench]]:
        """Lends connected games with a new transcript each.

        fresh: in new processes, instead of those that have played before.
        """
        self._transcripts = []
        pool = self._fresh if fresh else self.pool
        running, began = pool.started, time.perf_counter()
        with contextlib.ExitStack() as stack:
            try:
                games = stack.enter_context(pool.lease(executable, count))
            except errors.EngineError as error:
                is_second = self._has_started and count > 1
                name = "process.two" if is_second else "process.starts"
                self.ledger.expect(name, False, str(error))
                raise _Blamed from error
            seconds = time.perf_counter() - began
            self._has_started = True
            self.ledger.expect("process.starts", True, "")
            is_new = pool.started > running
            benches = []
            for game in games:
                if game.client is None:
                    raise errors.EngineError("a leased game is not connected")
                transcript = Transcript(self.ledger)
                game.client.watcher = transcript
                self._transcripts.append(transcript)
                benches.append(
                    Bench(game, game.client, transcript, seconds if is_new else 0.0)
                )
            try:
                yield benches
            finally:
                for bench in benches:
                    bench.client.watcher = None

    @contextlib.contextmanager
    def stage(self, name: str, assumptions: Sequence[str]) -> Iterator[None]:
        """Within the block, an error contradicts an assumption instead of ending the run.

        assumptions: checked in this stage; those not reached are listed with the reason.
        """
        try:
            yield
        except _Blamed:
            pass
        except (errors.StarmillError, DecodeError) as error:
            self._blame(name, error)
        else:
            self.ledger.expect("answer.time", True, "")
            self.ledger.expect("answer.connection", True, "")
            return
        self.ledger.skip(assumptions, f"{name} was not completed")

    def _blame(self, stage: str, error: Exception) -> None:
        detail = f"{stage}: {error}"
        if isinstance(error, errors.EngineMissing):
            self.ledger.expect("info.map", False, detail)
        elif isinstance(error, errors.EngineTimeout):
            self.ledger.expect("answer.time", False, detail)
        elif isinstance(error, errors.EngineDesync):
            self.ledger.expect(self._desync(), False, detail)
        elif isinstance(error, errors.ReplayError):
            self.ledger.expect("start.accepts", False, detail)
        elif isinstance(error, errors.ConverterError):
            self.ledger.expect("arrays.convert", False, detail)
        elif not any(transcript.is_blamed for transcript in self._transcripts):
            self.ledger.expect("answer.connection", False, detail)

    def _desync(self) -> str:
        """Returns the assumption that the latest observation contradicts."""
        messages = [transcript.answer.observation for transcript in self._transcripts]
        if any(m.observation.game_loop == playback.STUB_LOOP for m in messages):
            return "end.no_stub"
        if any(m.player_result for m in messages):
            return "end.not_early"
        has_stepped = any(t.totals["step"].count for t in self._transcripts)
        return "step.exact" if has_stepped else "start.loop_zero"

    def note_memory(self, game: GameProcess, max_growth_bytes: int) -> None:
        """Takes note of a process's memory after a replay, and checks its growth."""
        size = game.rss_bytes()
        if not size:
            self.ledger.skip(["memory.growth"], "this system does not tell memory")
            return
        self.largest_bytes = max(self.largest_bytes, size)
        memory = self._memory.setdefault(game.pid, _Memory(size, size, 0))
        memory.latest_bytes = size
        memory.replays += 1
        growth = size - memory.first_bytes
        self.ledger.expect(
            "memory.growth",
            growth <= max_growth_bytes,
            f"a process grew by {growth >> 20} MiB over {memory.replays} replays; "
            f"expected {max_growth_bytes >> 20} MiB at most",
        )

    def growth_bytes(self) -> float | None:
        """Returns how much a process grows with each replay after its first; None if unknown."""
        grown = [memory for memory in self._memory.values() if memory.replays > 1]
        if not grown:
            return None
        growth = sum(memory.latest_bytes - memory.first_bytes for memory in grown)
        return growth / sum(memory.replays - 1 for memory in grown)

    def close(self) -> None:
        """Ends all games, and checks that nothing of them is left; again, does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        marks = []
        for pool in (self.pool, self._fresh):
            marks.append(str(pool.folder).encode())
            pool.close()
        if not Path("/proc/self/cmdline").exists():
            self.ledger.skip(["process.group"], "this system does not list processes")
            return
        left = sum(mark in line for line in _command_lines() for mark in marks)
        self.ledger.expect(
            "process.group", not left, f"{left} processes of games are left"
        )


def _command_lines() -> Iterator[bytes]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            # A process that ends meanwhile cannot be read.
            with contextlib.suppress(OSError):
                yield (folder / "cmdline").read_bytes()


class _Blamed(Exception):  # noqa: N818  # not an error: its cause has been recorded
    """Ends a stage whose failure has been recorded."""
