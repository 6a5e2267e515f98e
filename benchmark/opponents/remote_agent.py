"""An agent that acts in another process (`acting_server`), seen from a worker that plays.

In: an address. Out: an `Agent`, with the actions that the same agent would choose in this process.
Every wait has a limit: AgentLost is raised if the process does not listen, does not answer or has died,
and the next game connects again. Must not know: how the agent decides, and who starts its process.
"""

import dataclasses
import time
from multiprocessing.connection import Client, Connection
from typing import Any

from starmill.benchmark.opponents import acting_server
from starmill.schema import errors
from starmill.schema.agent import Likely
from starmill.schema.episode import Arrays
from starmill.schema.settings import ConverterSettings

_POLL_SECONDS = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for a process with an agent, in seconds.

    Attributes:
        start: until it listens and has loaded its agent.
        act: for an action. The first ones compile the agent's code.
    """

    start: float = 300.0
    act: float = 600.0


class RemoteAgent:
    """Plays one side of a game: an `Agent`, `JudgingAgent` and `PredictingAgent`."""

    def __init__(
        self, name: str, address: str, patience: Patience | None = None
    ) -> None:
        """Connects when it is first used. name: of the contestant, for messages."""
        self._name = name
        self._address = address
        self._patience = patience or Patience()
        self._connection: Connection[Any, Any] | None = None
        self._settings: ConverterSettings | None = None
        self._value: float | None = None
        self._likely: tuple[Likely, ...] = ()

    @property
    def settings(self) -> ConverterSettings:
        """Returns the converter settings whose observations it takes."""
        if self._settings is None:
            self._connect()
        if self._settings is None:
            raise errors.AgentLost(f"{self._name}: its process sent no settings")
        return self._settings

    @property
    def value(self) -> float | None:
        """Returns the outcome that it expected at its latest action; None if it cannot tell."""
        return self._value

    @property
    def likely(self) -> tuple[Likely, ...]:
        """Returns the likeliest functions at its latest action, likeliest first."""
        return self._likely

    def reset(self, seed: int, race: str = "") -> None:
        """Begins a game. The race is ignored: observations contain it."""
        self._value, self._likely = None, ()
        self._exchange(acting_server.Begin(seed), answered=False)

    def act(self, observation: Arrays) -> Arrays:
        """Returns the action for an observation of the game."""
        if self._connection is None:
            raise errors.AgentLost(f"{self._name}: its process left during the game")
        answer = self._exchange(acting_server.Turn(observation), answered=True)
        if isinstance(answer, errors.StarmillError):
            raise answer
        self._value, self._likely = answer.value, answer.likely
        action: Arrays = answer.action
        return action

    def _exchange(self, message: Any, *, answered: bool) -> Any:
        connection = self._connection or self._connect()
        try:
            connection.send(message)
            return self._receive(connection, self._patience.act) if answered else None
        except (EOFError, OSError) as error:
            self._connection = None
            raise errors.AgentLost(
                f"{self._name}: the process in which it acts ended"
            ) from error

    def _receive(self, connection: "Connection[Any, Any]", seconds: float) -> Any:
        if connection.poll(seconds):
            return connection.recv()
        connection.close()
        self._connection = None
        raise errors.AgentLost(
            f"{self._name}: the process in which it acts did not answer within "
            f"{seconds:g} seconds"
        )

    def _connect(self) -> "Connection[Any, Any]":
        deadline = time.monotonic() + self._patience.start
        while True:
            try:
                connection = Client(self._address)
                hello = self._receive(connection, max(deadline - time.monotonic(), 0))
                break
            except (EOFError, OSError) as error:
                # It has not begun to listen, or it ended and another is being started.
                if time.monotonic() > deadline:
                    raise errors.AgentLost(
                        f"{self._name}: no process in which it acts answered within "
                        f"{self._patience.start:g} seconds"
                    ) from error
                time.sleep(_POLL_SECONDS)
        if isinstance(hello, errors.StarmillError):
            connection.close()
            raise hello
        self._settings, self._connection = hello, connection
        return connection
