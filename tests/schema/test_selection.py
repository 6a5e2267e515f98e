"""Selections as a table of (row, reason); splits by literal hashes; lists from files."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from starmill.pipelines.planning import census
from starmill.schema import errors, replay_index, selection
from starmill.schema.reasons import MmrSource
from starmill.schema.replay_row import (
    COLUMNS,
    PlayerRow,
    ReplayRow,
    columns_from_row,
    row_from_columns,
)

UNPLUGGED = selection.PRESETS["unplugged"]


def player(**changes: Any) -> PlayerRow:
    values = {
        "player_id": 1,
        "race": "Terr",
        "race_selected": "Terr",
        "mmr": 4000,
        "mmr_source": MmrSource.METADATA,
        "scaled_rating": 4000,
        "apm": 100.0,
        "result": "Win",
    }
    return PlayerRow(**{**values, **changes})


def row(
    first: dict | None = None, second: dict | None = None, **changes: Any
) -> ReplayRow:
    """A row that every rule keeps, but for what is changed."""
    values = {
        "replay_id": "ab" * 32,
        "file_stem": "cd" * 32,
        "source": "x/y.SC2Replay",
        "size_bytes": 1000,
        "engine": "sc2",
        "game_version": "4.9.2.74741",
        "base_build": 74741,
        "map_name": "Acropolis LE",
        "map_title": "Akropolis LE",
        "duration_loops": 9000,
        "ladder": True,
        "amm": True,
        "competitive": True,
        "human_players": 2,
        "ai_players": 0,
        "players_listed": 2,
        "game_events": 500,
    }
    other = {"player_id": 2, "race": "Zerg", "result": "Loss", **(second or {})}
    sides = (player(**(first or {})), player(**other))
    return ReplayRow(**{**values, **changes}, players=sides)


RULES = selection.Selection(
    name="all rules",
    engine="sc2",
    min_version="4.8.2",
    max_version="4.9.2",
    ladder=True,
    two_humans=True,
    min_mmr=3500,
    mmr_scope="both",
    maps=("Acropolis", "Year Zero LE"),
    races=("terran", "zerg"),
    outcomes=("Win", "Loss"),
    min_loops=100,
    exclude=frozenset({"ef" * 32}),
)


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        (None, row()),
        (None, row(game_version="4.8.2.71663")),
        (None, row(map_name="Acropolis")),
        ("excluded", row(replay_id="ef" * 32)),
        ("excluded", row(file_stem="ef" * 32)),
        ("engine", row(engine="skirmish")),
        ("engine", row(engine=None)),
        ("version", row(game_version="4.9.3.75025")),
        ("version", row(game_version="4.8.1.71523")),
        ("version", row(game_version="4.10.0.75689")),
        ("version", row(game_version="3.9.2.1")),
        ("version", row(game_version=None)),
        ("ladder", row(ladder=False)),
        ("ladder", row(ladder=None)),
        ("players", row(human_players=1, ai_players=1)),
        ("players", row(human_players=4)),  # Archon mode lists two
        ("players", row(players_listed=0)),
        ("players", row(human_players=None)),
        ("mmr_unknown", row({"mmr": None, "mmr_source": MmrSource.UNRATED})),
        ("mmr_unknown", row(None, {"mmr": None, "mmr_source": MmrSource.INVALID})),
        ("mmr", row({"mmr": 3500})),  # above, not at
        ("mmr", row(None, {"mmr": 3500})),
        (None, row({"mmr": 3501}, {"mmr": 3501})),
        ("map", row(map_name="Blueshift LE")),
        ("map", row(map_name=None)),
        ("race", row({"race": "Prot"}, {"race": "Prot"})),
        (None, row({"race": "Prot"})),  # the other side is kept
        ("outcome", row({"result": "Tie"}, {"result": "Tie"})),
        ("outcome", row({"result": "Undecided"}, {"result": "Undecided"})),
        ("outcome", row({"result": "Win"}, {"result": "Win"})),
        ("outcome", row({"result": None})),
        ("length", row(duration_loops=99)),
        ("length", row(duration_loops=None)),
        # What is wrong with a file: before the rules, but for what rules can do without.
        ("truncated", row(status="truncated", game_version=None)),
        ("no_metadata", row(status="no_metadata", game_version="1.0.0.1")),
        ("no_protocol", row(status="no_protocol")),
        ("version", row(status="no_protocol", game_version="4.10.4.76811")),
        ("bad_init_data", row(status="bad_init_data", ladder=None)),
        ("bad_events", row(status="bad_events")),
        ("no_events", row(status="no_events")),
        ("events_too_large", row(status="events_too_large")),
        ("length", row(status="bad_events", duration_loops=1)),
    ],
)
def test_first_failing_rule(reason: str | None, changed: ReplayRow) -> None:
    assert selection.reject_reason(changed, RULES) == reason


def test_no_rules_keep_everything_readable() -> None:
    assert selection.reject_reason(row(), selection.Selection()) is None
    bare = ReplayRow(replay_id="a", file_stem="b", source="c", size_bytes=0)
    assert selection.reject_reason(bare, selection.Selection()) is None


def test_own_and_both() -> None:
    mixed = row({"mmr": 5000}, {"mmr": 3000})
    own = UNPLUGGED
    both = dataclasses.replace(UNPLUGGED, mmr_scope="both")
    assert selection.reject_reason(mixed, own) is None
    assert selection.episode_reject_reason(mixed, 1, own) is None
    assert selection.episode_reject_reason(mixed, 2, own) == "mmr"
    assert selection.reject_reason(mixed, both) == "mmr"
    assert selection.episode_reject_reason(mixed, 1, both) == "mmr"


def test_the_side_that_came_further_gives_the_reason() -> None:
    rules = dataclasses.replace(UNPLUGGED, outcomes=("Win",))
    odd = row({"mmr": 3000, "result": "Win"}, {"mmr": 5000, "result": "Loss"})
    assert selection.reject_reason(odd, rules) == "outcome"
    broken = dataclasses.replace(row({"mmr": 3000}), status="bad_events")
    assert selection.reject_reason(broken, UNPLUGGED) == "bad_events"


def test_ratings_of_init_data_can_be_left_out() -> None:
    replay = row({"mmr_source": MmrSource.INIT_DATA})
    both = dataclasses.replace(UNPLUGGED, mmr_scope="both")
    assert selection.reject_reason(replay, both) is None
    strict = dataclasses.replace(both, mmr_source="metadata")
    assert selection.reject_reason(replay, strict) == "mmr_unknown"


def test_presets_are_the_papers() -> None:
    assert UNPLUGGED.min_mmr == 3500
    assert (UNPLUGGED.min_version, UNPLUGGED.max_version) == ("4.8.2", "4.9.2")
    tie = row({"result": "Tie"}, {"result": "Tie"})
    assert selection.reject_reason(tie, UNPLUGGED) is None
    finetune = selection.PRESETS["unplugged-finetune"]
    strong = row({"mmr": 6201}, {"mmr": 6900})
    assert selection.episode_reject_reason(strong, 1, finetune) is None
    assert selection.episode_reject_reason(strong, 2, finetune) == "outcome"
    assert selection.episode_reject_reason(row({"mmr": 6200}), 1, finetune) == "mmr"
    for name, preset in selection.PRESETS.items():
        assert preset.name == name


def test_splits_are_these_forever() -> None:
    ids = [f"{n:064x}" for n in range(10_000)]
    splits = [selection.split_of(replay_id) for replay_id in ids]
    assert [n for n, s in enumerate(splits) if s == "test"][:4] == [45, 112, 166, 209]
    assert [n for n, s in enumerate(splits) if s == "valid"][:4] == [4, 42, 91, 114]
    assert 150 < splits.count("test") < 250
    assert 150 < splits.count("valid") < 250


def test_lists_give_membership_and_split() -> None:
    rules = dataclasses.replace(
        UNPLUGGED,
        splits={"train": frozenset({"11" * 32}), "test": frozenset({"cd" * 32})},
    )
    assert selection.reject_reason(row(), rules) is None  # by its file's name
    assert selection.split_in(row(), rules) == "test"
    assert selection.reject_reason(row(file_stem="99" * 32), rules) == "not_listed"
    by_id = row(replay_id="11" * 32, file_stem="z")
    assert selection.split_in(by_id, rules) == "train"
    assert selection.split_in(row(), UNPLUGGED) == selection.split_of("ab" * 32)
    only = dataclasses.replace(UNPLUGGED, include=frozenset({"x"}))
    assert selection.reject_reason(row(), only) == "not_listed"
    assert selection.reject_reason(row(file_stem="x"), only) is None


def test_lists_are_read_as_published() -> None:
    text = "4.8.2,aa11\n4.9.2,bb22.SC2Replay\n\n"
    assert selection.listed_names(text) == {"aa11", "bb22"}
    assert selection.listed_names("replay\naa11\nbb22\n") == {"aa11", "bb22"}
    assert selection.listed_names("version,hash\n4.8.2, aa11 \n") == {"aa11"}


def test_json_files(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("4.8.2,aa\n4.8.2,bb\n")
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps(
            {
                "preset": "unplugged",
                "name": "mine",
                "min_mmr": 5000,
                "maps": ["Acropolis"],
                "splits": {"train": "train.csv", "test": ["cc.SC2Replay"]},
                "exclude": ["dd"],
            }
        )
    )
    mine = selection.load(str(path))
    assert mine == dataclasses.replace(
        UNPLUGGED,
        name="mine",
        min_mmr=5000,
        maps=("Acropolis",),
        splits={"train": frozenset({"aa", "bb"}), "test": frozenset({"cc"})},
        exclude=frozenset({"dd"}),
    )
    summary = mine.to_json()
    assert summary["splits"]["train"]["count"] == 2
    assert json.loads(json.dumps(summary)) == summary
    assert selection.load("unplugged") is UNPLUGGED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"min_mr": 1}', "min_mr"),
        ('{"preset": "nope"}', "preset"),
        ('{"min_mmr": "3500"}', "min_mmr"),
        ('{"ladder": 1}', "ladder"),
        ('{"maps": "Acropolis"}', "maps"),
        ('{"maps": [1]}', "maps"),
        ('{"name": null}', "name"),
        ('{"include": 5}', "include"),
        ('{"include": "missing.csv"}', "include"),
        ('{"splits": {"dev": []}}', "splits"),
        ('{"splits": {"train": ["a"], "test": ["a"]}}', "more than one split"),
        ('{"engine": "broodwar"}', "engine"),
        ('{"mmr_scope": "mine"}', "mmr_scope"),
        ('{"mmr_source": "guess"}', "mmr_source"),
        ('{"races": ["orc"]}', "races"),
        ('{"outcomes": ["Undecided"]}', "outcomes"),
        ('{"min_version": "four"}', "min_version"),
        ('{"min_loops": -1}', "min_loops"),
    ],
)
def test_json_that_makes_no_sense(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(errors.ConfigError, match=words):
        selection.load(str(path))


def test_an_unknown_selection_names_the_presets() -> None:
    with pytest.raises(errors.ConfigError, match="unplugged-finetune"):
        selection.load("unpluged")


def test_rows_come_back_from_columns() -> None:
    for example in (
        row(),
        row({"mmr": None, "mmr_source": None}, status="no_metadata", detail="gone"),
        ReplayRow(replay_id="a", file_stem="b", source="c", size_bytes=0),
    ):
        values = columns_from_row(example)
        assert list(values) == list(COLUMNS)
        assert row_from_columns(values) == example


def test_columns_of_the_contract_are_there() -> None:
    contract = (
        "replay_id file_stem source size_bytes status detail game_version base_build "
        "data_version map_name map_title duration_loops ladder human_players engine "
        "p1_player_id p1_race p1_race_selected p1_mmr p1_apm p1_result "
        "p2_player_id p2_race p2_race_selected p2_mmr p2_apm p2_result"
    )
    assert set(contract.split()) <= set(COLUMNS)


def test_names_that_are_not_unicode_can_be_stored() -> None:
    table = replay_index.table_from_rows([row(source="x/\udcff.SC2Replay")])
    assert table["source"].to_pylist() == ["x/?.SC2Replay"]


def test_an_index_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match="no such index"):
        list(replay_index.read_rows(str(tmp_path / "none.parquet")))
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(errors.FormatError, match="Parquet"):
        list(replay_index.read_rows(str(tmp_path / "text.parquet")))


def batches(rows: list[ReplayRow]) -> list[Any]:
    return replay_index.table_from_rows(rows).to_batches()


def test_census_counts_everything_once() -> None:
    rows = [
        row(),
        row({"mmr": 3000}, {"mmr": 3600}, replay_id="01" * 32),
        row(game_version="4.10.0.1", map_name="Triton LE"),
        row(status="truncated", game_version=None, map_name=None),
    ]
    counts = census.take(batches(rows), UNPLUGGED).to_json()
    assert counts["replays"] == 4
    assert counts["kept_replays"] == 2
    assert counts["kept_episodes"] == 3
    assert counts["reasons"] == {"truncated": 1, "version": 1}
    assert counts["kept_replays"] + sum(counts["reasons"].values()) == 4
    assert list(counts["versions"]) == ["4.9.2", "4.10.0", "unknown"]
    assert counts["versions"]["4.9.2"] == {"replays": 2, "kept": 2}
    assert counts["maps"]["Acropolis LE"] == {"replays": 2, "kept": 2}
    assert counts["races"] == {"terran": 1, "zerg": 2}
    assert counts["outcomes"] == {"Loss": 2, "Win": 1}
    assert counts["mmr"] == [
        {"from": 3500, "below": 3750, "episodes": 1},
        {"from": 3750, "below": 4000, "episodes": 0},
        {"from": 4000, "below": 4250, "episodes": 2},
    ]
    assert sum(counts["splits"].values()) == 2
    assert json.loads(json.dumps(counts)) == counts


def test_census_as_text() -> None:
    text = census.text(census.take(batches([row(), row(ladder=False)]), UNPLUGGED))
    assert "1 of 2 replays kept, 2 episodes" in text
    assert "ladder" in text
    assert "4000-4249  2  " + "#" * 40 in text
    nothing = census.text(census.take([], UNPLUGGED))
    assert "0 of 0 replays kept" in nothing


def test_an_index_without_the_new_columns_opens(tmp_path: Path) -> None:
    rows = [row(member_offset=7, member_bytes=9)]
    content = replay_index.table_from_rows(rows)
    url = str(tmp_path / "index.parquet")
    pq.write_table(content, url)
    assert list(replay_index.read_rows(url)) == rows
    pq.write_table(content.drop_columns(["member_offset", "member_bytes"]), url)
    assert list(replay_index.read_rows(url)) == [row()]
