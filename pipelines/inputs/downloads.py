"""Replay packs to disk: resumable, checked, and never half there under their own name.

In: addresses of packs. Out: zip files in a folder, and `packs.json` with the size and
sha256 of each. A pack arrives as NAME.part beside a note of which version of the file it
is; a broken transfer goes on from there with a range request, and starts anew if the file
on the server has changed. Only a pack of the promised size (and hash, where the server
gives one), and whose zip directory can be read, gets its own name.
"""

import dataclasses
import hashlib
import http.client
import json
import logging
import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from starmill.pipelines.inputs import blizzard, packs
from starmill.schema import errors, storage

_log = logging.getLogger(__name__)

RECORD = "packs.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.zip")
_CHUNK_BYTES = 1 << 20
_MD5_ETAG = re.compile(r'"([0-9a-f]{32})"')
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pack:
    """A pack that is on disk and whole.

    reused: whether it was there already.
    """

    name: str
    url: str
    size_bytes: int
    sha256: str
    reused: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
    """A pack that could not be had, and why."""

    url: str
    detail: str


def pack_name(url: str) -> str:
    """Returns the file name of a pack; DownloadError if it is not a plain zip file's name."""
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
    """Brings every pack to the folder; one that fails does not stop the others."""
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
            f"{path}: expected JSON: {error}; delete it to check all packs anew"
        ) from error
    if not isinstance(record, dict):
        raise errors.FormatError(f"{path}: expected a JSON object")
    return record


def _known(url: str, folder: Path, record: dict[str, dict[str, Any]]) -> Pack | None:
    """Returns the pack if it is there as recorded: same address, size and sha256."""
    name = pack_name(url)
    entry, path = record.get(name), folder / name
    if entry is None or entry.get("url") != url or not path.is_file():
        return None
    if path.stat().st_size != entry.get("size_bytes"):
        return None
    digest = _file_hash(path, "sha256")
    if digest != entry.get("sha256"):
        _log.warning("%s: changed since it was downloaded; fetching it again", path)
        return None
    return Pack(
        name=name, url=url, size_bytes=path.stat().st_size, sha256=digest, reused=True
    )


def _file_hash(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _fetch(url: str, folder: Path, service: blizzard.Service) -> Pack:
    """Downloads one pack, going on where an earlier try stopped."""
    name = pack_name(url)
    part, note = folder / f"{name}.part", folder / f"{name}.part.json"
    promised = blizzard.retried(
        service, url, lambda: _transfer(url, part, note, service)
    )
    problem = _problem(part, promised)
    if problem:
        # What is there is wrong, not short: going on from it could never help.
        part.unlink()
        note.unlink(missing_ok=True)
        raise errors.DownloadError(
            f"{url}: {problem}; removed, run again to fetch it anew"
        )
    size, digest = part.stat().st_size, _file_hash(part, "sha256")
    part.replace(folder / name)
    note.unlink(missing_ok=True)
    return Pack(name=name, url=url, size_bytes=size, sha256=digest)


def _complete(url: str, part: Path, note: Path, service: blizzard.Service) -> Any:
    """Transfers until the pack is complete; gives up when attempts bring nothing more."""
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            return blizzard.retried(
                service, url, lambda: _transfer(url, part, note, service)
            )
        except errors.DownloadError:
            # A pack has gigabytes: a bad line that still brings some is worth it.
            if not part.exists() or part.stat().st_size <= before:
                raise


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
    """Makes one request for what is missing; returns what the server promised.

    Raises an error of the network if the pack is still not complete, to be tried again.
    """
    have = part.stat().st_size if part.exists() else 0
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
            raise http.client.HTTPException("the file changed on the server")
        storage.write(str(note), json.dumps(promised).encode())
        _append(answer, part, begin)
    got = part.stat().st_size
    if got != size:
        raise http.client.HTTPException(f"expected {size} bytes, found {got}")
    return promised


def _append(answer: http.client.HTTPResponse, part: Path, begin: int) -> None:
    with part.open("r+b" if begin else "wb") as file:
        file.seek(begin)
        while chunk := answer.read(_CHUNK_BYTES):
            file.write(chunk)


def _extent(answer: http.client.HTTPResponse) -> tuple[int, int]:
    """Returns where the answer's bytes begin and how long the whole file is."""
    if answer.status == 206:
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if match is None or int(match[2]) + 1 != int(match[3]):
            raise http.client.HTTPException(
                "expected the rest of the file as asked for"
            )
        return int(match[1]), int(match[3])
    length = answer.headers.get("Content-Length", "")
    if not length.isdigit():
        raise http.client.HTTPException("expected a Content-Length, found none")
    return 0, int(length)


def _promised(answer: http.client.HTTPResponse, size: int) -> dict[str, Any]:
    """Returns what identifies this version of the file: size, entity tag, md5 if given."""
    etag = answer.headers.get("ETag") or ""
    strong = "" if etag.startswith("W/") else etag
    match = _MD5_ETAG.fullmatch(strong)
    return {"size_bytes": size, "etag": strong, "md5": match[1] if match else None}


def _read_note(note: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(note.read_text("utf-8"))
        return {key: found[key] for key in ("size_bytes", "etag", "md5")}
    except (OSError, ValueError, KeyError, TypeError):
        # Without a readable note nobody knows what the part belongs to: start anew.
        return None
