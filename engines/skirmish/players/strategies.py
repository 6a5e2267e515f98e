"""The bots' strategies: what each race builds, in several styles, from `strategies.json`.

In: a race and a style. Out: the file's entries, and the `BotStrategy` that one bot follows in one
game. Must not know: the state of a game; `macro` and `army_production` carry strategies out.
"""

import dataclasses
import functools
import json
from importlib import resources
from typing import Any

from starmill.engines.skirmish.simulation import maps
from starmill.schema.game_constants import RACE_NAMES


@dataclasses.dataclass(frozen=True, kw_only=True)
class BotStrategy:
    """What one bot wants to build in one game.

    Attributes:
        race: the race's entry in strategies.json: names of its worker, town hall and so on.
        style: an entry of `race["styles"]`.
        max_workers: the number of workers beyond which it trains none.
        max_bases: the number of town halls beyond which it builds none.
        spends_gas_first: whether it makes what needs gas as soon as it has gas, and then saves
            minerals for it, so that its plan can be told from its bank.
        supply_slack: share of the spare supply of a perfect player that the bot keeps ready.
            Less skilled players have less of it and get stuck.
        guard_food: food of army per worker beyond the first sixteen that careful players have
            before they train more workers.
        army_food: food of army beyond which it makes no more fighting units.
        start: (x, y) of its first town hall.
        expansions: the map's bases in the order in which it takes them, its own first.
    """

    race: dict[str, Any]
    style: dict[str, Any]
    max_workers: int
    max_bases: int
    spends_gas_first: bool
    supply_slack: float
    guard_food: float
    army_food: float
    start: tuple[float, float]
    expansions: tuple[maps.Base, ...]


def of_race(race: int) -> dict[str, Any]:
    """Returns the entry of a race (TERRAN, ZERG or PROTOSS) in strategies.json."""
    entry: dict[str, Any] = _read()[RACE_NAMES[race]]
    return entry


@functools.cache
def _read() -> dict[str, Any]:
    file = resources.files("starmill.engines.skirmish.players") / "strategies.json"
    content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return content
