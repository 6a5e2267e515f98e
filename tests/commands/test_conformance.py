"""`starmill conformance` on the command line; the run itself is replaced."""

import json

import pytest

from starmill import cli
from starmill.engines.conformance import assumptions, ledger, records, trial

RUNS = []


@pytest.fixture
def replays(tmp_path):
    folder = tmp_path / "replays"
    folder.mkdir()
    for name in ("b.SC2Replay", "a.SC2Replay", "note.txt"):
        (folder / name).write_bytes(b"")
    return folder


@pytest.fixture
def outcome(monkeypatch):
    """Makes a run end as the test says: assumptions that are broken, by id."""
    broken = []

    def run(options, on_stage):
        RUNS.append(options)
        on_stage("requests")
        book = ledger.Ledger()
        for name in assumptions.assumptions():
            book.expect(name, name not in broken, "expected one thing, found another")
        return records.Report(
            engine="skirmish 4.9.2.74741",
            versions="4.9.2 (build 74741)",
            entries=tuple(book.entries()),
            measured={"loops_per_second": 512.0},
            playbacks=(),
            secrets=(),
        )

    monkeypatch.setattr(trial, "run", run)
    return broken


def _main(replays, tmp_path, *more):
    words = ["conformance", "--sc2", "skirmish", "--replays", str(replays)]
    return cli.main([*words, "--out", str(tmp_path / "out"), *more])


def test_two_files_are_written_and_the_verdict_is_printed(
    replays, tmp_path, outcome, capsys
):
    assert _main(replays, tmp_path, "--most", "1") == 0
    options = RUNS[-1]
    assert [path.name for path in options.files] == ["a.SC2Replay", "b.SC2Replay"]
    assert options.most_replays == 1
    shown = capsys.readouterr().out
    assert (
        f"holds  skirmish 4.9.2.74741: {len(assumptions.assumptions())} held" in shown
    )
    assert (
        "game loops stepped in a second: 512 loops/s (assumed 1,000 loops/s)" in shown
    )
    content = json.loads((tmp_path / "out/conformance.json").read_text())
    assert content["conformant"] is True
    assert "<h1>Conformance</h1>" in (tmp_path / "out/conformance.html").read_text()


def test_what_does_not_hold_is_listed_and_exits_with_one(
    replays, tmp_path, outcome, capsys
):
    outcome.append("step.exact")
    assert _main(replays, tmp_path) == 1
    shown = capsys.readouterr().out
    assert "BROKEN       step.exact  expected one thing, found another" in shown
    assert "DOES NOT HOLD" in shown


def test_json_is_the_file(replays, tmp_path, outcome, capsys):
    assert _main(replays, tmp_path, "--json") == 0
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out/conformance.json").read_text()


def test_another_runs_files_are_kept(replays, tmp_path, outcome, capsys):
    assert _main(replays, tmp_path) == 0
    assert _main(replays, tmp_path) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert _main(replays, tmp_path, "--overwrite") == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--most", "0"], "at least 1"), (["--play-deadline", "0"], "seconds above 0")],
)
def test_options_that_make_no_sense_are_refused(
    replays, tmp_path, more, message, capsys
):
    assert _main(replays, tmp_path, *more) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_replays_is_refused(tmp_path, capsys):
    assert _main(tmp_path, tmp_path) == 2
    assert "expected .SC2Replay files, found none" in capsys.readouterr().err
    assert _main(tmp_path / "none", tmp_path) == 2
    assert "expected a folder" in capsys.readouterr().err


def test_without_a_game_it_says_what_to_pass(replays, capsys, monkeypatch):
    monkeypatch.delenv("SC2PATH", raising=False)
    assert cli.main(["conformance", "--replays", str(replays)]) == 2
    assert "--sc2 skirmish" in capsys.readouterr().err
