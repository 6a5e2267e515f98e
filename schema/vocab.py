"""Dense ids of the dataset, ids of the game, and their names, from `tables/*.json`.

Enters: the name of a table. Leaves: read-only lookups. The tables are facts recorded from the
reference converter; nothing here knows what the ids are used for.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors

# Dense id of a raw id that no table has.
MISSING = -1
# Tables that map raw ids to dense ids.
DENSE_TABLES = ("unit_types", "buffs", "upgrades")
# Kinds of function that a game action can decode to.
KINDS = ("cmd", "cmd_pt", "cmd_unit", "autocast")
CAMERA_FUNCTION = 168


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

    Attributes:
        id: its number, the value of `action/function`.
        name: like "Attack_pt".
        kind: no_op, camera_move, cmd, cmd_pt, cmd_unit or autocast.
        ability_id: the ability that the game is asked for; 0 for no_op and camera_move.
        general_id: the ability that stands for this one and similar ones; 0 if it has none.
        args: the arguments it takes besides `function` and `delay`.
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
def _functions_by_name() -> dict[str, Function]:
    return {function.name: function for function in functions()}


def function_named(name: str) -> Function:
    """Returns a function by its name, e.g. "Attack_pt"; ConfigError if there is none."""
    function = _functions_by_name().get(name)
    if function is None:
        raise errors.ConfigError(f"no function is named {name!r}")
    return function


@functools.cache
def raw_to_dense(name: str) -> NDArray[np.int32]:
    """Returns the lookup from raw id to dense id; MISSING where the table has none.

    name: one of DENSE_TABLES.
    """
    return _lookup(table(name)["raw_to_uint8"], MISSING)


@functools.cache
def dense_to_raw(name: str) -> NDArray[np.int32]:
    """Returns the lookup from dense id to raw id; of aliases, the one the reference names.

    name: one of DENSE_TABLES.
    """
    entries = table(name)
    if "uint8_to_raw" in entries:
        out = np.array(entries["uint8_to_raw"], np.int32)
    else:  # one raw id each
        pairs = {int(raw): dense for raw, dense in entries["raw_to_uint8"].items()}
        out = np.full(max(pairs.values()) + 1, MISSING, np.int32)
        out[list(pairs.values())] = list(pairs)
    out.setflags(write=False)
    return out


@functools.cache
def names(name: str) -> tuple[str, ...]:
    """Returns the names of a table's dense ids, by id; "none" for 0.

    name: one of DENSE_TABLES, or "functions" or "effects".
    """
    if name == "functions":
        return tuple(function.name for function in functions())
    if name == "effects":
        effects = table(name)["effects"]
        return tuple(effects[str(i)] for i in range(len(effects)))
    raw_names = table(name)["raw_names"]
    return tuple(raw_names.get(str(raw), "none") for raw in dense_to_raw(name))


@functools.cache
def ids(name: str) -> Mapping[str, int]:
    """Returns a table's dense ids by name: the inverse of `names`."""
    return MappingProxyType({text: dense for dense, text in enumerate(names(name))})


@functools.cache
def order_functions() -> NDArray[np.int32]:
    """Returns the lookup from a unit's order (ability id) to its function; 0 if unknown."""
    return _lookup(table("abilities")["orders"], 0)


@functools.cache
def decode_functions(kind: str) -> Mapping[int, int]:
    """Returns ability id -> function of a game action of one of KINDS; unknown ones are 0."""
    entries = table("abilities")["decode"][kind]
    return MappingProxyType({int(ability): value for ability, value in entries.items()})


@functools.cache
def unit_races() -> Mapping[int, int]:
    """Returns raw unit type -> race: 0 none, 1 Terran, 2 Zerg, 3 Protoss."""
    entries = table("unit_race")["raw_to_race"]
    return MappingProxyType({int(raw): race for raw, race in entries.items()})


def map_name(handle: str | None, title: str | None) -> str | None:
    """Returns the canonical (English) name of a map; its title if the handle is unknown.

    handle: sha256 of the map file, hex. A replay's title is in the client's language, its
    handle is the same everywhere. `tables/maps.json` has one entry per published revision.
    """
    name: str | None = table("maps").get(handle or "", title)
    return name


def _lookup(entries: Mapping[str, int], missing: int) -> NDArray[np.int32]:
    pairs = {int(raw): value for raw, value in entries.items()}
    lookup = np.full(max(pairs) + 1, missing, np.int32)
    for raw, value in pairs.items():
        lookup[raw] = value
    lookup.setflags(write=False)
    return lookup
