"""s2protocol's two encodings, written: what its decoders read, made from the same tables.

In: values as s2protocol's decoders return them (dicts, lists, bytes). Out: bytes. The type
tables come from the `s2protocol` package; the builds 71663 to 74741 (4.8.2 to 4.9.2) share
one, which a test pins.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from starmill.engines.replays import protocols

protocol: Any = protocols.load_module(74741)

TYPE_INFOS: list[tuple[str, list[Any]]] = protocol.typeinfos
GAME_EVENT_IDS = {
    name.removeprefix("NNet.Game.S").removesuffix("Event"): (number, type_id)
    for number, (type_id, name) in protocol.game_event_types.items()
}
TRACKER_EVENT_IDS = {
    name.removeprefix("NNet.Replay.Tracker.S").removesuffix("Event"): (number, type_id)
    for number, (type_id, name) in protocol.tracker_event_types.items()
}
MESSAGE_EVENT_IDS = {
    name.removeprefix("NNet.Game.S").removesuffix("Message"): (number, type_id)
    for number, (type_id, name) in protocol.message_event_types.items()
}


class BitPackedEncoder:
    """Writes the bit-packed encoding: game events, message events, initData.

    Bytes fill from their low bits, values are cut from their high bits: the order in
    which s2protocol's big-endian bit buffer reads them.
    """

    def __init__(self) -> None:
        self._out = bytearray()
        self._free = 0  # unused high bits of the last byte

    def bits(self, value: int, count: int) -> None:
        """Appends the low `count` bits of a value that must fit in them."""
        if value < 0 or value >> count:
            raise ValueError(f"{value} does not fit in {count} bits")
        while count:
            if not self._free:
                self._out.append(0)
                self._free = 8
            take = min(count, self._free)
            count -= take
            chunk = (value >> count) & ((1 << take) - 1)
            self._out[-1] |= chunk << (8 - self._free)
            self._free -= take

    def align(self) -> None:
        """Skips to the next byte."""
        self._free = 0

    def write(self, type_id: int, value: Any) -> None:
        """Appends one value of a type of the table."""
        kind, arguments = TYPE_INFOS[type_id]
        getattr(self, kind)(value, *arguments)

    def getvalue(self) -> bytes:
        """Returns everything written so far."""
        return bytes(self._out)

    def _int(self, value: int, bounds: tuple[int, int]) -> None:
        self.bits(value - bounds[0], bounds[1])

    def _bool(self, value: bool) -> None:
        self.bits(int(value), 1)

    def _null(self, value: None) -> None:
        pass

    def _array(self, values: list[Any], bounds: tuple[int, int], type_id: int) -> None:
        self._int(len(values), bounds)
        for value in values:
            self.write(type_id, value)

    def _bitarray(self, value: tuple[int, int], bounds: tuple[int, int]) -> None:
        length, content = value
        self._int(length, bounds)
        self.bits(content, length)

    def _blob(self, value: bytes, bounds: tuple[int, int]) -> None:
        self._int(len(value), bounds)
        self.align()
        self._out += value

    def _fourcc(self, value: str) -> None:
        for byte in value.encode("latin1"):
            self.bits(byte, 8)

    def _optional(self, value: Any, type_id: int) -> None:
        self.bits(int(value is not None), 1)
        if value is not None:
            self.write(type_id, value)

    def _choice(
        self,
        value: Mapping[str, Any],
        bounds: tuple[int, int],
        fields: Mapping[int, tuple[str, int]],
    ) -> None:
        ((name, content),) = value.items()
        tag, type_id = next((t, f[1]) for t, f in fields.items() if f[0] == name)
        self._int(tag, bounds)
        self.write(type_id, content)

    def _struct(self, value: Any, fields: list[tuple[str, int, int]]) -> None:
        for name, type_id, _ in fields:
            self.write(type_id, value if name == "__parent" else value[name])


class VersionedEncoder:
    """Writes the versioned, self-describing encoding: header, details, tracker events."""

    def __init__(self) -> None:
        self._out = bytearray()

    def write(self, type_id: int, value: Any) -> None:
        """Appends one value of a type of the table."""
        kind, arguments = TYPE_INFOS[type_id]
        getattr(self, kind)(value, *arguments)

    def getvalue(self) -> bytes:
        """Returns everything written so far."""
        return bytes(self._out)

    def _vint(self, value: int) -> None:
        rest = abs(value)
        byte = int(value < 0) | ((rest & 0x3F) << 1)
        rest >>= 6
        while rest:
            self._out.append(byte | 0x80)
            byte = rest & 0x7F
            rest >>= 7
        self._out.append(byte)

    def _int(self, value: int, bounds: tuple[int, int]) -> None:
        self._out.append(9)
        self._vint(value)

    def _bool(self, value: bool) -> None:
        self._out += bytes((6, int(value)))

    def _null(self, value: None) -> None:
        pass

    def _array(self, values: list[Any], bounds: tuple[int, int], type_id: int) -> None:
        self._out.append(0)
        self._vint(len(values))
        for value in values:
            self.write(type_id, value)

    def _blob(self, value: bytes, bounds: tuple[int, int]) -> None:
        self._out.append(2)
        self._vint(len(value))
        self._out += value

    def _fourcc(self, value: bytes) -> None:
        self._out.append(7)
        self._out += value

    def _optional(self, value: Any, type_id: int) -> None:
        self._out += bytes((4, int(value is not None)))
        if value is not None:
            self.write(type_id, value)

    def _choice(
        self,
        value: Mapping[str, Any],
        bounds: tuple[int, int],
        fields: Mapping[int, tuple[str, int]],
    ) -> None:
        ((name, content),) = value.items()
        tag, type_id = next((t, f[1]) for t, f in fields.items() if f[0] == name)
        self._out.append(3)
        self._vint(tag)
        self.write(type_id, content)

    def _struct(
        self, value: Mapping[str, Any], fields: list[tuple[str, int, int]]
    ) -> None:
        present = [field for field in fields if field[0] in value]
        present.sort(key=lambda field: field[2])  # the game writes by tag
        self._out.append(5)
        self._vint(len(present))
        for name, type_id, tag in present:
            self._vint(tag)
            self.write(type_id, value[name])


def _loop_delta(delta: int) -> dict[str, int]:
    for name, bits in (("m_uint6", 6), ("m_uint14", 14), ("m_uint22", 22)):
        if delta < 1 << bits:
            return {name: delta}
    return {"m_uint32": delta}


def game_events(events: Iterable[tuple[int, int, str, Mapping[str, Any]]]) -> bytes:
    """Encodes (loop, user id, short name, fields) in order, e.g. ("CameraUpdate", {...})."""
    return _user_events(events, GAME_EVENT_IDS, protocol.game_eventid_typeid)


def message_events(
    events: Iterable[tuple[int, int, str, Mapping[str, Any]]],
) -> bytes:
    """Encodes (loop, user id, short name, fields) in order, e.g. ("Chat", {...})."""
    return _user_events(events, MESSAGE_EVENT_IDS, protocol.message_eventid_typeid)


def _user_events(
    events: Iterable[tuple[int, int, str, Mapping[str, Any]]],
    ids: Mapping[str, tuple[int, int]],
    id_type: int,
) -> bytes:
    out = BitPackedEncoder()
    previous = 0
    for loop, user, name, fields in events:
        number, type_id = ids[name]
        out.write(protocol.svaruint32_typeid, _loop_delta(loop - previous))
        out.write(protocol.replay_userid_typeid, {"m_userId": user})
        out.write(id_type, number)
        out.write(type_id, fields)
        out.align()
        previous = loop
    return out.getvalue()


def tracker_events(events: Iterable[tuple[int, str, Mapping[str, Any]]]) -> bytes:
    """Encodes (loop, short name, fields) in order, e.g. ("UnitBorn", {...})."""
    out = VersionedEncoder()
    previous = 0
    for loop, name, fields in events:
        number, type_id = TRACKER_EVENT_IDS[name]
        out.write(protocol.svaruint32_typeid, _loop_delta(loop - previous))
        out.write(protocol.tracker_eventid_typeid, number)
        out.write(type_id, fields)
        previous = loop
    return out.getvalue()


def header(fields: Mapping[str, Any]) -> bytes:
    """Encodes a replay's header, the archive's user data."""
    out = VersionedEncoder()
    out.write(protocol.replay_header_typeid, fields)
    return out.getvalue()


def details(fields: Mapping[str, Any]) -> bytes:
    """Encodes `replay.details`."""
    out = VersionedEncoder()
    out.write(protocol.game_details_typeid, fields)
    return out.getvalue()


def init_data(fields: Mapping[str, Any]) -> bytes:
    """Encodes `replay.initData`."""
    out = BitPackedEncoder()
    out.write(protocol.replay_initdata_typeid, fields)
    return out.getvalue()


def attributes(entries: Iterable[tuple[int, int, str]]) -> bytes:
    """Encodes `replay.attributes.events` from (scope, attribute id, value of 4 letters)."""
    rows = list(entries)
    out = struct.pack("<BII", 0, 0, len(rows))
    for scope, number, value in rows:
        text = value.encode("ascii").rjust(4, b"\0")[::-1]
        out += struct.pack("<IIB", 999, number, scope) + text
    return out
