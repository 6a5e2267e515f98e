"""Finds replays in files, folders, globs, zip packs and fsspec URLs, and cuts them into units.

In: what the user named. Out: units of work of bounded size, in a fixed order. Each has a
digest of its inputs, so that a repeated run recognises finished work. A range of a pack's
members is one unit, so millions of replays in packs are few units.
"""

import dataclasses
import glob
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from starmill.pipelines.inputs import packs
from starmill.schema import errors, storage

# Small enough to spread over workers and to lose little when one dies. Large enough that a
# unit's own cost (a file, a Beam element) is small compared to 1 ms for each replay.
REPLAYS_PER_UNIT = 512
# In place of the number of replays in a pack that cannot be read.
_UNREADABLE = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
    """Replays that one worker reads at once.

    Attributes:
        files: addresses of replay files; empty for a pack.
        pack: address of a zip file; "" for replay files.
        begin: first replay of the pack, in order of name.
        end: one after the last. A pack that cannot be read has begin = end = 0.
        digest: of the addresses, sizes and modification times.
    """

    files: tuple[str, ...] = ()
    pack: str = ""
    begin: int = 0
    end: int = 0
    digest: str

    @property
    def replays(self) -> int:
        """Returns how many rows of the index the unit gives."""
        return len(self.files) or max(1, self.end - self.begin)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """The replays that a user named.

    Attributes:
        units: of work, replay files first, then packs.
        encrypted: whether any pack needs a password.
    """

    units: tuple[Unit, ...]
    encrypted: bool

    @property
    def replays(self) -> int:
        """Returns how many rows of the index all units give."""
        return sum(unit.replays for unit in self.units)


def find(inputs: Iterable[str], per_unit: int = REPLAYS_PER_UNIT) -> Sources:
    """Returns all replays that the inputs name, each once, sorted by address.

    Raises ConfigError for an input that names nothing.
    """
    stamps: dict[str, str] = {}
    for named in inputs:
        entries = dict(_entries(named))
        if not entries:
            raise errors.ConfigError(
                f"{named}: expected replays, zip packs or a folder of them; found none"
            )
        stamps |= entries
    files = sorted(a for a in stamps if not a.lower().endswith(packs.SUFFIX))
    units = []
    for i in range(0, len(files), per_unit):
        addresses = tuple(files[i : i + per_unit])
        digest = _digest([f"{address} {stamps[address]}" for address in addresses])
        units.append(Unit(files=addresses, digest=digest))
    encrypted = False
    for address in sorted(set(stamps) - set(files)):
        try:
            contents = packs.contents(address)
        except errors.ReplayError:
            # Not an error here: indexing the unit gives a row that says what is wrong.
            contents = packs.PackContents(replays=_UNREADABLE, encrypted=False)
        encrypted |= contents.encrypted
        units += _pack_units(address, stamps[address], contents.replays, per_unit)
    return Sources(units=tuple(units), encrypted=encrypted)


def _pack_units(address: str, stamp: str, replays: int, per_unit: int) -> list[Unit]:
    if replays == _UNREADABLE:
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
    """Yields (address, stamp) of the files that one input names. A stamp changes with its file."""
    filesystem, path = storage.filesystem_of(named)
    local = storage.is_local(named)
    try:
        if filesystem.isfile(path):
            yield _entry(filesystem, filesystem.info(path), named, local)
        elif filesystem.isdir(path):
            # By suffix, because a folder can contain other files.
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
    # What changes with a file: the time on disks, the entity tag on object stores.
    keys = ("size", "mtime", "etag", "ETag", "md5Hash", "LastModified", "created")
    return address, " ".join(str(info.get(key, "")) for key in keys)
