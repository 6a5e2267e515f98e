"""References to datasets, and the registry file that says where a named dataset is.

In: a reference. Out: the dataset's folder and manifest, checked against the reference.
A reference is a path or URL of a dataset's folder, or `name@version` to look up in a registry;
either may end in `#sha256:...`, the digest that the manifest must have. A registry is a JSON
file, {"datasets": {"name@version": {"url": "...", "digest": "sha256:..."}}}.
Must not know what is in a dataset besides its manifest.
"""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from starmill.schema import errors, manifest, storage
from starmill.schema.archives import json_text
from starmill.schema.manifest import Manifest

# The registry is the first of these that exists, unless one is named.
DEFAULTS = (Path("starmill-registry.json"), Path("~/.starmill/registry.json"))
_REFERENCE = re.compile(r"^(?P<place>.+?)(?:#(?P<digest>sha256:[0-9a-f]{64}))?$")
_NAMED = re.compile(r"^[a-z0-9][a-z0-9._-]*@\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where a dataset is, and what it must be.

    Attributes:
        url: path or URL of the dataset's folder.
        digest: "sha256:..." of its manifest; None if any will do.
        name: the "name@version" that the reference gave; None if it gave a path or URL.
    """

    url: str
    digest: str | None
    name: str | None


def resolve(reference: str, registry: str | None = None) -> Place:
    """Returns where the dataset of a reference should be; does not look whether it is."""
    match = _REFERENCE.match(reference)
    if match is None or "#" in match["place"]:
        raise errors.ConfigError(
            f"dataset reference {reference!r}: expected a path or URL, or name@version, "
            f"optionally followed by #sha256: and 64 hex digits"
        )
    place, digest = match["place"], match["digest"]
    if not _NAMED.match(place) or storage.exists(place):
        return Place(url=place, digest=digest, name=None)
    known = _entries(registry)
    if place not in known:
        raise errors.ConfigError(
            f"dataset {place!r} is not in the registry; known: {sorted(known)}. "
            f"Give its path, or add it with `starmill info PATH --register FILE`"
        )
    url, pinned = known[place]["url"], known[place]["digest"]
    if digest is not None and digest != pinned:
        raise errors.ManifestMismatch(
            f"dataset {place}: expected {digest}, the registry has {pinned}"
        )
    return Place(url=url, digest=pinned, name=place)


def open_manifest(
    reference: str, registry_file: str | None = None
) -> tuple[str, Manifest]:
    """Returns a dataset's folder and its manifest.

    Raises ManifestMismatch unless digest and name are those of the reference. The digest may be
    one that the dataset had before it grew: the manifest is then the one of that time.

    Args:
        reference: path or URL, or name@version of a registry; either may be followed by
            #sha256:... .
        registry_file: the registry to look names up in; one of DEFAULTS if it is None.
    """
    place = resolve(reference, registry_file)
    content = manifest.read(place.url)
    if place.digest is not None and content.digest() != place.digest:
        content = _former(place.url, content, place.digest) or content
    if place.digest is not None and content.digest() != place.digest:
        raise errors.ManifestMismatch(
            f"{place.url}: expected {place.digest}, found {content.digest()}: "
            f"another dataset, or another build of it"
        )
    name = f"{content.name}@{content.version}"
    if place.name is not None and name != place.name:
        raise errors.ManifestMismatch(
            f"{place.url}: expected {place.name}, found {name}"
        )
    return place.url, content


def _former(url: str, content: Manifest, digest: str) -> Manifest | None:
    """Returns the manifest with a digest that a dataset had before it grew; None if none had.

    All files of the dataset before are still there, except its card.
    """
    for number, increment in enumerate(content.increments):
        if increment.base == digest:
            return manifest.read(url, manifest.former_name(number))
    return None


def add(path: Path, name: str, url: str, digest: str) -> None:
    """Adds an entry; ManifestMismatch if the name is registered with another digest."""
    known = _read(path) if path.exists() else {}
    old = known.get(name)
    if old is not None and old["digest"] != digest:
        raise errors.ManifestMismatch(
            f"{path}: {name} is already registered as {old['digest']}, this is {digest}; "
            f"a published version never changes: give it a new version"
        )
    known[name] = {"url": url, "digest": digest}
    text = json.dumps({"datasets": known}, sort_keys=True, indent=1) + "\n"
    storage.write(str(path), text.encode())


def _entries(registry: str | None) -> dict[str, dict[str, str]]:
    if registry is not None:
        return _read(Path(registry))
    for path in DEFAULTS:
        if path.expanduser().exists():
            return _read(path.expanduser())
    return {}


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        content: Any = json_text.parse(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise errors.ConfigError(f"registry {path}: there is no such file") from error
    except ValueError as error:
        raise errors.FormatError(f"registry {path}: not JSON: {error}") from error
    entries = content.get("datasets") if isinstance(content, dict) else None
    if not isinstance(entries, dict) or set(content) != {"datasets"}:
        raise errors.FormatError(f'registry {path}: expected {{"datasets": {{...}}}}')
    for name, entry in entries.items():
        if not isinstance(entry, dict) or set(entry) != {"url", "digest"}:
            raise errors.FormatError(
                f"registry {path}: {name}: expected url and digest"
            )
    return entries
