"""Map files: what clients look for under `Maps` and hand back to the game as `map_data`.

A file is a small MPQ archive that names one of Skirmish's maps; the terrain itself is drawn by
`maps`. Files stand under their own names, and under the names of ladder maps that clients know,
so that `SC2Env(map_name="Acropolis")` finds something to play on.
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
# Path under Maps -> our map. The dataset's ten maps, and pysc2's usual small ones.
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
}


def own_path(name: str) -> str:
    """Returns the path of a map's own file under `Maps`."""
    return f"Skirmish/{name.replace(' ', '')}.SC2Map"


def files() -> dict[str, bytes]:
    """Returns all map files, path under `Maps` -> content."""
    found = {own_path(name): _content(name) for name in maps.MAPS}
    return found | {path: _content(name) for path, name in _ALIASES.items()}


def _content(name: str) -> bytes:
    text = json.dumps({"engine": "skirmish", "map": name}, indent=1).encode()
    return archive_writer.archive({MEMBER: text})


def map_of_data(data: bytes) -> maps.GameMap:
    """Returns the map that a map file names; FormatError if it is none of ours."""
    try:
        archive = mpyq.MPQArchive(io.BytesIO(data), listfile=False)
        content = json.loads(archive.read_file(MEMBER) or b"null")
        return maps.MAPS[content["map"]]
    except reader.DAMAGE as error:
        raise errors.FormatError(f"not a map file of Skirmish: {error!r}") from error


def map_of_name(text: str) -> maps.GameMap | None:
    """Returns the map of a title or path such as "Melee/Simple64.SC2Map", None if unknown."""
    stem = PurePosixPath(text.replace("\\", "/")).stem
    wanted = _plain(stem.removeprefix("Skirmish "))
    for name, game_map in maps.MAPS.items():
        if _plain(name) == wanted:
            return game_map
    for path, name in _ALIASES.items():
        alias = _plain(PurePosixPath(path).stem)
        if wanted in (alias, alias.removesuffix("le")):
            return maps.MAPS[name]
    return None


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
