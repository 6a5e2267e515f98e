"""What is known about a replay file without playing it: one row per file.

The index stores `ReplayRow`s, and a selection decides on them. Knows neither how replays are
parsed nor how tables are stored.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from starmill.schema import game_constants
from starmill.schema.reasons import MmrSource

# The metadata's results -> an episode's outcome; None: not a result to learn from.
OUTCOMES: dict[str, int | None] = {"Win": 1, "Tie": 0, "Loss": -1, "Undecided": None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlayerRow:
    """One of a replay's first two players; every field is None where unknown.

    player_id: as the metadata numbers players; there can be gaps.
    race: as played; race_selected: as chosen. The metadata's codes, those of `game_constants.RACE_CODES`;
        arcade maps have codes of their own.
    mmr: positive. mmr_source: where it is from, or why it is None.
    scaled_rating: initData's rating as it is; the team's in team games.
    apm: actions per minute by the game's own count.
    result: as the metadata has it, one of OUTCOMES, from this player's side.
    """

    player_id: int | None = None
    race: str | None = None
    race_selected: str | None = None
    mmr: int | None = None
    mmr_source: MmrSource | None = None
    scaled_rating: int | None = None
    apm: float | None = None
    result: str | None = None

    @property
    def race_name(self) -> str | None:
        """Returns the race played as "terran", "zerg" or "protoss"; None if another."""
        return game_constants.RACE_NAME_BY_CODE.get(self.race or "")

    @property
    def outcome(self) -> int | None:
        """Returns +1 for a win, 0 for a tie, -1 for a loss; None if undecided."""
        return OUTCOMES.get(self.result or "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayRow:
    """One replay file as the index knows it; every field but four is None where unknown.

    replay_id: sha256 of the file's bytes, hex; "" where the bytes could not be read.
    file_stem: file name without folder and suffix; packs name files by hash.
    source: where it was read from: path or URL, `pack.zip!member` inside a zip.
    status: "ok" or the RejectReason of what is wrong with the file itself.
    detail: the sentence that goes with a status other than "ok".
    complete: False if reading stopped early because a selection had already decided.
    engine: "sc2", or "skirmish" for the embedded game's replays.
    game_version: like "4.9.2.74741". base_build: the build whose protocol it is in.
    map_name: canonical (the English title), by the map's handle where it is known.
    map_handle: sha256 of the map file, hex. map_title: in the client's language.
    duration_loops: by the header; 22.4 loops are a second.
    ladder: amm and competitive, both from initData.
    human_players, ai_players, observers: counted in details and initData.
    players_listed: how many players the metadata lists; Archon mode lists two for four.
    region: of the map's handle, like "EU"; packs hide the players' own.
    layout: "full", "pack" (only *.backup members), "old" (no metadata).
    game_events: how many the replay holds; counted only where they are decoded.
    """

    replay_id: str
    file_stem: str
    source: str
    size_bytes: int
    status: str = "ok"
    detail: str | None = None
    complete: bool = True
    engine: str | None = None
    game_version: str | None = None
    base_build: int | None = None
    data_version: str | None = None
    map_name: str | None = None
    map_title: str | None = None
    map_handle: str | None = None
    duration_loops: int | None = None
    ladder: bool | None = None
    amm: bool | None = None
    competitive: bool | None = None
    cooperative: bool | None = None
    human_players: int | None = None
    ai_players: int | None = None
    observers: int | None = None
    players_listed: int | None = None
    region: str | None = None
    layout: str | None = None
    game_events: int | None = None
    players: tuple[PlayerRow, PlayerRow] = (PlayerRow(), PlayerRow())


_PLAYER_FIELDS = tuple(field.name for field in dataclasses.fields(PlayerRow))
_ROW_FIELDS = tuple(
    field.name for field in dataclasses.fields(ReplayRow) if field.name != "players"
)
# Column name -> type name, in the order of the index: the row's fields, then p1_, then p2_.
_INTEGERS = [
    "size_bytes",
    "base_build",
    "duration_loops",
    "human_players",
    "ai_players",
    "observers",
    "players_listed",
    "game_events",
    "player_id",
    "mmr",
    "scaled_rating",
]
_BOOLEANS = ["complete", "ladder", "amm", "competitive", "cooperative"]


def _column_type(field: str) -> str:
    if field in _INTEGERS:
        return "int64"
    if field in _BOOLEANS:
        return "bool"
    return "float64" if field == "apm" else "string"


COLUMNS: dict[str, str] = {name: _column_type(name) for name in _ROW_FIELDS} | {
    f"p{number}_{name}": _column_type(name)
    for number in (1, 2)
    for name in _PLAYER_FIELDS
}


def columns_from_row(row: ReplayRow) -> dict[str, Any]:
    """Returns the row as the index stores it, one value per column of COLUMNS."""
    out = {name: getattr(row, name) for name in _ROW_FIELDS}
    for number, player in enumerate(row.players, 1):
        for name in _PLAYER_FIELDS:
            value = getattr(player, name)
            out[f"p{number}_{name}"] = (
                value.value if isinstance(value, MmrSource) else value
            )
    return out


def row_from_columns(values: Mapping[str, Any]) -> ReplayRow:
    """Returns the row that `columns_from_row` made the values from."""
    players = []
    for number in (1, 2):
        fields = {name: values[f"p{number}_{name}"] for name in _PLAYER_FIELDS}
        if fields["mmr_source"] is not None:
            fields["mmr_source"] = MmrSource(fields["mmr_source"])
        players.append(PlayerRow(**fields))
    return ReplayRow(
        **{name: values[name] for name in _ROW_FIELDS},
        players=(players[0], players[1]),
    )
