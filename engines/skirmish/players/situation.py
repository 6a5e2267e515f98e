"""What a bot knows at one moment: its own units, the enemies it sees, and what it can spend.

In: a game and a player. Out: a `Situation`, plain arrays of that moment. Of the enemy it holds only
what the player sees now. Must not know: strategies, or what the bot decides.
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.simulation import ids, records, rules
from starmill.engines.skirmish.simulation.game import Game


def mean(values: NDArray[np.float64]) -> float:
    """Returns the mean, rounded once: the order of the numbers does not change it."""
    return math.fsum(values.tolist()) / len(values)


def distance(dx: float, dy: float) -> float:
    """Returns the length of a vector. math.hypot may differ in the last bit between machines."""
    return math.sqrt(dx * dx + dy * dy)


@functools.cache
def ability_makers() -> dict[str, tuple[int, ...]]:
    """Returns, per ability name, the unit types that have it."""
    table = rules.sources()
    return {
        name: tuple(int(t) for t in table[ability] if t)
        for name, ability in rules.ability_names().items()
    }


class Situation:
    """One moment of a game as one player knows it.

    Arrays are over the player's own living units that no transport carries, shape [N]; an
    "index" is a position in them.

    Attributes:
        game: the game.
        player: the player's number, 1 or 2.
        loop: the game loop.
        world: the game's arrays.
        rows: rows of the own units in the world's arrays.
        own: the own units' records (`records.UNIT`).
        types: unit types of the own units.
        finished: whether they are completely built.
        x: their x coordinates.
        y: their y coordinates.
        tags: their tags.
        orders: their numbers of orders.
        first_order: ability ids of their first orders; 0 if they have none.
        enemies: records of the enemy units that the player sees and detects.
        has_hidden_enemies: whether a cloaked enemy is in sight that nothing detects.
        race: TERRAN, ZERG or PROTOSS.
        minerals: minerals left to spend; each intent takes its cost from them.
        vespene: vespene left to spend, likewise.
        food_used: supply in use.
        food_cap: supply available.
        food_army: supply that the army uses.
        counts: finished own units by unit type.
        pending: unfinished own units by unit type.
        unit_rules: the rules' table by unit type.
        abilities: the rules' table by ability id.
        halls: indices of finished town halls.
        workers: indices of workers.
        army: indices of finished fighting units.
        larvae_used: number of larvae that the intents so far use.
        planned_units: number of units that the intents so far make, by name.
        busy: indices of units that the intents so far use to make or build something.
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
        self.finished: NDArray[np.bool_] = own["build_progress"] >= 1.0
        self.x: NDArray[np.float64] = own["x"]
        self.y: NDArray[np.float64] = own["y"]
        self.tags: NDArray[np.int64] = own["tag"]
        self.orders: NDArray[np.int32] = own["order_count"]
        self.first_order = np.where(
            self.orders > 0, world.orders["ability"][self.rows, 0], 0
        )
        bit = 1 << player
        in_sight = alive & (owner == 3 - player) & ((units["seen"] & bit) != 0)
        detected = (units["cloaked"] == 0) | ((units["detected"] & bit) != 0)
        self.enemies = units[np.flatnonzero(in_sight & detected)]
        self.has_hidden_enemies = bool(np.any(in_sight & ~detected))
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
        self.planned_units: dict[str, int] = {}
        self.busy: set[int] = set()
        self._reserve()
        self.halls = np.flatnonzero(
            self.finished & (table["town_hall"][self.types] != 0)
        )
        self.workers = np.flatnonzero(table["worker"][self.types] != 0)
        army = (table["army"][self.types] != 0) & self.finished
        self.army = np.flatnonzero(army)

    def _reserve(self) -> None:
        """Sets aside the cost of buildings that workers are on their way to place."""
        stage = self.world.orders["stage"][self.rows, 0]
        rule = self.abilities[self.first_order]
        waiting = (rule["kind"] == ids.KIND_BUILD) & (stage == 0)
        self.minerals -= int(rule["minerals"][waiting].sum())
        self.vespene -= int(rule["vespene"][waiting].sum())

    def of_type(self, *types: int, finished: bool = True) -> NDArray[np.int64]:
        """Returns the indices of own units of these types; only finished ones by default."""
        match = self.types == types[0]
        for unit_type in types[1:]:
            match |= self.types == unit_type
        return np.flatnonzero(match & self.finished if finished else match)

    def named(self, *names: str) -> NDArray[np.int64]:
        """Returns the indices of finished own units, by the names of their types."""
        return self.of_type(*(rules.unit_id(name) for name in names))

    def engaged(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns those of the own units that are fighting."""
        return indices[self.own["engaged"][indices] != 0]

    def calm(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns those of the own units that are not fighting."""
        return indices[self.own["engaged"][indices] == 0]

    def with_energy(
        self, indices: NDArray[np.int64], energy: float
    ) -> NDArray[np.int64]:
        """Returns those of the own units that have at least this much energy."""
        return indices[self.own["energy"][indices] >= energy]

    def without_buff(self, indices: NDArray[np.int64], buff: int) -> NDArray[np.int64]:
        """Returns those of the own units that do not have a buff."""
        buffs = self.world.buffs["id"][self.rows[indices]]
        slots = np.arange(buffs.shape[1])[None, :]
        in_use = slots < self.own["buff_count"][indices][:, None]
        return indices[~np.any((buffs == buff) & in_use, axis=1)]

    def has_upgrade(self, upgrade: int) -> bool:
        """Returns whether the player has researched an upgrade."""
        return bool(self.world.upgrades[self.player, upgrade])

    def total(self, unit_type: int) -> int:
        """Returns how many of a type the player has or is making."""
        return int(self.counts[unit_type] + self.pending[unit_type])

    def can_pay(self, ability: int) -> bool:
        """Returns whether enough is left to pay for an ability."""
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
        """Returns whether the player has the building and the upgrade that an ability needs."""
        rule = self.abilities[ability]
        if rule["needs"] and self.counts[rule["needs"]] == 0:
            return False
        upgrade = int(rule["needs_upgrade"])
        return not upgrade or self.has_upgrade(upgrade)

    def sees(self, x: float, y: float) -> bool:
        """Returns whether the player sees the cell of a point now."""
        return self._cell(x, y) == records.CELL_VISIBLE

    def has_seen(self, x: float, y: float) -> bool:
        """Returns whether the player has ever seen the cell of a point."""
        return self._cell(x, y) != records.CELL_HIDDEN

    def _cell(self, x: float, y: float) -> int:
        return int(self.world.visibility[self.player, int(y), int(x)])

    def point(self, index: int) -> tuple[float, float]:
        """Returns the position of own unit `index`."""
        return float(self.x[index]), float(self.y[index])

    def tag(self, index: int) -> tuple[int, ...]:
        """Returns the tag of own unit `index`, as the tags of an intent."""
        return (int(self.tags[index]),)

    def tags_of(self, indices: NDArray[np.int64]) -> tuple[int, ...]:
        """Returns the tags of own units, in the order of the indices."""
        return tuple(int(tag) for tag in self.tags[indices])

    def nearest(self, indices: NDArray[np.int64], x: float, y: float) -> int:
        """Returns which of these own units is nearest to a point; -1 if there are none."""
        if len(indices) == 0:
            return -1
        dx, dy = self.x[indices] - x, self.y[indices] - y
        return int(indices[int(np.argmin(dx * dx + dy * dy))])
