"""How often an agent may act: at most N actions in any window of time.

Paper: appendix A.1, "throttling is used to make sure the agent cannot issue too many actions per
second", without a number. Departs: the number is AlphaStar's published one, 22 actions in any
five seconds (an action being selection, ability and target together; repeats of the same
command are one). An agent is not asked again before it may act, so no action is ever dropped.
"""

import collections
import dataclasses

from starmill.schema import errors


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limit:
    """The rule. actions: in any window of `loops` game loops (112 are five seconds)."""

    actions: int = 22
    loops: int = 112

    def __post_init__(self) -> None:
        """Checks that an agent can act at all."""
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
        """Counts an action on a loop; loops never fall."""
        self._loops.append(loop)

    def earliest(self, loop: int) -> int:
        """Returns the first loop, not before `loop`, on which one more action is allowed."""
        if len(self._loops) < self._limit.actions:
            return loop
        return max(loop, self._loops[0] + self._limit.loops)
