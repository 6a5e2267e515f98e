"""Where replays are: files, folders, globs, zip packs and fsspec URLs, cut into units.

In: what the user named. Out: units of work of bounded size, in a fixed order, each with a
digest of what it holds, so that finished work is recognised when a run is repeated. A pack
is a range of its members, so even millions of replays in packs are few units.
"""

import dataclasses
import glob
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import fsspec

from starmill.pipelines.inputs import packs
from starmill.schema import errors, storage

# Small enough to spread over workers and to lose little when one dies; large enough that
# a unit's own cost (a file, a Beam element) does not matter beside ~1 ms a replay.
REPLAYS_PER_UNIT = 512


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
    """Replays that one worker reads in one go.

    files: addresses of replay files; () for a pack.
    pack: address of a zip file, whose replays begin:end (by name) are meant; else "".
        A pack that cannot be read is a unit with begin = end = 0.
    digest: of the addresses, sizes and times of change of all of it.
    """

    files: tuple[str, ...] = ()
    pack: str = ""
    begin: int = 0
    end: int = 0
    digest: str

    @property
    def replays(self) -> int:
        """Returns how many rows the unit gives."""
        return len(self.files) or max(1, self.end - self.begin)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """What was found: the units, and whether any pack needs a password."""

    units: tuple[Unit, ...]
    encrypted: bool

    @property
    def replays(self) -> int:
        """Returns how many rows all units give."""
        return sum(unit.replays for unit in self.units)


def find(inputs: Iterable[str], per_unit: int = REPLAYS_PER_UNIT) -> Sources:
    """Returns every replay that the inputs name, once, sorted by address.

    Raises ConfigError for an input that names nothing.
    """
    stamps: dict[str, str] = {}
    for named in inputs:
        found = dict(_entries(named))
        if not found:
            raise errors.ConfigError(
                f"{named}: expected replays, zip packs or a folder of them; found none"
            )
        stamps |= found
    files = sorted(a for a in stamps if not a.lower().endswith(packs.SUFFIX))
    units = []
    for i in range(0, len(files), per_unit):
        chosen = tuple(files[i : i + per_unit])
        digest = _digest([f"{address} {stamps[address]}" for address in chosen])
        units.append(Unit(files=chosen, digest=digest))
    encrypted = False
    for address in sorted(set(stamps) - set(files)):
        try:
            held = packs.contents(address)
        except errors.ReplayError:
            # It is an input like any other: the unit will give the row that says why.
            held = packs.PackContents(replays=-1, encrypted=False)
        encrypted |= held.encrypted
        units += _pack_units(address, stamps[address], held.replays, per_unit)
    return Sources(units=tuple(units), encrypted=encrypted)


def _pack_units(address: str, stamp: str, replays: int, per_unit: int) -> list[Unit]:
    if replays < 0:
        return [Unit(pack=address, digest=_digest([f"{address} {stamp} unreadable"]))]
    return [
        Unit(
            pack=address,
            begin=begin,
            end=min(begin + per_unit, replays),
            digest=_digest([f"{address} {stamp} {begin} {per_unit}"]),
        )
        for begin in range(0, replays, per_unit)
    ]


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256(
        "\n".join(lines).encode("utf-8", "surrogateescape")
    ).hexdigest()


def _entries(named: str) -> Iterator[tuple[str, str]]:
    """Yields (address, stamp) of the files that one input names."""
    filesystem, path = fsspec.core.url_to_fs(named)
    local = storage.is_local(named)
    try:
        if filesystem.isfile(path):
            yield _entry(filesystem, filesystem.info(path), named, local)
        elif filesystem.isdir(path):
            # Suffixes decide here: a folder can hold other things.
            for info in filesystem.find(path, detail=True).values():
                if info["name"].lower().endswith((packs.REPLAY_SUFFIX, packs.SUFFIX)):
                    yield _entry(filesystem, info, None, local)
        elif glob.has_magic(path):
            for info in filesystem.glob(path, detail=True).values():
                if info["type"] == "file":
                    yield _entry(filesystem, info, None, local)
    except OSError as error:
        raise errors.ConfigError(f"{named}: cannot be listed: {error}") from error


def _entry(
    filesystem: Any, info: dict[str, Any], named: str | None, local: bool
) -> tuple[str, str]:
    address = named or (
        info["name"] if local else filesystem.unstrip_protocol(info["name"])
    )
    # What a changed file changes, by store: time on disks, entity tag on object stores.
    keys = ("size", "mtime", "etag", "ETag", "md5Hash", "LastModified", "created")
    return address, " ".join(str(info.get(key, "")) for key in keys)
