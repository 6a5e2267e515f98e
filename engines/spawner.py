"""A small process of its own that starts games for a worker, and outlives it to end them.

    python -I -S spawner.py FOLDER    one request per line of standard input, one answer each

    {"op": "start", "argv": [...], "env": {...}, "temp": DIR, "log": FILE}  -> {"pid": N}
    {"op": "poll", "pid": N}     -> {"status": null while it runs, else exit code or -signal}
    {"op": "end", "pid": N}      -> {"status": ...}, process group and temp folder gone

When standard input ends, by the worker's end or by its SIGKILL, every game is killed with its
process group, its temp folder removed, and FOLDER too. If this process itself is killed, the kernel ends
the games (PR_SET_PDEATHSIG, which is tied to the *thread* that forked: one more reason not to
start games from a worker's threads). Standard library only, one thread, so fork is safe.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# The worker decides when to end; when it goes, standard input ends.
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP")


def _libc():  # type: ignore[no-untyped-def]  # a ctypes library has no type
    return ctypes.CDLL(None) if sys.platform == "linux" else None


def _exec_game(request: dict, libc, parent: int) -> None:  # type: ignore[no-untyped-def, type-arg]  # as above; JSON
    """In the child: becomes the game, or ends with 127."""
    try:
        for name in _IGNORED:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)  # the spawner died before the line above
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execve(request["argv"][0], request["argv"], request["env"])
    except OSError as error:
        os.write(2, f"cannot start {request['argv'][0]}: {error}\n".encode())
    finally:
        os._exit(127)


class _Games:
    """The games that run: pid -> temp folder, and the exit codes of those that ended."""

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
            found, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
            if found == pid:
                self._status[pid] = os.waitstatus_to_exitcode(status)
        return self._status.get(pid)

    def end(self, pid: int) -> int | None:
        if pid not in self._temp:
            return None
        self.poll(pid)  # a game that has ended keeps its own exit code
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
