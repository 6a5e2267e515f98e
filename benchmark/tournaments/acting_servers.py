"""The processes in which a tournament's trained agents act, one for each agent.

In: the contestants. Out: an address for each trained agent, and processes that listen there: started
when a game first needs them, started again if they die, and ended with the tournament.
Must not know: how an agent acts, and who connects.
"""

import logging
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import Self

from starmill.benchmark.opponents import acting_server
from starmill.benchmark.opponents.contestants import Contestant, Kind
from starmill.benchmark.tournaments import schedule
from starmill.schema import errors

_LOG = logging.getLogger(__name__)
# An agent whose process dies this often has a fault of its own.
MOST_STARTS = 10
# What systems allow for the address of a local socket.
_LONGEST_ADDRESS = 100


class ActingServers:
    """Starts, watches and ends the processes. A context manager.

    Attributes:
        addresses: of the trained agents, by contestant's name.
    """

    def __init__(self, contestants: Iterable[Contestant], threads: int) -> None:
        """Starts no process yet; `prepare` does, when a game needs its agents.

        Args:
            contestants: of the tournament; only trained agents among them get a process.
            threads: how many games are played at the same time.
        """
        trained = [player for player in contestants if player.kind is Kind.CHECKPOINT]
        self._contestants = {player.name: player for player in trained}
        self._threads = min(threads, os.cpu_count() or 1)
        self._processes: dict[str, SpawnProcess] = {}
        self._starts = dict.fromkeys(self._contestants, 0)
        self._folder = Path(tempfile.mkdtemp(prefix="starmill-acting-"))
        self.addresses: Mapping[str, str] = {
            name: str(self._folder / str(number))
            for number, name in enumerate(self._contestants)
        }
        if len(str(self._folder)) > _LONGEST_ADDRESS:
            shutil.rmtree(self._folder)
            raise errors.ConfigError(
                f"{self._folder}: too long for the address of a local socket; set TMPDIR to "
                "a shorter folder"
            )

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the processes and deletes the addresses."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self, fixture: schedule.Fixture) -> None:
        """Starts the processes that a game needs; does not wait until they listen."""
        for name in (fixture.home, fixture.away):
            if name in self._contestants and name not in self._processes:
                self._start(name)

    def tend(self) -> None:
        """Starts processes again that have died; AgentError if one dies again and again."""
        for name, process in list(self._processes.items()):
            if process.is_alive():
                continue
            if self._starts[name] >= MOST_STARTS:
                raise errors.AgentError(
                    f"{name}: the process in which it acts ended {MOST_STARTS} times, the last "
                    f"time with {process.exitcode}. Games that were played are kept"
                )
            _LOG.warning(
                "%s: the process in which it acts ended (%s); another is started",
                name,
                process.exitcode,
            )
            self._start(name)

    def _start(self, name: str) -> None:
        self._starts[name] += 1
        address = self.addresses[name]
        Path(address).unlink(missing_ok=True)
        process = multiprocessing.get_context("spawn").Process(
            target=acting_server.serve,
            args=(self._contestants[name], address, self._threads),
            daemon=True,
        )
        process.start()
        self._processes[name] = process
