"""Dense ids of the dataset <-> ids of the game, with names, from `tables/*.json`.

Read-only lookups; the tables are facts recorded from the reference converter.
"""

import dataclasses
import functools
import json
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Raw ids run to 4599 in the tables; anything else is unknown.
MISSING = -1


@functools.cache
def table(name: str) -> dict[str, Any]:
    """Returns one of the shipped JSON tables, e.g. "unit_types"."""
    text = (
        resources.files("starmill.schema")
        .joinpath(f"tables/{name}.json")
        .read_text("utf-8")
    )
    data: dict[str, Any] = json.loads(text)
    return data


@dataclasses.dataclass(frozen=True, kw_only=True)
class Function:
    """One entry of the action vocabulary.

    kind: no_op, camera_move, cmd, cmd_pt, cmd_unit or autocast.
    args: the arguments it takes beyond `function` and `delay`.
    """

    id: int
    name: str
    kind: str
    ability_id: int
    general_id: int
    args: tuple[str, ...]


@functools.cache
def functions() -> tuple[Function, ...]:
    """Returns all raw functions by id."""
    return tuple(
        Function(**{**entry, "args": tuple(entry["args"])})
        for entry in table("functions")["functions"]
    )


@functools.cache
def raw_to_dense(name: str) -> NDArray[np.int32]:
    """Returns the lookup from raw id to dense id; MISSING where the table has none.

    name: "unit_types", "buffs" or "upgrades".
    """
    pairs = {int(raw): dense for raw, dense in table(name)["raw_to_uint8"].items()}
    lookup = np.full(max(pairs) + 1, MISSING, np.int32)
    for raw, dense in pairs.items():
        lookup[raw] = dense
    lookup.setflags(write=False)
    return lookup
