"""Where a town hall may stand, judging by the dataset's arrays.

In: places of mineral fields and geysers, [N, 2] x and y on the grid of actions, and the
minimap's planes. Out: places for town halls, shortest walk from a start first. Knows nothing of
players, money and orders.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.float64]
Plane = NDArray[np.bool_]

# Half of each one's width and height, in world units.
_HALL, _FIELD, _GEYSER = (2.5, 2.5), (1.0, 0.5), (1.5, 1.5)
_MARGIN = 3.0  # the game keeps this free between a resource and a town hall
_ROUNDING = 0.5  # the game moves a building by at most this to its own cells
_LINE_LENGTH = 14.0  # fields that are closer together belong to one base
_REACH = 11.0  # a hall that is farther from the middle of its fields is useless


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ground:
    """What the minimap shows of the ground.

    Attributes:
        buildable: [H, W], where a building may stand now.
        pathable: [H, W], where a unit may walk now.
        creep: [H, W], creep that the player has seen.
        explored: [H, W], seen at some time; the game refuses buildings elsewhere.
        ratio: minimap pixels per cell of the action grid.
        scale: cells of the action grid per world unit.
    """

    buildable: Plane
    pathable: Plane
    creep: Plane
    explored: Plane
    ratio: float
    scale: float

    def pixel(self, place: Places) -> tuple[int, int]:
        """Returns the minimap's column and row of a place."""
        x, y = (place * self.ratio).astype(int)
        return int(x), int(y)

    def is_free(self, place: Places, radius: float, *, on_creep: bool) -> bool:
        """Returns whether a building of this half width can stand here, on creep or off it."""
        rows, columns = self.buildable.shape
        for dx in (-radius, 0.0, radius):
            for dy in (-radius, 0.0, radius):
                x, y = self.pixel(place + np.array([dx, dy]) * self.scale)
                if not (0 <= x < columns and 0 <= y < rows):
                    return False
                if not self.buildable[y, x] or self.creep[y, x] != on_creep:
                    return False
        return True

    def is_open(self, place: Places) -> bool:
        """Returns whether a town hall's ground is free here."""
        return self._holds(self.buildable, place)

    def is_explored(self, place: Places) -> bool:
        """Returns whether the player has seen all of a town hall's ground here."""
        return self._holds(self.explored, place)

    def _holds(self, plane: Plane, place: Places) -> bool:
        x, y = self.pixel(place)
        reach = max(1, int(_HALL[0] * self.scale * self.ratio))
        rows, columns = plane.shape
        inside = reach <= x < columns - reach and reach <= y < rows - reach
        window = plane[y - reach : y + reach + 1, x - reach : x + reach + 1]
        return bool(inside and window.all())


def walking_steps(ground: Ground, start: Places) -> NDArray[np.int64]:
    """Returns the steps from a town hall to every minimap pixel; -1 where no path leads.

    Shape [H, W]. A step is a pixel sideways, up or down.
    """
    x, y = ground.pixel(start)
    # The hall itself blocks the way, so the walk begins beside it.
    reach = int(2 * _HALL[0] * ground.scale * ground.ratio)
    steps = np.full(ground.pathable.shape, -1, np.int64)
    steps[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1] = 0
    reached = steps == 0
    for step in range(1, steps.size):
        grown = reached.copy()
        grown[1:] |= reached[:-1]
        grown[:-1] |= reached[1:]
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        new = grown & ground.pathable & ~reached
        if not new.any():
            break
        steps[new] = step
        reached |= new
    return steps


def town_hall_places(
    fields: Places, geysers: Places, taken: Places, ground: Ground, start: Places
) -> list[Places]:
    """Returns the best place at each free base, shortest walk first.

    Bases may lie behind cliffs, so the nearest in a straight line can be a long walk.
    """
    steps = walking_steps(ground, start)
    sites: list[tuple[int, Places]] = []
    for line in _mineral_lines(fields, ground.scale):
        gaps = np.linalg.norm(line[:, None] - taken[None], axis=2)
        is_taken = (gaps <= _LINE_LENGTH * ground.scale).any()
        place = None if is_taken else _beside(line, fields, geysers, ground)
        if place is None:
            continue
        x, y = ground.pixel(place)
        if steps[y, x] >= 0:
            sites.append((int(steps[y, x]), place))
    return [place for _, place in sorted(sites, key=lambda site: site[0])]


def _mineral_lines(fields: Places, scale: float) -> list[Places]:
    """Returns the fields of each base."""
    lines = []
    while len(fields):
        near = np.linalg.norm(fields - fields[0], axis=1) < _LINE_LENGTH * scale
        lines.append(fields[near])
        fields = fields[~near]
    return lines


def _beside(
    line: Places, fields: Places, geysers: Places, ground: Ground
) -> Places | None:
    """Returns the place closest to a base's fields where a town hall can stand."""
    steps = np.arange(-_REACH, _REACH + 0.5, 0.5) * ground.scale
    around = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    spots = np.rint(line.mean(0) + around)
    clear = _is_clear(spots, fields, _FIELD, ground.scale)
    clear &= _is_clear(spots, geysers, _GEYSER, ground.scale)
    spots = spots[clear]
    # Sorted by the farthest field, not by the mean: if the best place is blocked, the town hall
    # goes in front of the fields, not behind them.
    walk = np.linalg.norm(spots[:, None] - line[None], axis=2).max(1, initial=0.0)
    for index in np.argsort(walk, kind="stable"):
        if ground.is_open(spots[index]):
            return np.asarray(spots[index])
    return None


def _is_clear(
    spots: Places, resources: Places, half: tuple[float, float], scale: float
) -> NDArray[np.bool_]:
    """Returns for each spot whether a town hall there is far enough from these resources."""
    kept = np.array(half) + np.array(_HALL) + _MARGIN + _ROUNDING
    gaps = np.abs(spots[:, None] - resources[None]) / scale
    return np.asarray((gaps >= kept).any(2).all(1))
