"""The facts in an index row: who played which map, how well, and in what kind of game.

In: a replay's metadata, details and lobby, decoded but untrusted. Out: fields of a
`ReplayRow`. The three members disagree, so each fact has one source:

    metadata    identity, race, result, APM (its codes do not depend on a language), rating
    details     who is human, which slot each player has, the map
    lobby       kind of game, observers; in 1v1 games, ratings that the metadata lacks, such
                as those of players who chose Random

Nothing here raises: a value that makes no sense becomes None.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starmill.schema import vocab
from starmill.schema.reasons import MmrSource
from starmill.schema.replay_row import PlayerRow

HUMAN, AI = 2, 3  # m_control
_UNRATED = -36400  # the game's own code for a player without a rating
_MAX_TEXT = 256
# Tags of replay.details and of a player in it; the same in every build.
_PLAYERS, _TITLE, _HANDLES = 0, 1, 10
_CONTROL, _SLOT = 4, 9


class Lobby(NamedTuple):
    """What a row needs of initData.

    Attributes:
        amm: whether the game was matched automatically.
        competitive: whether it was a competitive game.
        cooperative: whether it was a cooperative game. This and the two fields above are None in
            builds that do not record them.
        slot_users: user id of each slot; None for an empty one.
        slot_controls: HUMAN, AI or another number, of each slot.
        slot_observes: 0 for those who play, of each slot.
        ratings: of each user; None for users without one.
    """

    amm: bool | None
    competitive: bool | None
    cooperative: bool | None
    slot_users: list[int | None]
    slot_controls: list[int | None]
    slot_observes: list[int | None]
    ratings: list[int | None]


def text(value: Any) -> str | None:
    """Returns untrusted text, cut to 256 letters that UTF-8 can encode; None for other values."""
    if isinstance(value, bytes):
        value = value[: 4 * _MAX_TEXT].decode("utf-8", "replace")
    if not isinstance(value, str):
        return None
    # A lone surrogate is valid in JSON but cannot be written as UTF-8.
    return value[:_MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def whole(value: Any) -> int | None:
    """Returns a whole number that fits in 32 bits; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not -(1 << 31) <= value < 1 << 31 or value != int(value):
        return None
    return int(value)


def finite(value: Any) -> float | None:
    """Returns a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON has whole numbers of any length
        return None
    return number if math.isfinite(number) else None


def listed(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the metadata's players; omits those that are not objects."""
    players = metadata.get("Players")
    if not isinstance(players, list):
        return []
    return [player for player in players if isinstance(player, dict)]


def slot_rating(
    slot: int | None, slot_users: Sequence[int | None], ratings: Sequence[int | None]
) -> int | None:
    """Returns initData's rating of the user in a lobby slot; None if there is none."""
    if slot is None or not 0 <= slot < len(slot_users):
        return None
    user = slot_users[slot]
    return ratings[user] if user is not None and 0 <= user < len(ratings) else None


def mmr(
    player: Mapping[str, Any], rating: int | None, *, one_on_one: bool
) -> tuple[int | None, MmrSource]:
    """Returns a player's MMR and its source, or None and why there is none.

    Args:
        player: as in the metadata.
        rating: initData's; not used in team games, where it is the team's.
        one_on_one: whether two humans play each other.
    """
    value = player.get("MMR")
    source = MmrSource.METADATA
    if value is None:
        if not one_on_one or rating is None:
            return None, MmrSource.MISSING
        value, source = rating, MmrSource.INIT_DATA
    number = whole(value)
    if number == _UNRATED:
        return None, MmrSource.UNRATED
    if number is None or number <= 0:
        return None, MmrSource.INVALID
    return number, source


def player_row(
    player: Mapping[str, Any] | None, rating: int | None, *, one_on_one: bool
) -> PlayerRow:
    """Returns a player's part of a row; `player` is None if the metadata lacks it."""
    if player is None:
        return PlayerRow(scaled_rating=rating)
    number, source = mmr(player, rating, one_on_one=one_on_one)
    return PlayerRow(
        player_id=whole(player.get("PlayerID")),
        race=text(player.get("AssignedRace")),
        race_selected=text(player.get("SelectedRace")),
        mmr=number,
        mmr_source=source,
        scaled_rating=rating,
        apm=finite(player.get("APM")),
        result=text(player.get("Result")),
    )


def row_facts(
    metadata: dict[str, Any] | None, details: dict[int, Any] | None, lobby: Lobby | None
) -> dict[str, Any]:
    """Returns the fields of a row that these members give.

    Args:
        metadata: the JSON object of replay.gamemetadata.json.
        details: replay.details by tags.
        lobby: the fields of initData. Each of the three is None if it could not be read.
    """
    facts: dict[str, Any] = {}
    title = None
    in_metadata: list[Mapping[str, Any]] = []
    if metadata is not None:
        title = text(metadata.get("Title"))
        in_metadata = listed(metadata)
        facts["engine"] = "skirmish" if metadata.get("Engine") == "skirmish" else "sc2"
        facts["data_version"] = text(metadata.get("DataVersion"))
        facts["players_listed"] = len(in_metadata)
    slots: list[int | None] = []
    if details is not None:
        title = title or text(details.get(_TITLE))
        in_details = _structs(details.get(_PLAYERS))
        controls = [player.get(_CONTROL) for player in in_details]
        slots = [whole(player.get(_SLOT)) for player in in_details]
        facts["human_players"] = controls.count(HUMAN)
        facts["ai_players"] = controls.count(AI)
        facts["map_handle"], facts["region"] = _map_handle(details.get(_HANDLES))
    if lobby is not None:
        facts |= {
            "amm": lobby.amm,
            "competitive": lobby.competitive,
            "cooperative": lobby.cooperative,
            "observers": _observers(lobby),
        }
        if lobby.amm is not None and lobby.competitive is not None:
            facts["ladder"] = lobby.amm and lobby.competitive
    facts["map_title"] = title
    facts["map_name"] = vocab.map_name(facts.get("map_handle"), title)
    one_on_one = facts.get("human_players") == len(in_metadata) == 2
    ratings = [
        slot_rating(slot, lobby.slot_users, lobby.ratings) if lobby else None
        for slot in [*slots, None, None][:2]
    ]
    facts["players"] = tuple(
        player_row(player, rating, one_on_one=one_on_one)
        for player, rating in zip([*in_metadata, None, None][:2], ratings, strict=True)
    )
    return facts


def _structs(value: Any) -> list[dict[int, Any]]:
    return (
        [item for item in value if isinstance(item, dict)]
        if isinstance(value, list)
        else []
    )


def _map_handle(handles: Any) -> tuple[str | None, str | None]:
    """Returns the sha256 of the map's file, and the region where the map was published."""
    # The last handle is the map's: "s2ma", two zero bytes, the region, 32 bytes of hash.
    last = handles[-1] if isinstance(handles, list) and handles else None
    if not isinstance(last, bytes) or len(last) != 40 or last[:4] != b"s2ma":
        return None, None
    region = last[4:8].strip(b"\0").decode("ascii", "replace")
    return last[8:].hex(), region


def _observers(lobby: Lobby) -> int:
    pairs = zip(lobby.slot_controls, lobby.slot_observes, strict=False)
    return sum(control == HUMAN and bool(observe) for control, observe in pairs)
