"""Replay files: every row of the manifest, every reason, and what limits do."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest

from starmill.converters import timing
from starmill.engines.replays import replay_file
from starmill.schema import errors, selection, vocab
from starmill.schema.reasons import MmrSource, RejectReason
from starmill.schema.replay_row import ReplayRow
from tests import replay_factory as factory
from tests.conftest import ROOT

# The rule that the manifest's `verdict_3500` column was made with.
VERDICT_RULE = dataclasses.replace(
    selection.PRESETS["unplugged"],
    name="verdict_3500",
    mmr_scope="both",
    mmr_source="metadata",
    outcomes=("Win", "Loss"),
)
UNREADABLE = {
    "not_a_replay", "truncated", "corrupt", "too_large", "bad_header", "no_metadata",
    "bad_metadata",
}  # fmt: skip
VERDICTS = {
    "keep": {None},
    "reject:version": {"version"},
    "reject:not-ranked-ladder": {"ladder"},
    "reject:not-1v1-humans": {"players"},
    "reject:mmr-missing": {"mmr_unknown"},
    "reject:mmr-invalid": {"mmr_unknown"},
    "reject:mmr<=3500": {"mmr"},
    "reject:unreadable-or-no-metadata": UNREADABLE,
}
# Broken files by what was done to them -> the reason their row must have.
BROKEN = {
    "corrupt-found": {"not_a_replay"},
    "corrupt-empty": {"not_a_replay"},
    "corrupt-not-mpq": {"not_a_replay"},
    "corrupt-truncated": {"truncated"},
    "corrupt-flip-magic": {"not_a_replay"},
    "corrupt-flip-header": {"no_metadata"},
    "corrupt-huge-table": {"too_large"},
    "corrupt-flip-hashtable": {"no_events"},
    "corrupt-flip-metadata": {"bad_metadata"},
    "corrupt-flip-events": {"bad_events"},
    "corrupt-trailing": {"ok"},
    "corrupt-meta-json": {"bad_metadata"},
    "corrupt-meta-values": {"ok"},
    "no-metadata": {"no_metadata"},
}


@pytest.fixture(scope="module")
def manifest(shared: Path) -> list[tuple[dict, ReplayRow]]:
    with (shared / "replays/manifest.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 69
    return [
        (
            row,
            replay_file.replay_row(
                (shared / "replays" / row["file"]).read_bytes(), f"some/{row['file']}"
            ),
        )
        for row in rows
    ]


def _text(value: object) -> str:
    return "" if value is None else str(value)


def test_identity_version_map_and_length(manifest: list) -> None:
    for want, row in manifest:
        assert row.replay_id == want["sha256"]
        assert f"{row.file_stem}.SC2Replay" == want["file"]
        assert _text(row.size_bytes) == want["size"]
        assert _text(row.game_version) == want["game_version"], want["file"]
        assert _text(row.base_build) == want["base_build"]
        assert _text(row.data_version) == want["data_version"]
        assert _text(row.map_title) == want["map_title"]
        assert _text(row.duration_loops) == want["duration_loops"]
        assert want["layout"] in ("", row.layout)


def test_ladder_and_players(manifest: list) -> None:
    for want, row in manifest:
        for field in ("amm", "competitive", "cooperative"):
            assert _text(getattr(row, field)) == want[field], want["file"]
        if want["amm"] and want["competitive"]:
            assert row.ladder == (want["amm"] == want["competitive"] == "True")
        else:
            assert row.ladder is None
        assert _text(row.players_listed) == want["num_players_meta"]
        assert _text(row.observers) == want["num_observers"]
        if want[
            "num_human"
        ]:  # s2protocol needs a build's protocol for details; we do not
            assert _text(row.human_players) == want["num_human"]
            assert _text(row.ai_players) == want["num_ai"]


def test_races_results_and_ratings(manifest: list) -> None:
    sources = set()
    for want, row in manifest:
        for number, player in enumerate(row.players, 1):
            assert _text(player.race) == want[f"p{number}_race_assigned"]
            assert _text(player.race_selected) == want[f"p{number}_race_selected"]
            assert _text(player.apm) == want[f"p{number}_apm"]
            assert _text(player.result) == want[f"p{number}_result"]
            assert _text(player.scaled_rating) == want[f"p{number}_scaled_rating"]
            mmr, rating = want[f"p{number}_mmr"], want[f"p{number}_scaled_rating"]
            sources.add(player.mmr_source)
            if player.mmr_source == MmrSource.METADATA:
                assert _text(player.mmr) == mmr
            elif player.mmr_source == MmrSource.INIT_DATA:
                assert (mmr, want["category"]) != ("", "not-1v1")
                assert _text(player.mmr) == rating
            else:
                assert player.mmr is None
                assert mmr in ("", "-36400", "0", "'4000'"), want["file"]
    assert sources == {None, *MmrSource}


def test_random_players_have_the_rating_of_init_data(manifest: list) -> None:
    result = 0
    for want, row in manifest:
        for number, player in enumerate(row.players, 1):
            if player.race_selected == "Rand" and row.ladder and row.human_players == 2:
                assert player.mmr == int(want[f"p{number}_scaled_rating"])
                result += 1
    assert result >= 3


def test_verdicts(manifest: list) -> None:
    for want, row in manifest:
        reason = selection.reject_reason(row, VERDICT_RULE)
        if want["verdict_3500"] == "keep" and want["decode_game_events"] != "ok":
            assert reason in ("no_events", "bad_events"), want["file"]
        else:
            assert reason in VERDICTS[want["verdict_3500"]], want["file"]


def test_every_broken_file_has_its_reason(manifest: list) -> None:
    seen = set()
    for want, row in manifest:
        expected = BROKEN.get(want["category"])
        if expected is None:
            no_protocol = want["decode_game_events"] == "no-exact-protocol"
            expected = {"no_protocol"} if no_protocol else {"ok"}
        seen.add(want["category"])
        assert row.status in expected, (want["file"], row.detail)
        assert (row.detail is None) == (row.status == "ok")
    assert seen >= set(BROKEN)


def test_events_are_counted_and_a_selection_spares_the_rest(
    manifest: list, shared: Path
) -> None:
    kept = 0
    for want, row in manifest:
        if want["decode_game_events"] == "ok" and row.status == "ok":
            assert _text(row.game_events) == want["n_game_events"]
        data = (shared / "replays" / want["file"]).read_bytes()
        short = replay_file.replay_row(
            data, f"some/{want['file']}", selection=VERDICT_RULE
        )
        # What the selection says must not depend on how much was read.
        reason = selection.reject_reason(row, VERDICT_RULE)
        assert selection.reject_reason(short, VERDICT_RULE) == reason
        if short.complete:
            assert short == row
            kept += 1
        else:
            assert reason is not None
            assert short.game_events is None
    assert kept > 15


def test_action_frames_equal_the_reference(shared: Path) -> None:
    folder = shared / "golden/action_skips"
    golden = json.loads((folder / "all_players.json").read_text())
    assert len(golden) == 6
    for name, case in golden.items():
        replay = replay_file.open_replay((folder / f"{name}.SC2Replay").read_bytes())
        frames = timing.action_frames(replay.game_events())
        assert {str(p): loops for p, loops in frames.items()} == case["players"]
        text = (folder / f"{name}.skips.txt").read_text().strip()
        assert ",".join(map(str, frames[1])) == text


def test_maps_have_one_name_in_every_language(manifest: list) -> None:
    names = {row.map_title: row.map_name for _, row in manifest if row.map_handle}
    assert (
        names["사이버 포레스트 - 래더"] == names["Cyber Forest LE"] == "Cyber Forest LE"
    )
    assert names["Незваный гость РВ"] == "Interloper LE"
    assert names["宿怨战场 - 天梯版"] == "New Repugnancy LE"
    assert vocab.map_name("00", "Some Title") == "Some Title"
    assert vocab.map_name(None, None) is None


def test_a_made_replay_and_its_pack_layout() -> None:
    row = replay_file.replay_row(factory.replay(), "a/b.SC2Replay")
    assert (row.status, row.layout, row.game_events) == ("ok", "full", 8)
    assert (row.ladder, row.human_players, row.region) == (True, 2, "US")
    pack = replay_file.replay_row(factory.replay(pack=True), "a/b.SC2Replay")
    same = {"replay_id", "size_bytes", "layout"}
    assert pack.layout == "pack"
    for field in dataclasses.fields(ReplayRow):
        if field.name not in same:
            assert getattr(row, field.name) == getattr(pack, field.name)


def test_backups_are_preferred() -> None:
    data = factory.replay(
        **{
            "replay.details.backup": factory.details("Backup"),
            "replay.initData.backup": factory.init_data(competitive=False),
            "replay.gamemetadata.json": factory.metadata(Title=None),
        }
    )
    row = replay_file.replay_row(data)
    assert (row.map_title, row.ladder) == ("Backup", False)


def _changed_player(**changes: object) -> bytes:
    data = factory.metadata()
    data["Players"][0] |= changes
    for key in [key for key, value in changes.items() if value == "absent"]:
        del data["Players"][0][key]
    return factory.replay(**{"replay.gamemetadata.json": data})


@pytest.mark.parametrize(
    ("value", "mmr", "source"),
    [
        (5000, 5000, "metadata"),
        (5000.0, 5000, "metadata"),
        ("absent", 4000, "init_data"),
        (None, 4000, "init_data"),
        (-36400, None, "unrated"),
        (0, None, "invalid"),
        (-5, None, "invalid"),
        ("4000", None, "invalid"),
        (True, None, "invalid"),
        (4000.5, None, "invalid"),
        (10**30, None, "invalid"),
        ([4000], None, "invalid"),
    ],
)
def test_mmr(value: object, mmr: int | None, source: str) -> None:
    player = replay_file.replay_row(_changed_player(MMR=value)).players[0]
    assert (player.mmr, player.mmr_source) == (mmr, source)


@pytest.mark.parametrize(
    ("rating", "mmr", "source"),
    [(None, None, "missing"), (-36400, None, "unrated"), (0, None, "invalid")],
)
def test_mmr_of_init_data(rating: int | None, mmr: int | None, source: str) -> None:
    metadata = factory.metadata()
    del metadata["Players"][0]["MMR"]
    data = factory.replay(
        **{
            "replay.gamemetadata.json": metadata,
            "replay.initData": factory.init_data(ratings=(rating, 3900)),
        }
    )
    player = replay_file.replay_row(data).players[0]
    assert (player.mmr, player.mmr_source) == (mmr, source)


def test_a_teams_rating_is_nobodys() -> None:
    metadata = factory.metadata()
    metadata["Players"] = [{"PlayerID": i} for i in (1, 2, 5, 9)]
    data = factory.replay(
        **{
            "replay.gamemetadata.json": metadata,
            "replay.details": factory.details(controls=(2, 2, 2, 2)),
            "replay.initData": factory.init_data(ratings=(4000,) * 4),
        }
    )
    row = replay_file.replay_row(data)
    assert row.players_listed == row.human_players == 4
    assert [p.scaled_rating for p in row.players] == [4000, 4000]
    assert [p.mmr_source for p in row.players] == ["missing", "missing"]


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"Players": None},
        {"Players": [1, None, "x", []]},
        {
            "Players": [
                {"PlayerID": "1", "APM": "fast", "Result": 3, "AssignedRace": []}
            ]
        },
        {"Title": "\ud800", "DataVersion": 7, "Players": [{"APM": 10**400}]},
        {"Title": "x" * 100_000},
    ],
)
def test_metadata_of_the_wrong_types_gives_nulls(metadata: dict) -> None:
    row = replay_file.replay_row(
        factory.replay(**{"replay.gamemetadata.json": metadata})
    )
    assert row.status == "ok"
    assert len((row.map_title or "").encode()) <= 1024
    assert row.players[0].player_id is None


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("no_metadata", {"replay.gamemetadata.json": None}),
        ("bad_metadata", {"replay.gamemetadata.json": b"{"}),
        ("bad_metadata", {"replay.gamemetadata.json": b"[]"}),
        ("bad_metadata", {"replay.gamemetadata.json": b"[" * 100_000}),
        ("bad_metadata", {"replay.gamemetadata.json": b'{"a": "\xff"}'}),
        ("bad_metadata", {"replay.gamemetadata.json": b'{"a": ' + b"9" * 5000 + b"}"}),
        ("bad_details", {"replay.details": None}),
        ("bad_details", {"replay.details": b"\x09\x02"}),
        ("bad_details", {"replay.details": b"nonsense"}),
        ("bad_init_data", {"replay.initData": None}),
        ("bad_init_data", {"replay.initData": b"\xff" * 20}),
        ("no_events", {"replay.game.events": None}),
        ("bad_events", {"replay.game.events": b"\xff" * 50}),
        ("bad_header", {"user_data": b""}),
        ("bad_header", {"user_data": b"\x09\x02"}),
        ("bad_header", {"user_data": factory.tagged({1: {1: 4}, 3: 9})}),
        ("bad_header", {"user_data": factory.header(loops=-1)}),
        ("bad_header", {"user_data": factory.header(build=1 << 40)}),
        ("no_protocol", {"user_data": factory.header(build=76811)}),
    ],
)
def test_every_reason_of_a_file(reason: str, changes: dict) -> None:
    row = replay_file.replay_row(factory.replay(**changes))
    assert row.status == RejectReason(reason)
    assert row.detail


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"file_bytes": 100}, "too_large"),
        ({"table_entries": 4}, "too_large"),
        ({"metadata_bytes": 10}, "too_large"),
        ({"details_bytes": 10}, "too_large"),
        ({"init_data_bytes": 10}, "too_large"),
        ({"events_bytes": 10}, "events_too_large"),
        ({"values": 3}, "too_large"),
        ({"events": 7}, "events_too_large"),
    ],
)
def test_limits(limits: dict, reason: str) -> None:
    row = replay_file.replay_row(factory.replay(), limits=replay_file.Limits(**limits))
    assert row.status == reason


def test_limits_must_let_something_through() -> None:
    with pytest.raises(errors.ConfigError, match="seconds"):
        replay_file.Limits(seconds=0)


def test_skirmish_replays_are_marked() -> None:
    data = factory.replay(
        **{"replay.gamemetadata.json": factory.metadata(Engine="skirmish")}
    )
    row = replay_file.replay_row(data)
    assert row.engine == "skirmish"
    assert selection.reject_reason(row, selection.PRESETS["unplugged"]) == "engine"
    assert selection.reject_reason(row, selection.PRESETS["skirmish"]) is None
    other = replay_file.replay_row(factory.replay())
    assert selection.reject_reason(other, selection.PRESETS["skirmish"]) == "engine"
    assert selection.reject_reason(other, selection.PRESETS["unplugged"]) is None


def test_a_replay_that_skirmish_wrote() -> None:
    path = ROOT / "tests/golden/replays/skirmish.SC2Replay"
    row = replay_file.replay_row(path.read_bytes(), str(path))
    assert (row.status, row.engine, row.game_version) == (
        "ok",
        "skirmish",
        "4.9.1.74456",
    )
    assert (row.ladder, row.human_players, row.duration_loops) == (True, 2, 5870)
    assert [player.mmr for player in row.players] == [3570, 3472]
    frames = timing.action_frames(
        replay_file.open_replay(path.read_bytes()).game_events()
    )
    assert {p: (len(loops), loops[-1]) for p, loops in frames.items()} == {
        1: (129, 5870),
        2: (157, 5870),
    }
    assert list(frames) == [1, 2]


@pytest.mark.parametrize(
    ("source", "stem"),
    [
        ("a/b/c.SC2Replay", "c"),
        ("s3://x/y.SC2Replay", "y"),
        ("p.zip!f/ab12.SC2Replay", "ab12"),
        ("C:\\x\\y.SC2Replay", "y"),
        ("", ""),
        ("noext", "noext"),
    ],
)
def test_file_stem(source: str, stem: str) -> None:
    assert replay_file.file_stem(source) == stem
