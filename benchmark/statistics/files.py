"""How the games of an evaluation were played, one JSON file per game.

In and out: a `GameStatistics`. The file `statistics/GAME.json` lies beside the results and is written
before the game's row, so a row of a game played by this version has its file. Earlier versions wrote
none, and their folders stay readable: such games have no statistics.

    {"format": 1,
     "players": {"home": RECORD or null, "away": RECORD or null},
     "material": {"home": {"army", "economy", "structures"}, "away": {...}} or null}

A RECORD has the fields of `play_record.PlayRecord`. The game's own AI has none: nobody sees its commands.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from starmill.benchmark.statistics.material import Material
from starmill.benchmark.statistics.play_record import PlayRecord
from starmill.schema import errors, storage
from starmill.schema.archives import json_text

FOLDER = "statistics"
_FORMAT = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class GameStatistics:
    """How both players played one game.

    Attributes:
        home: home's record; None for the game's own AI.
        away: likewise.
        home_material: what home had at the end; None unless the game reached its time limit.
        away_material: likewise.
    """

    home: PlayRecord | None = None
    away: PlayRecord | None = None
    home_material: Material | None = None
    away_material: Material | None = None

    def swapped(self) -> "GameStatistics":
        """Returns the same game with home and away exchanged."""
        return GameStatistics(
            home=self.away,
            away=self.home,
            home_material=self.away_material,
            away_material=self.home_material,
        )


def write(folder: Path, game: str, statistics: GameStatistics) -> None:
    """Writes a game's file in the folder of an evaluation."""
    material = None
    if statistics.home_material and statistics.away_material:
        material = {
            "home": statistics.home_material.to_json(),
            "away": statistics.away_material.to_json(),
        }
    content = {
        "format": _FORMAT,
        "players": {
            side: None if record is None else record.to_json()
            for side, record in (("home", statistics.home), ("away", statistics.away))
        },
        "material": material,
    }
    text = json.dumps(content, sort_keys=True) + "\n"
    storage.write(str(_path(folder, game)), text.encode())


def read(folder: Path, game: str) -> GameStatistics | None:
    """Returns a game's statistics; None if there are none, FormatError if they are damaged."""
    path = _path(folder, game)
    if not path.is_file():
        return None
    try:
        return _parsed(json_text.parse(path.read_text("utf-8")))
    except (ValueError, KeyError, TypeError, errors.FormatError) as error:
        raise errors.FormatError(
            f"{path}: expected a game's statistics as `starmill evaluate` writes them, "
            f"found {error!r}; delete the file to leave the game out of the statistics"
        ) from error


def _parsed(content: Any) -> GameStatistics:
    if content["format"] != _FORMAT:
        raise errors.FormatError(f"format {content['format']!r}, expected {_FORMAT}")
    records = {
        side: None if data is None else PlayRecord.from_json(data)
        for side, data in content["players"].items()
    }
    material = content["material"] or {}
    sides = {side: Material.from_json(data) for side, data in material.items()}
    return GameStatistics(
        home=records["home"],
        away=records["away"],
        home_material=sides.get("home"),
        away_material=sides.get("away"),
    )


def _path(folder: Path, game: str) -> Path:
    return folder / FOLDER / f"{game}.json"
