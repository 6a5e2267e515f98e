"""A whole run on the embedded game: everything holds; with a fault, the run names what broke.

Each assumption has a fault that breaks it. The table says which other assumptions the same fault
must break too: a game that cannot be played further, or one wrong answer that means two things.
"""

import json
import os
from pathlib import Path

import pytest

from starmill.engines.client import Deadlines
from starmill.engines.conformance import assumptions, ledger, records, trial
from starmill.engines.skirmish import install, versions
from starmill.engines.skirmish.server import alterations, faults
from starmill.schema import errors
from tests.conftest import ROOT
from tests.factories import short_games

VERSION = "4.9.2"
# In this game the players meet.
MEETING = {"loops": 700, "busy": 0.15}
NEEDS_REFERENCE = "arrays.reference"
START = {"from_start": True}
# (rule, assumptions that it breaks)
CASES = [
    ({"kind": "no_start"}, ["process.starts"]),
    ({"kind": "other_version", **START}, ["process.version"]),
    ({"kind": "no_start", "attempts": [2]}, ["process.two"]),
    ({"kind": "no_quit"}, ["process.quits"]),
    ({"kind": "orphan"}, ["process.group"]),
    ({"kind": "garbage", "loop": 50}, ["answer.parses"]),
    ({"kind": "wrong_id", "loop": 50}, ["answer.id"]),
    ({"kind": "no_status", "loop": 50}, ["answer.status"]),
    ({"kind": "wrong_kind"}, ["answer.kind"]),
    ({"kind": "error"}, ["answer.no_error"]),
    ({"kind": "hang", "loop": 50}, ["answer.time"]),
    ({"kind": "crash", "loop": 50}, ["answer.connection"]),
    ({"kind": "close", "loop": 50}, ["answer.connection"]),
    (
        {"kind": "wrong_status", **START},
        ["status.launched", "status.in_replay", "live.status"],
    ),
    # The process plays the live game too, and still answers as it did in the replay.
    (
        {"kind": "wrong_status", "loop": 50},
        ["status.in_replay", "status.ended", "live.status"],
    ),
    ({"kind": "no_end"}, ["status.ended"]),
    (
        {"kind": "lenient", **START},
        ["refusal.damaged_info", "refusal.damaged_start", "refusal.wrong_state"],
    ),
    ({"kind": "no_mmr", **START}, ["info.players"]),
    ({"kind": "wrong_info", **START}, ["info.version"]),
    ({"kind": "lost_map", **START}, ["info.map"]),
    ({"kind": "refuses", **START}, ["start.accepts"]),
    ({"kind": "drift"}, ["start.loop_zero", "live.action_loop"]),
    ({"kind": "drift", "loop": 1}, ["step.exact", "live.action_loop"]),
    ({"kind": "other_player"}, ["start.player"]),
    ({"kind": "no_fog"}, ["start.fog"]),
    (
        {"kind": "restless"},
        ["step.observing", "order.reuse", "arrays.two_ways"],
    ),
    (
        {"kind": "late_actions"},
        ["actions.window", "geometry.camera_follows", "live.action_loop"],
    ),
    ({"kind": "repeated_actions"}, ["actions.once", "actions.window"]),
    ({"kind": "lost_actions"}, ["actions.reported", "live.action_loop"]),
    ({"kind": "no_result"}, ["end.result"]),
    ({"kind": "short", "loop": 60}, ["end.not_early"]),
    ({"kind": "stub"}, ["end.no_stub"]),
    (
        {"kind": "shuffled"},
        ["order.units", "order.same_bytes", "order.reuse", "arrays.two_ways"],
    ),
    ({"kind": "differing"}, ["order.same_bytes", "order.reuse", "arrays.two_ways"]),
    ({"kind": "stale"}, ["order.reuse", "arrays.two_ways"]),
    ({"kind": "no_map_size"}, ["geometry.map_size"]),
    ({"kind": "half_planes"}, ["geometry.planes", "arrays.convert"]),
    ({"kind": "mirrored"}, ["geometry.minimap"]),
    ({"kind": "lost_camera"}, ["geometry.camera", "geometry.camera_follows"]),
    ({"kind": "stuck_camera"}, ["geometry.camera_follows"]),
    ({"kind": "unknown_unit"}, ["ids.known", "arrays.convert"]),
    ({"kind": "no_abilities"}, ["ids.abilities"]),
    ({"kind": "reversed_queries"}, ["ids.queries"]),
    ({"kind": "leak", "megabytes": 4}, ["memory.growth"]),
    ({"kind": "no_maps", **START}, ["live.maps"]),
    ({"kind": "no_results"}, ["live.results"]),
    ({"kind": "shifted_actions"}, ["live.action_loop", "actions.window"]),
    ({"kind": "cut_replay"}, ["live.replay"]),
]
# One of each topic runs by default; all run with the slow tests.
ALWAYS = ("wrong_id", "no_mmr", "stale", "mirrored")


def _id(case) -> str:
    rule, _ = case
    extra = {key: value for key, value in rule.items() if key != "kind"}
    return rule["kind"] + "".join(f"-{key}{value}" for key, value in extra.items())


def _run(folder: Path, replays: Path, rule=None, **options) -> records.Report:
    install.install(folder, [versions.by_number(VERSION)])
    rules = [rule] if rule else []
    (folder / faults.FILE_NAME).write_text(json.dumps({"rules": rules}))
    return trial.run(
        records.Options(root=str(folder), files=sorted(replays.iterdir()), **options)
    )


def _broken(report: records.Report) -> dict[str, str]:
    return {
        entry.id: entry.detail
        for entry in report.entries
        if entry.state == ledger.BROKEN
    }


@pytest.fixture(scope="module")
def meeting(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("meeting")
    replay = short_games.short_game(0, version=VERSION, **MEETING)
    (folder / "a.SC2Replay").write_bytes(replay)
    (folder / "b.SC2Replay").write_bytes(b"not a replay")
    return folder


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    replay = short_games.short_game(0, loops=90, busy=0.2, version=VERSION)
    (folder / "a.SC2Replay").write_bytes(replay)
    return folder


def test_everything_holds_on_the_embedded_game(tmp_path, meeting):
    stages = []
    install.install(tmp_path, [versions.by_number(VERSION)])
    report = trial.run(
        records.Options(root=str(tmp_path), files=sorted(meeting.iterdir())),
        stages.append,
    )
    states = {entry.id: (entry.state, entry.detail) for entry in report.entries}
    assert states.pop(NEEDS_REFERENCE)[0] == ledger.UNCHECKED
    assert {
        name: state for name, state in states.items() if state[0] != ledger.HELD
    } == {}
    assert len(stages) == 1 + trial.OTHER_STAGES
    assert set(report.measured) == set(assumptions.measurements())
    assert all(value >= 0 for value in report.measured.values())
    assert report.engine == "skirmish 4.9.2.74741"
    damaged, played = report.playbacks
    assert "bad_archive" in damaged.note or damaged.note
    assert (played.note, played.loops) == ("", MEETING["loops"])
    assert played.steps > 50


def _check_case(tmp_path, short, rule, names):
    report = _run(
        tmp_path,
        short,
        rule,
        deadlines=Deadlines(play=60 if rule["kind"] != "hang" else 8),
        max_growth_bytes=64 << 20,
    )
    assert sorted(_broken(report)) == sorted(names), _broken(report)
    for entry in report.entries:
        if entry.id in names and entry.evidence is not None:
            assert entry.evidence.place
            assert entry.evidence.expected != entry.evidence.found
    if rule["kind"] == "stale":
        reuse = next(entry for entry in report.entries if entry.id == "order.reuse")
        assert reuse.evidence is not None
        assert reuse.evidence.place == "observation.raw_data.units[0].energy"


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[0]["kind"] in ALWAYS], ids=_id
)
def test_a_fault_of_each_topic_is_named(tmp_path, short, case):
    _check_case(tmp_path, short, *case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES if case[0]["kind"] not in ALWAYS], ids=_id
)
def test_every_fault_is_named(tmp_path, short, case):
    _check_case(tmp_path, short, *case)


def test_every_assumption_has_a_fault_that_breaks_it():
    broken = {name for _, names in CASES for name in names}
    assert broken | {NEEDS_REFERENCE} == set(assumptions.assumptions())


def test_every_alteration_breaks_an_assumption():
    kinds = {rule["kind"] for rule, _ in CASES}
    assert set(alterations.KINDS) | set(faults.PROCESS_KINDS) <= kinds


def test_without_a_replay_that_can_be_played_there_is_no_run(tmp_path):
    install.install(tmp_path / "game", [versions.by_number(VERSION)])
    older = tmp_path / "older.SC2Replay"
    older.write_bytes(short_games.short_game(2, loops=60, version="4.8.2"))
    with pytest.raises(errors.ConfigError, match=r"found none in 1 files.*4\.8\.2"):
        trial.run(records.Options(root=str(tmp_path / "game"), files=[older]))


@pytest.fixture(scope="module")
def reference_python() -> str:
    named = os.environ.get("STARMILL_REFERENCE_PYTHON")
    python = Path(named) if named else ROOT / ".venv-reference/bin/python"
    if not python.exists():
        pytest.skip("needs `make reference`, or STARMILL_REFERENCE_PYTHON")
    return str(python)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("rule", "state"), [(None, ledger.HELD), ({"kind": "differing"}, ledger.BROKEN)]
)
def test_arrays_are_compared_with_the_references(
    tmp_path, short, reference_python, rule, state
):
    report = _run(tmp_path, short, rule, reference_python=reference_python)
    entry = next(entry for entry in report.entries if entry.id == NEEDS_REFERENCE)
    assert (entry.state, bool(entry.confirmed)) == (state, True)
