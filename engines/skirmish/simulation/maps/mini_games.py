"""Mini-games: what is on the field at the start, what earns points, and when they end.

In: `mini_games.json` beside this file. Out: `MINI_GAMES`, name -> `MiniGame`. They follow the
published descriptions of DeepMind's mini-games; their maps are our own. Knows no game.
"""

import dataclasses
import json
from importlib import resources
from typing import Any

LOOPS_PER_SECOND = 16  # these time limits are in seconds of the game speed "normal"
# Where a player's units are at the start.
RANDOM, SIDES, CENTRE, BASE = "random", "sides", "centre", "base"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """Neutral things that the player's units collect by touching them.

    Attributes:
        unit: name of their type.
        count: of a set. Once all are collected, there is a new set.
        gap: between a new one and the player's units at least, in cells.
        reach: how near a unit's edge must come to the goal's, in cells. A unit that is sent to
            it as a target stops half a cell away.
        moves: whether a collected one moves to another place instead of disappearing.
    """

    unit: str
    count: int
    gap: float
    reach: float
    moves: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scatter:
    """How enemies are spread over the map.

    Attributes:
        near: how many are near the player's units at the start.
        near_ring: least and greatest distance of those from the map's centre, in cells.
        far: least distance of the others from the map's centre at the start.
        gap: between enemies at least.
        later_gap: between the enemies of later sets and the player's units at least.
    """

    near: int
    near_ring: tuple[float, float]
    far: float
    gap: float
    later_gap: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class MiniGame:
    """One mini-game.

    Attributes:
        name: of its map.
        seconds: it lasts, at 16 loops a second.
        arena: width and height of the playable area, in cells.
        own: the player's units: (type name, count).
        enemies: the enemy's units likewise. Once all are dead, there is a new set.
        start: where the player's units are: RANDOM, SIDES (the enemy is on the other one),
            CENTRE or BASE (a town hall with mineral fields).
        fog: whether there is a fog of war.
        selected: whether the player's units are selected at the start.
        bases: number of bases with resources; the player's town hall is at the first.
        goal: what the player collects; None if nothing.
        scatter: how enemies are spread; None if they are in a group.
        reinforcements: units that the player gets with each new set of enemies.
        per_enemy: points for a dead enemy.
        per_loss: points for a lost unit.
        per_goal: points for a collected goal.
        per_trained: points for a finished unit of the type `trained`.
        per_resource: points for a collected unit of minerals or gas.
        trained: type name of the units that count; "" if none do.
    """

    name: str
    seconds: int
    arena: tuple[int, int]
    own: tuple[tuple[str, int], ...] = ()
    enemies: tuple[tuple[str, int], ...] = ()
    start: str = RANDOM
    fog: bool = False
    selected: bool = False
    bases: int = 0
    goal: Goal | None = None
    scatter: Scatter | None = None
    reinforcements: tuple[tuple[str, int], ...] = ()
    per_enemy: int = 0
    per_loss: int = 0
    per_goal: int = 0
    per_trained: int = 0
    per_resource: int = 0
    trained: str = ""

    @property
    def loops(self) -> int:
        """How long it lasts, in game loops."""
        return self.seconds * LOOPS_PER_SECOND


def _from_json(entry: dict[str, Any]) -> MiniGame:
    values = dict(entry)
    for name in ("own", "enemies", "reinforcements"):
        values[name] = tuple(values.get(name, {}).items())
    values["arena"] = tuple(values["arena"])
    if "goal" in values:
        values["goal"] = Goal(**values["goal"])
    if "scatter" in values:
        scatter = values["scatter"]
        ring = tuple(scatter["near_ring"])
        values["scatter"] = Scatter(**{**scatter, "near_ring": ring})
    return MiniGame(**values)


def _read() -> dict[str, MiniGame]:
    folder = resources.files("starmill.engines.skirmish.simulation.maps")
    entries = json.loads(folder.joinpath("mini_games.json").read_text("utf-8"))
    return {entry["name"]: _from_json(entry) for entry in entries["mini_games"]}


MINI_GAMES = _read()
