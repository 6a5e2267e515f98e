"""Plays a schedule with several workers; every result is on disk before it counts.

In: fixtures, and something that makes a referee (which plays one game) in each worker. Out: rows
in the store, replays beside it, and a list of games that could not be played.
A game during which the engine or the worker dies is played again from its start, which gives
the same game; it is not counted until one attempt reaches the end.
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
from starmill.benchmark.tournaments import schedule
from starmill.engines import lifeline
from starmill.schema import errors, storage

_LOG = logging.getLogger(__name__)


class Played(NamedTuple):
    """A game that reached its end. outcome: for home."""

    outcome: int
    game_loops: int
    ending: str
    engine: str
    replay: bytes


class Referee(Protocol):
    """Plays games, one at a time; lives in one worker."""

    def play(self, fixture: schedule.Fixture) -> Played:
        """Returns the game's result; EngineError where it is worth another try."""

    def close(self) -> None:
        """Ends what it started."""


class Failure(NamedTuple):
    """A game that could not be played, and the last reason."""

    fixture: schedule.Fixture
    reason: str


class _Crash(NamedTuple):
    """What a worker answers instead of `Played`. again: whether another try may help."""

    reason: str
    again: bool


@dataclasses.dataclass
class _Task:
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
    max_attempts: int = 4,
    progress: Callable[[int, int, int], None] = lambda done, total, crashes: None,
) -> list[Failure]:
    """Plays the fixtures that the store has not got; returns those that kept failing.

    `make_referee` is called in each worker; with more than one worker it must be picklable.
    `folder` is the results' folder: replays go to `replays/` in it.
    """
    (folder / "replays").mkdir(parents=True, exist_ok=True)
    tasks = [_Task(fixture) for fixture in fixtures if fixture.game not in store.done]
    failures: list[Failure] = []
    crashes = 0
    play = _in_this_process if parallel <= 1 else _in_workers
    waiting = collections.deque(tasks)
    progress(len(fixtures) - len(tasks), len(fixtures), crashes)
    for task, answer in play(waiting, make_referee, parallel):
        task.attempts += 1
        if isinstance(answer, Played):
            _record(task, answer, store, folder, digests)
        elif answer.again and task.attempts < max_attempts:
            crashes += 1
            _LOG.warning("%s: %s; playing it again", task.fixture.game, answer.reason)
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
    if replay:
        # The replay first: a row in the store promises that it is there.
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
        return _Crash(f"{type(error).__name__}: {error}", again=True)
    except (errors.ConverterError, errors.SpecError) as error:
        return _Crash(f"{type(error).__name__}: {error}", again=False)
    except DecodeError as error:  # what the game sent is no message
        return _Crash(f"DecodeError: {error}", again=True)
    except errors.StarmillError:
        raise
    # An agent's own mistake: the same game would meet it again.
    except Exception as error:  # noqa: BLE001
        _LOG.exception("%s: an agent failed", fixture.game)
        return _Crash(f"an agent failed: {type(error).__name__}: {error}", again=False)


def _in_this_process(
    waiting: collections.deque[_Task], make_referee: MakeReferee, parallel: int
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
    """A process with a referee. task: what it is playing; None while it has nothing."""

    def __init__(self, make_referee: MakeReferee) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.task: _Task | None = None
        self.process: SpawnProcess = context.Process(
            target=_work, args=(make_referee, theirs), daemon=True
        )
        self.process.start()
        theirs.close()

    def give(self, task: _Task) -> None:
        self.task = task
        # A worker that has died is noticed when its answer is awaited.
        try:
            self.connection.send(task.fixture)
        except OSError:
            _LOG.debug("a worker died before it was given a game")

    def take(self) -> Answer | errors.StarmillError:
        """Returns the answer, or a crash where the worker died with the game."""
        try:
            answer: Answer | errors.StarmillError = self.connection.recv()
            return answer
        except (EOFError, OSError):
            self.process.join()
            return _Crash(f"the worker ended with {self.process.exitcode}", again=True)

    def end(self) -> None:
        self.connection.close()
        if self.task is None:
            self.process.join(timeout=20)
        # In the middle of a game nobody would wait for: its engine ends with the worker.
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _work(make_referee: MakeReferee, connection: Connection) -> None:
    """A worker's life: games come in, answers go out, until the other end closes."""
    # Ctrl-C reaches the whole group; the parent decides, by closing the connection.
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
    waiting: collections.deque[_Task], make_referee: MakeReferee, parallel: int
) -> Iterator[tuple[_Task, Answer]]:
    workers = [_Worker(make_referee) for _ in range(min(parallel, len(waiting)))]
    try:
        while True:
            for i, worker in enumerate(workers):
                if worker.task is None and waiting:
                    if not worker.process.is_alive():
                        worker.end()
                        worker = workers[i] = _Worker(make_referee)
                    worker.give(waiting.popleft())
            busy = {w.connection: w for w in workers if w.task is not None}
            if not busy:
                return
            yield from _answers(busy.values())
    finally:
        for worker in workers:
            worker.end()


def _answers(busy: Iterable[_Worker]) -> Iterator[tuple[_Task, Answer]]:
    by_connection = {worker.connection: worker for worker in busy}
    for connection in multiprocessing.connection.wait(list(by_connection)):
        worker = by_connection[connection]  # type: ignore[index]  # what was waited for
        task, answer = worker.task, worker.take()
        worker.task = None
        if isinstance(answer, errors.StarmillError):
            raise answer
        if task is not None:
            yield task, answer
