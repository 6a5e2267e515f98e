"""A replay's tracker events: the units' and players' history as the game reports it.

In: a game's events. Out: (loop, name, fields), ready to be encoded. Must not know: inputs, or how
events are encoded.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from starmill.engines.skirmish.simulation import records
from starmill.engines.skirmish.simulation.game import Game
from starmill.schema import vocab
from starmill.schema.game_constants import LOOPS_PER_MINUTE

STATS_PERIOD = 160  # loops between two statistics of a player, as in the real game
_FOOD_SCALE = 4096  # food is written as fixed point with twelve bits
_TAG_MASK = (1 << records.TAG_SHIFT) - 1
_STATS = (
    *("MineralsCurrent", "VespeneCurrent"),
    *("MineralsCollectionRate", "VespeneCollectionRate"),
    "WorkersActiveCount",
    *(
        f"{resource}{account}{group}"
        for account in ("UsedInProgress", "UsedCurrent", "Lost", "Killed")
        for resource in ("Minerals", "Vespene")
        for group in ("Army", "Economy", "Technology")
    ),
    *("FoodUsed", "FoodMade"),
    *("MineralsUsedActiveForces", "VespeneUsedActiveForces"),
    *(
        f"{resource}FriendlyFire{group}"
        for group in ("Army", "Economy", "Technology")
        for resource in ("Minerals", "Vespene")
    ),
)


def _names(table: str) -> dict[int, bytes]:
    names = vocab.table(table)["raw_names"]
    return {int(raw): name.split(".")[-1].encode() for raw, name in names.items()}


def _tag_fields(tag: int, prefix: str = "m_unitTag") -> dict[str, int]:
    index, recycle = tag >> records.TAG_SHIFT, tag & _TAG_MASK
    return {f"{prefix}Index": index, f"{prefix}Recycle": recycle}


class Tracker:
    """Collects the tracker events of one game. Call `watch` after loops have been played."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._unit_names = _names("unit_types")
        self._upgrade_names = _names("upgrades")
        self._collected: list[tuple[int, str, dict[str, Any]]] = []
        self._stats_loop = 0
        self._income: dict[int, tuple[int, int, int]] = {1: (0, 0, 0), 2: (0, 0, 0)}
        for player in (1, 2):
            setup = {"m_playerId": player, "m_type": 1}
            setup |= {"m_userId": player - 1, "m_slotId": player - 1}
            self._collected.append((0, "PlayerSetup", setup))

    def events(self) -> list[tuple[int, str, dict[str, Any]]]:
        """Returns all events so far in the order of loops, with statistics of the present loop."""
        closing = [] if self._stats_loop == self._game.loop else self._all_stats()
        return sorted([*self._collected, *closing], key=lambda event: event[0])

    def watch(self) -> np.ndarray:
        """Takes the game's new events and returns them (`records.EVENT` rows).

        Also takes statistics if the loop is a multiple of STATS_PERIOD, and only then. If it is
        called on all of these loops, further calls on others do not change the file.
        """
        events = self._game.take_events()
        for row in events:
            self._collected += self._translated(row)
        loop = self._game.loop
        if loop % STATS_PERIOD == 0 and loop > self._stats_loop:
            self._collected += self._all_stats()
            self._stats_loop = loop
            for player in (1, 2):
                self._income[player] = (loop, *self._collected_so_far(player))
        return events

    def _all_stats(self) -> list[tuple[int, str, dict[str, Any]]]:
        loop = self._game.loop
        return [(loop, "PlayerStats", self._stats(player)) for player in (1, 2)]

    def _collected_so_far(self, player: int) -> tuple[int, int]:
        state = self._game.world.players[player]
        return int(state["collected_minerals"]), int(state["collected_vespene"])

    def _translated(self, row: np.void) -> Iterator[tuple[int, str, dict[str, Any]]]:
        loop, kind, tag = int(row["loop"]), int(row["kind"]), int(row["tag"])
        unit_type = int(row["unit_type"])
        player = int(row["player"])
        if kind == records.EVENT_UPGRADED:
            name = self._upgrade_names.get(unit_type, b"Upgrade%d" % unit_type)
            fields = {"m_playerId": player, "m_upgradeTypeName": name, "m_count": 1}
            yield loop, "Upgrade", fields
            return
        here = {"m_x": _cell(row["x"]), "m_y": _cell(row["y"])}
        name = self._unit_names.get(unit_type, b"Unit%d" % unit_type)
        owner = player if player < records.OWNER_NEUTRAL else 0
        whose = {"m_controlPlayerId": owner, "m_upkeepPlayerId": owner}
        unit = {**_tag_fields(tag), "m_unitTypeName": name}
        if kind == records.EVENT_BORN:
            creator = dict.fromkeys(
                (
                    "m_creatorUnitTagIndex",
                    "m_creatorUnitTagRecycle",
                    "m_creatorAbilityName",
                )
            )
            yield loop, "UnitBorn", {**unit, **whose, **here, **creator}
        elif kind == records.EVENT_STARTED:
            yield loop, "UnitInit", {**unit, **whose, **here}
        elif kind == records.EVENT_FINISHED:
            yield loop, "UnitDone", _tag_fields(tag)
        elif kind == records.EVENT_TYPE_CHANGED:
            yield loop, "UnitTypeChange", unit
        elif kind == records.EVENT_DIED:
            yield loop, "UnitDied", {**_tag_fields(tag), **here, **self._killer(row)}

    def _killer(self, row: np.void) -> dict[str, int | None]:
        tag = int(row["other_tag"])
        if not tag:
            names = ("m_killerPlayerId", "m_killerUnitTagIndex")
            return dict.fromkeys((*names, "m_killerUnitTagRecycle"))
        rows = self._game.rows_of([tag])
        owner = int(self._game.world.units["owner"][rows[0]]) if len(rows) else None
        killer = owner if owner is not None and owner < records.OWNER_NEUTRAL else None
        return {"m_killerPlayerId": killer, **_tag_fields(tag, "m_killerUnitTag")}

    def _stats(self, player: int) -> dict[str, Any]:
        state = self._game.world.players[player]
        loop = self._game.loop
        then, minerals, vespene = self._income[player]
        now = self._collected_so_far(player)
        # Rates are per minute of game time.
        span = max(loop - then, 1)
        rates = [
            (value - old) * LOOPS_PER_MINUTE // span
            for value, old in zip(now, (minerals, vespene), strict=True)
        ]
        known = {
            "MineralsCurrent": int(state["minerals"]),
            "VespeneCurrent": int(state["vespene"]),
            "MineralsCollectionRate": rates[0],
            "VespeneCollectionRate": rates[1],
            "WorkersActiveCount": int(state["food_workers_halves"]) // 2,
            "MineralsKilledArmy": int(state["killed_minerals"]),
            "VespeneKilledArmy": int(state["killed_vespene"]),
            "MineralsLostArmy": int(state["lost_minerals"]),
            "VespeneLostArmy": int(state["lost_vespene"]),
            "MineralsUsedCurrentArmy": int(state["spent_minerals"]),
            "VespeneUsedCurrentArmy": int(state["spent_vespene"]),
            "FoodUsed": int(state["food_used_halves"]) * _FOOD_SCALE // 2,
            "FoodMade": int(state["food_cap"]) * _FOOD_SCALE,
        }
        stats = {f"m_scoreValue{name}": known.get(name, 0) for name in _STATS}
        return {"m_playerId": player, "m_stats": stats}


def _cell(value: float) -> int:
    """Returns the cell of a coordinate, as the byte that an event holds."""
    return min(max(int(value), 0), 255)
