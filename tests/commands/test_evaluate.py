"""`starmill evaluate` on the embedded game, from the command line to the reports."""

import json
import shutil

import pytest

from starmill import cli
from starmill.benchmark import evaluation
from starmill.benchmark.ratings import results
from starmill.benchmark.tournaments import referee
from starmill.engines.skirmish import install, versions

QUICK = [
    *("--agent", "random", "--agent", "rush", "--opponents", "very_easy,random"),
    *("--games", "2", "--seed", "5", "--max-minutes", "0.4"),
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("game")
    install.install(folder, [versions.LATEST])
    return folder


def evaluate(out, *options, sc2="skirmish"):
    return cli.main(
        ["evaluate", *QUICK, "--out", str(out), "--sc2", str(sc2), *options]
    )


def rows(out):
    result = results.read_results(out / "results.csv")
    return sorted(result, key=lambda row: row.game)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    out = tmp_path_factory.mktemp("played") / "out"
    assert evaluate(out) == 0
    return out


def test_games_rows_replays_and_reports_are_there(played):
    result = rows(played)
    # random-very_easy, rush-very_easy, rush-random; nobody plays himself.
    assert len(result) == 3 * 2
    assert {row.ending for row in result} == {"limit"}
    assert {row.outcome for row in result} == {0}
    assert {row.engine for row in result} == {"skirmish 4.9.2.74741"}
    for row in result:
        assert (played / row.replay).read_bytes()[:3] == b"MPQ"
    for name in ("report.md", "report.html", "report.json", "evaluation.json"):
        assert (played / name).stat().st_size > 500
    data = json.loads((played / "report.json").read_text())
    assert set(data["order"]) == {"random", "rush", "very_easy"}


def test_every_game_has_statistics_and_the_reports_show_them(played):
    for row in rows(played):
        assert (played / "statistics" / f"{row.game}.json").is_file()
    data = json.loads((played / "report.json").read_text())["play"]
    # The game's own AI has no record: nobody sees its commands.
    assert set(data["agents"]) == {"random", "rush"}
    assert data["agents"]["random"]["games"] == 4
    assert data["agents"]["random"]["refused_share"] > 0.5
    assert data["agents"]["rush"]["limit_games"] == 4
    assert data["agents"]["rush"]["enemy_structures"] >= 1
    assert len(data["adjudicated"]) == 3
    assert all(pair["strict"] == [0, 2, 0] for pair in data["adjudicated"])
    assert all(pair["scored"] == 2 for pair in data["adjudicated"])
    adjudicated = results.read_results(played / "adjudicated.csv")
    assert {row.ending for row in adjudicated} == {"adjudicated"}
    for name in ("report.md", "report.html"):
        text = (played / name).read_text()
        assert "How they play" in text
        assert "adjudicated" in text


def test_results_of_earlier_versions_have_no_statistics_and_still_open(
    played, tmp_path, capsys
):
    out = tmp_path / "out"
    shutil.copytree(played, out)
    shutil.rmtree(out / "statistics")
    (out / "adjudicated.csv").unlink()
    assert evaluate(out) == 0
    assert rows(out) == rows(played)
    data = json.loads((out / "report.json").read_text())
    assert data["play"]["agents"] == {}
    assert data["play"]["games_without_statistics"] == 6
    assert not (out / "adjudicated.csv").exists()
    assert "How they play" not in (out / "report.md").read_text()
    assert "Refused" not in capsys.readouterr().out


def test_the_same_seed_gives_the_same_games_with_two_workers(played, tmp_path):
    assert evaluate(tmp_path / "out", "--parallel", "2") == 0
    assert rows(tmp_path / "out") == rows(played)
    for row in rows(played):
        ours, theirs = tmp_path / "out" / row.replay, played / row.replay
        assert ours.read_bytes() == theirs.read_bytes()
    for name in ("report.md", "report.json"):
        assert (tmp_path / "out" / name).read_text() == (played / name).read_text()


def test_an_engine_that_crashes_on_order_costs_an_attempt_and_no_game(
    played, installed, tmp_path
):
    # The paths of an installation take part in nothing that is compared.
    faults = installed / "faults.json"
    faults.write_text(json.dumps({"rules": [{"kind": "crash", "loop": 200}]}))
    config = evaluation.Config(
        agents=("random", "rush"),
        opponents=("very_easy", "random"),
        games=2,
        seed=5,
        max_minutes=0.4,
        root=str(installed),
    )
    plan = evaluation.plan(config, referee.available_maps(str(installed)))
    crashes_seen = []

    def progress(done, total, crashes):
        crashes_seen.append(crashes)
        if crashes == 2:
            faults.unlink(missing_ok=True)

    assert evaluation.run(plan, tmp_path / "out", progress=progress) == []
    assert max(crashes_seen) == 2
    for mine, theirs in zip(rows(tmp_path / "out"), rows(played), strict=True):
        assert (mine.game, mine.outcome, mine.game_loops, mine.seed) == (
            theirs.game,
            theirs.outcome,
            theirs.game_loops,
            theirs.seed,
        )
        replays = [tmp_path / "out" / mine.replay, played / theirs.replay]
        assert replays[0].read_bytes() == replays[1].read_bytes()
    assert sum(row.attempts - 1 for row in rows(tmp_path / "out")) == 2


def test_games_that_always_crash_are_listed_and_exit_1(installed, tmp_path, capsys):
    faults = installed / "faults.json"
    faults.write_text(json.dumps({"rules": [{"kind": "crash", "loop": 10}]}))
    try:
        one_game = ["--agent", "random", "--opponents", "very_easy", "--games", "1"]
        where = ["--out", str(tmp_path / "out"), "--sc2", str(installed)]
        assert cli.main(["evaluate", *one_game, *where]) == 1
    finally:
        faults.unlink()
    err = capsys.readouterr().err
    assert "not played: random-vs-very_easy-0000: EngineCrashed" in err
    assert "nothing to rate" in err


def test_another_rule_in_the_same_folder_is_refused(played, capsys):
    assert evaluate(played, "--actions", "5") == 2
    assert "not comparable" in capsys.readouterr().err
    assert evaluate(played, "--seed", "6") == 2


def test_a_pair_named_the_other_way_round_is_refused(played, capsys):
    command = [
        "evaluate", "--agent", "random", "--opponents", "rush", "--games", "2",
        "--seed", "5", "--max-minutes", "0.4", "--sc2", "skirmish", "--out", str(played),
    ]  # fmt: skip
    before = rows(played)
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "rush was at home against random: name rush first" in said
    assert rows(played) == before


def test_an_anchor_that_takes_no_part_is_refused_before_playing(tmp_path, capsys):
    assert evaluate(tmp_path / "none", "--anchor", "very_hard") == 2
    assert "does not take part" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_nothing_to_resume_is_refused(tmp_path, capsys):
    assert evaluate(tmp_path / "none", "--resume") == 2
    assert "no results" in capsys.readouterr().err


def test_dry_run_prints_the_games(capsys, tmp_path):
    assert evaluate(tmp_path / "none", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("random-vs-very_easy-0000")
    assert not (tmp_path / "none").exists()
