"""What is known of a replay file without playing it: one row per file, and why not.

`ReplayRow` is what the index stores and what a selection decides on; `RejectReason` is the
fixed vocabulary for everything that keeps a replay out of a dataset, from a damaged file
to a rule of the selection to a game that crashed while playing it.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

# The metadata's fixed codes -> the names that episodes use.
RACE_NAMES = {"Terr": "terran", "Zerg": "zerg", "Prot": "protoss", "Rand": "random"}
# The metadata's results -> an episode's outcome; None: not a result to learn from.
OUTCOMES: dict[str, int | None] = {"Win": 1, "Tie": 0, "Loss": -1, "Undecided": None}


class RejectReason(enum.StrEnum):
    """Why a replay is not in the dataset. The value is what tables and counters show."""

    # The file: what `engines/replays/replay_file` and the index find.
    UNREADABLE = "unreadable"  # the bytes could not be had: I/O error, damaged zip
    NOT_A_REPLAY = "not_a_replay"  # no MPQ archive where one should be
    TRUNCATED = "truncated"  # the archive's tables or members end after the file does
    CORRUPT = "corrupt"  # the container is damaged
    TOO_LARGE = "too_large"  # over a limit on sizes or counts
    TOO_SLOW = "too_slow"  # over the limit on time
    BAD_HEADER = "bad_header"
    NO_METADATA = "no_metadata"  # replays older than 3.3, or a stripped file
    BAD_METADATA = "bad_metadata"
    NO_PROTOCOL = "no_protocol"  # s2protocol has no description of this build
    BAD_DETAILS = "bad_details"
    BAD_INIT_DATA = "bad_init_data"
    NO_EVENTS = "no_events"  # replay.game.events is not in the archive
    BAD_EVENTS = "bad_events"
    EVENTS_TOO_LARGE = "events_too_large"  # over a limit on game events
    # The selection's rules, in the order in which they are applied.
    EXCLUDED = "excluded"  # on a list of what to leave out
    NOT_LISTED = "not_listed"  # not on the list of what to take
    ENGINE = "engine"  # made by the other game: StarCraft II or Skirmish
    VERSION = "version"
    LADDER = "ladder"
    PLAYERS = "players"  # not exactly two humans
    MMR_UNKNOWN = "mmr_unknown"
    MMR = "mmr"
    MAP = "map"
    RACE = "race"
    OUTCOME = "outcome"
    LENGTH = "length"
    # Playing and converting: what `generate` finds.
    DUPLICATE = "duplicate"  # the same bytes as another replay of the input
    ENGINE_MISSING = "engine_missing"
    ENGINE_CRASHED = "engine_crashed"
    ENGINE_TIMEOUT = "engine_timeout"
    ENGINE_REFUSED = "engine_refused"  # the game does not load this replay
    DESYNC = "desync"  # the playback is not the game that was recorded
    CONVERTER = "converter"
    SPEC = "spec"


class MmrSource(enum.StrEnum):
    """Where a player's MMR comes from, or why there is none.

    In a 1v1 with a Random player the metadata has no MMR key and initData has the rating.
    A value that is present and makes no sense is not repaired from elsewhere.
    """

    METADATA = "metadata"
    INIT_DATA = "init_data"
    UNRATED = "unrated"  # the game's own mark for "no rating", -36400
    INVALID = "invalid"  # present, and not a positive whole number
    MISSING = "missing"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlayerRow:
    """One of a replay's first two players; every field is None where unknown.

    player_id: as the metadata numbers players; there can be gaps.
    race: as played; race_selected: as chosen. The metadata's codes, those of RACE_NAMES;
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
        return RACE_NAMES.get(self.race or "")

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
