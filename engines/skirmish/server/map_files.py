"""Map files: what clients look for under `Maps` and send to the game as `map_data`.

In: a map's name or a file's content. Out: the other. A file is a small MPQ archive that names one
of Skirmish's maps; `maps` builds the terrain itself. Each map has a file of its own name, and
there are files with the names of ladder maps, so that `SC2Env(map_name="Acropolis")` works.
"""

import io
import json
from pathlib import PurePosixPath

import mpyq

from starmill.engines.replays import archive_writer
from starmill.engines.skirmish.replays import reader
from starmill.engines.skirmish.simulation import maps
from starmill.schema import errors

MEMBER = "skirmish.map.json"
# Path under `Maps` -> Skirmish's map: the dataset's ten maps, and small ones that pysc2 users know.
_ALIASES = {
    "Ladder2019Season3/AcropolisLE.SC2Map": "Amber Basin",
    "Ladder2019Season1/AutomatonLE.SC2Map": "Frost Hollow",
    "Ladder2019Season2/CyberForestLE.SC2Map": "Twin Ridges",
    "Ladder2019Season2/KairosJunctionLE.SC2Map": "Long Reach",
    "Ladder2019Season2/KingsCoveLE.SC2Map": "Broken Span",
    "Ladder2019Season2/NewRepugnancyLE.SC2Map": "Amber Basin",
    "Ladder2019Season1/PortAleksanderLE.SC2Map": "Twin Ridges",
    "Ladder2019Season3/ThunderbirdLE.SC2Map": "Long Reach",
    "Ladder2019Season2/TurboCruise84LE.SC2Map": "Frost Hollow",
    "Ladder2019Season1/YearZeroLE.SC2Map": "Broken Span",
    "Melee/Simple64.SC2Map": "Amber Basin",
    "Melee/Simple96.SC2Map": "Frost Hollow",
    "Melee/Simple128.SC2Map": "Broken Span",
    # As in later map packs.
    "Ladder2019Season3/Acropolis.SC2Map": "Amber Basin",
}


def own_path(name: str) -> str:
    """Returns the path under `Maps` of the file that bears a map's own name.

    Maps of tests and mini-games are in the folders in which pysc2 looks for them.
    """
    folder = "Skirmish" if name in maps.MAPS else "Melee"
    if name in maps.MINI_GAMES:
        folder = "mini_games"
    return f"{folder}/{name.replace(' ', '')}.SC2Map"


def files() -> dict[str, bytes]:
    """Returns the content of all map files by path under `Maps`."""
    own = {own_path(name): _content(name) for name in maps.all_names()}
    return own | {path: _content(name) for path, name in _ALIASES.items()}


def _content(name: str) -> bytes:
    text = json.dumps({"engine": "skirmish", "map": name}, indent=1).encode()
    return archive_writer.write({MEMBER: text})


def map_of_data(data: bytes) -> maps.GameMap:
    """Returns the map that a file names; FormatError if it is not a map file of Skirmish."""
    try:
        archive = mpyq.MPQArchive(io.BytesIO(data), listfile=False)
        content = json.loads(archive.read_file(MEMBER) or b"null")
        return maps.map_named(content["map"])
    except reader.DAMAGE as error:
        raise errors.FormatError(
            f"map file: expected one of Skirmish, found damage or another game's: {error!r}"
        ) from error


def map_of_name(text: str) -> maps.GameMap | None:
    """Returns the map of a title or path such as "Melee/Simple64.SC2Map", None if there is none."""
    stem = PurePosixPath(text.replace("\\", "/")).stem
    plain_name = _plain(stem.removeprefix("Skirmish "))
    for name in maps.all_names():
        if _plain(name) == plain_name:
            return maps.map_named(name)
    for path, name in _ALIASES.items():
        alias = _plain(PurePosixPath(path).stem)
        if plain_name in (alias, alias.removesuffix("le")):
            return maps.MAPS[name]
    return None


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
