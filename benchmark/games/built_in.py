"""The computer players that the game itself provides: their difficulties and builds.

In: text such as "very_hard+rush". Out: a record of valid names. Knows nothing of game processes.
"""

import dataclasses

from starmill.schema import errors
from starmill.schema.game_constants import BUILDS, DIFFICULTIES


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """A computer player of the game's own.

    Attributes:
        difficulty: one of DIFFICULTIES.
        build: one of BUILDS.
    """

    difficulty: str = "very_hard"
    build: str = "random"

    def __post_init__(self) -> None:
        """Checks the names."""
        for name, value, known in (
            ("difficulty", self.difficulty, DIFFICULTIES),
            ("build", self.build, BUILDS),
        ):
            if value not in known:
                raise errors.ConfigError(
                    f"{name}: expected one of {', '.join(known)}; found {value!r}"
                )


def is_built_in(text: str) -> bool:
    """Returns whether the text names a difficulty, with or without a build after it."""
    return text.partition("+")[0] in DIFFICULTIES


def parse(text: str) -> BuiltIn:
    """Returns the computer player that "DIFFICULTY" or "DIFFICULTY+BUILD" names."""
    difficulty, _, build = text.partition("+")
    return BuiltIn(difficulty=difficulty, build=build or "random")
