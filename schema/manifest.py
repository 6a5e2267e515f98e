"""The manifest: what a dataset is, file by file; written last. Its sha256 is the digest.

In: the facts of a build. Out: `manifest.json` in one canonical form, no time, host or path in
it. Reading is strict: unknown keys, another form, or a checksum that does not fit are errors,
so a manifest that opens is the one that was written.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from starmill.schema import errors, shards, specs, storage
from starmill.schema.settings import ConverterSettings

NAME = "manifest.json"
FORMAT = 1
_IDENTIFIER = re.compile(r"^[a-z0-9][a-z0-9._-]*$")
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
class Manifest:
    """What a dataset is.

    Attributes:
        name: what people call the dataset.
        version: its semantic version, such as "1.2.0".
        engine: what played the replays, such as "skirmish 0.1.0" or "sc2".
        settings: the converter's settings; the schema follows from them.
        schema: `specs.fingerprint(settings)`.
        selection: which replays and episodes belong, as `schema.selection` writes it.
        replay_set: sha256 over the sorted ids of the replays that were requested, hex.
        starmill: the release that wrote the dataset.
        codec: version of the codec.
        libraries: releases that affect the bytes (zstd, numpy, pyarrow and others).
        statistics: `table.statistics` of the episode table.
        replays: number of replays that were requested.
        episodes: number of episodes.
        quarantined: number of failures in the quarantine table.
        steps: of all episodes.
        size_bytes: of all shards.
        shards: one entry per shard.
        files: one entry per other file.
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

    def __post_init__(self) -> None:
        """Checks names, and that counts and schema agree with what they count."""
        problems = name_problems(self.name, self.version)
        if self.schema != specs.fingerprint(self.settings):
            problems.append("schema: not the fingerprint of the settings")
        totals = (
            ("episodes", self.episodes, sum(entry.episodes for entry in self.shards)),
            ("steps", self.steps, sum(entry.steps for entry in self.shards)),
            (
                "size_bytes",
                self.size_bytes,
                sum(entry.size_bytes for entry in self.shards),
            ),
        )
        for field, said, found in totals:
            if said != found:
                problems.append(f"{field}: says {said}, the shards have {found}")
        if problems:
            raise errors.FormatError("manifest: " + "; ".join(problems))

    def file(self, name: str) -> FileEntry:
        """Returns the entry of a file beside the shards."""
        for entry in self.files:
            if entry.name == name:
                return entry
        raise errors.FormatError(f"manifest: lists no file {name!r}")

    def to_bytes(self) -> bytes:
        """Returns the canonical form."""
        content = dataclasses.asdict(self)
        content["settings"] = self.settings.to_json()
        content["format"] = FORMAT
        content["checksum"] = _checksum(content)
        return _canonical(content)

    def digest(self) -> str:
        """Returns "sha256:..." of the canonical form: what pins the dataset."""
        return "sha256:" + hashlib.sha256(self.to_bytes()).hexdigest()

    def reference(self) -> str:
        """Returns "name@version#sha256:..."."""
        return f"{self.name}@{self.version}#{self.digest()}"


def name_problems(name: str, version: str) -> list[str]:
    """Returns what is wrong with a dataset's name and version; nothing if they will do."""
    problems = []
    if not _IDENTIFIER.match(name):
        problems.append(
            f"name: expected lower case letters, digits, '.', '_', '-', found {name!r}"
        )
    if not _VERSION.match(version):
        problems.append(f"version: expected like 1.0.0, found {version!r}")
    return problems


def parse(data: bytes, where: str = NAME) -> Manifest:
    """Returns a manifest from its bytes; FormatError unless they are the canonical form."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise errors.FormatError(f"{where}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise errors.FormatError(f"{where}: expected an object")
    if content.get("format") != FORMAT:
        raise errors.FormatError(
            f"{where}: manifest format {content.get('format')!r}; "
            f"this release reads format {FORMAT}"
        )
    said = content.pop("checksum", None)
    if said != _checksum(content):
        raise errors.FormatError(
            f"{where}: the checksum in it does not fit its content: it was damaged or "
            f"edited. Fetch it again, or rebuild the dataset"
        )
    del content["format"]
    names = {field.name for field in dataclasses.fields(Manifest)}
    if set(content) != names:
        raise errors.FormatError(
            f"{where}: unknown keys {sorted(set(content) - names)}, "
            f"missing {sorted(names - set(content))}"
        )
    content["settings"] = ConverterSettings.from_json(content["settings"])
    content["shards"] = tuple(
        _record(shards.ShardEntry, entry, where) for entry in content["shards"]
    )
    content["files"] = tuple(
        _record(FileEntry, entry, where) for entry in content["files"]
    )
    found = Manifest(**content)
    if found.to_bytes() != data:
        raise errors.FormatError(f"{where}: not in canonical form: it was edited")
    return found


def read(folder: str) -> Manifest:
    """Returns the manifest of the dataset in a folder."""
    url = storage.join(folder, NAME)
    try:
        data = storage.read(url)
    except errors.FormatError as error:
        if storage.exists(url):
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


def _record(kind: Any, entry: Any, where: str) -> Any:
    names = {field.name for field in dataclasses.fields(kind)}
    if not isinstance(entry, dict) or set(entry) != names:
        raise errors.FormatError(
            f"{where}: expected entries with {sorted(names)}, found {entry!r}"
        )
    return kind(**entry)


def _canonical(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, sort_keys=True, indent=1) + "\n").encode()


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
