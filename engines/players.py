"""Players of a replay, from what its metadata, details and initData say of them.

The three disagree, so each fact has one source: identity, race, result and APM are the
metadata's (its codes do not depend on the client's language); who is human is in the
details; ratings are the metadata's, and in 1v1 games initData's where it has none, as for
players who chose Random. Nothing here raises: what makes no sense is None.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from starmill.schema.replay import MmrSource, PlayerRow

HUMAN, AI = 2, 3  # m_control
_UNRATED = -36400  # the game's own mark for a player without a rating
_MAX_TEXT = 256


def text(value: Any) -> str | None:
    """Returns a string of untrusted JSON or bytes, cut and made encodable; else None."""
    if isinstance(value, bytes):
        value = value[: 4 * _MAX_TEXT].decode("utf-8", "replace")
    if not isinstance(value, str):
        return None
    # A lone surrogate is valid JSON and cannot be written as UTF-8.
    return value[:_MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def whole(value: Any) -> int | None:
    """Returns a whole number that fits in 32 bits; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not -(1 << 31) <= value < 1 << 31 or value != int(value):
        return None
    return int(value)


def finite(value: Any) -> float | None:
    """Returns a finite number; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON has whole numbers of any length
        return None
    return number if math.isfinite(number) else None


def listed(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the metadata's players; what is not an object is left out."""
    found = metadata.get("Players")
    if not isinstance(found, list):
        return []
    return [player for player in found if isinstance(player, dict)]


def slot_rating(
    slot: int | None, slot_users: Sequence[int | None], ratings: Sequence[int | None]
) -> int | None:
    """Returns initData's rating of the user in a lobby slot."""
    if slot is None or not 0 <= slot < len(slot_users):
        return None
    user = slot_users[slot]
    return ratings[user] if user is not None and 0 <= user < len(ratings) else None


def mmr(
    player: Mapping[str, Any], rating: int | None, *, one_on_one: bool
) -> tuple[int | None, MmrSource]:
    """Returns a player's MMR and where it is from, or None and why.

    Args:
        player: of the metadata.
        rating: initData's, which in team games is the team's and so not used.
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
    """Returns the row of a player; `player` is None where the metadata has none."""
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
