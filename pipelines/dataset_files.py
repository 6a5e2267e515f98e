"""Which files a dataset has, and whether they are as its manifest says.

In: a dataset's folder and manifest. Out: the problems, as sentences that name the file. Knows
nothing of what is in tables and shards.
"""

from collections.abc import Iterator
from typing import NamedTuple

from starmill.pipelines import claims
from starmill.schema import card, errors, manifest, shards, storage, table

TABLES = {
    table.EPISODES: table.EPISODE_SCHEMA,
    table.QUARANTINE: table.QUARANTINE_SCHEMA,
    table.UNSELECTED: table.UNSELECTED_SCHEMA,
}
# The work folder of a build that kept it, the claim of a build that was killed, and what hubs
# keep in every repository.
_IGNORED_FILES = ("_work", claims.LOCK, claims.NUMBERED, ".gitattributes")
# The card and the metadata. An extension in place replaces them after the manifest.
_OPTIONAL = {card.README, card.CROISSANT}


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        where: a file, an episode, or a part of one.
        what: the problem, in words that follow the place.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check_files(folder: str, content: manifest.Manifest) -> Iterator[Problem]:
    """Yields what is wrong with the files beside the shards, and with the list of all files."""
    listed = {entry.name for entry in content.files}
    listed |= {entry.name for entry in content.shards}
    present = set(storage.names(folder))
    for name in sorted(listed - present):
        yield Problem(name, "is missing, although the manifest lists it")
    for name in sorted(present - listed - {manifest.NAME, *_IGNORED_FILES}):
        if not _is_of_next_increment(name, content):
            yield Problem(name, "is a file or folder that the manifest does not list")
    known = _known_files(content)
    for name in sorted({entry.name for entry in content.files} - known):
        yield Problem(
            name, "is not a file of a dataset, although the manifest lists it"
        )
    required = known - _OPTIONAL - {table.UNSELECTED}
    for name in sorted(required - listed):
        yield Problem(name, "is not listed in the manifest")
    for entry in content.files:
        if entry.name in present:
            problems = list(
                check_file(folder, entry.name, entry.size_bytes, entry.sha256)
            )
            if problems and not _is_former_card(folder, entry.name, content):
                yield from problems


def _known_files(content: manifest.Manifest) -> set[str]:
    """Returns the names that files beside the shards can have."""
    count = len(content.increments)
    tables = (manifest.numbered(name, n) for name in TABLES for n in range(count + 1))
    return {*tables, *map(manifest.former_name, range(count)), *_OPTIONAL}


def _is_of_next_increment(name: str, content: manifest.Manifest) -> bool:
    """Returns whether an extension in place that is not finished has written this file."""
    target = storage.temporary_target(name) or name
    count = len(content.increments)
    stem, number = manifest.split_number(target)
    is_table = stem in TABLES or shards.is_shard_name(target)
    is_temporary = target != name and target in (manifest.NAME, *_OPTIONAL)
    return (
        (is_table and number == count + 1)
        or target == manifest.former_name(count)
        or (is_temporary and bool(count))
    )


def _is_former_card(folder: str, name: str, content: manifest.Manifest) -> bool:
    """Returns whether the card is intact, but of the dataset before its last increment.

    An extension that is killed between the manifest and the card leaves it so.
    """
    if name not in _OPTIONAL or not content.increments:
        return False
    try:
        former = manifest.read(
            folder, manifest.former_name(len(content.increments) - 1)
        )
        entry = former.file(name)
    except errors.FormatError:
        return False
    return not list(check_file(folder, name, entry.size_bytes, entry.sha256))


def check_file(
    folder: str, name: str, size_bytes: int, sha256: str
) -> Iterator[Problem]:
    """Yields how a file differs from its entry in the manifest."""
    try:
        length = storage.size_bytes(storage.join(folder, name))
        if length > size_bytes:  # it may be endless, so it is not read
            yield Problem(name, f"expected {size_bytes:,} bytes, found {length:,}")
            return
        written = storage.digest(folder, name)
    except (errors.FormatError, OSError) as error:
        yield Problem(name, f"cannot be read: {error}")
        return
    if written.size_bytes != size_bytes:
        yield Problem(
            name, f"expected {size_bytes:,} bytes, found {written.size_bytes:,}"
        )
    if written.sha256 != sha256:
        yield Problem(name, f"expected sha256 {sha256}, found {written.sha256}")
