"""Signals to every long command: it ends, and none of its processes stays."""

import signal
from pathlib import Path

from tests.endurance import commands, matches, training
from tests.factories import builds

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
# Early in its start, at its first work, and in the midst of it.
_SECONDS = (2.0, 6.0, 12.0)


def signals(folder: Path, replays: list[str]) -> str:
    """Sends each signal to each command after different times."""
    ended = 0
    for number in _SIGNALS:
        for seconds in _SECONDS:
            for name, line in _lines(folder, replays).items():
                temp = folder / "tmp" / f"{name}-{number}-{seconds:g}"
                result = commands.run_and_kill(
                    line, temp, commands.after(seconds), number=number
                )
                left = commands.left_processes(temp)
                where = f"{name}, {signal.Signals(number).name} after {seconds:g} s"
                assert not left, f"{where}: left behind: {left}"
                assert commands.is_sentence(result.text) or result.code < 0, (
                    f"{where}: {result.text[-2000:]}"
                )
                ended += 1
    return f"{ended} commands ended, and no process was left"


def _lines(folder: Path, replays: list[str]) -> dict[str, list[str]]:
    """Returns a command line of each command, each into a folder that does not exist."""
    number = len(list((folder / "out").glob("*"))) if (folder / "out").exists() else 0
    out = folder / "out" / str(number)
    out.mkdir(parents=True)
    return {
        "generate": builds.command(replays, out / "generate", "--workers", "2")[3:],
        "ladder": matches.ladder_command(out / "ladder"),
        "evaluate": matches.evaluate_command(out / "evaluate"),
        "train": training.train_command(folder, out / "train"),
    }
