"""Claims: one process at a time writes to a folder.

In: a folder. Out: a `Claim` that lasts until it is released, or until its process ends.
On disks that can lock files, the claim is a lock on one file, which the system drops when the
process ends, however it ends. Object stores have no locks: there, claims are numbered files
that are created only if they do not exist, and the one with the highest number holds. The
claim of a process that has ended on this machine is taken over; that of another machine's
process only if the user says so. Must not know what is written to the folder.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from starmill.schema import errors, storage

_log = logging.getLogger(__name__)
# A lock's file; and the folder of numbered claims. Both are beside what is written.
LOCK, NUMBERED = "_claim.json", "_claim"
_NUMBER = re.compile(r"(\d{8})\.json")
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
# Creating a claim is repeated so often if it is unclear whether the store created it.
_ATTEMPTS = 5
_held: set[str] = set()


class Claim:
    """A folder that this process alone writes to. It ends with `release`.

    Attributes:
        folder: path or URL of the folder.
        token: what distinguishes this claim from all others.
    """

    def __init__(
        self, folder: str, token: str, descriptor: int | None, number: int
    ) -> None:
        self.folder = folder
        self.token = token
        self._descriptor = descriptor
        self._number = number
        _held.add(token)

    def check(self) -> None:
        """Raises ConfigError if another process has taken the folder over."""
        check(self.folder, self.token)

    def release(self) -> None:
        """Ends the claim; the next process can have the folder."""
        _held.discard(self.token)
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(_lock_path(self.folder))  # noqa: PTH108  # plain strings as storage has them
            os.close(self._descriptor)
            self._descriptor = None
            return
        if _token_of(_newest(self.folder)) == self.token:
            # Others look at the highest number: it goes last.
            for number in (*_numbers(self.folder), self._number):
                if number <= self._number:
                    storage.delete(_numbered_url(self.folder, number))
            if self.folder.startswith("memory://"):  # object stores have no folders
                filesystem, path = storage.filesystem_of(self.folder)
                with contextlib.suppress(OSError):
                    filesystem.rmdir(storage.join(path, NUMBERED))
                    filesystem.rmdir(path)


@contextlib.contextmanager
def held(folders: Iterable[str], *, take_over: bool = False) -> Iterator[list[Claim]]:
    """Claims folders while the block runs; ConfigError if another process has one.

    Args:
        folders: paths or URLs. Those on this machine are created if they do not exist, and
            deleted at the end if they are empty.
        take_over: whether to take over the claim of a process on another machine.
    """
    claims: list[Claim] = []
    with contextlib.ExitStack() as stack:
        for folder in folders:
            if storage.is_local(folder):
                stack.callback(_remove_empty, storage.local_path(folder))
            claims.append(claim(folder, take_over=take_over))
            stack.callback(_release, claims[-1])
        yield claims


def _release(ours: Claim) -> None:
    try:
        ours.release()
    except OSError as error:  # the next process finds that this one has ended
        _log.warning("%s: the claim could not be deleted: %s", ours.folder, error)


def claim(folder: str, *, take_over: bool = False) -> Claim:
    """Claims a folder; ConfigError, which names the process, if another one has it."""
    token = secrets.token_hex(16)
    if storage.is_local(folder):
        os.makedirs(storage.local_path(folder), exist_ok=True)  # noqa: PTH103  # as above
        try:
            return Claim(folder, token, _lock(folder, token), 0)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
    return Claim(folder, token, None, _take_number(folder, token, take_over))


def check(folder: str, token: str) -> None:
    """Raises ConfigError unless the claim with this token still holds."""
    owner = _lock_owner(folder) if storage.is_local(folder) else None
    owner = owner or _newest(folder)
    if _token_of(owner) != token:
        raise errors.ConfigError(
            f"{folder}: {_described(owner) if owner else 'another process'} has taken it "
            "over; nothing more is written here"
        )


def is_ours(name: str) -> bool:
    """Returns whether claims write a file or folder of this name."""
    return name in (LOCK, NUMBERED)


# --- locks -------------------------------------------------------------------------------


def _lock_path(folder: str) -> str:
    return storage.local_path(storage.join(folder, LOCK))


def _lock(folder: str, token: str) -> int:
    """Returns the descriptor of the locked file, with the owner's facts in it."""
    path = _lock_path(folder)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            owner = _lock_owner(folder)
            raise errors.ConfigError(
                f"{folder}: {_described(owner)} is writing to it; wait until it ends"
            ) from error
        except OSError:
            os.close(descriptor)
            raise
        # The owner before may have deleted the file between `open` and `flock`.
        try:
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # noqa: PTH116  # as above
                break
        except FileNotFoundError:
            pass
        os.close(descriptor)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, _facts(token), 0)
    return descriptor


def _lock_owner(folder: str) -> dict[str, Any] | None:
    try:
        return _parsed(Path(_lock_path(folder)).read_bytes())
    except OSError:
        return None


def _remove_empty(path: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106  # as above


# --- numbered claims ---------------------------------------------------------------------


def _take_number(folder: str, token: str, take_over: bool) -> int:
    for _ in range(_ATTEMPTS):
        owner, number = _newest(folder), max(_numbers(folder), default=0)
        if owner is not None and not _has_ended(owner) and not take_over:
            raise errors.ConfigError(
                f"{folder}: {_described(owner)} is writing to it. Wait until it ends; if "
                "it no longer runs, pass --take-over"
            )
        number += 1
        if _create(_numbered_url(folder, number), token):
            return number
    raise errors.ConfigError(
        f"{folder}: another process claims it at the same time; try again later"
    )


def _create(url: str, token: str) -> bool:
    """Creates a claim unless it exists; returns whether it is ours."""
    filesystem, path = storage.filesystem_of(url)
    refusal: Exception | None = None
    try:
        filesystem.pipe_file(path, _facts(token), mode="create")
    except Exception as error:  # noqa: BLE001  # each store has its own; the file tells
        refusal = error
    # Whatever the store answered, what it holds now decides.
    if not storage.exists(url):
        raise OSError(f"{url}: cannot be written: {refusal}") from refusal
    return _token_of(_parsed(storage.read(url))) == token


def _numbers(folder: str) -> list[int]:
    names = storage.names(storage.join(folder, NUMBERED))
    return sorted(int(match[1]) for match in map(_NUMBER.fullmatch, names) if match)


def _numbered_url(folder: str, number: int) -> str:
    return storage.join(folder, f"{NUMBERED}/{number:08d}.json")


def _newest(folder: str) -> dict[str, Any] | None:
    """Returns the facts of the claim that holds; None if there is none."""
    while numbers := _numbers(folder):
        try:
            return _parsed(storage.read(_numbered_url(folder, numbers[-1])))
        except errors.FormatError:
            time.sleep(0.1)  # released between the two requests
    return None


# --- owners ------------------------------------------------------------------------------


def _facts(token: str) -> bytes:
    owner = {
        "token": token,
        "host": socket.gethostname(),
        "boot": _boot(),
        "pid": os.getpid(),
        "began": _began(os.getpid()),
        "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }
    return (json.dumps(owner, sort_keys=True) + "\n").encode()


def _parsed(data: bytes) -> dict[str, Any]:
    """Returns an owner's facts; none are known of a file that cannot be read."""
    try:
        owner = json.loads(data)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _token_of(owner: dict[str, Any] | None) -> object:
    return owner.get("token") if owner else None


def _described(owner: dict[str, Any] | None) -> str:
    if not owner:
        return "another process"
    return (
        f"process {owner.get('pid')} on {owner.get('host')} "
        f"(since {owner.get('since')})"
    )


def _has_ended(owner: dict[str, Any]) -> bool:
    """Returns whether the owner ran on this machine and is gone."""
    if owner.get("host") != socket.gethostname():
        return False
    if owner.get("boot") != _boot():
        return True
    pid = owner.get("pid")
    if pid == os.getpid() and owner.get("began") == _began(os.getpid()):
        # This process started anew with `exec`, if it does not know the claim.
        return owner.get("token") not in _held
    return not isinstance(pid, int) or _began(pid) != owner.get("began")


def _boot() -> str | None:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None


def _began(pid: int) -> int | None:
    """Returns when a process began, in ticks since the machine started; None if it is gone."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name, in parentheses, can contain anything.
    return int(line.rpartition(")")[2].split()[19])
