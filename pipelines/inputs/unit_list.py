"""A list of units as files, so that a Beam job's graph does not hold them.

In: units of `sources`. Out: files in a folder that all workers reach, and each unit again with one
range read.

    units-5b1c....units   each unit as JSON under zstd, one after the other
    units-5b1c....json    the bytes that each of them takes

The names have a digest of the units, so lists of other inputs can share the folder. Must not know
what is done with a unit.
"""

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import zstandard

from starmill.pipelines.inputs import sources
from starmill.schema import errors, storage

_NAME = re.compile(r"units-[0-9a-f]{16}\.(units|json)")


class Place(NamedTuple):
    """Where a unit is. This is all of it that travels through Beam.

    Attributes:
        number: of the unit, in the order of the list.
        begin: first byte in the list's file.
        end: one after its last byte.
    """

    number: int
    begin: int
    end: int


def is_name(name: str) -> bool:
    """Returns whether a list can have a file of this name."""
    return _NAME.fullmatch(name) is not None


def write(folder: str, units: Sequence[sources.Unit]) -> str:
    """Writes a list of units to a folder; returns the list's name."""
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    bodies = [compressor.compress(_encoded(unit)) for unit in units]
    digest = hashlib.sha256()
    for body in bodies:
        digest.update(body)
    name = f"units-{digest.hexdigest()[:16]}"
    storage.write(storage.join(folder, f"{name}.units"), bodies)
    sizes = json.dumps([len(body) for body in bodies], separators=(",", ":"))
    storage.write(storage.join(folder, f"{name}.json"), sizes.encode())
    return name


def places(folder: str, name: str) -> Iterator[Place]:
    """Yields where the units of a list are, in order."""
    sizes = json.loads(storage.read(storage.join(folder, f"{name}.json")))
    ends = itertools.accumulate(sizes, initial=0)
    for number, (begin, end) in enumerate(itertools.pairwise(ends)):
        yield Place(number, begin, end)


def read(folder: str, name: str, place: Place) -> sources.Unit:
    """Returns the unit at a place of a list, with one read."""
    reader = storage.RangeReader(folder)
    try:
        body = reader.read(f"{name}.units", place.begin, place.end)
    finally:
        reader.close()
    try:
        values = json.loads(zstandard.ZstdDecompressor().decompress(body))
    except (zstandard.ZstdError, ValueError) as error:
        raise errors.FormatError(
            f"{storage.join(folder, name)}.units: the list is damaged: {error}; "
            "delete it and run the command again"
        ) from error
    return sources.Unit(**{**values, "files": tuple(values["files"])})


def _encoded(unit: sources.Unit) -> bytes:
    # ASCII, because names of files need not be UTF-8: Python has their odd bytes as surrogates.
    text = json.dumps(dataclasses.asdict(unit), separators=(",", ":"))
    return text.encode("ascii")
