"""What a bot knows when it thinks: its own units, the enemies it sees, and what it can spend.

In: a game and a player. Out: a `Scene`, plain arrays of that moment. Of the enemy it holds only
what the player sees now or remembers. Also here: `Dice`, the bots' random numbers, and
`Intent`, what a bot wants done.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import ids, records, rules
from starmill.engines.skirmish.simulation.game import Game

_MASK = (1 << 64) - 1


class Dice:
    """Random numbers in integers (splitmix64), the same on every machine and version."""

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


class Intent(NamedTuple):
    """One thing a bot wants done. where: what it looks at while doing it, None if it needs not."""

    ability: int
    tags: tuple[int, ...]
    target_tag: int = 0
    point: tuple[float, float] | None = None
    queued: bool = False
    repeat: int = 1
    where: tuple[float, float] | None = None
    group: int = -1
    autocast: bool = False


def mean(values: NDArray[np.float64]) -> float:
    """Returns the mean, rounded once: the same whatever order the numbers are added in."""
    return math.fsum(values.tolist()) / len(values)


def distance(dx: float, dy: float) -> float:
    """Returns the length of a vector by exact steps, which math.hypot does not promise."""
    return math.sqrt(dx * dx + dy * dy)


@functools.cache
def ability_makers() -> dict[str, tuple[int, ...]]:
    """Returns, per ability name, the unit types that have it."""
    table = rules.sources()
    return {
        name: tuple(int(t) for t in table[ability] if t)
        for name, ability in rules.ability_names().items()
    }


class Scene:
    """One moment, as one player knows it. Arrays are over the player's own units, [N].

    minerals, vespene: what is left to spend; intents take from it as they are made.
    larvae_used, made, busy: what the intents so far use: larvae, units by name, makers.
    """

    def __init__(self, game: Game, player: int) -> None:
        world = game.world
        self.game = game
        self.player = player
        self.loop = game.loop
        self.world = world
        count = int(world.clock[records.ROWS])
        units = world.units[:count]
        owner = units["owner"]
        alive = (units["alive"] == 1) & (units["carrier"] < 0)
        self.rows = np.flatnonzero(alive & (owner == player))
        own = units[self.rows]
        self.own = own
        self.types: NDArray[np.int32] = own["unit_type"]
        self.done: NDArray[np.bool_] = own["build_progress"] >= 1.0
        self.x: NDArray[np.float64] = own["x"]
        self.y: NDArray[np.float64] = own["y"]
        self.tags: NDArray[np.int64] = own["tag"]
        self.orders: NDArray[np.int32] = own["order_count"]
        self.first = np.where(self.orders > 0, world.orders["ability"][self.rows, 0], 0)
        bit = 1 << player
        seen = alive & (owner == 3 - player) & ((units["seen"] & bit) != 0)
        seen &= (units["cloaked"] == 0) | ((units["detected"] & bit) != 0)
        self.enemy_rows = np.flatnonzero(seen)
        self.enemies = units[self.enemy_rows]
        self.hidden = bool(
            np.any(
                alive
                & (owner == 3 - player)
                & ((units["seen"] & bit) != 0)
                & (units["cloaked"] != 0)
                & ((units["detected"] & bit) == 0)
            )
        )
        record = world.players[player]
        self.race = int(record["race"])
        self.minerals = int(record["minerals"])
        self.vespene = int(record["vespene"])
        self.food_used = int(record["food_used_halves"]) / 2
        self.food_cap = int(record["food_cap"])
        self.food_army = int(record["food_army_halves"]) / 2
        self.counts = world.counts[player]
        self.pending = world.pending[player]
        table = rules.unit_rules()
        self.unit_rules = table
        self.abilities = rules.ability_rules()
        self.larvae_used = 0
        self.made: dict[str, int] = {}
        self.busy: set[int] = set()
        self._reserve()
        self.halls = np.flatnonzero(self.done & (table["town_hall"][self.types] != 0))
        self.workers = np.flatnonzero(table["worker"][self.types] != 0)
        army = (table["army"][self.types] != 0) & self.done
        self.army = np.flatnonzero(army)

    def _reserve(self) -> None:
        """Sets money aside for buildings that workers are on their way to put down."""
        stage = self.world.orders["stage"][self.rows, 0]
        rule = self.abilities[self.first]
        waiting = (rule["kind"] == ids.KIND_BUILD) & (stage == 0)
        self.minerals -= int(rule["minerals"][waiting].sum())
        self.vespene -= int(rule["vespene"][waiting].sum())

    def of(self, *types: int, done: bool = True) -> NDArray[np.int64]:
        """Returns the indices of own units of these types."""
        match = self.types == types[0]
        for kind in types[1:]:
            match |= self.types == kind
        return np.flatnonzero(match & self.done if done else match)

    def total(self, unit_type: int) -> int:
        """Returns how many of a type there are or will be."""
        return int(self.counts[unit_type] + self.pending[unit_type])

    def can_pay(self, ability: int) -> bool:
        """Returns whether an ability's cost is there."""
        rule = self.abilities[ability]
        return bool(
            self.minerals >= rule["minerals"] and self.vespene >= rule["vespene"]
        )

    def spend(self, ability: int) -> None:
        """Takes an ability's cost from what is left to spend."""
        rule = self.abilities[ability]
        self.minerals -= int(rule["minerals"])
        self.vespene -= int(rule["vespene"])

    def has_tech(self, ability: int) -> bool:
        """Returns whether the building and the upgrade that an ability needs are there."""
        rule = self.abilities[ability]
        if rule["needs"] and self.counts[rule["needs"]] == 0:
            return False
        upgrade = int(rule["needs_upgrade"])
        return not upgrade or bool(self.world.upgrades[self.player, upgrade])

    def point(self, index: int) -> tuple[float, float]:
        """Returns where own unit `index` is."""
        return float(self.x[index]), float(self.y[index])

    def nearest(self, indices: NDArray[np.int64], x: float, y: float) -> int:
        """Returns which of the own units is nearest to a point; -1 if there are none."""
        if len(indices) == 0:
            return -1
        dx, dy = self.x[indices] - x, self.y[indices] - y
        return int(indices[int(np.argmin(dx * dx + dy * dy))])
