"""Bots written with python-sc2: what a text of the command line names, and its process.

In: "python-sc2:MODULE:CLASS" and a Python interpreter that has burnysc2. Out: facts of the bot, and
a process that plays it. The bot runs in its own environment, since burnysc2 and starmill need
packages of the same import name. Knows nothing of games.

"?race=zerg" after the class names the only race that the bot plays; a class attribute `RACE`, as
ladder bots have, does the same.
"""

import contextlib
import dataclasses
import functools
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from starmill.benchmark.opponents import python_sc2_player
from starmill.schema import errors
from starmill.schema.game_constants import RACES

PREFIX = "python-sc2:"
DEFAULT_PYTHON = ".venv-burnysc2/bin/python"
_PROBE_SECONDS = 120.0
_MOST_LETTERS = 300
_END_SECONDS = (
    5.0  # for what a bot does after its last game loop, such as writing a file
)
_HOW_TO_INSTALL = (
    "Make an environment with `python -m venv .venv-burnysc2` and "
    "`.venv-burnysc2/bin/pip install burnysc2`, or name its interpreter with --bot-python"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bot:
    """A bot's class and the interpreter that runs it.

    Attributes:
        module: a module's name, or the path of its file.
        class_name: of a subclass of python-sc2's BotAI, created without arguments.
        python: the interpreter.
        race: the only race that it plays, one of RACES; "" if it plays any.
        file: the file that defines the class.
        version: of burnysc2.
    """

    module: str
    class_name: str
    python: str
    race: str
    file: Path
    version: str

    def source_folder(self) -> Path:
        """Returns what identifies the bot's code: its package's folder, or its one file."""
        folder = self.file.parent
        return folder if (folder / "__init__.py").exists() else self.file


def is_bot(source: str) -> bool:
    """Returns whether a text names a bot of python-sc2."""
    return source.startswith(PREFIX)


@functools.cache
def find(source: str, python: str) -> Bot:
    """Returns the bot that a text names; ConfigError says what is missing.

    python: the interpreter with burnysc2; "" takes `.venv-burnysc2` in the working folder.
    """
    place, _, options = source.removeprefix(PREFIX).partition("?")
    module, _, class_name = place.rpartition(":")
    key, _, race = options.partition("=")
    if not module or not class_name or (options and key != "race"):
        raise errors.ConfigError(
            f"{source!r}: expected {PREFIX}MODULE:CLASS, with ?race=RACE for a bot that plays "
            "one race only"
        )
    interpreter = _interpreter(source, python)
    facts = _probe(source, interpreter, module, class_name)
    race = race or facts["race"]
    if race == "random":
        race = ""
    if race and race not in RACES:
        raise errors.ConfigError(
            f"{source!r}: race: expected one of {', '.join(RACES)}; found {race!r}"
        )
    return Bot(
        module=module,
        class_name=class_name,
        python=interpreter,
        race=race,
        file=Path(facts["file"]),
        version=facts["version"],
    )


def _interpreter(source: str, python: str) -> str:
    path = Path(python or DEFAULT_PYTHON)
    if not os.access(path, os.X_OK) or path.is_dir():
        raise errors.ConfigError(
            f"{source}: expected a Python interpreter with burnysc2 at {path}, found none. "
            f"{_HOW_TO_INSTALL}"
        )
    # Not resolved: an environment's interpreter is a link, and the link's place matters.
    return str(path.absolute())


def _probe(source: str, python: str, module: str, class_name: str) -> dict[str, str]:
    """Imports the bot in its environment, once, so that mistakes show before any game."""
    arguments = [python, python_sc2_player.__file__, "probe", module, class_name]
    try:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise errors.ConfigError(f"{source}: cannot run {python}: {error}") from error
    last_line = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if done.returncode == python_sc2_player.NO_PYTHON_SC2:
        raise errors.ConfigError(
            f"{source}: {python} has no burnysc2 ({last_line}). {_HOW_TO_INSTALL}"
        )
    if done.returncode == python_sc2_player.NO_BOT:
        raise errors.ConfigError(
            f"{source}: {python} cannot import {class_name} from {module} ({last_line}). "
            "Modules are looked for in the working folder and in that environment"
        )
    lines = [
        line.removeprefix(python_sc2_player.PROBED)
        for line in done.stdout.splitlines()
        if line.startswith(python_sc2_player.PROBED)
    ]
    if done.returncode or not lines:
        raise errors.ConfigError(f"{source}: importing the bot failed: {last_line}")
    facts: dict[str, str] = json.loads(lines[-1])
    return facts


class BotProcess:
    """A running bot."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: IO[bytes]) -> None:
        self._process = process
        self._log = log

    def exit_status(self) -> int | None:
        """Returns the exit code, or minus the signal; None while the bot runs."""
        return self._process.poll()

    def last_line(self) -> str:
        """Returns the last line that the bot printed, at most so long; "" if there is none."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1][-_MOST_LETTERS:] if lines else ""


@contextlib.contextmanager
def running(bot: Bot, race: str, port: int) -> Iterator[BotProcess]:
    """Starts a bot that connects to a port of this machine, and ends it with the context."""
    arguments = [bot.python, "-u", python_sc2_player.__file__, "play"]
    arguments += [bot.module, bot.class_name, race, str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield BotProcess(process, log)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
