"""Yes-or-no features of a step: is an input above a level, and is it ahead of what is usual at this time?

In: inputs and game loops of steps. Out: `Features`, fitted to them without outcomes, and the features of any
steps. They give a network what decision trees use: steps at any level of an input, and levels that move with
time, since the same number of units is a lead early in a game and a deficit late.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Levels of each input, and spans of time that each have their own usual inputs.
LEVELS = 12
SPANS = 12


class Features(NamedTuple):
    """How I inputs become F features.

    Attributes:
        ends: float32 [SPANS - 1], the game loops at which one span of time ends and the next starts.
        usual: float32 [SPANS, I], the mean of each input in each span.
        column: int64 [F], an input if below I, else I + the input whose lead over the usual counts.
        level: float32 [F], above which the feature is true.
    """

    ends: NDArray[np.float32]
    usual: NDArray[np.float32]
    column: NDArray[np.int64]
    level: NDArray[np.float32]

    def of(
        self, inputs: NDArray[np.float32], loop: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Returns the features [S, F] of inputs [S, I] at game loops [S]."""
        leads = inputs - self.usual[_span(self.ends, loop)]
        both = np.concatenate([inputs, leads], axis=1)
        return both[:, self.column] > self.level


def fit(inputs: NDArray[np.float32], loop: NDArray[np.int32], rare: float) -> Features:
    """Returns features; none is true, or false, in at most the share `rare` of the steps."""
    shares = np.linspace(0, 1, SPANS + 1)[1:-1]
    ends = np.quantile(loop, shares).astype(np.float32)
    span = _span(ends, loop)
    usual = np.zeros((SPANS, inputs.shape[1]), np.float32)
    for number in range(SPANS):
        if (span == number).any():
            usual[number] = inputs[span == number].mean(0)
    both = np.concatenate([inputs, inputs - usual[span]], axis=1)
    columns, levels = [], []
    for column, values in enumerate(both.T):
        for level in _levels(values):
            if rare < (values > level).mean() < 1 - rare:
                columns.append(column)
                levels.append(level)
    return Features(
        ends, usual, np.array(columns, np.int64), np.array(levels, np.float32)
    )


def _span(ends: NDArray[np.float32], loop: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.searchsorted(ends, loop, side="right")


def _levels(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns 0, and levels with as many of the other values between each two."""
    others = values[values != 0]
    if not len(others):
        return np.zeros(0, np.float32)
    shares = np.linspace(0, 1, LEVELS + 1)[1:-1]
    levels = np.quantile(others, shares).astype(np.float32)
    return np.unique(np.append(levels, np.float32(0)))
