"""An installation of Skirmish that looks like one of StarCraft II.

`DIR/Versions/Base*/SC2_x64` is a launcher for each version, `DIR/Maps` holds the map files. With
`SC2PATH=DIR`, pysc2 and DeepMind's replay code run on it.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import starmill
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.server import map_files
from starmill.schema import errors, storage

BINARY = "SC2_x64"
MARKER = "skirmish.txt"
_MARKER_TEXT = (
    "This folder was laid out by `starmill skirmish install`. The game in it is Skirmish,\n"
    "a small game of starmill's own behind the protocol of StarCraft II.\n"
)


def launcher(version: versions.Version) -> str:
    """Returns the text of `SC2_x64` for one version.

    The interpreter is absolute and isolated (-I): the game inherits its client's environment,
    where `python3`, PYTHONPATH and PYTHONHOME may belong to another Python. The package's place
    goes to the end of the path, not the front, where it could hide the standard library.
    `exec`, so that a signal to the launched process reaches the game.
    """
    root = Path(starmill.__file__).resolve().parent.parent
    code = (
        f"import sys; sys.path.append({str(root)!r}); "
        "from starmill.engines.skirmish import server; sys.exit(server.main())"
    )
    command = [sys.executable, "-I", "-c", code, "-baseBuild", str(version.base_build)]
    words = " ".join(shlex.quote(word) for word in command)
    return f'#!/bin/sh\nexec {words} "$@"\n'


def install(directory: Path, chosen: Sequence[versions.Version]) -> None:
    """Lays out an installation; what is there already is written anew, nothing is deleted.

    ConfigError if the folder holds a game that Skirmish did not put there.
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
    for version in chosen:
        binary = directory / "Versions" / version.directory / BINARY
        _write(binary, launcher(version).encode(), mode=0o755)


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with storage.replacing(path) as temporary:
        Path(temporary).write_bytes(content)
        Path(temporary).chmod(mode)
