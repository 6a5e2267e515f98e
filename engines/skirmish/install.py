"""An installation of Skirmish that looks like one of StarCraft II.

In: a folder and game versions. Out: `Versions/Base*/SC2_x64`, a launcher for each version, and
the map files in `Maps`. With `SC2PATH` set to the folder, pysc2 and DeepMind's replay code run on
it. Must not know: how the game is played.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import starmill.version
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.server import map_files
from starmill.schema import errors, storage

BINARY = "SC2_x64"
MARKER = "skirmish.txt"
_MARKER_TEXT = (
    "`starmill skirmish install` made this folder. The game in it is Skirmish, a small game\n"
    "of starmill's own that speaks the protocol of StarCraft II.\n"
)


def launcher(version: versions.Version) -> str:
    """Returns the text of `SC2_x64` for one version.

    It names this interpreter by its absolute path and isolates it (-I), because the game inherits its
    client's environment, in which `python3`, PYTHONPATH and PYTHONHOME may belong to another Python.
    The package's folder goes to the end of the path; at the front it could hide the standard library.
    With `exec`, signals to the launched process reach the game.
    """
    root = Path(starmill.version.__file__).resolve().parent.parent
    code = (
        f"import sys; sys.path.append({str(root)!r}); "
        "from starmill.engines.skirmish import server; sys.exit(server.main())"
    )
    command = [sys.executable, "-I", "-c", code, "-baseBuild", str(version.base_build)]
    words = " ".join(shlex.quote(word) for word in command)
    return f'#!/bin/sh\nexec {words} "$@"\n'


def install(directory: Path, game_versions: Sequence[versions.Version]) -> None:
    """Writes an installation into a folder. Overwrites its files there, and deletes nothing.

    Raises ConfigError if the folder holds another game.
    """
    if (directory / "Versions").exists() and not (directory / MARKER).exists():
        raise errors.ConfigError(
            f"{directory}: expected an empty folder or an installation of Skirmish, found "
            "another game's Versions folder. Choose another folder."
        )
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / MARKER, _MARKER_TEXT.encode())
    for path, content in map_files.files().items():
        _write(directory / "Maps" / path, content)
    (directory / "Replays").mkdir(exist_ok=True)
    for version in game_versions:
        binary = directory / "Versions" / version.directory / BINARY
        _write(binary, launcher(version).encode(), mode=0o755)


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a file so that readers see either the old one or the new one, with its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with storage.replacing(path) as temporary:
        Path(temporary).write_bytes(content)
        Path(temporary).chmod(mode)
