"""Facts of a row from untrusted values; `test_replay_file` covers whole files."""

import dataclasses

import pytest

from starmill.engines.replays import facts
from starmill.schema.reasons import MmrSource

LOBBY = facts.Lobby(
    amm=True,
    competitive=True,
    cooperative=False,
    slot_users=[0, 1, 2, None],
    slot_controls=[2, 2, 2, 0],
    slot_observes=[0, 0, 1, 0],
    ratings=[3100, None, 2000],
)
HANDLE = b"s2ma\0\0EU" + bytes(range(32))


def _details(*slots: int, handles: object = (HANDLE,)) -> dict:
    players = [{4: facts.HUMAN, 9: slot} for slot in slots]
    return {0: players, 1: b"Acropolis LE", 10: list(handles)}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x" * 300, "x" * 256),
        (b"caf\xc3\xa9", "caf\u00e9"),
        (b"\xff", "\ufffd"),
        ("\ud800", "?"),
        (3, None),
        (None, None),
    ],
)
def test_text(value: object, expected: str | None) -> None:
    assert facts.text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        (7.0, 7),
        (7.5, None),
        (True, None),
        (2**31, None),
        (-(2**31), -(2**31)),
        (float("nan"), None),
        (float("inf"), None),
        ("7", None),
    ],
)
def test_whole_numbers_fit_in_32_bits(value: object, expected: int | None) -> None:
    assert facts.whole(value) == expected


def test_finite_numbers() -> None:
    assert facts.finite(2) == 2.0
    assert facts.finite(10**400) is None
    assert facts.finite(float("nan")) is None
    assert facts.finite(False) is None


@pytest.mark.parametrize(
    ("metadata", "rating", "one_on_one", "expected"),
    [
        (3000, 3100, True, (3000, MmrSource.METADATA)),
        (None, 3100, True, (3100, MmrSource.INIT_DATA)),
        (None, 3100, False, (None, MmrSource.MISSING)),  # a team's rating
        (None, None, True, (None, MmrSource.MISSING)),
        (-36400, 3100, True, (None, MmrSource.UNRATED)),
        (0, 3100, True, (None, MmrSource.INVALID)),
        ("x", 3100, True, (None, MmrSource.INVALID)),
    ],
)
def test_the_source_of_a_rating(
    metadata: object, rating: int | None, one_on_one: bool, expected: tuple
) -> None:
    player = {} if metadata is None else {"MMR": metadata}
    assert facts.mmr(player, rating, one_on_one=one_on_one) == expected


def test_ratings_follow_the_slots_of_the_details() -> None:
    metadata = {"Players": [{"PlayerID": 1}, {"PlayerID": 2}]}
    row = facts.row_facts(metadata, _details(2, 0), LOBBY)
    assert [player.mmr for player in row["players"]] == [2000, 3100]
    row = facts.row_facts(metadata, _details(1, 9), LOBBY)
    assert [player.mmr for player in row["players"]] == [None, None]


def test_a_ladder_game_is_matched_and_competitive() -> None:
    assert facts.row_facts(None, None, LOBBY)["ladder"] is True
    other = LOBBY._replace(competitive=False)
    assert facts.row_facts(None, None, other)["ladder"] is False
    unknown = LOBBY._replace(amm=None)
    assert "ladder" not in facts.row_facts(None, None, unknown)
    assert facts.row_facts(None, None, LOBBY)["observers"] == 1


@pytest.mark.parametrize(
    "handles", [(), (b"short",), (b"XXXX" + HANDLE[4:],), (HANDLE, 3)]
)
def test_a_handle_that_is_none_gives_neither_map_nor_region(handles: tuple) -> None:
    row = facts.row_facts(None, _details(0, 1, handles=handles), None)
    assert (row["map_handle"], row["region"]) == (None, None)
    assert row["map_title"] == "Acropolis LE"
    good = facts.row_facts(None, _details(0, 1), None)
    assert (good["map_handle"], good["region"]) == (bytes(range(32)).hex(), "EU")


def test_members_that_cannot_be_read_leave_two_empty_players() -> None:
    row = facts.row_facts(None, None, None)
    assert len(row["players"]) == 2
    assert all(
        value is None
        for player in row["players"]
        for name, value in dataclasses.asdict(player).items()
        if name != "mmr_source"
    )
