"""How often an agent may act: at most N actions in any window of game loops.

In: the loops of an agent's actions. Out: the loop at which it may act again. Knows nothing of
games. An agent is not asked before it may act again, so no action is dropped.

Paper: appendix A.1 limits the actions per second, but gives no number. Departs: the number is
AlphaStar's published one, 22 actions in any five seconds. Selection, ability and target together
are one action, and so are repeats of the same command.
"""

import collections
import dataclasses

from starmill.schema import errors


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limit:
    """The rule.

    Attributes:
        actions: most actions in any window.
        loops: length of the window in game loops; 112 are five seconds.
    """

    actions: int = 22
    loops: int = 112

    def __post_init__(self) -> None:
        """Checks that an agent can act."""
        if self.actions < 1 or self.loops < 1:
            raise errors.ConfigError(
                "throttle: expected at least 1 action in at least 1 loop, found "
                f"{self.actions} in {self.loops}"
            )


class Throttle:
    """Counts one agent's actions in one game."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._loops: collections.deque[int] = collections.deque(maxlen=limit.actions)

    def note(self, loop: int) -> None:
        """Counts an action; loops must not decrease."""
        self._loops.append(loop)

    def earliest(self, loop: int) -> int:
        """Returns the first loop, not before `loop`, at which an action is allowed."""
        if len(self._loops) < self._limit.actions:
            return loop
        return max(loop, self._loops[0] + self._limit.loops)
