"""What the interface shows of a player's selection: control groups, panels, abilities.

In: a game and a player. Out: the protocol's messages for an observation.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from starmill.converters.protos import common_pb2, ui_pb2
from starmill.engines.skirmish.observation import visible_units
from starmill.engines.skirmish.simulation import rules
from starmill.engines.skirmish.simulation.game import Game
from starmill.schema import vocab


def selected_rows(game: Game, player: int) -> NDArray[np.intp]:
    """Returns the rows of the player's selected, living units."""
    units = game.world.units
    selected = (units["selected"] == 1) & (units["owner"] == player)
    return np.flatnonzero(selected & (units["alive"] == 1))


def abilities(game: Game, player: int) -> list[common_pb2.AvailableAbility]:
    """Returns the abilities that the selection can use now, each once, in order of ids."""
    rows = selected_rows(game, player)
    _, first = np.unique(game.world.units["unit_type"][rows], return_index=True)
    usable: set[int] = set()
    for row in rows[np.sort(first)]:
        usable.update(game.available_abilities(int(row)))
    return [available(ability) for ability in sorted(usable)]


@functools.cache
def available(ability: int) -> common_pb2.AvailableAbility:
    """Returns one ability as the protocol lists it. The message is shared: do not change it."""
    return common_pb2.AvailableAbility(
        ability_id=ability, requires_point=needs_target(ability)
    )


def needs_target(ability: int) -> bool:
    """Returns whether the ability can only be used on a point or a unit."""
    return ability not in _untargeted()


@functools.cache
def _untargeted() -> frozenset[int]:
    """Returns the abilities that can be used without a target, as clients know them."""
    return frozenset(f.ability_id for f in vocab.functions() if f.kind == "cmd")


def interface(game: Game, player: int) -> ui_pb2.ObservationUI:
    """Returns the control groups, and the panel of the selection."""
    shown = ui_pb2.ObservationUI()
    units = game.world.units
    for index, tags in enumerate(game.groups.get(player, ())):
        rows = game.rows_of(tags) if tags else np.zeros(0, np.int64)
        if len(rows):
            group = shown.groups.add(control_group_index=index, count=len(rows))
            group.leader_unit_type = int(units["unit_type"][rows[0]])
    rows = selected_rows(game, player)
    if len(rows) == 1:
        _single(shown, game, int(rows[0]))
    elif len(rows) > 1:
        shown.multi.units.extend(_info(game, int(row)) for row in rows)
    return shown


def _single(shown: ui_pb2.ObservationUI, game: Game, row: int) -> None:
    """Fills the panel of one selected unit: its cargo, its production, or itself."""
    unit = game.world.units[row]
    if unit["cargo_count"]:
        shown.cargo.unit.CopyFrom(_info(game, row))
        riders = game.world.cargo[row][: int(unit["cargo_count"])]
        shown.cargo.passengers.extend(_info(game, int(rider)) for rider in riders)
        shown.cargo.slots_available = int(unit["cargo_max"] - unit["cargo_used"])
        return
    orders = game.world.orders[row][: int(unit["order_count"])]
    structure = rules.unit_rules()["structure"][unit["unit_type"]]
    if structure and len(orders):
        shown.production.unit.CopyFrom(_info(game, row))
        for order in orders:
            item = shown.production.production_queue.add()
            item.ability_id = int(order["ability"])
            item.build_progress = float(order["progress"])
            product = int(rules.ability_rules()["makes"][order["ability"]])
            queued = shown.production.build_queue.add(unit_type=product)
            queued.build_progress = float(order["progress"])
        return
    panel = shown.single
    panel.unit.CopyFrom(_info(game, row))
    panel.attack_upgrade_level = int(unit["attack_level"])
    panel.armor_upgrade_level = int(unit["armor_level"])
    panel.shield_upgrade_level = int(unit["shield_level"])
    buffs = game.world.buffs["id"][row][: int(unit["buff_count"])]
    panel.buffs.extend(int(buff) for buff in buffs)


def _info(game: Game, row: int) -> ui_pb2.UnitInfo:
    unit = game.world.units[row]
    return ui_pb2.UnitInfo(
        unit_type=int(unit["unit_type"]),
        player_relative=visible_units.ALLIANCE_SELF,
        health=int(unit["health"]),
        shields=int(unit["shield"]),
        energy=int(unit["energy"]),
        transport_slots_taken=int(unit["cargo_used"]),
        build_progress=float(unit["build_progress"])
        if unit["build_progress"] < 1.0
        else 0.0,
        max_health=int(unit["health_max"]),
        max_shields=int(unit["shield_max"]),
        max_energy=int(unit["energy_max"]),
    )
