"""The compiled functions that Python calls; everything else calls kernels from kernels.

They take the state as an array of one record: numba recognises the type of an array in well
under a microsecond, that of a bare record in half a millisecond.
"""

import numpy as np

from starmill.engines.skirmish.simulation import (
    loop,
    orders,
    requirements,
    terrain,
    units,
    vision,
)
from starmill.schema.compilation import entry


@entry
def advance(state: np.ndarray, loops: int) -> int:
    """Plays up to `loops` loops; see simulation.advance."""
    return loop.advance(state[0], loops)


@entry
def prepare(state: np.ndarray) -> None:
    """Completes a new world; see simulation.prepare."""
    loop.prepare(state[0])


@entry
def remember_resources(state: np.ndarray) -> None:
    """Tells both players where the resources are."""
    vision.remember_resources(state[0])


@entry
def refresh_vision(state: np.ndarray) -> None:
    """Looks at the map for both players."""
    vision.refresh(state[0])


@entry
def order(
    state: np.ndarray,
    player: int,
    ability: int,
    tags: np.ndarray,
    target: int,
    tag: int,
    x: float,
    y: float,
    queued: bool,
) -> int:
    """Carries out a player's command; see commands.order."""
    return orders.order(state[0], player, ability, tags, target, tag, x, y, queued)


@entry
def toggle(state: np.ndarray, player: int, ability: int, tags: np.ndarray) -> None:
    """Switches an autocast."""
    orders.toggle(state[0], player, ability, tags)


@entry
def available(state: np.ndarray, row: int, ignore_cost: bool) -> np.ndarray:
    """Returns the abilities that a unit could be given now, int32."""
    return requirements.available(state[0], row, ignore_cost)


@entry
def placement_error(
    state: np.ndarray, player: int, unit_type: int, x: float, y: float
) -> int:
    """Returns 1 if the player may put this building there, else why not."""
    return terrain.placement_error(state[0], player, unit_type, x, y)


@entry
def spawn(
    state: np.ndarray, unit_type: int, owner: int, x: float, y: float, progress: float
) -> int:
    """Creates a unit and returns its row, or -1."""
    return units.spawn(state[0], unit_type, owner, x, y, progress)


@entry
def kill(state: np.ndarray, row: int, killer: int) -> None:
    """Kills a unit; killer is a row or -1."""
    units.kill(state[0], row, killer)


@entry
def push_order(
    state: np.ndarray, row: int, ability: int, target: int, tag: int, x: float, y: float
) -> int:
    """Appends an order without any check."""
    return units.push_order(state[0], row, ability, target, tag, x, y)


@entry
def find_place(
    state: np.ndarray, player: int, unit_type: int, x: float, y: float, skip: int
) -> tuple[float, float]:
    """Returns a free place for a building near a point; see terrain.find_place."""
    return terrain.find_place(state[0], player, unit_type, x, y, skip)
