"""The manifest: what a dataset is, file by file; written last. Its sha256 is the digest.

In: the facts of a build. Out: `manifest.json` in one canonical form, no time, host or path in
it. Reading is strict: unknown keys, another form, or a checksum that does not fit are errors,
so a manifest that opens is the one that was written.

A dataset can grow by increments. The files of increment 1 have names such as
`episodes.0001.parquet`, and the manifest of the dataset before it stays as `manifest.0000.json`.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from starmill.schema import errors, shards, specs, storage
from starmill.schema.settings import ConverterSettings

NAME = "manifest.json"
FORMAT = 1
# Of datasets with increments, so that older releases refuse them.
GROWN_FORMAT = 2
MOST_INCREMENTS = 9999
_IDENTIFIER = re.compile(r"^[a-z0-9][a-z0-9._-]*$")
# A name beside the manifest, not a path.
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_NUMBERED = re.compile(r"([A-Za-z_]+)\.(\d{4})\.([a-z]+)")
# A dataset of all ladder games has 20,000 shards, and 5 MB of manifest.
MOST_BYTES = 64 << 20
_MOST_COUNTED = 2**53
_MOST_SHOWN = 10
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# The statistics: what is counted by its values, and ranges. The ends of an empty one are null.
_COUNTED = ("by_split", "by_race", "by_map", "by_outcome", "by_game_version")
_END = int | None
_RANGES: dict[str, dict[str, Any]] = {
    "mmr": {"known": int, "min": _END, "max": _END},
    "steps": {"min": _END, "max": _END},
}
_EXPECTED: dict[Any, str] = {int: "a number from 0", str: "a text"}
_VERSION = re.compile(r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A file beside the shards: a table, the card or the metadata.

    Attributes:
        name: file name beside the manifest.
        size_bytes: of the whole file.
        sha256: of the whole file, hex.
    """

    name: str
    size_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Increment:
    """What one extension in place added to a dataset.

    Attributes:
        base: "sha256:..." of the dataset before.
        replay_set: sha256 over the sorted ids of the replays that it added, hex.
        replays: number of these that have episodes.
        episodes: number of its episodes.
        quarantined: number of failures in its quarantine table.
        steps: of all its episodes.
        size_bytes: of its shards.
    """

    base: str
    replay_set: str
    replays: int
    episodes: int
    quarantined: int
    steps: int
    size_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a dataset is.

    Counts, statistics, shards and files are those of the whole dataset, increments included.

    Attributes:
        name: what people call the dataset.
        version: its semantic version, such as "1.2.0".
        engine: what played the replays, such as "skirmish 0.1.0" or "sc2".
        settings: the converter's settings; the schema follows from them.
        schema: `specs.fingerprint(settings)`.
        selection: which replays and episodes belong, as `schema.selection` writes it.
        replay_set: sha256 over the sorted ids of the replays that were requested, hex; without
            those of increments.
        starmill: the release that wrote the dataset.
        codec: version of the codec.
        libraries: releases that affect the bytes (zstd, numpy, pyarrow and others).
        statistics: `table.statistics` of the episode table.
        replays: number of replays that have episodes.
        episodes: number of episodes.
        quarantined: number of failures in the quarantine table.
        steps: of all episodes.
        size_bytes: of all shards.
        shards: one entry per shard.
        files: one entry per other file.
        increments: what extensions in place added, in order; usually none.
    """

    name: str
    version: str
    engine: str
    settings: ConverterSettings
    schema: str
    selection: Mapping[str, Any]
    replay_set: str
    starmill: str
    codec: int
    libraries: Mapping[str, str]
    statistics: Mapping[str, Any]
    replays: int
    episodes: int
    quarantined: int
    steps: int
    size_bytes: int
    shards: tuple[shards.ShardEntry, ...]
    files: tuple[FileEntry, ...]
    increments: tuple[Increment, ...] = ()

    def __post_init__(self) -> None:
        """Checks names and numbers, and that counts and schema agree with what they count."""
        problems = name_problems(self.name, self.version)
        if self.schema != specs.fingerprint(self.settings):
            problems.append("schema: not the fingerprint of the settings")
        problems += _shard_problems(self.shards)
        problems += _file_problems(self.files)
        problems += _increment_problems(self)
        totals = (
            ("episodes", self.episodes, sum(entry.episodes for entry in self.shards)),
            ("steps", self.steps, sum(entry.steps for entry in self.shards)),
            (
                "size_bytes",
                self.size_bytes,
                sum(entry.size_bytes for entry in self.shards),
            ),
        )
        for field, stated, total in totals:
            if stated != total:
                problems.append(
                    f"{field}: expected {total} as in the shards, found {stated}"
                )
        if problems:
            raise errors.FormatError("manifest: " + "; ".join(problems[:_MOST_SHOWN]))

    def file(self, name: str) -> FileEntry:
        """Returns the entry of a file beside the shards."""
        for entry in self.files:
            if entry.name == name:
                return entry
        raise errors.FormatError(f"manifest: lists no file {name!r}")

    def tables(self, name: str) -> list[FileEntry]:
        """Returns the entries of a table: that of the base, then those of the increments."""
        numbers = range(len(self.increments) + 1)
        return [self.file(numbered(name, number)) for number in numbers]

    def lists(self, name: str) -> bool:
        """Returns whether there is an entry of a file beside the shards."""
        return any(entry.name == name for entry in self.files)

    def counts(self, field: str) -> list[int]:
        """Returns a count, such as "episodes", of the base and of each increment."""
        added = [getattr(increment, field) for increment in self.increments]
        return [getattr(self, field) - sum(added), *added]

    def to_bytes(self) -> bytes:
        """Returns the canonical form."""
        # Not `dataclasses.asdict`, which copies 20,000 entries field by field.
        content = dict(vars(self))
        content["shards"] = [vars(entry) for entry in self.shards]
        content["files"] = [vars(entry) for entry in self.files]
        content["settings"] = self.settings.to_json()
        del content["increments"]
        if self.increments:
            content["increments"] = [vars(entry) for entry in self.increments]
        content["format"] = GROWN_FORMAT if self.increments else FORMAT
        content["checksum"] = _checksum(content)
        return _canonical(content)

    def digest(self) -> str:
        """Returns "sha256:..." of the canonical form: what pins the dataset."""
        return "sha256:" + hashlib.sha256(self.to_bytes()).hexdigest()

    def reference(self) -> str:
        """Returns "name@version#sha256:..."."""
        return f"{self.name}@{self.version}#{self.digest()}"


# Keys of a manifest that hold lists, and the records in them.
_LISTS: dict[str, Any] = {
    "shards": shards.ShardEntry,
    "files": FileEntry,
    "increments": Increment,
}


def name_problems(name: str, version: str) -> list[str]:
    """Returns what is wrong with a dataset's name and version; an empty list if nothing is."""
    problems = []
    if not _IDENTIFIER.match(name):
        problems.append(
            f"name: expected lower case letters, digits, '.', '_', '-', found {name!r}"
        )
    if not _VERSION.match(version):
        problems.append(f"version: expected like 1.0.0, found {version!r}")
    return problems


def numbered(name: str, number: int) -> str:
    """Returns the name of an increment's file, such as "episodes.0001.parquet".

    The files of the base, with the number 0, have the name itself.
    """
    stem, dot, ending = name.rpartition(".")
    return f"{stem}.{number:04d}{dot}{ending}" if number else name


def split_number(name: str) -> tuple[str, int]:
    """Returns a file's name without the number of its increment, and the number."""
    if shards.is_shard_name(name):
        return name, shards.increment_of_name(name)
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return name, 0
    stem, number = f"{match[1]}.{match[3]}", int(match[2])
    # Only former manifests have the number 0 in their names.
    return (stem, number) if number or stem == NAME else (name, 0)


def former_name(number: int) -> str:
    """Returns the name under which the manifest stays that had so many increments."""
    stem, dot, ending = NAME.rpartition(".")
    return f"{stem}.{number:04d}{dot}{ending}"


def parse(data: bytes, where: str = NAME) -> Manifest:
    """Returns a manifest from its bytes; FormatError unless they are the canonical form."""
    try:
        content = json.loads(data)
        # JSON can spell halves of characters, which no text file can hold.
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"{where}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise errors.FormatError(f"{where}: expected an object")
    if content.get("format") not in (FORMAT, GROWN_FORMAT):
        raise errors.FormatError(
            f"{where}: manifest format {content.get('format')!r:.100}; "
            f"this release reads formats {FORMAT} and {GROWN_FORMAT}"
        )
    said = content.pop("checksum", None)
    try:
        checksum = _checksum(content)
    except RecursionError as error:
        raise errors.FormatError(f"{where}: nested too deeply") from error
    if said != checksum:
        raise errors.FormatError(
            f"{where}: the checksum in it does not fit its content: it was damaged or "
            f"edited. Fetch it again, or rebuild the dataset"
        )
    has_increments = content.pop("format") == GROWN_FORMAT
    if has_increments != ("increments" in content):
        raise errors.FormatError(
            f"{where}: increments: expected {'some' if has_increments else 'none'}"
        )
    content.setdefault("increments", [])
    try:
        parsed = _manifest(content, where)
        canonical = parsed.to_bytes()
    except (errors.ConfigError, RecursionError) as error:
        raise errors.FormatError(f"{where}: {error}") from error
    if canonical != data:
        raise errors.FormatError(f"{where}: not in canonical form: it was edited")
    return parsed


def _manifest(content: dict[str, Any], where: str) -> Manifest:
    values = _checked(Manifest, content, where)
    values["settings"] = ConverterSettings.from_json(content["settings"])
    for key, kind in _LISTS.items():
        if not isinstance(content[key], list):
            raise errors.FormatError(f"{where}: {key}: expected a list")
        values[key] = tuple(
            kind(**_checked(kind, entry, f"{where}: {key}")) for entry in content[key]
        )
    for key, value in content["libraries"].items():
        if not isinstance(value, str):
            raise errors.FormatError(
                f"{where}: libraries: {key!r:.100}: expected a release, "
                f"found {value!r:.100}"
            )
    problems = _statistics_problems(content["statistics"])
    if problems:
        shown = "; ".join(problems[:_MOST_SHOWN])
        raise errors.FormatError(f"{where}: statistics: {shown}")
    return Manifest(**values)


def _statistics_problems(statistics: dict[str, Any]) -> list[str]:
    """Returns how statistics differ from those that `table.statistics` makes."""
    if set(statistics) != {*_COUNTED, *_RANGES, "game_loops"}:
        return [f"unexpected or missing keys in {sorted(statistics)!r:.300}"]
    problems = []
    for key in _COUNTED:
        numbers = statistics[key]
        if not isinstance(numbers, dict) or not all(
            isinstance(number, int) for number in numbers.values()
        ):
            problems.append(f"{key}: expected counts, found {numbers!r:.100}")
    for key, kinds in _RANGES.items():
        numbers = statistics[key]
        if not isinstance(numbers, dict) or set(numbers) != set(kinds):
            problems.append(f"{key}: expected {sorted(kinds)}, found {numbers!r:.100}")
        elif not all(isinstance(numbers[name], kinds[name]) for name in kinds):
            problems.append(f"{key}: expected numbers, found {numbers!r:.100}")
    if not isinstance(statistics["game_loops"], int):
        problems.append("game_loops: expected a number")
    return problems


def read(folder: str, name: str = NAME) -> Manifest:
    """Returns the manifest of the dataset in a folder, or one that increments left behind."""
    url = storage.join(folder, name)
    try:
        data = storage.read(url, MOST_BYTES)
    except errors.FormatError as error:
        if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise
        raise errors.FormatError(
            f"{folder}: no dataset here: expected {NAME} in it. A build that was "
            f"interrupted has none; run it again to finish it"
        ) from error
    return parse(data, url)


def write(folder: str, content: Manifest) -> None:
    """Writes manifest.json: the last file of a dataset."""
    storage.write(storage.join(folder, NAME), content.to_bytes())


def replay_set_digest(replay_ids: set[str]) -> str:
    """Returns the digest of a set of replays."""
    return hashlib.sha256("\n".join(sorted(replay_ids)).encode()).hexdigest()


def _checked(kind: Any, entry: Any, where: str) -> dict[str, Any]:
    """Returns the values of a record; FormatError for other keys or types of values."""
    fields = {field.name: field.type for field in dataclasses.fields(kind)}
    if not isinstance(entry, dict) or set(entry) != set(fields):
        keys = set(entry) if isinstance(entry, dict) else set()
        raise errors.FormatError(
            f"{where}: expected entries with {sorted(fields)}; unknown keys "
            f"{sorted(keys - set(fields))!r:.300}, missing {sorted(set(fields) - keys)}"
        )
    for name, type_ in fields.items():
        value = entry[name]
        if type_ is int:
            fits = type(value) is int and 0 <= value <= _MOST_COUNTED
        elif type_ is str:
            fits = isinstance(value, str)
        elif name in _LISTS:
            fits = isinstance(value, list)
        else:
            fits = isinstance(value, dict)
        if not fits:
            raise errors.FormatError(
                f"{where}: {name}: expected {_EXPECTED.get(type_, 'another type')}, "
                f"found {value!r:.100}"
            )
    return dict(entry)


def _shard_problems(entries: tuple[shards.ShardEntry, ...]) -> list[str]:
    problems = []
    for entry in entries:
        if not shards.is_shard_name(entry.name):
            problems.append(f"shards: {entry.name!r:.100} is not a shard's name")
        elif shards.split_of_name(entry.name) != entry.split:
            problems.append(
                f"shards: {entry.name}: its split is said to be {entry.split!r}"
            )
        # Each episode has a header and a chunk, and each chunk at most 32 steps.
        chunks = entry.size_bytes // shards.LEAST_RECORD_BYTES
        if not 1 <= entry.episodes <= chunks or entry.steps > 32 * chunks:
            problems.append(
                f"shards: {entry.name!r:.100}: {entry.episodes:,} episodes and "
                f"{entry.steps:,} steps cannot be in {entry.size_bytes:,} bytes"
            )
    names = [entry.name for entry in entries]
    if len(set(names)) != len(names):
        problems.append("shards: a name is there twice")
    return problems


def _file_problems(entries: tuple[FileEntry, ...]) -> list[str]:
    names = [entry.name for entry in entries]
    problems = [
        f"files: {name!r:.100} is not a file's name"
        for name in names
        if not _FILE.fullmatch(name) or shards.is_shard_name(name) or name == NAME
    ]
    if len(set(names)) != len(names):
        problems.append("files: a name is there twice")
    return problems


def _increment_problems(content: Manifest) -> list[str]:
    """Returns how increments disagree with the shards and files that carry their numbers."""
    count = len(content.increments)
    if count > MOST_INCREMENTS:
        return [f"increments: expected at most {MOST_INCREMENTS:,}, found {count:,}"]
    problems = []
    names = [entry.name for entry in content.shards]
    for name in [*names, *(entry.name for entry in content.files)]:
        stem, number = split_number(name)
        if number > (count - 1 if stem == NAME else count):
            problems.append(f"{name!r:.100}: there is no increment {number}")
    for number in range(1, count + 1):
        problems += _sum_problems(content, number)
        problems += _base_problems(content, number)
    for field, least in (("replays", 0), ("episodes", 1), ("quarantined", 0)):
        if count and min(content.counts(field)) < least:
            problems.append(
                f"increments: {field}: of {getattr(content, field)} in all, the base and "
                f"the increments have {content.counts(field)[:_MOST_SHOWN]}"
            )
    return problems


def _sum_problems(content: Manifest, number: int) -> Iterator[str]:
    """Yields how the counts of an increment differ from those of its shards."""
    entries = [e for e in content.shards if split_number(e.name)[1] == number]
    for field in ("episodes", "steps", "size_bytes"):
        stated = getattr(content.increments[number - 1], field)
        total = sum(getattr(entry, field) for entry in entries)
        if stated != total:
            yield (
                f"increments: {number}: {field}: expected {total} as in its shards, "
                f"found {stated}"
            )


def _base_problems(content: Manifest, number: int) -> Iterator[str]:
    """Yields how the base of an increment is not the manifest that the files have."""
    base = content.increments[number - 1].base
    name = former_name(number - 1)
    sums = [entry.sha256 for entry in content.files if entry.name == name]
    if not _DIGEST.fullmatch(base):
        yield f"increments: {number}: base: expected a digest, found {base!r:.100}"
    elif sums != [base.removeprefix("sha256:")]:
        yield f"increments: {number}: expected {name} with {base} among the files"


def _canonical(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, sort_keys=True, indent=1) + "\n").encode()


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
