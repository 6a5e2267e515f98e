"""Copies datasets and agents between folders, object stores and hubs.

In: where something is, what it must be, and where it goes. Out: the same bytes there, each file
compared with its sha256 after it arrived. A copy that was interrupted continues: complete files
are kept, and a file that was arriving on this machine continues at its last byte. A dataset's
manifest goes last, so an unfinished copy is not a dataset. Nothing that exists is overwritten.
Must not know: what is in the files, or the game.
"""

import contextlib
import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from starmill.pipelines import claims
from starmill.schema import errors, manifest, storage

AGENT_ENDING = ".agent"
# Beside a published agent: its sha256 and name, as `sha256sum --check` reads them.
DIGEST_ENDING = ".sha256"
_PART_ENDING = ".part"
_PIECE_BYTES = 1 << 24
# What hubs keep in every repository.
_OF_HUBS = (".gitattributes",)
_DIGEST = re.compile(r"(?P<place>.+)#sha256:(?P<digest>[0-9a-f]{64})")
_MOST_DIGEST_BYTES = 1000
_MOST_LISTED = 5


class File(NamedTuple):
    """One file to copy.

    Attributes:
        name: in its folder.
        size_bytes: of the whole file.
        sha256: of the whole file, hex.
    """

    name: str
    size_bytes: int
    sha256: str


class Copied(NamedTuple):
    """What a copy did.

    Attributes:
        files: how many files there are now.
        reused: how many of them were complete before.
        size_bytes: of all files.
    """

    files: int
    reused: int
    size_bytes: int


def dataset_files(content: manifest.Manifest) -> list[File]:
    """Returns the files of a dataset without its manifest, in the manifest's order."""
    tables = [File(each.name, each.size_bytes, each.sha256) for each in content.files]
    return tables + [
        File(each.name, each.size_bytes, each.sha256) for each in content.shards
    ]


def copy_dataset(
    source: str,
    content: manifest.Manifest,
    target: str,
    *,
    take_over: bool = False,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Copied:
    """Copies a dataset to a folder that is empty, or holds a part of the same dataset.

    Args:
        source: path or URL of the dataset.
        content: its manifest.
        target: path or URL of the folder to copy to.
        take_over: whether to take over the claim of a process on another machine.
        on_bytes: called with the number of bytes that arrived, now and then.
    """
    files = dataset_files(content)
    reused = 0
    with _writing(target), _claimed(target, take_over):
        _refuse_others(target, content, files)
        for file in files:
            reused += _copy(source, file, target, on_bytes)
        manifest.write(target, content)
    size = sum(file.size_bytes for file in files)
    return Copied(len(files) + 1, reused, size)


def split_reference(reference: str) -> tuple[str, str | None]:
    """Returns the address of an agent's file, and the sha256 after "#", if there is one."""
    match = _DIGEST.fullmatch(reference)
    if match:
        return match["place"], match["digest"]
    if "#" in reference:
        raise errors.ConfigError(
            f"{reference!r}: expected the address of an agent, optionally followed by "
            "#sha256: and 64 hex digits"
        )
    return reference, None


def agent_file(reference: str) -> File:
    """Returns what an agent's file must be; ConfigError if nothing says so.

    Its sha256 comes from the reference, or else from the file that `publish` wrote beside it.
    """
    address, digest = split_reference(reference)
    folder, name = _split(address)
    size = storage.size_bytes(address)
    if digest is None:
        digest = _stored_digest(address)
    return File(storage.join(folder, name), size, digest)


def copy_agent(agent: File, target: str) -> str:
    """Copies an agent's file, writes its digest beside it, and returns the new address.

    Args:
        agent: what to copy; its name is its whole address.
        target: the new file's address, which ends in ".agent", or that of a folder.
    """
    source, name = _split(agent.name)
    folder, new_name = target, name
    if target.endswith(AGENT_ENDING):
        folder, new_name = _split(target)
    file = File(name, agent.size_bytes, agent.sha256)
    address = storage.join(folder, new_name)
    with _writing(folder):
        if storage.is_local(folder):
            os.makedirs(storage.local_path(folder), exist_ok=True)  # noqa: PTH103  # plain strings as storage has them
        _copy(source, file, folder, lambda _: None, new_name)
        storage.write(address + DIGEST_ENDING, f"{agent.sha256}  {new_name}\n".encode())
    return address


def digest_file(address: str) -> File:
    """Returns size and sha256 of a file as it is; its name is the whole address."""
    written = storage.digest(*_split(address))
    return File(address, written.size_bytes, written.sha256)


def _split(address: str) -> tuple[str, str]:
    folder, slash, name = address.rpartition("/")
    return (folder or "/") if slash else ".", name


def _stored_digest(address: str) -> str:
    beside = address + DIGEST_ENDING
    if not storage.exists(beside):
        raise errors.ConfigError(
            f"{address}: nothing says what the file must be. Add #sha256: and the digest "
            f"that `starmill publish` printed, or publish it with {DIGEST_ENDING} beside it"
        )
    word = storage.read(beside, _MOST_DIGEST_BYTES).split(b" ")[0].strip()
    if not re.fullmatch(rb"[0-9a-f]{64}", word):
        raise errors.FormatError(f"{beside}: expected a sha256, found {word[:80]!r}")
    return word.decode()


@contextlib.contextmanager
def _writing(target: str) -> Iterator[None]:
    """Reports a place that cannot be written in one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise errors.ConfigError(f"{target}: cannot be written: {error}") from error


@contextlib.contextmanager
def _claimed(target: str, take_over: bool) -> Iterator[None]:
    """Keeps other copies and builds out of the folder."""
    if target.startswith("hf://"):
        # A claim would be a commit of its own. The hub refuses commits that collide.
        yield
        return
    with claims.held([target], take_over=take_over):
        yield


def _refuse_others(target: str, content: manifest.Manifest, files: list[File]) -> None:
    """Raises unless the folder is empty, or holds a part of this dataset."""
    names = storage.names(target)
    if manifest.NAME in names:
        present = manifest.read(target)
        if present.digest() != content.digest():
            raise errors.ManifestMismatch(
                f"{target}: expected nothing or {content.reference()}, found "
                f"{present.reference()}; choose another folder"
            )
    ours = {manifest.NAME, claims.LOCK, claims.NUMBERED, *_OF_HUBS}
    for file in files:
        ours |= {file.name, file.name + _PART_ENDING}
    others = [
        name for name in names if (storage.temporary_target(name) or name) not in ours
    ]
    if others:
        raise errors.ConfigError(
            f"{target}: expected an empty folder, found {', '.join(others[:_MOST_LISTED])}"
            f"{' and more' if len(others) > _MOST_LISTED else ''}; choose another folder"
        )


def _copy(
    source: str,
    file: File,
    target: str,
    on_bytes: Callable[[int], None],
    new_name: str | None = None,
) -> bool:
    """Copies one file; returns whether it was there already."""
    name = new_name or file.name
    address = storage.join(target, name)
    if storage.exists(address):
        copy = digest_file(address)
        if copy.sha256 != file.sha256:
            raise errors.ConfigError(
                f"{address}: expected no file or sha256 {file.sha256}, found "
                f"{copy.sha256}; delete it or choose another place"
            )
        on_bytes(file.size_bytes)
        return True
    if storage.is_local(target):
        path = storage.local_path(address)
        _receive(source, file, path + _PART_ENDING, on_bytes)
        os.replace(path + _PART_ENDING, path)  # noqa: PTH105  # as above
        return False
    with tempfile.TemporaryDirectory(prefix="starmill-") as folder:
        path = storage.local_path(storage.join(source, file.name))
        if storage.is_local(source):
            _check(digest_file(path), file, path)
        else:
            path = f"{folder}/{file.name}"
            _receive(source, file, path, lambda _: None)
        _send(path, address)
    try:
        _check(digest_file(address), file, address)
    except errors.FormatError:
        storage.delete(address)
        raise
    on_bytes(file.size_bytes)
    return False


def _send(path: str, address: str) -> None:
    filesystem, remote = storage.filesystem_of(address)
    storage.retry(lambda: filesystem.put_file(path, remote), f"writing {address}")


def _receive(
    source: str, file: File, path: str, on_bytes: Callable[[int], None]
) -> None:
    """Completes a file on this machine, from its last byte if a part of it is there."""
    if os.path.exists(path):  # noqa: PTH110  # as above
        if _append(source, file, path, on_bytes).sha256 == file.sha256:
            return
        os.unlink(path)  # noqa: PTH108  # as above  # of another file
    copy = _append(source, file, path, on_bytes)
    if copy.sha256 != file.sha256:
        os.unlink(path)  # noqa: PTH108  # as above
        _check(copy, file, storage.join(source, file.name))


def _append(
    source: str, file: File, path: str, on_bytes: Callable[[int], None]
) -> File:
    """Appends what is missing of a file; returns what it is then."""
    digest: Any = hashlib.sha256()
    size = 0
    with (
        contextlib.closing(storage.RangeReader(source)) as reader,
        open(path, "a+b") as local,  # noqa: PTH123  # as above
    ):
        local.seek(0)
        while piece := local.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
        on_bytes(min(size, file.size_bytes))
        while size < file.size_bytes:
            end = min(size + _PIECE_BYTES, file.size_bytes)
            piece = reader.read(file.name, size, end)
            local.write(piece)
            digest.update(piece)
            on_bytes(end - size)
            size = end
        local.flush()
        os.fsync(local.fileno())
    return File(file.name, size, digest.hexdigest())


def _check(copy: File, expected: File, where: str) -> None:
    if copy.sha256 != expected.sha256:
        raise errors.ShardCorrupt(
            f"{where}: expected {expected.size_bytes:,} bytes with sha256 "
            f"{expected.sha256}, found {copy.size_bytes:,} with {copy.sha256}: damaged"
        )
