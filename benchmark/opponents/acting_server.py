"""A process in which one trained agent acts for all games of a tournament.

In: a contestant, and an address of this machine at which games connect. Out: to each connection
first the agent's settings, then an action for each observation. The agent is loaded and compiled
once, however many workers play. Games that wait at the same time are served together, up to the
agent's number of lanes; no game waits for more games to join. An action depends on its own game alone.
Must not know: who connects, and what becomes of the actions.
"""

import logging
import os
import queue
import shutil
import signal
import threading
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple

from starmill.benchmark.opponents import contestants
from starmill.benchmark.opponents.contestants import Contestant
from starmill.engines import lifeline
from starmill.schema import errors
from starmill.schema.agent import Actor, Likely
from starmill.schema.episode import Arrays
from starmill.schema.settings import ConverterSettings

_LOG = logging.getLogger(__name__)
# Connections that may wait to be accepted while the agent is loaded.
_BACKLOG = 128
# One thread for each call: calls run in parallel, and a single thread adds numbers in a
# fixed order. JAX reads this variable when it is first imported.
_XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"


class Begin(NamedTuple):
    """Says that a new game begins on this connection.

    Attributes:
        seed: of the agent's random choices.
    """

    seed: int


class Turn(NamedTuple):
    """Asks the agent for its next action in the connection's game.

    Attributes:
        observation: what its player sees.
    """

    observation: Arrays


class Move(NamedTuple):
    """The answer to a turn.

    Attributes:
        action: by argument.
        value: the outcome that the agent expects; None if it cannot tell.
        likely: the likeliest functions, likeliest first.
    """

    action: Arrays
    value: float | None
    likely: tuple[Likely, ...]


# The first answer on a connection, and the answer to a turn.
Hello = ConverterSettings | errors.StarmillError
Answer = Move | errors.StarmillError


class _Waiting(NamedTuple):
    """A turn that has not been answered.

    Attributes:
        connection: that waits.
        memory: of its game.
        observation: of the turn.
    """

    connection: Connection
    memory: Any
    observation: Arrays


def use_one_thread() -> None:
    """Makes JAX, which must not be imported yet, compute each call in one thread."""
    os.environ.setdefault("XLA_FLAGS", _XLA_FLAGS)


def serve(contestant: Contestant, address: str, threads: int) -> None:
    """Serves an agent until the parent process ends; then deletes the address's folder.

    threads: calls of an agent with one lane that may run in parallel.
    """
    # Ctrl-C reaches the whole process group, but the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lifeline.end_with_parent(
        lambda: shutil.rmtree(Path(address).parent, ignore_errors=True)
    )
    use_one_thread()
    # Listens before the agent is loaded, so that early connections wait in the queue.
    with Listener(address, backlog=_BACKLOG) as listener:
        hello: Hello
        try:
            actor = contestants.load_actor(contestant)
            hello = actor.settings
        except errors.StarmillError as error:
            hello = error
        turns: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        if not isinstance(hello, errors.StarmillError):
            count = threads if actor.lanes == 1 else 1
            for _ in range(count):
                _start(_act, actor, turns)
        while True:
            connection = listener.accept()
            if isinstance(hello, errors.StarmillError):
                _send(connection, hello)
            else:
                _start(_receive, connection, actor, hello, turns)


def _start(target: Any, *arguments: Any) -> None:
    threading.Thread(target=target, args=arguments, daemon=True).start()


def _receive(
    connection: Connection,
    actor: Actor,
    hello: Hello,
    turns: "queue.SimpleQueue[_Waiting]",
) -> None:
    """Puts a connection's turns into the queue until its other end closes."""
    _send(connection, hello)
    memory = actor.begin(0)
    try:
        while True:
            message = connection.recv()
            if isinstance(message, Begin):
                memory = actor.begin(message.seed)
            else:
                turns.put(_Waiting(connection, memory, message.observation))
    except (EOFError, OSError):
        connection.close()


def _act(actor: Actor, turns: "queue.SimpleQueue[_Waiting]") -> None:
    """Answers turns forever: all that wait, up to the agent's number of lanes at a time."""
    while True:
        group = [turns.get()]
        while len(group) < actor.lanes:
            try:
                group.append(turns.get_nowait())
            except queue.Empty:
                break
        for waiting, answer in zip(group, answers(actor, group), strict=True):
            _send(waiting.connection, answer)


def answers(actor: Actor, group: list[_Waiting]) -> list[Answer]:
    """Returns the answer to each turn; a turn that fails does not affect the others."""
    try:
        actions = actor.act(
            [waiting.observation for waiting in group],
            [waiting.memory for waiting in group],
        )
    # An agent may fail in any way. The game is told of it, and the process goes on.
    except Exception as error:  # noqa: BLE001
        if len(group) > 1:
            return [answers(actor, [waiting])[0] for waiting in group]
        if isinstance(error, errors.StarmillError):
            return [error]
        _LOG.exception("an agent failed")
        return [errors.AgentError(f"an agent failed: {type(error).__name__}: {error}")]
    return [
        Move(action, waiting.memory.value, waiting.memory.likely)
        for action, waiting in zip(actions, group, strict=True)
    ]


def _send(connection: Connection, answer: Hello | Answer) -> None:
    # A game that has left does not need the answer.
    try:
        connection.send(answer)
    except OSError:
        _LOG.debug("a game ended before its agent acted")
