"""Plays one bot of python-sc2 in a game that is already created; runs in the bot's environment.

    python python_sc2_player.py probe MODULE CLASS
    python python_sc2_player.py play MODULE CLASS RACE PORT

`probe` prints a line of JSON: the version of burnysc2, the file of the bot's class, and the race
that the class names, if it does. `play` connects to the game at PORT. The process ends with its
standard input, and so with the process that started it. It uses nothing of starmill, which its
environment need not have. MODULE is a module's name or the path of its file.
"""

import asyncio
import importlib
import importlib.metadata
import inspect
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

PROBED = "probed "  # begins the line that `probe` prints, after whatever the bot prints
NO_PYTHON_SC2 = 3  # exit code if burnysc2 cannot be imported
NO_BOT = 4  # exit code if there is no such module or class


def _bot_class(module_name: str, class_name: str) -> Any:
    """Returns the bot's class; exits with NO_BOT if there is none."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        if module_name.endswith(".py"):
            path = Path(module_name).resolve()
            sys.path.insert(0, str(path.parent))
            module_name = path.stem
        return getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(NO_BOT)


def _probe(module_name: str, class_name: str) -> None:
    bot = _bot_class(module_name, class_name)
    race = getattr(bot, "RACE", None)
    facts = {
        "version": importlib.metadata.version("burnysc2"),
        "file": str(Path(inspect.getfile(bot)).resolve()),
        "race": race.name.lower() if race is not None else "",
    }
    print(f"\n{PROBED}{json.dumps(facts)}")  # noqa: T201


def _play(module_name: str, class_name: str, race: str, port: str) -> None:
    main = importlib.import_module("sc2.main")
    data = importlib.import_module("sc2.data")
    player = importlib.import_module("sc2.player")
    bot = player.Bot(data.Race[race.title()], _bot_class(module_name, class_name)())
    address = f"ws://127.0.0.1:{port}/sc2api"
    # The other side of the connection chooses the ports of the game.
    game = main.play_from_websocket(address, bot, False, portconfig=None)
    print("result", asyncio.run(game))  # noqa: T201


def _end_with_input() -> None:
    """Ends this process once its standard input closes, even in the middle of a computation."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Does what the command line asks."""
    try:
        importlib.import_module("sc2.main")
    except ImportError as error:
        print(f"ImportError: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(NO_PYTHON_SC2)
    if sys.argv[1] == "probe":
        _probe(*sys.argv[2:])
    else:
        _end_with_input()
        _play(*sys.argv[2:])


if __name__ == "__main__":
    main()
