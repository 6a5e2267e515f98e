"""Map files: what clients look for under `Maps` and send to the game as `map_data`.

In: a map's name or a file's content. Out: the other. A file is a small MPQ archive that names one
of Skirmish's maps; `maps` builds the terrain itself. Each map has a file of its own name, and
there are files with the names of ladder maps, so that `SC2Env(map_name="Acropolis")` works.
"""

import json
from pathlib import PurePosixPath

from starmill.engines.replays import archive_writer
from starmill.engines.replays.archive import Archive
from starmill.engines.replays.limits import DEFAULT_LIMITS
from starmill.engines.skirmish.replays import reader
from starmill.engines.skirmish.simulation import maps
from starmill.schema import errors
from starmill.schema.archives import json_text

MEMBER = "skirmish.map.json"


def _file_name(name: str) -> str:
    """Returns a map's name as in files: without spaces and apostrophes."""
    return name.replace(" ", "").replace("'", "")


# Season in which pysc2 looks for each stand-in, and its file's name there.
_SEASONS = {
    "Acropolis": "Ladder2019Season3",
    "Automaton": "Ladder2019Season1",
    "Cyber Forest": "Ladder2019Season2",
    "Kairos Junction": "Ladder2019Season2",
    "King's Cove": "Ladder2019Season2",
    "New Repugnancy": "Ladder2019Season2",
    "Port Aleksander": "Ladder2019Season1",
    "Thunderbird": "Ladder2019Season3",
    "Turbo Cruise '84": "Ladder2019Season2",
    "Year Zero": "Ladder2019Season1",
}
# Path under `Maps` -> map: names that clients know, of maps that have a name of their own.
_ALIASES = {
    "Melee/Simple64.SC2Map": "Amber Basin",
    "Melee/Simple96.SC2Map": "Frost Hollow",
    "Melee/Simple128.SC2Map": "Broken Span",
    # Without the edition, as in later map packs and in python-sc2's examples.
    **{
        f"{folder}/{_file_name(name)}.SC2Map": name for name, folder in _SEASONS.items()
    },
}


def own_path(name: str) -> str:
    """Returns the path under `Maps` of the file that bears a map's own name.

    Maps that have the name of others are in the folders in which pysc2 looks for those.
    """
    if name in _SEASONS:
        return f"{_SEASONS[name]}/{_file_name(name)}LE.SC2Map"
    folder = "Skirmish" if name in maps.MAPS else "Melee"
    if name in maps.MINI_GAMES:
        folder = "mini_games"
    return f"{folder}/{_file_name(name)}.SC2Map"


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
        archive = Archive(data, max_table_entries=DEFAULT_LIMITS.table_entries)
        member = archive.read(MEMBER, DEFAULT_LIMITS.metadata_bytes)
        return maps.map_named(json_text.parse(member or b"null")["map"])
    except (errors.ReplayError, *reader.DAMAGE) as error:
        raise errors.FormatError(
            f"map file: expected one of Skirmish, found damage or another game's: {error!r}"
        ) from error


def map_of_name(text: str) -> maps.GameMap | None:
    """Returns the map of a title or path such as "Melee/Simple64.SC2Map", None if there is none."""
    stem = PurePosixPath(text.replace("\\", "/")).stem
    plain_name = _plain(stem.removeprefix("Skirmish "))
    names = {_plain(name): name for name in maps.all_names()}
    names |= {_plain(PurePosixPath(p).stem): name for p, name in _ALIASES.items()}
    name = names.get(plain_name) or names.get(plain_name.removesuffix("le"))
    return maps.map_named(name) if name else None


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
