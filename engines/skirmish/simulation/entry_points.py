"""The compiled functions of this room that Python calls.

In: the state, as an array of one record, and plain arguments. Out: the changed state. Each function
calls the kernel of the same name and is cached on disk with all that it compiles. The state is an
array because numba recognises the type of an array in less than a microsecond, and that of a
record in half a millisecond.
"""

import numpy as np

from starmill.engines.skirmish.simulation import (
    accounts,
    loop,
    orders,
    production,
    requirements,
    terrain,
    units,
    vision,
)
from starmill.engines.skirmish.simulation.records import Command
from starmill.schema.compilation import entry


@entry
def advance(state: np.ndarray, loops: int) -> int:
    """Plays up to `loops` loops; see `loop.advance`."""
    return loop.advance(state[0], loops)


@entry
def prepare(state: np.ndarray) -> None:
    """Completes a new world; see `loop.prepare`."""
    loop.prepare(state[0])


@entry
def remember_resources(state: np.ndarray) -> None:
    """Shows both players where the resources are; see `vision.remember_resources`."""
    vision.remember_resources(state[0])


@entry
def refresh_vision(state: np.ndarray) -> None:
    """Updates what both players see; see `vision.refresh_vision`."""
    vision.refresh_vision(state[0])


@entry
def carry_out(state: np.ndarray, command: Command) -> int:
    """Carries out a player's command; see `orders.carry_out`."""
    return orders.carry_out(state[0], command)


@entry
def command_error(state: np.ndarray, command: Command) -> int:
    """Returns SUCCESS if a unit could obey a command now; see `orders.command_error`."""
    return orders.command_error(state[0], command)


@entry
def command_ability(state: np.ndarray, command: Command) -> int:
    """Returns the specific ability of a command; see `orders.command_ability`."""
    return orders.command_ability(state[0], command)


@entry
def used_value(
    state: np.ndarray, player: int, used: np.ndarray, food: np.ndarray
) -> None:
    """Adds up what a player has or makes; see `accounts.used_value`."""
    accounts.used_value(state[0], player, used, food)


@entry
def grant_upgrades(state: np.ndarray, player: int) -> None:
    """Gives a player all upgrades; see `production.grant_upgrades`."""
    production.grant_upgrades(state[0], player)


@entry
def toggle_autocast(
    state: np.ndarray, player: int, ability: int, tags: np.ndarray
) -> None:
    """Switches an autocast of units on or off; see `orders.toggle_autocast`."""
    orders.toggle_autocast(state[0], player, ability, tags)


@entry
def available_abilities(state: np.ndarray, row: int, ignore_cost: bool) -> np.ndarray:
    """Returns the abilities that a unit could use now; see `requirements`."""
    return requirements.available_abilities(state[0], row, ignore_cost)


@entry
def placement_error(
    state: np.ndarray, player: int, unit_type: int, x: float, y: float
) -> int:
    """Returns SUCCESS if the player can place this building there; see `terrain`."""
    return terrain.placement_error(state[0], player, unit_type, x, y)


@entry
def spawn(
    state: np.ndarray, unit_type: int, owner: int, x: float, y: float, progress: float
) -> int:
    """Creates a unit and returns its row, or -1; see `units.spawn`."""
    return units.spawn(state[0], unit_type, owner, x, y, progress)


@entry
def kill(state: np.ndarray, row: int, killer: int) -> None:
    """Kills a unit; see `units.kill`."""
    units.kill(state[0], row, killer)


@entry
def push_order(
    state: np.ndarray, row: int, ability: int, target: int, tag: int, x: float, y: float
) -> int:
    """Appends an order without any check; see `units.push_order`."""
    return units.push_order(state[0], row, ability, target, tag, x, y)


@entry
def find_place(
    state: np.ndarray, player: int, unit_type: int, x: float, y: float, skip: int
) -> tuple[float, float]:
    """Returns a free place for a building near a point; see `terrain.find_place`."""
    return terrain.find_place(state[0], player, unit_type, x, y, skip)
