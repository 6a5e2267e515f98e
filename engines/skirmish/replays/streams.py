"""The members of a replay as bytes, in the encodings that s2protocol reads.

In: values as s2protocol's decoders return them: dicts, lists, numbers and bytes. Out: the
content of a member. The type tables are s2protocol's; the builds 71663 to 74741 (4.8.2 to
4.9.2) share one, which a test checks. Knows nothing of games.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from starmill.engines.replays import protocols
from starmill.engines.replays.bit_packed import BitPackedWriter
from starmill.engines.replays.tagged import TaggedWriter

PROTOCOL: Any = protocols.load_module(74741)
_TYPES = PROTOCOL.typeinfos
_GAME, _TRACKER = "NNet.Game.S", "NNet.Replay.Tracker.S"
# Every entry of the attributes stream has this namespace in the game's own replays.
_ATTRIBUTE_NAMESPACE = 999

UserEvent = tuple[int, int, str, Mapping[str, Any]]
TrackerEvent = tuple[int, str, Mapping[str, Any]]


def _ids(
    event_types: Mapping[int, tuple[int, str]], prefix: str, suffix: str
) -> dict[str, tuple[int, int]]:
    """Returns (event id, type) by short name, like "CameraUpdate"."""
    return {
        name.removeprefix(prefix).removesuffix(suffix): (event_id, number)
        for event_id, (number, name) in event_types.items()
    }


_GAME_EVENTS = _ids(PROTOCOL.game_event_types, _GAME, "Event")
_MESSAGES = _ids(PROTOCOL.message_event_types, _GAME, "Message")
_TRACKER_EVENTS = _ids(PROTOCOL.tracker_event_types, _TRACKER, "Event")


def game_events(events: Iterable[UserEvent]) -> bytes:
    """Encodes (loop, user id, short name, fields) in order, e.g. ("CameraUpdate", {...})."""
    return _user_events(events, _GAME_EVENTS, PROTOCOL.game_eventid_typeid)


def message_events(events: Iterable[UserEvent]) -> bytes:
    """Encodes (loop, user id, short name, fields) in order, e.g. ("Chat", {...})."""
    return _user_events(events, _MESSAGES, PROTOCOL.message_eventid_typeid)


def _user_events(
    events: Iterable[UserEvent], ids: Mapping[str, tuple[int, int]], id_type: int
) -> bytes:
    writer = BitPackedWriter(_TYPES)
    previous = 0
    for loop, user, name, fields in events:
        event_id, number = ids[name]
        writer.write(PROTOCOL.svaruint32_typeid, _loop_delta(loop - previous))
        writer.write(PROTOCOL.replay_userid_typeid, {"m_userId": user})
        writer.write(id_type, event_id)
        writer.write(number, fields)
        writer.align()
        previous = loop
    return writer.getvalue()


def tracker_events(events: Iterable[TrackerEvent]) -> bytes:
    """Encodes (loop, short name, fields) in order, e.g. ("UnitBorn", {...})."""
    writer = TaggedWriter(_TYPES)
    previous = 0
    for loop, name, fields in events:
        event_id, number = _TRACKER_EVENTS[name]
        writer.write(PROTOCOL.svaruint32_typeid, _loop_delta(loop - previous))
        writer.write(PROTOCOL.tracker_eventid_typeid, event_id)
        writer.write(number, fields)
        previous = loop
    return writer.getvalue()


def _loop_delta(delta: int) -> dict[str, int]:
    """Returns the loops since the previous event in the narrowest number that holds them."""
    for name, bits in (("m_uint6", 6), ("m_uint14", 14), ("m_uint22", 22)):
        if delta < 1 << bits:
            return {name: delta}
    return {"m_uint32": delta}


def header(fields: Mapping[str, Any]) -> bytes:
    """Encodes a replay's header, which is the archive's user data."""
    return _tagged(PROTOCOL.replay_header_typeid, fields)


def details(fields: Mapping[str, Any]) -> bytes:
    """Encodes `replay.details`."""
    return _tagged(PROTOCOL.game_details_typeid, fields)


def _tagged(number: int, fields: Mapping[str, Any]) -> bytes:
    writer = TaggedWriter(_TYPES)
    writer.write(number, fields)
    return writer.getvalue()


def init_data(fields: Mapping[str, Any]) -> bytes:
    """Encodes `replay.initData`."""
    writer = BitPackedWriter(_TYPES)
    writer.write(PROTOCOL.replay_initdata_typeid, fields)
    return writer.getvalue()


def attributes(entries: Iterable[tuple[int, int, str]]) -> bytes:
    """Encodes `replay.attributes.events` from (scope, attribute id, value of 4 letters)."""
    rows = list(entries)
    parts = [struct.pack("<BII", 0, 0, len(rows))]
    for scope, number, value in rows:
        letters = value.encode("ascii").rjust(4, b"\0")[::-1]
        parts += [struct.pack("<IIB", _ATTRIBUTE_NAMESPACE, number, scope), letters]
    return b"".join(parts)
