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
    """One of a replay's first two players; every field is None where it is unknown.

    Attributes:
        player_id: as the metadata numbers players; there can be gaps.
        race: as played: one of `game_constants.RACE_CODES`, or an arcade map's own code.
        race_selected: as requested, with the same codes.
        mmr: the rating, positive.
        mmr_source: where the rating comes from, or why there is none.
        scaled_rating: the rating in initData as it is; the team's in team games.
        apm: actions per minute by the game's own count.
        result: from this player's side, one of OUTCOMES.
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
    """One replay file as the index knows it; all but the first four fields can be unknown.

    Attributes:
        replay_id: sha256 of the file's bytes, hex; "" if the bytes could not be read.
        file_stem: file name without folder and suffix; packs name files by hash.
        source: where the file was read: a path or URL, `pack.zip!member` inside a zip.
        size_bytes: of the file.
        status: "ok", or the RejectReason of what is wrong with the file itself.
        detail: a sentence that explains a status other than "ok".
        complete: False if reading stopped early because the selection was already decided.
        engine: "sc2", or "skirmish" for the embedded game's replays.
        game_version: like "4.9.2.74741".
        base_build: the build whose protocol the replay uses.
        data_version: hash of the game's data, hex.
        map_name: canonical, the English title; the replay's own title if the handle is unknown.
        map_title: in the client's language.
        map_handle: sha256 of the map file, hex.
        duration_loops: length in game loops, by the header.
        ladder: whether `amm` and `competitive` both hold.
        amm: whether matchmaking set up the game, by initData.
        competitive: whether the game counts for a rating, by initData.
        cooperative: whether people play together against the AI, by initData.
        human_players: counted in details and initData.
        ai_players: counted in details and initData.
        observers: counted in details and initData.
        players_listed: players that the metadata lists; Archon mode lists two for four.
        region: of the map's handle, like "EU"; packs hide the players' own.
        layout: "full", "pack" (only *.backup members) or "old" (no metadata).
        game_events: events in the replay; None unless they were decoded.
        member_offset: first byte of a pack's member, with its header, in the pack; None for other
            files, and in indexes of earlier releases.
        member_bytes: of the member in the pack, with its header.
        players: the first two players of the metadata.
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
    member_offset: int | None = None
    member_bytes: int | None = None
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
    "member_offset",
    "member_bytes",
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


# Columns that indexes of earlier releases lack. There, they have no values.
NEW_COLUMNS = ("member_offset", "member_bytes")


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
