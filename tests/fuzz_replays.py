"""Feeds damaged files to the replay reader: `make fuzz`.

An input follows from its number, so `--first N --inputs 1` repeats a failure. Inputs come from
real replays (if ../shared exists) and from artificial ones: with damage to any bytes, to fields
of the archive's tables (which are then encrypted again), to a member's *unpacked* bytes (which
are then packed again), or with members that are hostile throughout. The reader may raise the
project's errors only, has two seconds of CPU per input, and the process 512 MB.

Inputs run in child processes, so that a crash of the interpreter is noticed and named.
"""

import argparse
import faulthandler
import functools
import itertools
import json
import logging
import math
import multiprocessing
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from starmill.converters import timing
from starmill.engines.replays import replay_file
from starmill.engines.replays.archive import Archive, decrypt_table, encrypt_table
from starmill.engines.replays.bit_packed import BitPackedReader
from starmill.engines.replays.limits import Meter
from starmill.engines.replays.tagged import TaggedReader
from starmill.schema import errors
from tests import replay_factory as factory

_log = logging.getLogger(__name__)

MAX_SECONDS = 2.0
MAX_BYTES = 512 << 20
_SHARED = Path(__file__).resolve().parent.parent.parent / "shared"
_OWN = Path(__file__).resolve().parent / "golden/replays/skirmish.SC2Replay"
_NUMBERS = [0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
_MEMBERS = [
    "replay.details", "replay.details.backup", "replay.initData", "replay.initData.backup",
    "replay.game.events", "replay.gamemetadata.json", "replay.tracker.events",
]  # fmt: skip
# Building whole values is slow, and bulk reading does not do it: one input in this many is
# read whole, and this many of its events.
WHOLE_EVERY = 16
_WHOLE_EVENTS = 40
# Game events left in a real replay.
_EVENTS = 120


@functools.cache
def seeds() -> list[bytes]:
    """Files to damage: artificial ones, and real ones, some cut to their first events.

    Short event streams keep inputs cheap and put damage where it matters. Everything else in
    a real replay stays as it is.
    """
    result = [factory.replay(), factory.replay(pack=True)]
    result.append(factory.archive(factory.members(), factory.header(), sector_shift=0))
    result.append(factory.archive(factory.members(), factory.header(), method=2))
    real = sorted(_SHARED.glob("*/**/*.SC2Replay")) if _SHARED.is_dir() else []
    for path in [_OWN, *real]:
        data = path.read_bytes()
        members = _unpacked(data)
        header = members.pop("header", b"")
        result.append(factory.archive(members, header) if members else data)
        if len(data) < 35_000:
            result.append(data)
    return result


@functools.cache
def _members(seed: int) -> dict[str, bytes]:
    """The members of a seed that can be unpacked, and its header."""
    return _unpacked(seeds()[seed])


def _unpacked(data: bytes) -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    try:
        archive = Archive(data, max_table_entries=4096)
        replay = replay_file.open_replay(data)
    except errors.ReplayError:
        return out
    for name in _MEMBERS:
        try:
            member = archive.read(name, 1 << 24)
        except errors.ReplayError:
            continue
        if member is not None:
            out[name] = member
    try:
        if "replay.game.events" in out:
            out["replay.game.events"] = _first_events(out["replay.game.events"], replay)
        if "replay.tracker.events" in out:
            tracker = out["replay.tracker.events"]
            out["replay.tracker.events"] = _first_tracker_events(tracker)
    except errors.StarmillError:
        pass  # it is damaged already and stays as it is
    out["header"] = archive.user_data
    return out


def _first_events(data: bytes, replay: replay_file.ReplayFile) -> bytes:
    protocol = replay.protocol
    if protocol.user is None or protocol.event_id is None:
        return data[:2000]
    reader = BitPackedReader(data, protocol.types, Meter(10**6, math.inf))
    for _ in range(_EVENTS):
        if reader.done:
            break
        reader.value(protocol.delta)
        reader.value(protocol.user)
        reader.value(protocol.event_types[reader.value(protocol.event_id)][0])
        reader.align()
    return data[: reader.position_bytes]


def _first_tracker_events(data: bytes) -> bytes:
    reader = TaggedReader(data, Meter(10**6, math.inf))
    for _ in range(3 * _WHOLE_EVENTS):
        if reader.done:
            break
        reader.value()
    return data[: reader.position]


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, removed, inserted or repeated anywhere."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        if not out:
            return bytes(out)
        at = rng.randrange(len(out))
        kind = rng.randrange(8)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            del out[at : at + rng.choice([1, 4, 100])]
        elif kind == 3:
            out[at:at] = rng.randbytes(rng.choice([1, 2, 50]))
        elif kind == 4:
            out[at : at + 4] = struct.pack("<I", rng.choice(_NUMBERS))
        elif kind == 5:
            del out[at:]
        elif kind == 6:
            end = at + rng.choice([1, 8, 200])
            out[at:end] = bytes([rng.choice([0, 0xFF, 0x80])]) * len(out[at:end])
        else:
            source = rng.randrange(len(out))
            out[at : at + 64] = out[source : source + 64]
    return bytes(out)


def damaged_head(data: bytes, rng: random.Random) -> bytes:
    """Damage to the headers, where offsets and counts are."""
    start = rng.choice([0, 1024])
    end = min(len(data), start + rng.choice([16, 44, 208]))
    return data[:start] + damaged_bytes(data[start:end], rng) + data[end:]


def damaged_tables(data: bytes, rng: random.Random) -> bytes:
    """Changed fields in the tables, which are then encrypted again."""
    if len(data) < 1056 or data[1024:1028] != b"MPQ\x1a":
        return damaged_bytes(data, rng)
    fields = struct.unpack_from("<4s2I2H4I", data, 1024)
    for name, offset, count in (
        ("(hash table)", fields[5], fields[7]),
        ("(block table)", fields[6], fields[8]),
    ):
        start, size = 1024 + offset, 16 * min(count, 64)
        if start + size > len(data) or not size:
            continue
        stored = np.frombuffer(data[start : start + size], "<u4")
        table = bytearray(decrypt_table(stored, name).tobytes())
        for _ in range(rng.choice([0, 1, 2, 8])):
            at = 4 * rng.randrange(size // 4)
            old = struct.unpack_from("<I", table, at)[0]
            near = (old + rng.choice([-1, 1, 16])) & 0xFFFFFFFF
            flags = old ^ 1 << rng.randrange(32)
            struct.pack_into("<I", table, at, rng.choice([near, flags, *_NUMBERS]))
        stored = encrypt_table(np.frombuffer(bytes(table), "<u4"), name)
        data = data[:start] + stored.tobytes() + data[start + size :]
    return data


def _rebuilt(members: dict[str, bytes], rng: random.Random) -> bytes:
    header = members.pop("header", b"")
    return factory.archive(
        members,
        header,
        method=rng.choice([2, 2, 2, 2, 0, 0, 16]),
        sector_shift=rng.choice([None, None, None, 0, 3]),
    )


def damaged_member(seed: int, rng: random.Random) -> bytes:
    """Damage to one or two members in an intact archive, where decoders meet it."""
    members = dict(_members(seed))
    if not members:
        return damaged_bytes(seeds()[seed], rng)
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(list(members))
        members[name] = damaged_bytes(members[name], rng)
    return _rebuilt(members, rng)


def hostile_member(seed: int, rng: random.Random) -> bytes:
    """A member with hostile content: bombs, deep nesting, huge numbers."""
    members = dict(_members(seed)) or {"header": factory.header(), **factory.members()}
    size = rng.choice([100] * 8 + [5000] * 8 + [200_000])
    blob = rng.choice(
        [
            b"\0" * size,
            b"\xff" * size,
            b"\x04\x01" * size,  # optionals in optionals
            b"\x05\x02\x00" * size,  # structs in structs
            b"\x00\xfe\xff\xff\xff\x0f" * (size // 6),  # arrays of billions
            b"\x09" + b"\x80" * size,  # a number without end
            b"\x00" + factory.varint(size) + b"\x09\x02" * size,  # very many numbers
            b"[" * size,
            b'{"a":' * size,
            json.dumps(_json(rng, 4)).encode(),
            b'{"Players":[' + b'{"MMR":1e999},' * (size // 20) + b"{}]}",
            rng.randbytes(size),
        ]
    )
    name = rng.choice([*_MEMBERS, "header"])
    members[name] = blob if name != "header" else blob[:2000]
    for other in list(members):
        if other != name and other.startswith(name.removesuffix(".backup")):
            del members[other]
    return _rebuilt(members, rng)


def _json(rng: random.Random, depth: int) -> object:
    keys = [
        "Players",
        "MMR",
        "APM",
        "Result",
        "Title",
        "PlayerID",
        "Engine",
        "DataVersion",
    ]
    leaves = [None, True, 0, -1, 1 << 70, 1e308, "x", "\ud800", "\0", -36400]
    kind = rng.randrange(3) if depth else 2
    if kind == 0:
        return {rng.choice(keys): _json(rng, depth - 1) for _ in range(4)}
    if kind == 1:
        return [_json(rng, depth - 1) for _ in range(3)]
    return rng.choice(leaves)


def make(number: int) -> bytes:
    """Returns the input with this number."""
    rng = random.Random(number)
    seed = rng.randrange(len(seeds()))
    kind = rng.randrange(6)
    if kind == 0:
        return damaged_bytes(seeds()[seed], rng)
    if kind == 1:
        return damaged_head(seeds()[seed], rng)
    if kind == 2:
        return damaged_tables(seeds()[seed], rng)
    if kind == 3:
        return hostile_member(seed, rng)
    return damaged_member(seed, rng)


def read_everything(data: bytes, whole: bool = True) -> str:
    """Reads every part; returns the row's status. Catches the project's errors only.

    whole: whether to build initData, events and steps as well.
    """
    row = replay_file.replay_row(data, "fuzz")
    try:
        replay = replay_file.open_replay(data)
    except errors.StarmillError:
        return row.status
    parts: list[Callable[[], object]] = [
        lambda: replay.header,
        lambda: replay.metadata,
        lambda: replay.details,
        lambda: replay.lobby,
    ]
    if whole:
        parts += [
            lambda: timing.step_plan(
                next(iter(timing.action_frames(replay.game_events()).values()), [])
            ),
            lambda: replay.init_data,
            lambda: list(itertools.islice(replay.full_game_events(), _WHOLE_EVENTS)),
            lambda: list(itertools.islice(replay.tracker_events(), _WHOLE_EVENTS)),
        ]
    for part in parts:
        try:
            part()
        except errors.StarmillError:
            continue
    return row.status


def check(number: int) -> tuple[str, float]:
    """Runs one input; returns the row's status and the CPU seconds it took."""
    data = make(number)
    began = time.process_time()
    status = read_everything(data, whole=number % WHOLE_EVERY == 0)
    return status, time.process_time() - began


def _memory_bytes() -> int:
    # Not getrusage: its peak includes that of the process which started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def _child(first: int, count: int, pipe: object) -> None:
    """Runs inputs first:first+count, and announces each before it starts."""
    for number in range(first, first + count):
        pipe.send(("begin", number))
        faulthandler.dump_traceback_later(120, exit=True)  # a real hang, wall clock
        try:
            status, seconds = check(number)
        except Exception as error:  # noqa: BLE001 - to find these is the purpose
            pipe.send(("problem", f"input {number}: {type(error).__name__}: {error}"))
            continue
        pipe.send(("done", (status, seconds)))
        if seconds > MAX_SECONDS:
            pipe.send(("problem", f"input {number}: took {seconds:.1f} s of CPU"))
        if _memory_bytes() > MAX_BYTES:
            pipe.send(("problem", f"input {number}: {_memory_bytes() >> 20} MB in all"))
            break
    faulthandler.cancel_dump_traceback_later()
    pipe.send(("end", _memory_bytes()))


class Result:
    """The outcome of a run."""

    def __init__(self) -> None:
        self.inputs, self.slowest, self.memory = 0, 0.0, 0
        self.statuses: Counter[str] = Counter()
        self.problems: list[str] = []


def run(first: int, inputs: int, seconds: float, per_child: int = 20_000) -> Result:
    """Runs inputs in child processes until all have run or the time is over."""
    result, context = Result(), multiprocessing.get_context("spawn")
    deadline = time.monotonic() + seconds
    number, end = first, first + inputs
    while number < end and time.monotonic() < deadline:
        reader, writer = context.Pipe(duplex=False)
        count = min(per_child, end - number)
        child = context.Process(
            target=_child, args=(number, count, writer), daemon=True
        )
        child.start()
        writer.close()
        number = _listen(reader, child, number, result, deadline)
        child.join()
        _log.info("%d inputs, %d problems", result.inputs, len(result.problems))
    return result


def _listen(reader, child, number: int, result: Result, deadline: float) -> int:
    """Receives a child's messages until it ends; returns the next input to run."""
    while True:
        try:
            kind, value = reader.recv()
        except EOFError:
            child.join()
            result.problems.append(
                f"input {number}: the process died ({child.exitcode})"
            )
            return number + 1
        if kind == "begin":
            number = value
        elif kind == "done":
            result.inputs += 1
            result.statuses[str(value[0])] += 1
            result.slowest = max(result.slowest, value[1])
            if time.monotonic() > deadline:
                child.terminate()
                return number + 1
        elif kind == "problem":
            result.problems.append(value)
        else:
            result.memory = max(result.memory, value)
            return number + 1


def main() -> int:
    """Runs the fuzzer and prints the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_replays")
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first input"
    )
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    began = time.monotonic()
    result = run(args.first, args.inputs, args.seconds)
    for problem in result.problems:
        sys.stdout.write(problem + "\n")
    sys.stdout.write(
        f"fuzz  {result.inputs:,} inputs from {len(seeds())} files in "
        f"{time.monotonic() - began:,.0f} s; slowest {result.slowest:.2f} s of CPU, "
        f"most memory {result.memory >> 20} MB, {len(result.problems)} problems\n"
        f"      {dict(result.statuses.most_common())}\n"
    )
    return 1 if result.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
