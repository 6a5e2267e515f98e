"""Changes of bytes, JSON values and numbers, drawn from a seeded generator."""

import random
from typing import Any

NUMBERS = [
    0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
    2**53, 2**63 - 1, 2**64, -1, -(2**31), -(2**63),
]  # fmt: skip
_ODD: list[Any] = [
    None, True, "", "x", "\x00", "../../outside/secret.bin", "a" * 5000, "\ud800",
    [], {}, [None], {"": None}, 0.5, 1e308, float("nan"), float("inf"),
]  # fmt: skip


def damaged(data: bytes, rng: random.Random, most: int = 8) -> bytes:
    """Bytes changed, removed, inserted, repeated or cut."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, most])):
        if not out:
            break
        at = rng.randrange(len(out))
        kind = rng.randrange(7)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            width = rng.choice([2, 4, 8])
            value = rng.choice(NUMBERS) % 256**width
            out[at : at + width] = value.to_bytes(width, "little")
        elif kind == 3:
            del out[at : at + rng.choice([1, 2, 4, 64])]
        elif kind == 4:
            out[at:at] = rng.choice([b"\x80" * 12, b"\xff" * 8, rng.randbytes(4)])
        elif kind == 5:
            other = rng.randrange(len(out))
            length = rng.choice([1, 4, 16, 64])
            out[at : at + length] = out[other : other + length]
        elif rng.random() < 0.3:
            del out[at:]
    return bytes(out)


def changed(value: Any, rng: random.Random) -> Any:
    """A JSON value with something in it exchanged, removed or added, at any depth."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        out = dict(value)
        key = rng.choice(sorted(out))
        kind = rng.randrange(12)
        if kind == 0:
            del out[key]
        elif kind == 1:
            out[rng.choice(["x", "", "__class__", "run"])] = odd(rng)
        else:
            out[key] = changed(out[key], rng)
        return out
    if isinstance(value, list) and value and rng.random() < 0.8:
        out_list = list(value)
        at = rng.randrange(len(out_list))
        kind = rng.randrange(8)
        if kind == 0:
            del out_list[at]
        elif kind == 1:
            out_list.insert(at, out_list[at])
        else:
            out_list[at] = changed(out_list[at], rng)
        return out_list
    return odd(rng, value)


def odd(rng: random.Random, value: Any = None) -> Any:
    """A value that belongs nowhere, or a number near the edge of a type."""
    if rng.random() < 0.05:
        return deep(rng.choice([50, 900, 3000]))
    if isinstance(value, int) and rng.random() < 0.7:
        return rng.choice([*NUMBERS, value + 1, value - 1])
    return rng.choice([*_ODD, rng.choice(NUMBERS)])


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    out: Any = []
    for _ in range(levels):
        out = [out]
    return out
