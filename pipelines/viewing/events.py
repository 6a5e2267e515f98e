"""What happened to a player's own units: the order in which they appeared, and where they were lost.

In: the columns of an episode's unit rows, sorted by tag and step. Out: lists for JSON.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import vocab

_OWN = 1
# Units that appear and vanish by themselves, or are an earlier state of another unit.
_PASSING = re.compile(
    "Larva|Cocoon|Broodling|Locust|Interceptor|Changeling|CreepTumor|MULE|ForceField|KD8|"
    "AutoTurret|Phased|PhaseShift|Nuke|InfestedTerran|PointDefenseDrone|RepairDrone|StasisTrap|"
    "ParasiticBomb"
)


def build_order(
    units: Mapping[str, NDArray[np.int32]],
    loops: NDArray[np.int32],
    supply: NDArray[np.int32],
) -> list[list[Any]]:
    """Returns [game loop, supply, name, count] in order; neighbours of one name are joined.

    A unit counts when it is first seen, which for a building is when its construction begins.
    What the player has at the first step is left out.

    Args:
        units: columns of unit rows, sorted by tag and step.
        loops: game loop of each step.
        supply: used by the player, at each step.
    """
    names = _names()
    own = units["alliance"] == _OWN
    tags, first = np.unique(units["tag"][own], return_index=True)
    steps = units["step"][own][first]
    kinds = units["unit_type"][own][first]
    order = np.lexsort((tags, kinds, steps))
    out: list[list[Any]] = []
    for step, kind in zip(steps[order].tolist(), kinds[order].tolist(), strict=True):
        name = names.get(kind)
        if step == 0 or name is None or _PASSING.search(name):
            continue
        if out and out[-1][2] == name:
            out[-1][3] += 1
        else:
            out.append([int(loops[step]), int(supply[step]), name, 1])
    return out


def losses(
    units: Mapping[str, NDArray[np.int32]], loops: NDArray[np.int32]
) -> list[list[int]]:
    """Returns [game loop, x, y] of each own unit that is gone before the last step.

    Most were killed. A drone that became a building is among them, and so is a unit that was in a
    transport at the end.
    """
    names = _names()
    own = units["alliance"] == _OWN
    if not own.any():
        return []
    tags, steps = units["tag"][own], units["step"][own]
    is_last = np.append(tags[1:] != tags[:-1], True) & (steps < len(loops) - 1)
    gone = {
        name: units[name][own][is_last].tolist()
        for name in ("step", "unit_type", "x", "y")
    }
    return sorted(
        [int(loops[step]), x, y]
        for step, kind, x, y in zip(
            gone["step"], gone["unit_type"], gone["x"], gone["y"], strict=True
        )
        if kind in names and not _PASSING.search(names[kind])
    )


def _names() -> dict[int, str]:
    """Returns the name of each dense unit type, without the race."""
    table = vocab.table("unit_types")
    out: dict[int, str] = {}
    for raw, dense in table["raw_to_uint8"].items():
        if raw in table["raw_names"]:
            out.setdefault(int(dense), table["raw_names"][raw].split(".")[-1])
    return out
