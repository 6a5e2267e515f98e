"""A small program that starts games for a worker, and ends them if the worker dies.

    python -I -S spawner.py FOLDER    a request per line of standard input, an answer to each

    {"op": "start", "argv": [...], "env": {...}, "temp": DIR, "log": FILE}  -> {"pid": N}
    {"op": "poll", "pid": N}     -> {"status": null while it runs, else exit code or -signal}
    {"op": "end", "pid": N}      -> {"status": ...}, process group and temp folder gone

Standard input ends when the worker does, even by SIGKILL. Then this program kills every game
with its process group, and removes the temp folders and FOLDER. If this program itself is
killed, the kernel ends the games (PR_SET_PDEATHSIG). That signal belongs to the *thread* that
forked, which is one more reason not to start games from a worker's threads. Uses the standard
library alone and a single thread, so that fork is safe.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# The worker decides when to end, and standard input then ends too.
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP")


def _libc():  # type: ignore[no-untyped-def]  # a ctypes library has no type
    return ctypes.CDLL(None) if sys.platform == "linux" else None


def _exec_game(request: dict, libc, parent: int) -> None:  # type: ignore[no-untyped-def, type-arg]  # as above; JSON
    """Runs in the child: becomes the game, or exits with 127."""
    try:
        for name in _IGNORED:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)  # the spawner ended before the line above
        empty = os.open(os.devnull, os.O_RDONLY)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(empty, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execve(request["argv"][0], request["argv"], request["env"])
    except OSError as error:
        os.write(2, f"cannot start {request['argv'][0]}: {error}\n".encode())
    finally:
        os._exit(127)


class _Games:
    """The games: temp folder by pid, and exit code by pid of those that have ended."""

    def __init__(self) -> None:
        self._libc = _libc()
        self._temp: dict[int, str] = {}
        self._status: dict[int, int] = {}

    def start(self, request: dict) -> int:  # type: ignore[type-arg]  # JSON
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _exec_game(request, self._libc, parent)
        self._temp[pid] = request["temp"]
        return pid

    def poll(self, pid: int, *, wait: bool = False) -> int | None:
        if pid not in self._status and pid in self._temp:
            ended, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
            if ended == pid:
                self._status[pid] = os.waitstatus_to_exitcode(status)
        return self._status.get(pid)

    def end(self, pid: int) -> int | None:
        if pid not in self._temp:
            return None
        self.poll(pid)  # keeps the exit code of a game that has ended by itself
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the whole group has ended already
        except PermissionError:
            pass  # macOS: the group's leader is a zombie
        status = self.poll(pid, wait=True)
        shutil.rmtree(self._temp.pop(pid), ignore_errors=True)
        self._status.pop(pid, None)
        return status

    def end_all(self) -> None:
        for pid in list(self._temp):
            self.end(pid)


def _answer(games: _Games, request: dict) -> dict:  # type: ignore[type-arg]  # JSON
    if request["op"] == "start":
        return {"pid": games.start(request)}
    if request["op"] == "poll":
        return {"status": games.poll(request["pid"])}
    return {"status": games.end(request["pid"])}


def main() -> None:
    """Serves requests until standard input ends."""
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    games = _Games()
    try:
        for line in sys.stdin:
            answer = _answer(games, json.loads(line))
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    finally:
        games.end_all()
        shutil.rmtree(Path(sys.argv[1]), ignore_errors=True)


if __name__ == "__main__":
    main()
