"""Damaged observation messages by the thousand: the converter refuses or agrees, never more.

    python -m tests.fuzz_converter [--inputs 100000] [--seed 0]

Each input is a valid message that was cut, flipped, spliced, or taken apart and put together in
unusual but legal ways, or plain noise. The converter must accept exactly the bytes that
protobuf's own parser accepts, and must make the same arrays of them as of protobuf's canonical
form of the same message. Exits 1 at the first that differs, saying how to get it again.
"""

import argparse
import random
import sys
import time
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from starmill.converters import protos
from starmill.converters.observation import Converter
from starmill.schema import errors
from starmill.schema.settings import ConverterSettings
from tests.factories import random_captures

ResponseObservation = protos.sc2api_pb2.ResponseObservation


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _unknown(rng: random.Random) -> bytes:
    """A field that no message of the game has, or a known one in the wrong wire type."""
    number = rng.choice((1, 2, 3, 5, 19, 100, 2**29 - 1))
    kind = rng.choice((0, 1, 2, 3, 5))
    tag = varint(number << 3 | kind)
    if kind == 0:
        return tag + varint(rng.choice((0, 1, 300, 2**64 - 1)))
    if kind == 2:
        data = rng.randbytes(rng.randrange(6))
        return tag + varint(len(data)) + data
    if kind == 3:
        depth = rng.choice((0, 0, 1, 3, 97, 110))
        inner = _unknown(rng) if depth == 0 else b""
        opened, closed = tag * depth, varint(number << 3 | 4) * depth
        return tag + opened + inner + closed + varint(number << 3 | 4)
    return tag + rng.randbytes(8 if kind == 1 else 4)


def _wrap(rng: random.Random, message: Any) -> bytes:
    """Legal but unusual bytes: parts repeated (they merge), unknown fields between them."""
    out = []
    for field, value in message.ListFields():
        values = value if field.is_repeated else [value]
        for item in values:
            if field.message_type is not None:
                inner = (
                    _wrap(rng, item) if rng.random() < 0.5 else item.SerializeToString()
                )
                out.append(varint(field.number << 3 | 2) + varint(len(inner)) + inner)
            else:
                part = type(message)()
                if field.is_repeated:
                    getattr(part, field.name).append(item)
                else:
                    setattr(part, field.name, item)
                out.append(part.SerializeToString())
        if rng.random() < 0.05:
            out.append(_unknown(rng))
        if out and not field.is_repeated and rng.random() < 0.05:
            out.append(out[-1])
    if rng.random() < 0.1:
        rng.shuffle(out)
    return b"".join(out)


def _pack(data: bytes) -> bytes:
    """Buffs or upgrades in the packed form, which old parsers never send."""
    message = ResponseObservation.FromString(data)
    raw = message.observation.raw_data
    ids = b"".join(varint(v) for v in raw.player.upgrade_ids)
    del raw.player.upgrade_ids[:]
    number = protos.raw_pb2.PlayerRaw.DESCRIPTOR.fields_by_name["upgrade_ids"].number
    ids = varint(number << 3 | 2) + varint(len(ids)) + ids
    for inner in (1, 5, 3):  # player, raw_data, observation
        ids = varint(inner << 3 | 2) + varint(len(ids)) + ids
    return message.SerializeToString() + ids


def damaged(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """One input made of two valid messages."""
    kind = rng.randrange(8)
    if kind == 0:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 1:
        return rng.randbytes(rng.randrange(64))
    if kind == 2:
        cut = rng.randrange(len(data) + 1)
        return data[:cut] + other[rng.randrange(len(other) + 1) :]
    if kind == 3:
        at = rng.randrange(len(data) + 1)
        return data[:at] + _unknown(rng) + data[at:]
    if kind == 4:
        return _wrap(rng, ResponseObservation.FromString(data))
    if kind == 5:
        return data + other
    if kind == 6:
        return _pack(data)
    flipped = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        flipped[rng.randrange(len(flipped))] = rng.randrange(256)
    return bytes(flipped)


def _canonical(data: bytes) -> bytes | None:
    """What protobuf makes of the bytes, unknown fields left out; None if it refuses."""
    try:
        message = ResponseObservation.FromString(data)
    except DecodeError:
        return None
    message.DiscardUnknownFields()
    return message.SerializeToString()


class Bench:
    """Converts single messages, always from a fresh start."""

    def __init__(self, seed: int) -> None:
        capture = random_captures.capture(seed, steps=8, tame=True)
        settings = ConverterSettings.from_json(
            {**capture.settings, "supervised": False}
        )
        self.messages = [step.player for step in capture.steps]
        self._converter = Converter(settings, capture.game_info, capture.replay_info)
        self._start = dict(vars(self._converter))

    def convert(self, data: bytes) -> Any:
        """The arrays, or the text of the refusal."""
        vars(self._converter).update(self._start)
        try:
            return self._converter.convert(data)
        except errors.ConverterError as error:
            return str(error)


def differs(bench: Bench, data: bytes) -> str | None:
    """Says what is wrong with the converter's answer; None if nothing is."""
    canonical = _canonical(data)
    ours = bench.convert(data)
    refused = isinstance(ours, str) and "ResponseObservation" in ours
    if refused != (canonical is None):
        return f"protobuf {'refuses' if canonical is None else 'accepts'}, ours: {ours}"
    if canonical is None:
        return None
    plain = bench.convert(canonical)
    if isinstance(ours, str) or isinstance(plain, str):
        same = isinstance(ours, str) and ours == plain
        return None if same else f"canonical form: {plain!r:.200}, ours: {ours!r:.200}"
    for key in plain:
        if not np.array_equal(plain[key], ours[key]):
            return f"{key} differs from that of the canonical form"
    return None


def run(inputs: int, seed: int, *, per_capture: int = 500) -> str | None:
    """Tries that many inputs; returns a description of the first failure."""
    for block in range(0, inputs, per_capture):
        bench = Bench(seed * 1_000_003 + block)
        rng = random.Random(seed * 1_000_003 + block)
        for index in range(min(per_capture, inputs - block)):
            data = damaged(rng.choice(bench.messages), rng.choice(bench.messages), rng)
            wrong = differs(bench, data)
            if wrong is not None:
                return f"seed {seed}, block {block}, input {index}: {wrong}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_converter")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.monotonic()
    failure = run(args.inputs, args.seed)
    if failure is not None:
        sys.stderr.write(f"fuzz: converter: {failure}\n")
        return 1
    seconds = time.monotonic() - start
    sys.stdout.write(
        f"fuzz: converter: {args.inputs} inputs, none differs ({seconds:.0f} s)\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
