"""Which games are installed, and which executable plays a given version.

In: the folder of an installation, of StarCraft II or of Skirmish, and a version. Out: an
`Executable` with the binary, data folder and data version that `game_process` starts.
Knows nothing of running games.
"""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from starmill.engines.game_process import Executable
from starmill.engines.skirmish import install
from starmill.schema import errors

# Takes the place of a folder where the embedded game is meant.
SKIRMISH = "skirmish"
_BASE_FOLDER = re.compile(r"Base(\d+)")
_UNKNOWN_NUMBER = "0.0.0"


class GameVersion(NamedTuple):
    """A released version of StarCraft II.

    Attributes:
        number: three parts, like "4.9.2".
        base_build: names the folder that holds the binary.
        data_version: 32 hex digits; None where it is not known.
    """

    number: str
    base_build: int
    data_version: str | None


# Blizzard's list of builds by number, as pysc2 4.0.0 has it. It is not imported from pysc2,
# which reads its flags, all its maps and the game's data on import.
GAME_VERSIONS = {
    row[0]: GameVersion(*row)
    for row in json.loads(
        (Path(__file__).parent / "game_versions.json").read_text(encoding="utf-8")
    )
}
_VERSIONS_BY_BUILD = {version.base_build: version for version in GAME_VERSIONS.values()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Installation:
    """The builds in one installation.

    Attributes:
        root: the folder that `SC2PATH` names.
        builds: base builds that have a binary, ascending.
    """

    root: Path
    builds: tuple[int, ...]

    def executable(
        self, game_version: str, base_build: int, data_version: str | None
    ) -> Executable:
        """Returns the executable that plays replays of this version.

        Args:
            game_version: "4.9.2", with or without the build after it.
            base_build: the build whose folder holds the binary.
            data_version: the replay's own; None takes the one in `GAME_VERSIONS`.

        Raises EngineMissing if the build is not installed. The message lists the versions
        that are, but no folder: it is stored in the dataset, whose bytes must not depend
        on where the game is.
        """
        number = ".".join(game_version.split(".")[:3])
        if base_build not in self.builds:
            raise errors.EngineMissing(
                f"replay needs game version {number} (build {base_build}); "
                f"found {self.describe()} in $SC2PATH"
            )
        known = GAME_VERSIONS.get(number)
        if data_version is None and known and known.base_build == base_build:
            data_version = known.data_version
        return Executable(
            game_version=number,
            base_build=base_build,
            data_version=data_version,
            binary=str(_binary(self.root / "Versions" / f"Base{base_build:05d}")),
            data_dir=str(self.root),
        )

    def newest(self, game_version: str = "") -> Executable:
        """Returns the executable of a version like "4.9.2"; by default the newest one.

        Raises ConfigError for an unknown version, and EngineMissing if it is not installed.
        """
        if game_version:
            version = GAME_VERSIONS.get(game_version)
            if version is None:
                raise errors.ConfigError(
                    f"game version {game_version!r}: expected a released one, like '4.9.2'"
                )
            return self.executable(version.number, version.base_build, None)
        if not self.builds:
            raise errors.EngineMissing(f"no game version is installed in {self.root}")
        build = self.builds[-1]
        known = _VERSIONS_BY_BUILD.get(build)
        number = known.number if known else _UNKNOWN_NUMBER
        return self.executable(number, build, None)

    def engine_name(self, executable: Executable) -> str:
        """Returns the name that results use, like "skirmish 4.9.2.74741" or "sc2 ..."."""
        name = "skirmish" if is_embedded(str(self.root)) else "sc2"
        return f"{name} {executable.game_version}.{executable.base_build}"

    def describe(self) -> str:
        """Returns the installed versions for messages, like "4.9.2 (build 74741)"."""
        names = [
            f"{_VERSIONS_BY_BUILD[build].number} (build {build})"
            if build in _VERSIONS_BY_BUILD
            else f"build {build}"
            for build in self.builds
        ]
        return ", ".join(names) or "no version"


def find(root: Path) -> Installation:
    """Returns the installation in a folder; ConfigError if there is no game in it."""
    folder = root / "Versions"
    if not folder.is_dir():
        raise errors.ConfigError(
            f"no game in {root}: expected the folder {folder}. Set SC2PATH or --sc2 to "
            "a StarCraft II installation, or take the embedded game: --sc2 skirmish"
        )
    builds = []
    for entry in folder.iterdir():
        match = _BASE_FOLDER.fullmatch(entry.name)
        binary = _binary(entry)
        if match and binary.is_file() and os.access(binary, os.X_OK):
            builds.append(int(match.group(1)))
    return Installation(root=root, builds=tuple(sorted(builds)))


def is_embedded(root: str) -> bool:
    """Returns whether `root` means Skirmish: its name, or a folder it is installed in."""
    return root == SKIRMISH or (Path(root) / install.MARKER).is_file()


def _binary(version_folder: Path) -> Path:
    return version_folder / install.BINARY
