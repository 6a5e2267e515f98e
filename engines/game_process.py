"""One game process from launch to end, and the helper process that starts and ends games.

In: an `Executable`. Out: a `GameProcess` with a `Client` connected to it. Games are started
by the script `spawner`, so that none of them outlives this process, however this one ends.
Knows nothing of replays.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from starmill.engines import client, spawner, websocket
from starmill.schema import errors

# Below Linux's ephemeral ports, so that no outgoing connection takes one in between.
_PORTS = range(20000, 32000)
# Signals that others send: an operator, a supervisor, or the kernel when memory runs out.
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
_LOG_TAIL_BYTES = 2000
# A process that ends closes its connection first; its exit status follows a moment later.
_EXIT_GRACE_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Executable:
    """What to start.

    Attributes:
        game_version: like "4.9.2".
        base_build: build that the binary's folder is named after.
        data_version: 32 hex digits; None where unknown, for the binary's own.
        binary: path of the program.
        data_dir: root folder of the installation.
    """

    game_version: str
    base_build: int
    data_version: str | None
    binary: str
    data_dir: str


class Spawner:
    """The helper process that starts and ends games; threads may share it.

    Attributes:
        folder: holds what belongs to the games. It is removed when the helper is closed, and
            by the helper itself when this process ends.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Starts the helper.

        folder: of a helper that has died, which this one replaces; None makes a new folder.
        """
        self.folder = folder or Path(tempfile.mkdtemp(prefix="starmill-games-"))
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", spawner.__file__, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        """Whether it answers. A killed helper may exist for a moment longer, but is silent."""
        try:
            self.ask(op="poll", pid=0)
        except errors.EngineKilled:
            return False
        return True

    def ask(self, **request: Any) -> dict[str, Any]:
        """Returns the answer to a request; `spawner` describes the protocol."""
        with self._lock:
            stdin, stdout = self._process.stdin, self._process.stdout
            if stdin is None or stdout is None:
                raise errors.EngineError("the spawner has no pipes")
            try:
                stdin.write(json.dumps(request).encode() + b"\n")
                stdin.flush()
                line = stdout.readline()
            except (OSError, ValueError) as error:
                raise errors.EngineKilled("the spawner of games is gone") from error
            if not line:
                raise errors.EngineKilled("the spawner of games is gone")
            answer: dict[str, Any] = json.loads(line)
            return answer

    def replacement(self) -> "Spawner":
        """Returns a new helper with the same folder, once this one has ended.

        Executables in the folder keep their paths, so those who hold one can still use it.
        """
        self._end()
        return Spawner(self.folder)

    def close(self) -> None:
        """Ends every game that the helper started, and the helper; removes its folder."""
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        with self._lock:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            self._process.wait()


class _Port:
    """A port of this machine, reserved among starmill's processes until it is released."""

    def __init__(self) -> None:
        first = secrets.randbelow(len(_PORTS))
        for offset in range(len(_PORTS)):
            self.number = _PORTS[(first + offset) % len(_PORTS)]
            self._mark = self._reserve()
            if self._mark is not None:
                return
        raise errors.EngineError(f"no free port in {_PORTS.start}..{_PORTS.stop - 1}")

    def _reserve(self) -> socket.socket | None:
        # The kernel frees this name when its holder ends, even by SIGKILL. A lock file would
        # stay.
        mark = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if sys.platform == "linux":
                mark.bind(f"\0starmill-port-{self.number}")
            with socket.socket() as probe:
                probe.bind((websocket.HOST, self.number))
        except OSError:
            mark.close()
            return None
        return mark

    def release(self) -> None:
        if self._mark is not None:
            self._mark.close()


class GameProcess:
    """A running game and the client that is connected to it.

    Attributes:
        executable: what was started.
        pid: of the game, which leads a process group of its own.
        replays: how many replays it has been lent for.
        client: None before `connect` and after `close`.
    """

    _numbers = itertools.count()

    def __init__(self, executable: Executable, spawner: Spawner) -> None:
        """Launches the game and returns at once; `connect` then waits for it."""
        self.executable = executable
        self.replays = 0
        self.client: client.Client | None = None
        self._first_rss_bytes: int | None = None
        self._spawner = spawner
        self._port = _Port()
        self._temp = spawner.folder / f"{next(self._numbers)}"
        try:
            # With parents: a helper that ended may just have removed the folder.
            self._temp.mkdir(parents=True)
            self._log = self._temp / "starmill-game.log"
            self.pid: int = spawner.ask(
                op="start",
                argv=self._arguments(),
                env=self._environment(),
                temp=str(self._temp),
                log=str(self._log),
            )["pid"]
        except (OSError, errors.EngineError) as error:
            shutil.rmtree(self._temp, ignore_errors=True)
            self._port.release()
            if isinstance(error, errors.EngineError):
                raise
            raise errors.EngineError(f"cannot prepare a game: {error}") from error

    def _arguments(self) -> list[str]:
        # The arguments that pysc2 passes, in the same order.
        arguments = [
            self.executable.binary,
            *("-listen", websocket.HOST, "-port", str(self._port.number)),
            *("-dataDir", f"{self.executable.data_dir}/", "-tempDir", f"{self._temp}/"),
        ]
        if self.executable.data_version:
            arguments += ["-dataVersion", self.executable.data_version]
        return arguments

    def _environment(self) -> dict[str, str]:
        libraries = [
            os.environ.get("LD_LIBRARY_PATH", ""),
            f"{self.executable.data_dir}/Libs/",
        ]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
        }

    def connect(self, deadlines: client.Deadlines) -> client.Client:
        """Waits until the game answers; if it does not, closes it and raises EngineError."""
        try:
            self.client = client.Client.connect(
                self._port.number, deadlines, lambda: self.exit_status() is None
            )
        except errors.EngineError as error:
            failure = self.explain(error)
            self.close()
            raise failure from error
        return self.client

    def exit_status(self) -> int | None:
        """Returns the exit code, or minus the signal; None while the game runs."""
        status = self._spawner.ask(op="poll", pid=self.pid)["status"]
        return None if status is None else int(status)

    def explain(self, error: errors.EngineError) -> errors.EngineError:
        """Returns the error, or EngineKilled if a signal from outside ended the game."""
        try:
            status = self.exit_status()
            if status is None and isinstance(error, websocket.ConnectionLost):
                status = self._await_exit_status()
        except errors.EngineKilled as killed:
            return killed
        if status in _FROM_OUTSIDE:
            return errors.EngineKilled("a signal from outside ended the game")
        return error

    def _await_exit_status(self) -> int | None:
        deadline = time.monotonic() + _EXIT_GRACE_SECONDS
        while (status := self.exit_status()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return status

    def log_tail(self) -> str:
        """Returns the last lines that the game printed, for the log."""
        try:
            return self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
        except OSError:
            return ""

    def rss_bytes(self) -> int:
        """Returns its resident memory; 0 where the system does not tell."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def growth_bytes(self) -> int:
        """Returns how much its memory has grown since the first call."""
        rss_bytes = self.rss_bytes()
        if self._first_rss_bytes is None:
            self._first_rss_bytes = rss_bytes
        return rss_bytes - self._first_rss_bytes

    def is_ready(self) -> bool:
        """Returns whether the game runs and waits for a request."""
        if self.client is None or not self.client.is_idle():
            return False
        try:
            return self.exit_status() is None
        except errors.EngineKilled:  # the spawner is gone, and its games end with it
            return False

    def close(self) -> None:
        """Ends the process group, removes the temp folder and releases the port."""
        if self.client is not None:
            self.client.close()
            self.client = None
        with contextlib.suppress(errors.EngineKilled):
            self._spawner.ask(op="end", pid=self.pid)
        shutil.rmtree(self._temp, ignore_errors=True)
        self._port.release()
