"""What an agent is: the protocol between what plays and what makes it play.

Enters: an observation as the dataset stores it, that is, the keys of `specs.episode_specs`
without `action/*`, and `prev_delay`. Leaves: an action, the keys of `specs.action_specs`. Must
not know: the game, or how an agent decides.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from starmill.schema.episode import Arrays
from starmill.schema.settings import ConverterSettings


class Agent(Protocol):
    """Plays one side of one game at a time.

    The same seed and the same observations give the same actions.
    """

    @property
    def settings(self) -> ConverterSettings:
        """Returns the converter settings of the observations that it expects."""

    def reset(self, seed: int, race: str) -> None:
        """Starts a game and forgets the one before.

        race: the race that it plays, one of `game_constants.RACES`.
        """

    def act(self, observation: Arrays) -> Arrays:
        """Returns the action for an observation; its delay says when to ask again."""


@runtime_checkable
class JudgingAgent(Protocol):
    """An agent that also says how it judges its chances. Agents need not."""

    @property
    def value(self) -> float | None:
        """Returns the outcome that it expected at its latest action; None if it cannot tell."""


class Likely(NamedTuple):
    """A function that an agent considered, and how likely it was to choose it.

    Attributes:
        function: the function's number.
        probability: from 0 to 1.
    """

    function: int
    probability: float


@runtime_checkable
class PredictingAgent(Protocol):
    """An agent that also says which functions it considered. Agents need not."""

    @property
    def likely(self) -> tuple[Likely, ...]:
        """Returns the likeliest functions at its latest action, likeliest first."""


class Actor(Protocol):
    """Plays one side of many games at once. What it does in a game depends on that game alone."""

    @property
    def settings(self) -> ConverterSettings:
        """Returns the converter settings of the observations that it expects."""

    @property
    def lanes(self) -> int:
        """Returns how many games it serves at the cost of one."""

    def begin(self, seed: int) -> Any:
        """Returns the memory of a game that begins.

        Its `value` and `likely` are those of a `JudgingAgent` and a `PredictingAgent`.
        """

    def act(
        self, observations: Sequence[Arrays], memories: Sequence[Any]
    ) -> list[Arrays]:
        """Returns one action for each observation; if it raises, no memory has changed.

        Threads may call it at the same time, with different memories.
        """
