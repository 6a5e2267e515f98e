"""Lapses of attention: which of its concerns a bot has forgotten, and for how long.

In: looks at the game. Out: whether the bot attends to a concern. A lapse lasts 10 to 60 seconds, and
then the bot makes up for what it missed, so that replays show mistakes and how to recover from
them. Must not know: what the concerns are about.
"""

from starmill.engines.skirmish.players.dice import Dice

ARMY = "army"
SUPPLY = "supply"
WORKERS = "workers"
BASES = "bases"
TECH = "tech"
GAS = "gas"
UNITS = "units"
REFLEX = "reflex"  # what no bot ever forgets
CONCERNS = (ARMY, SUPPLY, WORKERS, BASES, TECH, GAS, UNITS)

_MIN_LOOPS = 224  # 10 seconds
_MAX_LOOPS = 1344  # 60 seconds


class Lapses:
    """What one bot has forgotten in one game."""

    def __init__(self, mean_loops: float) -> None:
        """mean_loops: between two lapses; 0 for a bot that forgets nothing."""
        self._mean_loops = mean_loops
        self._looked = 0
        self._until: dict[str, int] = {}

    def look(self, loop: int, dice: Dice) -> None:
        """Forgets a concern if the dice say so. Draws nothing for a bot that forgets nothing."""
        waited, self._looked = loop - self._looked, loop
        if self._mean_loops and dice.chance(waited / self._mean_loops):
            concern = CONCERNS[dice.below(len(CONCERNS))]
            self._until[concern] = (
                loop + _MIN_LOOPS + dice.below(_MAX_LOOPS - _MIN_LOOPS)
            )

    def attends(self, concern: str, loop: int) -> bool:
        """Returns whether the bot has this concern in mind."""
        return loop >= self._until.get(concern, 0)
