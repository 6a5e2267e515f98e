"""Reads and writes files at any address that fsspec knows, whole or by byte range.

In: paths and URLs ("data/x", "file://", "memory://", "s3://", "gs://"). Out: bytes, or an
`errors.FormatError` if a file is missing or too short. Writes are atomic, and requests to object
stores are retried a few times. Must not know what files contain.
"""

import contextlib
import errno
import functools
import hashlib
import io
import logging
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, NamedTuple, TypeVar

import fsspec

from starmill.schema import errors
from starmill.schema.stores import credentials

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

# NAME.PID.tmp: the name of a file on this machine until it is complete.
_TEMPORARY = re.compile(r"(.+)\.\d+\.tmp", re.DOTALL)
# Files of unknown length are read in pieces of so many bytes.
_PIECE_BYTES = 1 << 24
# Object stores delete many files with one request: S3 a thousand.
_DELETED_AT_ONCE = 1000
ATTEMPTS = 5
FIRST_WAIT_SECONDS = 0.1
# Another attempt does not help against these errors.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
# Clients of object stores raise their own errors too, for example if an answer is cut short.
_CLIENTS = (
    "aiohttp",
    "aiobotocore",
    "botocore",
    "gcsfs",
    "google",
    "httpx",
    "httpx2",
    "huggingface_hub",
    "requests",
    "urllib3",
)
# Scheme of an address -> the extra that installs its client.
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcp", "gcs": "gcp", "hf": "hub"}
# Requests at a time to one store: S3's client waits for a free connection beyond ten.
MOST_CONNECTIONS = 256
_FINAL_NUMBERS = {errno.ENOSPC, errno.EROFS, errno.ENAMETOOLONG, errno.EINVAL}


class Written(NamedTuple):
    """What was written.

    Attributes:
        size_bytes: the length of the file.
        sha256: of its content, hex.
    """

    size_bytes: int
    sha256: str


@functools.lru_cache(maxsize=256)
def filesystem_of(url: str) -> tuple[Any, str]:
    """Returns the fsspec filesystem of an address, and the path in it."""
    if "://" not in url:
        # Not url_to_fs, which takes a local name with "::" for a chain of addresses.
        local = fsspec.filesystem("file")
        return local, local._strip_protocol(url)
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **_client_options(url))
    except ImportError as error:
        scheme = url.split("://", 1)[0]
        extra = _EXTRAS.get(scheme)
        advice = f": pip install 'starmill[{extra}]'" if extra else ""
        raise errors.ConfigError(
            f"{scheme}:// needs a package that is not installed ({error}){advice}"
        ) from error
    return filesystem, path


def _client_options(url: str) -> dict[str, Any]:
    """Returns what a store's client is given beyond what the user configured for fsspec."""
    if not url.startswith(("s3://", "s3a://")):
        return {}
    configured = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
    return {"config_kwargs": {"max_pool_connections": MOST_CONNECTIONS, **configured}}


def is_local(url: str) -> bool:
    """Returns whether the address is a path on this machine."""
    return "://" not in url or url.startswith(("file://", "local://"))


def local_path(url: str) -> str:
    """Returns the plain path of a local address."""
    return url.split("://", 1)[1] if "://" in url else url


def join(folder: str, name: str) -> str:
    """Returns the address of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def retry(action: Callable[[], _Result], title: str) -> _Result:
    """Runs an action, up to ATTEMPTS times if it fails with errors that may be temporary.

    Waits 0.1, 0.2, 0.4 ... seconds in between, so a store that fails for a moment does no harm,
    and one that is down is reported within seconds.

    Args:
        action: called without arguments.
        title: describes the action in messages, like "reading data/x".
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return action()
        except Exception as error:
            if (advice := credentials.problem(error)) is not None:
                raise errors.ConfigError(f"{title}: {advice}") from error
            if isinstance(error, _FINAL) or not _is_temporary(error):
                raise
            if attempt == ATTEMPTS:
                raise OSError(f"{title}: {error}") from error
            wait = FIRST_WAIT_SECONDS * 2 ** (attempt - 1)
            _log.warning("%s failed (%s); trying again in %.1f s", title, error, wait)
            time.sleep(wait)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _is_temporary(error: Exception) -> bool:
    """Returns whether another attempt may succeed after this error."""
    if isinstance(error, OSError):
        return error.errno not in _FINAL_NUMBERS
    return type(error).__module__.split(".")[0] in _CLIENTS


def is_special(url: str) -> bool:
    """Returns whether the address is that of a pipe, device or socket, which could block a reader."""
    if not is_local(url):
        return False
    try:
        mode = os.stat(filesystem_of(url)[1]).st_mode  # noqa: PTH116  # a plain string
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read(url: str, most_bytes: int | None = None) -> bytes:
    """Returns the content of a file; FormatError if it has more than `most_bytes`."""
    if is_special(url):
        raise errors.FormatError(f"{url}: expected a regular file")
    if most_bytes is not None and (size := size_bytes(url)) > most_bytes:
        raise errors.FormatError(
            f"{url}: expected at most {most_bytes:,} bytes, found {size:,}"
        )
    filesystem, path = filesystem_of(url)
    try:
        return bytes(retry(lambda: filesystem.cat_file(path), f"reading {url}"))
    except FileNotFoundError as error:
        raise errors.FormatError(f"{url}: there is no such file") from error
    except OSError as error:
        raise errors.FormatError(f"{url}: cannot be read: {error}") from error


def fetched(url: str) -> IO[bytes]:
    """Returns a temporary file with the content of another, read in pieces; the caller closes it."""
    folder, _, name = url.rpartition("/")
    length = size_bytes(url)
    file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    with contextlib.closing(RangeReader(folder)) as reader:
        for begin in range(0, length, _PIECE_BYTES):
            file.write(reader.read(name, begin, min(begin + _PIECE_BYTES, length)))
    file.seek(0)
    return file


def exists(url: str) -> bool:
    """Returns whether the address is that of a file or folder."""
    filesystem, path = filesystem_of(url)
    return bool(retry(lambda: filesystem.exists(path), f"looking for {url}"))


def names(folder: str) -> list[str]:
    """Returns the names of the files directly in a folder, sorted; empty if there is none."""
    filesystem, path = filesystem_of(folder)
    # Clients of object stores cache listings, which hides what other processes wrote.
    filesystem.invalidate_cache(path)
    try:
        entries = retry(lambda: filesystem.ls(path, detail=False), f"listing {folder}")
    except FileNotFoundError:
        return []
    return sorted(str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in entries)


def size_bytes(url: str) -> int:
    """Returns the length of a file."""
    filesystem, path = filesystem_of(url)
    try:
        info = retry(lambda: filesystem.info(path), f"looking at {url}")
    except FileNotFoundError as error:
        raise errors.FormatError(f"{url}: there is no such file") from error
    except OSError as error:
        raise errors.FormatError(f"{url}: cannot be read: {error}") from error
    return int(info["size"])


def digest(folder: str, name: str) -> Written:
    """Returns a file's length and sha256. It reads in pieces, so it needs little memory."""
    content = hashlib.sha256()
    length = 0
    for piece in pieces(folder, name):
        content.update(piece)
        length += len(piece)
    return Written(length, content.hexdigest())


def pieces(folder: str, name: str) -> Iterator[bytes]:
    """Yields the content of a file of a folder, piece by piece."""
    length = size_bytes(join(folder, name))
    with contextlib.closing(RangeReader(folder)) as reader:
        for begin in range(0, length, _PIECE_BYTES):
            yield reader.read(name, begin, min(begin + _PIECE_BYTES, length))


def write(url: str, parts: bytes | Iterable[bytes]) -> Written:
    """Writes a file atomically, replacing an existing one.

    On this machine, the data goes to a temporary file in the same folder, which is then renamed.
    Object stores show a file only when it is complete, so its final name is written directly.
    """
    pieces = [parts] if isinstance(parts, bytes) else parts
    if is_local(url):
        return _write_local(local_path(url), pieces)
    filesystem, path = filesystem_of(url)
    digest = hashlib.sha256()
    body = io.BytesIO()
    for piece in pieces:
        digest.update(piece)
        body.write(piece)
    data = body.getvalue()
    retry(lambda: filesystem.pipe_file(path, data), f"writing {url}")
    return Written(len(data), digest.hexdigest())


def upload(url: str, path: str) -> Written:
    """Writes a file of this machine to an address, atomically, and in pieces."""
    if is_local(url):
        return _write_local(local_path(url), _pieces(path))
    digest, size = hashlib.sha256(), 0
    for piece in _pieces(path):
        digest.update(piece)
        size += len(piece)
    filesystem, target = filesystem_of(url)
    retry(lambda: filesystem.put_file(path, target), f"writing {url}")
    return Written(size, digest.hexdigest())


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:  # noqa: PTH123  # a plain string
        while piece := file.read(_PIECE_BYTES):
            yield piece


def sizes(folder: str) -> dict[str, int]:
    """Returns the length of each file directly in a folder, by its name, with one listing."""
    filesystem, path = filesystem_of(folder)
    filesystem.invalidate_cache(path)
    try:
        entries = retry(lambda: filesystem.ls(path, detail=True), f"listing {folder}")
    except FileNotFoundError:
        return {}
    return {
        str(entry["name"]).rstrip("/").rsplit("/", 1)[-1]: int(entry["size"])
        for entry in entries
        if entry["type"] == "file"
    }


def temporary_target(name: str) -> str | None:
    """Returns the file that a temporary file was written for; None for other names."""
    match = _TEMPORARY.fullmatch(name)
    return match[1] if match else None


def delete(url: str) -> None:
    """Deletes a file; does nothing if there is none."""
    filesystem, path = filesystem_of(url)
    with contextlib.suppress(FileNotFoundError):
        retry(lambda: filesystem.rm_file(path), f"deleting {url}")


def remove(folder: str, is_ours: Callable[[str], object]) -> None:
    """Deletes the files of a folder whose relative paths `is_ours` accepts, at any depth.

    Folders that are empty afterwards are deleted too. Everything else stays.
    """
    filesystem, path = filesystem_of(folder)
    filesystem.invalidate_cache(path)
    root = path.rstrip("/")
    files = retry(lambda: filesystem.find(path), f"listing {folder}")
    names = [str(file).removeprefix(root + "/") for file in files]
    ours = [name for name in names if is_ours(name)]
    if not is_local(folder):
        for begin in range(0, len(ours), _DELETED_AT_ONCE):
            some = ours[begin : begin + _DELETED_AT_ONCE]
            _delete_all(filesystem, [f"{root}/{name}" for name in some], folder)
        # The listing would stay in memory.
        filesystem.invalidate_cache(path)
        if not folder.startswith("memory://"):
            return  # object stores have no folders
    for name in ours if is_local(folder) else ():
        delete(f"{root}/{name}")
    parents = {parent for name in ours for parent in _parents(name)} | {""}
    for parent in sorted(parents, key=len, reverse=True):
        with contextlib.suppress(OSError):  # not empty, or gone already
            filesystem.rmdir(f"{root}/{parent}".rstrip("/"))


def _delete_all(filesystem: Any, paths: list[str], folder: str) -> None:
    retry(lambda: filesystem.rm(paths), f"deleting from {folder}")


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _write_local(path: str, pieces: Iterable[bytes]) -> Written:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # noqa: PTH103, PTH120  # plain strings as fsspec has them
    digest = hashlib.sha256()
    size = 0
    with replacing(path) as temporary, open(temporary, "wb") as file:  # noqa: PTH123  # as above
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
            size += len(piece)
    return Written(size, digest.hexdigest())


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields a temporary path beside a local one, and renames it to that one at the end.

    For writers that need a path, or set its mode; others use `write`. Readers see the old file
    or the whole new one. The temporary file is removed if the block raises.
    """
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        yield temporary
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)  # noqa: PTH105  # plain strings as fsspec has them
    except BaseException:
        if os.path.exists(temporary):  # noqa: PTH110  # as above
            os.unlink(temporary)  # noqa: PTH108  # as above
        raise


class RangeReader:
    """Reads byte ranges of the files in one folder.

    It keeps files on this machine open. It can be pickled; the copy has no open files. Threads
    may share one.

    Attributes:
        folder: path or URL of the folder.
    """

    # A process may have 1,024 files open, and a dataset may have thousands of shards.
    _MOST_OPEN = 256

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves the open files out."""
        return RangeReader, (self.folder,)

    def read(self, name: str, begin: int, end: int) -> bytes:
        """Returns the bytes begin:end of a file; ShardCorrupt if it does not have them all.

        The name comes from a table or a manifest, so it must not lead out of the folder.
        """
        url = self.url(name)
        if is_local(url):
            data = self._read_local(name, url, begin, end)
        else:
            data = self._read_remote(url, begin, end)
        check_length(url, data, begin, end)
        return data

    def url(self, name: str) -> str:
        """Returns the address of a file; ShardCorrupt if it would not be in the folder."""
        if "/" in name or "\\" in name or name in ("", ".", ".."):
            raise errors.ShardCorrupt(
                f"{self.folder}: expected the name of a file in it, found {name!r}"
            )
        return join(self.folder, name)

    def _read_local(self, name: str, url: str, begin: int, end: int) -> bytes:
        with self._lock:
            # A copy, because another thread may close the file that is kept open.
            descriptor = os.dup(self._descriptor(name, url))
        try:
            return os.pread(descriptor, end - begin, begin)
        except OSError as error:
            raise errors.ShardCorrupt(f"{url}: cannot be read: {error}") from error
        finally:
            os.close(descriptor)

    def _descriptor(self, name: str, url: str) -> int:
        """Returns an open file; opens it first if need be, and closes another if many are open."""
        if name in self._open:
            return self._open[name]
        if is_special(url):
            raise errors.ShardCorrupt(f"{url}: expected a regular file")
        if len(self._open) >= self._MOST_OPEN:
            os.close(self._open.pop(next(iter(self._open))))
        try:
            self._open[name] = os.open(local_path(url), os.O_RDONLY)
        except FileNotFoundError as error:
            raise errors.ShardCorrupt(f"{url}: the file is missing") from error
        except OSError as error:
            raise errors.ShardCorrupt(f"{url}: cannot be read: {error}") from error
        return self._open[name]

    def _read_remote(self, url: str, begin: int, end: int) -> bytes:
        filesystem, path = filesystem_of(url)
        try:
            return bytes(
                retry(
                    lambda: filesystem.cat_file(path, start=begin, end=end),
                    f"reading {url} from {begin}",
                )
            )
        except FileNotFoundError as error:
            raise errors.ShardCorrupt(f"{url}: the file is missing") from error
        except OSError as error:
            raise errors.ShardCorrupt(f"{url}: cannot be read: {error}") from error

    def close(self) -> None:
        """Closes all open files."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()


def check_length(url: str, data: bytes, begin: int, end: int) -> None:
    """Raises ShardCorrupt if a range of a file does not have all its bytes."""
    if len(data) != end - begin:
        raise errors.ShardCorrupt(
            f"{url}: expected bytes {begin} to {end}, "
            f"but the file ends at {begin + len(data)}"
        )
