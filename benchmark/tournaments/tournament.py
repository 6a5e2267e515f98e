"""Plays a schedule with several workers; every result is on disk before it counts.

In: fixtures, and a function that creates each worker's referee. Out: rows in the store, replays and
statistics beside it, and a list of the games that could not be played.
If the engine or the worker dies during a game, the game starts again from its beginning, with
the same seed. It counts once an attempt reaches the end.
"""

import collections
import dataclasses
import logging
import multiprocessing
import multiprocessing.connection
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import NamedTuple, Protocol

from google.protobuf.message import DecodeError

from starmill.benchmark.ratings import results
from starmill.benchmark.statistics import decisions, files
from starmill.benchmark.statistics.decisions import GameDecisions
from starmill.benchmark.statistics.files import GameStatistics
from starmill.benchmark.tournaments import schedule
from starmill.engines import lifeline
from starmill.schema import errors, storage

_LOG = logging.getLogger(__name__)
_TEND_SECONDS = 1.0


class Played(NamedTuple):
    """A game that reached its end.

    Attributes:
        outcome: home's: 1 won, 0 drew, -1 lost.
        game_loops: the game's length.
        ending: "won", "draw" or "limit".
        engine: name and version of the game.
        replay: the replay file; empty if none was kept.
        statistics: how both players played; None if nobody watched.
        decisions: what the agents chose between; None if nobody watched.
    """

    outcome: int
    game_loops: int
    ending: str
    engine: str
    replay: bytes
    statistics: GameStatistics | None = None
    decisions: GameDecisions | None = None


class Referee(Protocol):
    """Plays one game at a time, in one worker."""

    def play(self, fixture: schedule.Fixture) -> Played:
        """Returns the game's result; an EngineError means that another attempt may succeed."""

    def close(self) -> None:
        """Ends the processes that it started."""


class Attendant(Protocol):
    """Looks after what games in several workers need beside the game."""

    def prepare(self, fixture: schedule.Fixture) -> None:
        """Is called before a worker gets a game."""

    def tend(self) -> None:
        """Is called about once a second while games are played."""


class Failure(NamedTuple):
    """A game that could not be played.

    Attributes:
        fixture: the game.
        reason: why the last attempt failed.
    """

    fixture: schedule.Fixture
    reason: str


class _Crash(NamedTuple):
    """An attempt that failed.

    Attributes:
        reason: for people.
        retry: whether another attempt may succeed.
    """

    reason: str
    retry: bool


@dataclasses.dataclass
class _Task:
    """A game that waits to be played, or to be played again.

    Attributes:
        fixture: the game to play.
        attempts: how often it was started before.
    """

    fixture: schedule.Fixture
    attempts: int = 0


Answer = Played | _Crash
MakeReferee = Callable[[], Referee]


def run(
    fixtures: Sequence[schedule.Fixture],
    store: results.Store,
    folder: Path,
    *,
    digests: dict[str, str],
    make_referee: MakeReferee,
    parallel: int = 1,
    attendant: Attendant | None = None,
    max_attempts: int = 4,
    progress: Callable[[int, int, int], None] = lambda done, total, crashes: None,
) -> list[Failure]:
    """Plays the fixtures that the store lacks; returns those that failed repeatedly.

    Args:
        fixtures: the games to play.
        store: receives one row per game.
        folder: replays go to `replays/` in it, statistics to `statistics/`,
            and decisions to `decisions/`.
        digests: contestants' digests by name, for the rows.
        make_referee: called once in each worker; picklable if there is more than one.
        parallel: number of workers; a single one plays in this process.
        attendant: looks after what several workers need; unused with a single one.
        max_attempts: attempts at a game before it counts as failed.
        progress: called with games played, games in all, and failed attempts.
    """
    (folder / "replays").mkdir(parents=True, exist_ok=True)
    tasks = [_Task(fixture) for fixture in fixtures if fixture.game not in store.done]
    failures: list[Failure] = []
    crashes = 0
    waiting = collections.deque(tasks)
    progress(len(fixtures) - len(tasks), len(fixtures), crashes)
    if parallel <= 1:
        answers = _in_this_process(waiting, make_referee)
    else:
        answers = _in_workers(waiting, make_referee, parallel, attendant)
    for task, answer in answers:
        task.attempts += 1
        if isinstance(answer, Played):
            _record(task, answer, store, folder, digests)
        elif answer.retry and task.attempts < max_attempts:
            crashes += 1
            _LOG.warning(
                "%s: %s; the game starts again", task.fixture.game, answer.reason
            )
            waiting.append(task)
        else:
            crashes += 1
            failures.append(Failure(task.fixture, answer.reason))
        played = sum(fixture.game in store.done for fixture in fixtures)
        progress(played, len(fixtures), crashes)
    return sorted(failures, key=lambda failure: failure.fixture.game)


def _record(
    task: _Task,
    played: Played,
    store: results.Store,
    folder: Path,
    digests: dict[str, str],
) -> None:
    fixture = task.fixture
    replay = f"replays/{fixture.game}.SC2Replay" if played.replay else ""
    if played.statistics is not None:
        files.write(folder, fixture.game, played.statistics)
    if played.decisions is not None:
        decisions.write(folder, fixture.game, played.decisions)
    if replay:
        # The replay comes first: a row in the store promises that the file exists.
        storage.write(str(folder / replay), played.replay)
    store.append(
        results.Result(
            game=fixture.game,
            home=fixture.home,
            away=fixture.away,
            home_race=fixture.home_race,
            away_race=fixture.away_race,
            outcome=played.outcome,
            home_digest=digests[fixture.home],
            away_digest=digests[fixture.away],
            map_name=Path(fixture.map_path).stem,
            seed=fixture.seed,
            game_loops=played.game_loops,
            ending=played.ending,
            attempts=task.attempts,
            engine=played.engine,
            replay=replay,
        )
    )


def _attempt(referee: Referee, fixture: schedule.Fixture) -> Answer:
    try:
        return referee.play(fixture)
    except errors.EngineMissing:
        raise
    except errors.EngineError as error:
        return _Crash(f"{type(error).__name__}: {error}", retry=True)
    except errors.AgentLost as error:
        return _Crash(f"AgentLost: {error}", retry=True)
    except (errors.AgentError, errors.ConverterError, errors.SpecError) as error:
        return _Crash(f"{type(error).__name__}: {error}", retry=False)
    except DecodeError as error:  # the game sent bytes that are not a message
        return _Crash(f"DecodeError: {error}", retry=True)
    except errors.StarmillError:
        raise
    # A bug in an agent would occur again in the same game.
    except Exception as error:  # noqa: BLE001
        _LOG.exception("%s: an agent failed", fixture.game)
        return _Crash(f"an agent failed: {type(error).__name__}: {error}", retry=False)


def _in_this_process(
    waiting: collections.deque[_Task], make_referee: MakeReferee
) -> Iterator[tuple[_Task, Answer]]:
    if not waiting:
        return
    referee = make_referee()
    try:
        while waiting:
            task = waiting.popleft()
            yield task, _attempt(referee, task.fixture)
    finally:
        referee.close()


class _Worker:
    """A process with a referee.

    Attributes:
        connection: to the process.
        task: the game that it plays; None while it is idle.
        process: the worker itself.
    """

    def __init__(self, make_referee: MakeReferee) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, worker_end = context.Pipe()
        self.task: _Task | None = None
        self.process: SpawnProcess = context.Process(
            target=_work, args=(make_referee, worker_end), daemon=True
        )
        self.process.start()
        worker_end.close()

    def give(self, task: _Task) -> None:
        self.task = task
        # A dead worker is noticed when its answer is awaited.
        try:
            self.connection.send(task.fixture)
        except OSError:
            _LOG.debug("a worker died before it received a game")

    def take(self) -> Answer | errors.StarmillError:
        """Returns the answer, or a crash if the worker died during the game."""
        try:
            answer: Answer | errors.StarmillError = self.connection.recv()
            return answer
        except (EOFError, OSError):
            self.process.join()
            return _Crash(f"the worker exited ({self.process.exitcode})", retry=True)

    def end(self) -> None:
        self.connection.close()
        if self.task is None:
            self.process.join(timeout=20)
        # Nobody waits for a game in progress. The engine ends with the worker.
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _work(make_referee: MakeReferee, connection: Connection) -> None:
    """Runs a worker: receives games and sends answers until the other end closes."""
    # Ctrl-C reaches the whole process group, but the parent decides when workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lifeline.end_with_parent()
    try:
        referee = make_referee()
    except errors.StarmillError as error:
        connection.send(error)
        return
    try:
        while True:
            try:
                answer: Answer | errors.StarmillError = _attempt(
                    referee, connection.recv()
                )
            except errors.StarmillError as error:
                answer = error
            connection.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    finally:
        referee.close()


def _in_workers(
    waiting: collections.deque[_Task],
    make_referee: MakeReferee,
    parallel: int,
    attendant: Attendant | None,
) -> Iterator[tuple[_Task, Answer]]:
    workers = [_Worker(make_referee) for _ in range(min(parallel, len(waiting)))]
    try:
        while True:
            for i, worker in enumerate(workers):
                if worker.task is None and waiting:
                    if not worker.process.is_alive():
                        worker.end()
                        worker = workers[i] = _Worker(make_referee)
                    if attendant is not None:
                        attendant.prepare(waiting[0].fixture)
                    worker.give(waiting.popleft())
            busy = {w.connection: w for w in workers if w.task is not None}
            if not busy:
                return
            if attendant is not None:
                attendant.tend()
            yield from _answers(busy.values())
    finally:
        for worker in workers:
            worker.end()


def _answers(busy: Iterable[_Worker]) -> Iterator[tuple[_Task, Answer]]:
    by_connection = {worker.connection: worker for worker in busy}
    for connection in multiprocessing.connection.wait(
        list(by_connection), _TEND_SECONDS
    ):
        worker = by_connection[connection]  # type: ignore[index]  # `wait` returns what it was given
        task, answer = worker.task, worker.take()
        worker.task = None
        if isinstance(answer, errors.StarmillError):
            raise answer
        if task is not None:
            yield task, answer
