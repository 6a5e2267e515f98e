"""Plays a mini-game: puts units on the map, counts points, and says when it ends.

In: the world after each loop. Out: the world with new units, and the score. The player is player 1,
the enemy's units belong to player 2, and what is collected is neutral. Places are drawn from the
game's seed, so the same inputs give the same game. Knows no protocol.
"""

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import (
    entry_points,
    opening,
    records,
    rules,
)
from starmill.engines.skirmish.simulation.maps import game_map, mini_games
from starmill.engines.skirmish.simulation.records import World
from starmill.schema.game_constants import TERRAN

PLAYER, ENEMY = 1, 2
_MARGIN = 1.5  # between units and the arena's edge
_SIDE = 4.0  # from the arena's west or east edge to the middle of a group there
_ROW, _GAP = 3, 1.1  # units in a column of a group, and the cells between them
_FIRST_BEACON_GAP = 4.0  # the first goal may be this near to the player's unit
_ATTEMPTS = 200  # to find a random place; then the last one is taken


class MiniGamePlay:
    """One mini-game in progress.

    Attributes:
        score: the player's points so far.
    """

    def __init__(self, world: World, where: game_map.GameMap, seed: int) -> None:
        if where.mini_game is None:
            raise ValueError(f"{where.name}: expected a map of a mini-game")
        self.score = 0
        self._world = world
        self._map = where
        self._rules = where.mini_game
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._enemies: list[int] = []
        self._goals: list[int] = []
        self._own: list[int] = []
        self._side = 0
        self._trained: set[int] = set()
        self._begin()

    def after_loop(self) -> bool:
        """Counts the points of the loop just played. Returns whether the game goes on."""
        dead_enemies = self._remove_dead(self._enemies)
        dead_own = self._remove_dead(self._own)
        self.score += dead_enemies * self._rules.per_enemy
        self.score += dead_own * self._rules.per_loss
        if self._rules.goal is not None:
            self._collect(self._rules.goal)
        if self._rules.trained:
            self._count_trained()
        if self._rules.per_resource:
            player = self._world.players[PLAYER]
            collected = player["collected_minerals"] + player["collected_vespene"]
            self.score = int(collected) * self._rules.per_resource
        if self._rules.enemies and not self._own:
            return False
        if self._rules.enemies and not self._enemies:
            self._next_wave()
        return int(self._world.clock[records.LOOP]) < self._rules.loops

    def state(self) -> tuple[object, ...]:
        """Returns everything that can influence the rest of the game, for a digest."""
        return (
            self.score,
            self._side,
            sorted(self._own + self._enemies + self._goals),
            sorted(self._trained),
            self._rng.bit_generator.state["state"]["state"],
        )

    # The start

    def _begin(self) -> None:
        """Puts the first units on the map."""
        self._side = int(self._rng.integers(2))
        if self._rules.start == mini_games.BASE:
            opening.put_player(self._world, PLAYER, TERRAN, self._map.bases[0])
        else:
            self._put_own(self._rules.own)
        self._put_enemies(first=True)
        if self._rules.goal is not None:
            gap = self._rules.goal.gap
            self._put_goals(
                self._rules.goal, min(gap, _FIRST_BEACON_GAP), self._rules.goal.count
            )
        if self._rules.selected:
            self._world.units["selected"][self._rows(self._own)] = 1
        entry_points.prepare(self._world.state)

    def _put_own(self, groups: tuple[tuple[str, int], ...]) -> None:
        """Adds units of the player: each at random, or all in a group."""
        count = sum(number for _, number in groups)
        if self._rules.start == mini_games.RANDOM:
            places = [self._random_place(np.zeros((0, 2)), 0.0) for _ in range(count)]
        else:
            places = self._group(self._side, count)
        self._own += self._spawn(groups, PLAYER, places)

    def _put_enemies(self, *, first: bool) -> None:
        groups = self._rules.enemies
        count = sum(number for _, number in groups)
        if self._rules.scatter is None:
            places = self._group(1 - self._side, count)
        else:
            places = self._scattered(self._rules.scatter, count, first=first)
        self._enemies += self._spawn(groups, ENEMY, places)

    def _next_wave(self) -> None:
        """Brings a new set of enemies, and reinforcements; a group's units change places."""
        if self._rules.start == mini_games.SIDES:
            self._side = int(self._rng.integers(2))
            self._put_own(self._rules.reinforcements)
            rows = self._rows(self._own)
            places = self._group(self._side, len(rows))
            for row, (x, y) in zip(rows, places, strict=True):
                self._move(int(row), x, y)
        self._put_enemies(first=False)

    # Points

    def _remove_dead(self, tags: list[int]) -> int:
        """Removes the dead from a list of tags and returns how many they were."""
        if not tags:
            return 0
        living = {int(tag) for tag in self._world.units["tag"][self._rows(tags)]}
        before = len(tags)
        tags[:] = [tag for tag in tags if tag in living]
        return before - len(tags)

    def _collect(self, goal: mini_games.Goal) -> None:
        """Takes away the goals that the player's units touch."""
        units = self._world.units
        goals, own = self._rows(self._goals), self._rows(self._own)
        if not len(goals) or not len(own):
            return
        dx = units["x"][goals][:, None] - units["x"][own][None, :]
        dy = units["y"][goals][:, None] - units["y"][own][None, :]
        radii = units["radius"][goals][:, None] + units["radius"][own][None, :]
        touched = goals[(np.hypot(dx, dy) < radii + goal.reach).any(axis=1)]
        for row in touched:
            self.score += self._rules.per_goal
            if goal.moves:
                self._move(int(row), *self._random_place(self._places(own), goal.gap))
            else:
                entry_points.kill(self._world.state, int(row), -1)
        if len(touched) and not goal.moves:
            self._remove_dead(self._goals)
            if not self._goals:
                self._put_goals(goal, goal.gap, goal.count)

    def _put_goals(self, goal: mini_games.Goal, gap: float, count: int) -> None:
        own = self._places(self._rows(self._own))
        places = [self._random_place(own, gap) for _ in range(count)]
        owner = records.OWNER_NEUTRAL
        self._goals += self._spawn(((goal.unit, count),), owner, places)

    def _count_trained(self) -> None:
        units = self._world.units
        mine = (units["alive"] == 1) & (units["owner"] == PLAYER)
        mine &= units["unit_type"] == rules.unit_id(self._rules.trained)
        for tag in units["tag"][mine]:
            if int(tag) not in self._trained:
                self._trained.add(int(tag))
                self.score += self._rules.per_trained

    # Places

    def _group(self, side: int, count: int) -> list[tuple[float, float]]:
        """Returns places in columns on a side of the arena, or in its middle."""
        left, bottom, right, top = self._map.playable
        x = left + _SIDE if side == 0 else right - _SIDE
        if self._rules.start == mini_games.CENTRE:
            x = (left + right) / 2
        y = (bottom + top) / 2
        places = []
        for index in range(count):
            column, row = divmod(index, _ROW)
            offset = (column - (count - 1) // _ROW / 2) * _GAP
            places.append((x + offset, y + (row - (_ROW - 1) / 2) * _GAP))
        return places

    def _random_place(
        self, others: NDArray[np.float64], gap: float
    ) -> tuple[float, float]:
        """Returns a place in the arena with a gap to others, [N, 2]."""
        left, bottom, right, top = self._map.playable
        for _ in range(_ATTEMPTS):
            x = float(self._rng.uniform(left + _MARGIN, right - _MARGIN))
            y = float(self._rng.uniform(bottom + _MARGIN, top - _MARGIN))
            if not len(others) or _least_distance(others, x, y) >= gap:
                break
        return x, y

    def _scattered(
        self, scatter: mini_games.Scatter, count: int, *, first: bool
    ) -> list[tuple[float, float]]:
        """Returns places all over the arena, as far apart as the mini-game says."""
        left, bottom, right, top = self._map.playable
        centre = ((left + right) / 2, (bottom + top) / 2)
        own = self._places(self._rows(self._own))
        places: list[tuple[float, float]] = []
        for index in range(count):
            for _ in range(_ATTEMPTS):
                x, y = self._random_place(own, 0.0 if first else scatter.later_gap)
                away = _least_distance(np.asarray([centre]), x, y)
                near, far = scatter.near_ring
                fits = not first or (
                    near <= away <= far if index < scatter.near else away >= scatter.far
                )
                apart = (
                    not places
                    or _least_distance(np.asarray(places), x, y) >= scatter.gap
                )
                if fits and apart:
                    break
            places.append((x, y))
        return places

    # Units

    def _spawn(
        self,
        groups: tuple[tuple[str, int], ...],
        owner: int,
        places: list[tuple[float, float]],
    ) -> list[int]:
        """Creates units at places and returns their tags."""
        types = [name for name, number in groups for _ in range(number)]
        tags = []
        for name, (x, y) in zip(types, places, strict=True):
            unit_type = rules.unit_id(name)
            row = entry_points.spawn(self._world.state, unit_type, owner, x, y, 1.0)
            tags.append(int(self._world.units["tag"][row]))
        return tags

    def _move(self, row: int, x: float, y: float) -> None:
        """Puts a unit somewhere else and makes it forget its orders."""
        unit = self._world.units[row]
        unit["x"], unit["y"] = x, y
        for name in ("order_count", "engaged", "path_until", "hold"):
            unit[name] = 0
        self._world.orders["stage"][row, 0] = records.STAGE_WAITING

    def _places(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns x and y of units, [N, 2]."""
        units = self._world.units
        return np.stack([units["x"][rows], units["y"][rows]], axis=1)

    def _rows(self, tags: list[int]) -> NDArray[np.int64]:
        """Returns the rows of the units with these tags that are alive."""
        rows = (np.asarray(tags, np.int64) >> records.TAG_SHIFT) - 1
        units = self._world.units
        return rows[(units["tag"][rows] == tags) & (units["alive"][rows] == 1)]


def _least_distance(others: NDArray[np.float64], x: float, y: float) -> float:
    """Returns the distance from a point to the nearest of others, [N, 2]."""
    return float(np.hypot(others[:, 0] - x, others[:, 1] - y).min())
