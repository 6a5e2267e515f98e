"""How each build encodes its replays, as s2protocol describes it.

In: a base build. Out: its type table, also compiled for `event_scan`, and the types that
members and events begin with. A build that s2protocol does not describe is a ReplayError.
s2protocol's own loader is not used: it needs the module `imp`, which Python 3.12 removed.
"""

import dataclasses
import functools
import importlib.util
import re
import types
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from starmill.engines.replays import event_scan
from starmill.engines.replays.type_table import TypeTable
from starmill.schema import errors
from starmill.schema.reasons import RejectReason

_MODULE = re.compile(r"protocol(\d+)\.py")
_KIND = re.compile(r"NNet\.Game\.S(\w+)Event")

# The fields of initData that a row needs, each with another field of the same struct.
AMM, COMPETITIVE, COOPERATIVE, RATING, CONTROL, USER, OBSERVE = range(7)
_INIT_DATA_FIELDS = (
    ("m_amm", "m_battleNet"),
    ("m_competitive", "m_battleNet"),
    ("m_cooperative", "m_battleNet"),
    ("m_scaledRating", "m_randomSeed"),
    ("m_control", "m_colorPref"),
    ("m_userId", "m_colorPref"),
    ("m_observe", "m_colorPref"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Protocol:
    """How one build encodes replays.

    Attributes:
        base_build: of the game.
        types: s2protocol's type table. Types are numbers: places in it.
        program: the same table, compiled; captures the fields AMM to OBSERVE of initData.
        header: type of the archive's header.
        details: type of the member `replay.details`.
        init_data: type of the member `replay.initData`.
        event_types: (type, s2protocol's name) of each game event, by event id.
        event_type_numbers: type of each game event; -1 for ids without one, [ids].
        kinds: short name of each game event, like "CameraUpdate", by event id.
        delta: type of the loops since the previous event.
        user: type of an event's user; None where s2protocol has none.
        event_id: type of an event's id; None where s2protocol has none.
        tracker_types: (type, s2protocol's name) of each tracker event, by event id.
        tracker_id: type of a tracker event's id; None in builds without such events.
    """

    base_build: int
    types: TypeTable
    program: event_scan.Program
    header: int
    details: int
    init_data: int
    event_types: dict[int, tuple[int, str]]
    event_type_numbers: NDArray[np.int64]
    kinds: dict[int, str]
    delta: int
    user: int | None
    event_id: int | None
    tracker_types: dict[int, tuple[int, str]]
    tracker_id: int | None


@functools.cache
def _folder() -> Path:
    spec = importlib.util.find_spec("s2protocol")
    if spec is None or not spec.submodule_search_locations:
        raise errors.ConfigError("s2protocol is not installed: pip install s2protocol")
    return Path(spec.submodule_search_locations[0]) / "versions"


@functools.cache
def builds() -> tuple[int, ...]:
    """Returns the base builds that s2protocol describes, ascending."""
    matches = (_MODULE.fullmatch(path.name) for path in _folder().iterdir())
    return tuple(sorted(int(match.group(1)) for match in matches if match))


@functools.cache
def protocol(base_build: int) -> Protocol:
    """Returns the protocol of this very build; ReplayError if there is none."""
    if base_build not in builds():
        raise errors.ReplayError(
            RejectReason.NO_PROTOCOL,
            f"s2protocol has no protocol for base build {base_build}",
        )
    module = load_module(base_build)
    table = module.typeinfos
    event_types = module.game_event_types or {}
    numbers = np.full(max(event_types, default=0) + 1, -1, np.int64)
    for number, (type_number, _) in event_types.items():
        numbers[number] = type_number
    return Protocol(
        base_build=base_build,
        types=table,
        program=event_scan.compile_types(table, _INIT_DATA_FIELDS),
        header=module.replay_header_typeid,
        details=module.game_details_typeid,
        init_data=module.replay_initdata_typeid,
        event_types=event_types,
        event_type_numbers=numbers,
        kinds={number: _kind(name) for number, (_, name) in event_types.items()},
        delta=module.svaruint32_typeid,
        user=module.replay_userid_typeid,
        event_id=module.game_eventid_typeid,
        tracker_types=module.tracker_event_types or {},
        tracker_id=module.tracker_eventid_typeid,
    )


def load_module(base_build: int) -> types.ModuleType:
    """Returns s2protocol's module of a build, without the use of its loader."""
    path = _folder() / f"protocol{base_build:05d}.py"
    spec = importlib.util.spec_from_file_location(f"_s2protocol_{base_build}", path)
    if spec is None or spec.loader is None:
        raise errors.ConfigError(f"s2protocol: cannot load {path.name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _kind(name: str) -> str:
    match = _KIND.fullmatch(name)
    return match.group(1) if match else name
