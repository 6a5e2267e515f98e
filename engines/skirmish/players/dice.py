"""The bots' random numbers.

In: a seed. Out: integers, fractions and yes-or-no draws that are the same on every machine and
with every version of Python. Must not know: the game.
"""

_MASK = (1 << 64) - 1


class Dice:
    """A generator of random numbers that uses integers only (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, limit: int) -> int:
        """Returns an integer in [0, limit)."""
        return (self._next() >> 11) % limit

    def unit(self) -> float:
        """Returns a number in [0, 1)."""
        return (self._next() >> 11) / (1 << 53)

    def chance(self, probability: float) -> bool:
        """Returns True with this probability."""
        return self.unit() < probability
