"""Counts how far target points are from units of each type: what must stay apart, and what must be near.

In: target points with the units around them. Out: two tables by function and type (`states.shapes`). A
building is never put where another one or a field of minerals is, and often only near a source of power: such
rules show in the distances. Distances are the larger of those along the two axes, in cells of the grid
of target points.
"""

import numpy as np
from numpy.typing import NDArray

from starmill.learners.counts import states

# Farther units do not count.
_REACH = 16
# What must be near is at most this far.
_FARTHEST = 12
# Points that are nearer than others ever are: accidents happen.
_ODD = 0.02


class SpacingCounter:
    """Sums over target points, from which the tables follow."""

    def __init__(self, functions: int) -> None:
        shape = (functions, states.TYPES, _REACH + 1)
        self._points = np.zeros(functions, np.int64)
        # By the distance of the nearest unit of a type: of anybody, and own finished ones.
        self._anybody = np.zeros(shape, np.int32)
        self._own = np.zeros(shape, np.int32)

    def add(
        self,
        function: int,
        point: tuple[int, int],
        places: NDArray[np.int32],
        types: NDArray[np.int32],
        own: NDArray[np.bool_],
    ) -> None:
        """Counts one target point (x, y); `places` [U, 2] likewise, `own` are finished units of the player."""
        distance = np.minimum(np.abs(places - np.array(point)).max(-1), _REACH)
        self._points[function] += 1
        for counts, group in ((self._anybody, np.ones_like(own)), (self._own, own)):
            nearest = np.full(states.TYPES, _REACH + 1)
            np.minimum.at(nearest, types[group], distance[group])
            there = np.flatnonzero(nearest <= _REACH)
            counts[function, there, nearest[there]] += 1

    def tables(self) -> dict[str, NDArray[np.float64]]:
        """Returns how far apart points are from each type, and how near to the one that they need."""
        return {"apart": self._apart(), "near": self._near()}

    def _apart(self) -> NDArray[np.float64]:
        near = self._anybody[..., :_REACH]
        total = near.sum(-1)
        nearer = np.cumsum(near, axis=-1) <= _ODD * total[..., None]
        apart = nearer.sum(-1).astype(float)
        apart[total < states.ENOUGH] = 0
        return apart

    def _near(self) -> NDArray[np.float64]:
        within = np.cumsum(self._own[..., : _FARTHEST + 1], axis=-1)
        usual = within >= (1 - _ODD) * np.maximum(self._points, 1)[:, None, None]
        usual &= (self._points >= states.ENOUGH)[:, None, None]
        # One more than the distance, so that 0 means that there is no need.
        distance = np.where(usual.any(-1), usual.argmax(-1) + 1, _REACH)
        best = distance.argmin(-1)
        table = np.zeros(distance.shape)
        functions = np.flatnonzero(distance.min(-1) < _REACH)
        table[functions, best[functions]] = distance[functions, best[functions]]
        return table
