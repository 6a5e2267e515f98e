"""Replay files made from scratch: the container, both encodings, and a whole replay.

Written from the format's description and s2protocol's types, not from our reader, so that
reader and factory can disagree. One argument overrides one thing.
"""

import bz2
import functools
import json
import struct
import zlib
from typing import Any

import numpy as np

from starmill.engines.replays import protocols

BUILD = 74741  # 4.9.2
_MASK = 0xFFFFFFFF


def _crypt_table() -> list[int]:
    table, seed = [0] * 0x500, 0x00100001
    for i in range(256):
        for j in range(5):
            seed = (seed * 125 + 3) % 0x2AAAAB
            high = (seed & 0xFFFF) << 16
            seed = (seed * 125 + 3) % 0x2AAAAB
            table[i + 256 * j] = high | (seed & 0xFFFF)
    return table


_TABLE = _crypt_table()


@functools.cache
def name_hash(name: str, kind: int) -> int:
    one, two = 0x7FED7FED, 0xEEEEEEEE
    for c in name.upper().encode():
        one = (_TABLE[(kind << 8) + c] ^ (one + two)) & _MASK
        two = (c + one + two + (two << 5) + 3) & _MASK
    return one


@functools.lru_cache(4096)
def crypt_table(data: bytes, name: str, *, decrypt: bool = False) -> bytes:
    one, two, out = name_hash(name, 3), 0xEEEEEEEE, []
    for (word,) in struct.iter_unpack("<I", data[: len(data) // 4 * 4]):
        two = (two + _TABLE[0x400 + (one & 0xFF)]) & _MASK
        other = (word ^ (one + two)) & _MASK
        out.append(other)
        plain = other if decrypt else word
        one = (((~one << 21) + 0x11111111) | (one >> 11)) & _MASK
        two = (plain + two + (two << 5) + 3) & _MASK
    return struct.pack(f"<{len(out)}I", *out)


@functools.lru_cache(4096)
def packed(data: bytes, method: int) -> bytes:
    if method == 2:
        return b"\x02" + zlib.compress(data, 1)
    return b"\x10" + bz2.compress(data) if method == 16 else data


def archive(
    members: dict[str, bytes],
    user_data: bytes = b"",
    *,
    method: int = 16,
    sector_shift: int | None = None,
    hash_slots: int = 32,
    trailing: bytes = b"",
    flags: int = 0x80000200,
) -> bytes:
    """An MPQ archive behind a user-data block; `sector_shift` cuts members into sectors."""
    start, body = 1024, bytearray(208)
    hashes = [(_MASK, _MASK, _MASK, _MASK)] * hash_slots
    blocks = []
    for name, data in members.items():
        offset = len(body)
        if sector_shift is None:
            stored = packed(data, method)
            stored = stored if len(stored) < len(data) else data
            blocks.append((offset, len(stored), len(data), flags | 0x01000000))
        else:
            size = 512 << sector_shift
            sectors = [
                packed(data[i : i + size], method) for i in range(0, len(data), size)
            ]
            plain = [data[i : i + size] for i in range(0, len(data), size)]
            sectors = [
                s if len(s) < len(p) else p for s, p in zip(sectors, plain, strict=True)
            ]
            ends = np.cumsum([4 * (len(sectors) + 1), *map(len, sectors)])
            stored = struct.pack(f"<{len(ends)}I", *ends.tolist()) + b"".join(sectors)
            blocks.append((offset, len(stored), len(data), flags))
        slot = name_hash(name, 0) % hash_slots
        while hashes[slot][3] != _MASK:
            slot = (slot + 1) % hash_slots
        hashes[slot] = (name_hash(name, 1), name_hash(name, 2), 0, len(blocks) - 1)
        body += stored
    hash_offset = len(body)
    body += crypt_table(
        b"".join(struct.pack("<4I", *h) for h in hashes), "(hash table)"
    )
    block_offset = len(body)
    body += crypt_table(
        b"".join(struct.pack("<4I", *b) for b in blocks), "(block table)"
    )
    struct.pack_into(
        "<4s2I2H4I", body, 0, b"MPQ\x1a", 208, len(body), 3, 5 if sector_shift is None else sector_shift,
        hash_offset, block_offset, len(hashes), len(blocks),
    )  # fmt: skip
    head = struct.pack("<4s3I", b"MPQ\x1b", 512, start, len(user_data)) + user_data
    return head.ljust(start, b"\0") + bytes(body) + trailing


def varint(value: int) -> bytes:
    negative, value = value < 0, abs(value)
    first = (value & 0x3F) << 1 | negative
    value >>= 6
    out = [first | 0x80 if value else first]
    while value:
        out.append(value & 0x7F | (0x80 if value >> 7 else 0))
        value >>= 7
    return bytes(out)


def tagged(value: Any) -> bytes:
    """dict -> struct, list -> optional array, bytes -> blob, bool -> u8, int -> number."""
    if isinstance(value, dict):
        fields = b"".join(varint(tag) + tagged(item) for tag, item in value.items())
        return b"\x05" + varint(len(value)) + fields
    if isinstance(value, list):
        return b"\x04\x01\x00" + varint(len(value)) + b"".join(map(tagged, value))
    if isinstance(value, bytes):
        return b"\x02" + varint(len(value)) + value
    if isinstance(value, bool):
        return b"\x06" + bytes([value])
    return b"\x04\x00" if value is None else b"\x09" + varint(value)


class BitWriter:
    """Bit-packed values of a protocol's types; what is not given is zero or empty."""

    def __init__(self, types: Any) -> None:
        self.types, self.bits = types, []

    def _put(self, value: int, count: int) -> None:
        """Most significant piece first, each byte filled from its low bits."""
        left = count
        while left:
            take = min(left, 8 - len(self.bits) % 8)
            piece = value >> (left - take) & ((1 << take) - 1)
            self.bits += [piece >> i & 1 for i in range(take)]
            left -= take

    def align(self) -> None:
        self.bits += [0] * (-len(self.bits) % 8)

    def put(self, number: int, value: Any = None) -> None:  # noqa: C901  # one branch per kind
        kind, arguments = self.types[number]
        if kind in ("_int", "_bool"):
            low, count = arguments[0] if kind == "_int" else (0, 1)
            self._put(max(low, int(value or 0)) - low, count)
        elif kind == "_struct":
            for name, child, *_ in arguments[0]:
                same = value if name == "__parent" else (value or {}).get(name)
                self.put(child, same)
        elif kind == "_array":
            self._put(len(value or []) - arguments[0][0], arguments[0][1])
            for item in value or []:
                self.put(arguments[1], item)
        elif kind == "_optional":
            self._put(int(value is not None), 1)
            if value is not None:
                self.put(arguments[0], value)
        elif kind == "_blob":
            self._put(len(value or b"") - arguments[0][0], arguments[0][1])
            self.align()
            for byte in value or b"":
                self._put(byte, 8)
        elif kind == "_choice":
            names = {field[0]: (tag, field[1]) for tag, field in arguments[1].items()}
            name, inner = next(iter((value or {next(iter(names)): None}).items()))
            self._put(names[name][0] - arguments[0][0], arguments[0][1])
            self.put(names[name][1], inner)
        elif kind == "_bitarray":
            self._put(0 - arguments[0][0], arguments[0][1])
        elif kind == "_fourcc":
            self._put(0, 32)

    def done(self) -> bytes:
        self.align()
        bits = np.array(self.bits, np.uint8)
        return np.packbits(bits, bitorder="little").tobytes()


def header(
    version: tuple[int, int, int] = (4, 9, 2), build: int = BUILD, loops: int = 9000
) -> bytes:
    numbers = {0: 1, 1: version[0], 2: version[1], 3: version[2], 4: build, 5: build}
    return tagged(
        {0: b"StarCraft II replay\x1b11", 1: numbers, 2: 2, 3: loops, 4: True}
    )


def metadata(**changes: Any) -> dict[str, Any]:
    players = [
        {"PlayerID": 1, "APM": 100, "MMR": 4000, "Result": "Win",
         "SelectedRace": "Terr", "AssignedRace": "Terr"},
        {"PlayerID": 2, "APM": 90.5, "MMR": 3900, "Result": "Loss",
         "SelectedRace": "Zerg", "AssignedRace": "Zerg"},
    ]  # fmt: skip
    data = {
        "Title": "Acropolis LE", "GameVersion": f"4.9.2.{BUILD}", "DataBuild": str(BUILD),
        "DataVersion": "B89B5D6FA7CBF6452E721311BFBC6CB2", "BaseBuild": f"Base{BUILD}",
        "Duration": 562, "Players": players,
    }  # fmt: skip
    return data | changes


def details(title: str = "Acropolis LE", controls: tuple[int, ...] = (2, 2)) -> bytes:
    players = [
        {0: b"name", 1: {0: 1}, 2: b"race", 4: control, 5: i, 7: 0, 8: 1, 9: i}
        for i, control in enumerate(controls)
    ]
    handles = [b"s2ma\0\0US" + bytes([n]) * 32 for n in (1, 2)]
    return tagged({0: players, 1: title.encode(), 10: handles})


def init_data(
    build: int = BUILD,
    *,
    amm: bool = True,
    competitive: bool = True,
    ratings: tuple[int | None, ...] = (4000, 3900),
) -> bytes:
    protocol = protocols.protocol(build)
    slots = [
        {"m_control": 2, "m_userId": i, "m_workingSetSlotId": i}
        for i in range(len(ratings))
    ]
    value = {
        "m_syncLobbyState": {
            "m_userInitialData": [
                {"m_scaledRating": r, "m_name": b"n"} for r in ratings
            ],
            "m_gameDescription": {
                "m_gameOptions": {"m_amm": amm, "m_competitive": competitive}
            },
            "m_lobbyState": {"m_slots": slots},
        }
    }
    writer = BitWriter(protocol.types)
    writer.put(protocol.init_data, value)
    return writer.done()


def game_events(events: list[tuple[int, int, str]], build: int = BUILD) -> bytes:
    """(loop, user, kind) -> replay.game.events."""
    protocol = protocols.protocol(build)
    numbers = {kind: number for number, kind in protocol.kinds.items()}
    writer, last = BitWriter(protocol.types), 0
    for loop, user, kind in events:
        delta = loop - last
        size = (
            "m_uint6" if delta < 64 else "m_uint14" if delta < 1 << 14 else "m_uint32"
        )
        writer.put(protocol.delta, {size: delta})
        writer.put(protocol.user, {"m_userId": user})
        writer.put(protocol.event_id, numbers[kind])
        writer.put(protocol.event_types[numbers[kind]][0])
        writer.align()
        last = loop
    return writer.done()


EVENTS = [
    (0, 0, "UserOptions"),
    (0, 1, "UserOptions"),
    (3, 0, "CameraUpdate"),
    (5, 0, "Cmd"),
    (90, 1, "SelectionDelta"),
    (91, 1, "Cmd"),
    (2000, 0, "Cmd"),
    (9000, 1, "GameUserLeave"),
]


def members(pack: bool = False, **changes: Any) -> dict[str, bytes]:
    """The members of a good replay; `metadata` as dict or bytes, others as bytes, None: out."""
    contents: dict[str, Any] = {
        "replay.details": details(),
        "replay.initData": init_data(),
        "replay.game.events": game_events(EVENTS),
        "replay.gamemetadata.json": metadata(),
    }
    if pack:
        for name in ("replay.details", "replay.initData"):
            contents[f"{name}.backup"] = contents.pop(name)
    contents |= changes
    return {
        name: json.dumps(data).encode() if isinstance(data, dict) else data
        for name, data in contents.items()
        if data is not None
    }


def replay(
    *, user_data: bytes | None = None, pack: bool = False, **changes: Any
) -> bytes:
    """A whole replay file; members by name override, e.g. **{"replay.details": b""}."""
    head = header() if user_data is None else user_data
    return archive(members(pack, **changes), head)
