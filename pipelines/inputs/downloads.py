"""Downloads replay packs: resumable, checked, and complete under their own names only.

In: addresses of packs. Out: zip files in a folder, and `packs.json` with the size and sha256
of each. A pack arrives as NAME.part, beside a note that identifies the version of the file.
A transfer that breaks off continues with a range request; if the file on the server has
changed, it starts again from the beginning. A pack gets its own name only if its size is the
promised one, its hash too (if the server gives one), and its zip directory can be read.
"""

import dataclasses
import hashlib
import http.client
import json
import logging
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from starmill.pipelines.inputs import blizzard, packs
from starmill.schema import errors, storage

_LOG = logging.getLogger(__name__)

RECORD = "packs.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.zip")
_CHUNK_BYTES = 1 << 20
_MD5_ETAG = re.compile(r'"([0-9a-f]{32})"')
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pack:
    """A complete pack on disk.

    Attributes:
        name: of the file.
        url: where it comes from.
        size_bytes: of the file.
        sha256: of the file, hex.
        reused: whether it was there before.
    """

    name: str
    url: str
    size_bytes: int
    sha256: str
    reused: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A pack that could not be downloaded.

    Attributes:
        url: of the pack.
        detail: what went wrong, in a sentence.
    """

    url: str
    detail: str


def pack_name(url: str) -> str:
    """Returns the file name of a pack; DownloadError unless it is a plain name of a zip."""
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
    if not _NAME.fullmatch(name):
        raise errors.DownloadError(f"{url}: expected a pack's name, found {name!r}")
    return name


def fetch_all(
    urls: Iterable[str],
    folder: Path,
    service: blizzard.Service,
    on_pack: Callable[[Pack | Failure], None] = lambda _: None,
) -> tuple[list[Pack], list[Failure]]:
    """Downloads every pack to a folder. A pack that fails does not stop the others.

    Args:
        urls: of the packs.
        folder: where they go; it is created if necessary.
        service: how often and how long to try.
        on_pack: called after each pack.

    Returns the packs that are complete, and the failures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = _read_record(folder)
    done: list[Pack] = []
    failed: list[Failure] = []
    for url in urls:
        try:
            pack = _known(url, folder, record) or _fetch(url, folder, service)
        except (errors.DownloadError, errors.ReplayError) as error:
            failure = Failure(url=url, detail=str(error))
            failed.append(failure)
            on_pack(failure)
            continue
        done.append(pack)
        record[pack.name] = {
            "url": pack.url,
            "size_bytes": pack.size_bytes,
            "sha256": pack.sha256,
        }
        text = json.dumps(record, indent=1, sort_keys=True) + "\n"
        storage.write(str(folder / RECORD), text.encode())
        on_pack(pack)
    return done, failed


def _read_record(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / RECORD
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise errors.FormatError(
            f"{path}: expected JSON: {error}; delete it to download all packs again"
        ) from error
    if not isinstance(record, dict):
        raise errors.FormatError(f"{path}: expected a JSON object")
    return record


def _known(url: str, folder: Path, record: dict[str, dict[str, Any]]) -> Pack | None:
    """Returns the pack if the folder has it as recorded: same address, size and sha256."""
    name = pack_name(url)
    entry, path = record.get(name), folder / name
    if entry is None or entry.get("url") != url or not path.is_file():
        return None
    if path.stat().st_size != entry.get("size_bytes"):
        return None
    digest = _file_hash(path, "sha256")
    if digest != entry.get("sha256"):
        _LOG.warning("%s: changed since it was downloaded; downloading it again", path)
        return None
    return Pack(
        name=name, url=url, size_bytes=path.stat().st_size, sha256=digest, reused=True
    )


def _file_hash(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _fetch(url: str, folder: Path, service: blizzard.Service) -> Pack:
    """Downloads one pack, and continues where an earlier run stopped."""
    name = pack_name(url)
    part, note = folder / f"{name}.part", folder / f"{name}.part.json"
    promised = _complete(url, part, note, service)
    problem = _problem(part, promised)
    if problem:
        # The bytes are wrong, so continuing from them cannot help.
        part.unlink()
        note.unlink(missing_ok=True)
        raise errors.DownloadError(
            f"{url}: {problem}; deleted, run again to download it from the start"
        )
    size, digest = part.stat().st_size, _file_hash(part, "sha256")
    part.replace(folder / name)
    note.unlink(missing_ok=True)
    return Pack(name=name, url=url, size_bytes=size, sha256=digest)


def _complete(
    url: str, part: Path, note: Path, service: blizzard.Service
) -> dict[str, Any]:
    """Transfers a pack until it is complete; returns what the server promised.

    Gives up when all attempts together bring no further byte. A pack has gigabytes, so a bad
    line that still delivers some of them is worth more attempts.
    """
    while True:
        before = _length(part)
        try:
            promised: dict[str, Any] = blizzard.retried(
                service, url, lambda: _transfer(url, part, note, service)
            )
        except errors.DownloadError as error:
            if _is_final(error) or _length(part) <= before:
                raise
        else:
            return promised


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _is_final(error: errors.DownloadError) -> bool:
    """Returns whether the server refused the request, rather than the line broke."""
    cause = error.__cause__
    return isinstance(cause, urllib.error.HTTPError) and blizzard.is_refusal(cause)


def _problem(part: Path, promised: dict[str, Any]) -> str | None:
    if promised["md5"] and _file_hash(part, "md5") != promised["md5"]:
        return f"expected md5 {promised['md5']}, found {_file_hash(part, 'md5')}"
    try:
        packs.contents(str(part))
    except errors.ReplayError as error:
        return error.detail
    return None


def _transfer(
    url: str, part: Path, note: Path, service: blizzard.Service
) -> dict[str, Any]:
    """Makes one request for the missing bytes; returns what the server promised.

    Raises a network error if the pack is still incomplete, so that the caller tries again.
    """
    have = _length(part)
    before = _read_note(note) if have else None
    if before is not None and have >= before["size_bytes"]:
        if have == before["size_bytes"]:
            return before
        have, before = 0, None
    headers = {"Accept-Encoding": "identity"}
    if before is not None and before["etag"]:
        headers |= {"Range": f"bytes={have}-", "If-Range": before["etag"]}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=service.timeout_seconds) as answer:
        begin, size = _extent(answer)
        promised = _promised(answer, size)
        if begin not in (0, have) or (begin and promised != before):
            note.unlink(missing_ok=True)
            raise http.client.HTTPException("the file has changed on the server")
        storage.write(str(note), json.dumps(promised).encode())
        _append(answer, part, begin)
    size_on_disk = part.stat().st_size
    if size_on_disk != size:
        raise http.client.HTTPException(f"expected {size} bytes, found {size_on_disk}")
    return promised


def _append(answer: http.client.HTTPResponse, part: Path, begin: int) -> None:
    with part.open("r+b" if begin else "wb") as file:
        file.seek(begin)
        while chunk := answer.read(_CHUNK_BYTES):
            file.write(chunk)


def _extent(answer: http.client.HTTPResponse) -> tuple[int, int]:
    """Returns where the answer's bytes begin, and the length of the whole file."""
    if answer.status == 206:
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if match is None or int(match[2]) + 1 != int(match[3]):
            raise http.client.HTTPException("expected the rest of the file")
        return int(match[1]), int(match[3])
    length = answer.headers.get("Content-Length", "")
    if not length.isdigit():
        raise http.client.HTTPException("expected a Content-Length, found none")
    return 0, int(length)


def _promised(answer: http.client.HTTPResponse, size: int) -> dict[str, Any]:
    """Returns what identifies this version of the file: size, entity tag, md5 if known."""
    etag = answer.headers.get("ETag") or ""
    strong = "" if etag.startswith("W/") else etag
    match = _MD5_ETAG.fullmatch(strong)
    return {"size_bytes": size, "etag": strong, "md5": match[1] if match else None}


def _read_note(note: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(note.read_text("utf-8"))
        return {key: content[key] for key in ("size_bytes", "etag", "md5")}
    except (OSError, ValueError, KeyError, TypeError):
        # Without the note, nothing says which version of the file the part belongs to.
        return None
