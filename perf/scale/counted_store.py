"""An object store that counts requests: files of this machine behind `counted://`.

In: addresses like `counted:///tmp/x/file`. Out: the files' bytes as a store without folders gives
them, and in `COUNTS` how many requests and bytes that took. Each call of a client that reads,
writes, lists, looks at or deletes is one request, as on S3. Knows nothing of datasets.
"""

import collections
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

# Requests by kind (get, put, head, list, delete), and bytes as get_bytes and put_bytes.
COUNTS: collections.Counter[str] = collections.Counter()
_LOCK = threading.Lock()
# S3 deletes and lists a thousand names a request.
_PAGE = 1000


def requests() -> int:
    """Returns how many requests there were, of any kind."""
    return sum(n for name, n in COUNTS.items() if not name.endswith("_bytes"))


class _CountedFile(fsspec.spec.AbstractBufferedFile):  # type: ignore[misc]  # untyped
    """A file of the store; a block of it is a request."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.cat_file(self.path, start, end)
        return data


class CountedFileSystem(AbstractFileSystem):  # type: ignore[misc]  # untyped
    """The files of this machine, as a store that counts.

    Attributes:
        round_trip_seconds: how long each request takes.
    """

    protocol = "counted"
    cachable = True
    round_trip_seconds = 0.0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._files = LocalFileSystem(auto_mkdir=True)

    def _count(self, kind: str, size_bytes: int = 0, times: int = 1) -> None:
        with _LOCK:
            COUNTS[kind] += times
            if size_bytes:
                COUNTS[f"{kind}_bytes"] += size_bytes
        if self.round_trip_seconds:
            time.sleep(self.round_trip_seconds * times)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Returns a range of a file: one request."""
        data: bytes = self._files.cat_file(self._strip_protocol(path), start, end)
        self._count("get", len(data))
        return data

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        """Writes a file: one request."""
        self._count("put", len(value))
        target = Path(self._strip_protocol(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(value)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Returns what a file is: one request."""
        self._count("head")
        out: dict[str, Any] = self._files.info(self._strip_protocol(path))
        return out

    def exists(self, path: str, **_: Any) -> bool:
        """Returns whether there is a file or folder: one request."""
        self._count("head")
        return bool(self._files.exists(self._strip_protocol(path)))

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        """Lists a folder: one request for each thousand names."""
        names = self._files.ls(self._strip_protocol(path), detail=detail)
        self._count("list", times=max(1, -(-len(names) // _PAGE)))
        return names

    def find(self, path: str, *_: Any, detail: bool = False, **__: Any) -> Any:
        """Lists all files under a path: one request for each thousand names."""
        names = self._files.find(self._strip_protocol(path), detail=detail)
        self._count("list", times=max(1, -(-len(names) // _PAGE)))
        return names

    def rm_file(self, path: str) -> None:
        """Deletes a file: one request."""
        self._count("delete")
        self._files.rm_file(self._strip_protocol(path))

    def rm(self, path: str | Sequence[str], *_: Any, **__: Any) -> None:
        """Deletes files: one request for each thousand."""
        paths = [path] if isinstance(path, str) else list(path)
        self._count("delete", times=max(1, -(-len(paths) // _PAGE)))
        for one in paths:
            self._files.rm_file(self._strip_protocol(one))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """Opens a file whose blocks are one request each."""
        return _CountedFile(self, path, mode, **options)

    def created(self, path: str) -> Any:
        """Returns when a file was made."""
        return self._files.created(self._strip_protocol(path))

    def modified(self, path: str) -> Any:
        """Returns when a file was changed."""
        return self._files.modified(self._strip_protocol(path))


fsspec.register_implementation("counted", CountedFileSystem, clobber=True)


def address(path: str | Path) -> str:
    """Returns the store's address of a path of this machine."""
    return f"counted://{path}"
