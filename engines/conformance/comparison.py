"""Compares two playbacks of the same player: the messages, and the arrays made of them.

In: recordings, or a recording and the reference's arrays. Out: entries in the ledger, with the
first bytes that differ. Must not know how anything was played.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.converters import episode
from starmill.converters.protos import sc2api_pb2
from starmill.engines.conformance.ledger import Evidence, Ledger, first_difference
from starmill.engines.conformance.recording import Recording
from starmill.schema import errors
from starmill.schema.settings import ConverterSettings

Arrays = Mapping[str, NDArray[Any]]
# The reference sometimes lists these tags in another order; they are a set.
_UNORDERED = "action/unit_tags"


def convert(
    recording: Recording, frames: list[int], settings: ConverterSettings
) -> Iterator[Arrays]:
    """Yields a recording's steps; each is valid until the next."""
    return episode.convert_replay(
        settings,
        recording.info.game_info,
        recording.info.replay_info,
        recording.stream(),
        frames,
    )


def compare_messages(
    ledger: Ledger, name: str, expected: Recording, other: Recording, where: str
) -> None:
    """Checks that two recordings are equal, for the assumption `name`.

    Also checks the order of the units of every observation.
    """
    ledger.expect(
        name,
        expected.loops == other.loops,
        f"{where}: observed on other loops: {len(expected)} and {len(other)} of them",
    )
    for index in range(min(len(expected), len(other))):
        one, two = expected[index], other[index]
        if one == two:
            ledger.expect(name, True, "")
            ledger.expect("order.units", True, "")
        elif not _is_alike(
            ledger, name, one, two, f"{where}, loop {other.loops[index]}"
        ):
            return


def _is_alike(ledger: Ledger, name: str, one: bytes, two: bytes, where: str) -> bool:
    messages = [sc2api_pb2.ResponseObservation.FromString(data) for data in (one, two)]
    tags = [[unit.tag for unit in m.observation.raw_data.units] for m in messages]
    if sorted(tags[0]) == sorted(tags[1]):
        ledger.expect(
            "order.units",
            tags[0] == tags[1],
            f"{where}: the same {len(tags[0])} units in another order",
        )
    for message in messages:
        # What people wrote to each other is not shown, and changes no array.
        message.ClearField("chat")
    one, two = (message.SerializeToString(deterministic=True) for message in messages)
    place = place_of(*messages)
    return ledger.expect(
        name,
        one == two,
        f"{where}: {place or 'the bytes'} differ",
        None if one == two else first_difference(one, two, place),
    )


def place_of(one: Any, two: Any) -> str:
    """Returns the path of the first field in which two messages differ; "" if none does."""
    for field in one.DESCRIPTOR.fields:
        values = [getattr(message, field.name) for message in (one, two)]
        if values[0] == values[1]:
            continue
        if not _is_list(values[0]):
            inner = place_of(*values) if field.message_type else ""
            return f"{field.name}.{inner}" if inner else field.name
        if len(values[0]) != len(values[1]):
            return f"{field.name} ({len(values[0])} and {len(values[1])} entries)"
        index = next(
            i for i, pair in enumerate(zip(*values, strict=True)) if pair[0] != pair[1]
        )
        inner = (
            place_of(values[0][index], values[1][index]) if field.message_type else ""
        )
        return f"{field.name}[{index}]" + (f".{inner}" if inner else "")
    return ""


def _is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def compare_arrays(
    ledger: Ledger,
    own: Recording,
    in_step: Recording,
    frames: list[int],
    settings: ConverterSettings,
    where: str,
) -> int:
    """Converts both recordings and compares all arrays; returns the number of steps."""
    steps = 0
    try:
        pairs = zip(
            convert(own, frames, settings),
            convert(in_step, frames, settings),
            strict=False,
        )
        for mine, theirs in pairs:
            ledger.expect("arrays.convert", True, "")
            _compare_step(
                ledger, "arrays.two_ways", theirs, mine, f"{where}, step {steps}"
            )
            steps += 1
    except errors.ConverterError as error:
        ledger.expect("arrays.convert", False, f"{where}: {error}")
    return steps


def compare_reference(
    ledger: Ledger,
    own: Recording,
    file: Path,
    frames: list[int],
    settings: ConverterSettings,
    where: str,
) -> None:
    """Compares every array of a recording with the reference's, stored in a file."""
    name = "arrays.reference"
    with np.load(file) as stored:
        theirs = {key: stored[key] for key in stored.files}
    steps = 0
    for mine in convert(own, frames, settings):
        if not ledger.expect(
            name,
            set(mine) == set(theirs),
            f"{where}: other arrays: {sorted(set(mine) ^ set(theirs))[:5]}",
        ):
            return
        if steps < len(theirs["game_loop"]):
            step = {key: theirs[key][steps] for key in mine}
            _compare_step(ledger, name, step, mine, f"{where}, step {steps}")
        steps += 1
    count = len(theirs["game_loop"])
    ledger.expect(
        name, steps == count, f"{where}: expected {count} steps, found {steps}"
    )


def _compare_step(
    ledger: Ledger, name: str, expected: Arrays, other: Arrays, where: str
) -> None:
    for key, mine in other.items():
        theirs = np.asarray(expected[key])
        if key == _UNORDERED:
            mine, theirs = np.sort(mine), np.sort(theirs)
        mine, theirs = (np.ascontiguousarray(array) for array in (mine, theirs))
        is_equal = mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes()
        evidence: Evidence | None = None
        if not is_equal:
            evidence = first_difference(theirs.tobytes(), mine.tobytes(), key)
        ledger.expect(
            name,
            is_equal,
            f"{where}: {key} differs ({theirs.dtype} {list(theirs.shape)} expected, "
            f"{mine.dtype} {list(mine.shape)} found)",
            evidence,
        )
