import subprocess
import sys

import pytest

from starmill.benchmark.ratings import results
from starmill.benchmark.tournaments import schedule, tournament
from starmill.schema import errors
from tests.conftest import ROOT
from tests.engines.test_lifeline import wait_for_end
from tests.factories.referees import Scripted

PAIRS = (("bc", "very_hard"), ("bc", "random"))
DIGESTS = {"bc": "sha256:1", "very_hard": "built-in", "random": "random"}
FIXTURES = schedule.fixtures(PAIRS, games=9, maps=("x/Some.SC2Map",), seed=3)


def run(folder, *, parallel=1, fixtures=FIXTURES, **orders):
    folder.mkdir(exist_ok=True)
    with results.Store(folder / "results.csv") as store:
        return tournament.run(
            fixtures,
            store,
            folder,
            digests=DIGESTS,
            make_referee=Scripted(str(folder), **orders),
            parallel=parallel,
        )


def rows(folder):
    result = results.read_results(folder / "results.csv")
    return sorted(result, key=lambda row: row.game)


def test_every_game_is_played_once_with_its_replay(tmp_path):
    assert run(tmp_path / "one") == []
    played = rows(tmp_path / "one")
    assert [row.game for row in played] == sorted(f.game for f in FIXTURES)
    for row in played:
        assert (tmp_path / "one" / row.replay).read_bytes() == row.game.encode()
        assert row.map_name == "Some"
        assert row.home_digest == "sha256:1"


def test_two_workers_give_the_same_rows_as_one(tmp_path):
    run(tmp_path / "one")
    run(tmp_path / "two", parallel=2)
    assert rows(tmp_path / "one") == rows(tmp_path / "two")


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_crash_is_played_again_and_not_counted(tmp_path, parallel):
    crashed = FIXTURES[4].game
    assert run(tmp_path / "out", parallel=parallel, crash_once=(crashed,)) == []
    played = {row.game: row.attempts for row in rows(tmp_path / "out")}
    assert len(played) == len(FIXTURES)
    assert played.pop(crashed) == 2
    assert set(played.values()) == {1}


def test_a_game_that_sends_garbage_is_played_again(tmp_path):
    assert run(tmp_path / "out", garbled_once=(FIXTURES[4].game,)) == []
    attempts = {row.game: row.attempts for row in rows(tmp_path / "out")}
    assert attempts[FIXTURES[4].game] == 2


def test_a_worker_that_dies_is_replaced_and_its_game_played_again(tmp_path):
    died = (FIXTURES[0].game, FIXTURES[1].game, FIXTURES[7].game)
    assert run(tmp_path / "out", parallel=2, die_once=died) == []
    attempts = {row.game: row.attempts for row in rows(tmp_path / "out")}
    assert [attempts[game] for game in died] == [2, 2, 2]
    assert len(attempts) == len(FIXTURES)


def test_what_never_works_is_listed_and_left_out(tmp_path):
    hopeless, odd = FIXTURES[2].game, FIXTURES[5].game
    failures = run(tmp_path / "out", hopeless=(hopeless,), unconvertible=(odd,))
    assert {f.fixture.game for f in failures} == {hopeless, odd}
    assert any("boom, as always" in f.reason for f in failures)
    assert len(rows(tmp_path / "out")) == len(FIXTURES) - 2


@pytest.mark.parametrize("parallel", [1, 2])
def test_an_agent_that_fails_is_tried_once_and_named(tmp_path, parallel):
    bad = FIXTURES[3].game
    (failure,) = run(tmp_path / "out", parallel=parallel, mistaken=(bad,))
    assert failure.fixture.game == bad
    assert failure.reason == (
        "an agent failed: IndexError: an agent looked at a unit that is not there"
    )
    assert len(rows(tmp_path / "out")) == len(FIXTURES) - 1


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_missing_engine_stops_the_run(tmp_path, parallel):
    with pytest.raises(errors.EngineMissing, match="no game here"):
        run(tmp_path / "out", parallel=parallel, missing=True)


def test_running_again_plays_only_what_is_left(tmp_path):
    run(tmp_path / "out", fixtures=FIXTURES[:7])
    before = rows(tmp_path / "out")
    run(tmp_path / "out")
    after = rows(tmp_path / "out")
    assert [row for row in after if row in before] == before
    assert len(after) == len(FIXTURES)


def test_a_run_killed_midway_carries_on_to_the_same_table(tmp_path):
    run(tmp_path / "whole")
    folder = tmp_path / "killed"
    folder.mkdir()
    code = (
        "import pathlib, sys; from tests.benchmark.tournaments import test_tournament as t\n"
        "if __name__ == '__main__':\n"
        "    t.run(pathlib.Path(sys.argv[1]), parallel=2, "
        "kill_parent=(t.FIXTURES[9].game,))\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    killed = subprocess.run(
        [sys.executable, script, folder],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        timeout=120,
        check=False,
    )
    assert killed.returncode == -9
    # The worker was in the middle of a game, which nobody waits for any more.
    wait_for_end(int((folder / "worker").read_text()))
    assert 0 < len(rows(folder)) < len(FIXTURES)
    assert run(folder) == []
    assert rows(folder) == rows(tmp_path / "whole")
