"""The whole build, in this process, over short games of the embedded engine."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from starmill import cli
from starmill.engines.skirmish import install, versions
from starmill.engines.skirmish.server import faults
from starmill.pipelines import episode_maker, work_folder
from starmill.pipelines.generate import _index_options
from starmill.schema import codec, errors, manifest, shards, storage, table
from tests.factories import builds, records

pytestmark = [pytest.mark.usefixtures("quiet_beam"), pytest.mark.timeout(900)]


@pytest.fixture
def quiet_beam(monkeypatch):
    """Leaves the logging of the test process alone."""
    monkeypatch.setattr(cli, "_configure_logging", lambda: None)


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    return builds.make_ladder(tmp_path_factory.mktemp("ladder"), 5, loops=120)


def generate(ladder, output, *more) -> int:
    return cli.main(builds.command(ladder, output, "--workers", "1", *more)[3:])


@pytest.fixture(scope="module")
def built(ladder, tmp_path_factory):
    output = tmp_path_factory.mktemp("built") / "data"
    assert generate(ladder, output) == 0
    return output


def test_counts_add_up_and_the_last_line_is_the_reference(ladder, tmp_path, capsys):
    output = tmp_path / "data"
    assert generate(ladder, output, "--json") == 0
    lines = capsys.readouterr().out.splitlines()
    summary = json.loads(next(line for line in lines if line.startswith("{")))
    content = manifest.read(str(output))
    assert lines[-1] == content.reference() == summary["reference"]
    assert summary["read"] == len(ladder.files)
    assert summary["selected"] == ladder.games
    rejected = sum(summary["rejected"].values())
    assert rejected == ladder.broken + ladder.duplicates
    assert summary["read"] == summary["selected"] + rejected
    assert summary["rejected"]["duplicate"] == 1
    assert summary["selected"] * 2 == summary["episodes"] + summary["quarantined"]
    assert content.engine.startswith("skirmish")
    assert summary["counters"]["replays_played"] == ladder.games


def test_the_dataset_has_every_side_and_no_leftovers(built, ladder):
    rows = pq.read_table(built / table.EPISODES)
    assert rows.num_rows == 2 * ladder.games
    assert not (built / "_work").exists()
    assert cli.main(["verify", str(built)]) == 0


def test_the_order_of_the_replays_does_not_matter(ladder, built, tmp_path):
    copied = [str(path) for path in ladder.files[::-1]]
    assert generate(copied, tmp_path / "data") == 0
    assert builds.digest(tmp_path / "data") == builds.digest(built)


def test_where_the_replays_lie_does_not_matter(ladder, built, tmp_path):
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for path in ladder.folder.iterdir():
        (moved / path.name).write_bytes(path.read_bytes())
    assert generate([str(moved)], tmp_path / "data") == 0
    assert builds.digest(tmp_path / "data") == builds.digest(built)


def test_any_fsspec_address_is_a_destination(ladder, built):
    output = "memory://generate-test/data"
    assert generate(ladder, output) == 0
    assert builds.digest(output) == builds.digest(built)


def test_running_again_plays_nothing(ladder, built, capsys, monkeypatch):
    monkeypatch.setattr(work_folder, "write_result", None)
    assert generate(ladder, built) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == manifest.read(str(built)).reference()
    )


def test_what_is_finished_is_not_played_again(ladder, built, tmp_path, monkeypatch):
    output = tmp_path / "data"
    written = []
    real = work_folder.write_result

    def fails_at_the_third(work, replay_id, result):
        if len(written) == 3:
            raise errors.ConfigError("the disk is full")
        written.append(replay_id)
        real(work, replay_id, result)

    monkeypatch.setattr(work_folder, "write_result", fails_at_the_third)
    assert generate(ladder, output) == 2
    assert builds.parts(output) == 3
    assert not (output / manifest.NAME).exists()
    again = []
    monkeypatch.setattr(
        work_folder, "write_result", lambda *args: (again.append(args[1]), real(*args))
    )
    assert generate(ladder, output) == 0
    assert sorted(written + again) == sorted(set(written + again))
    assert builds.digest(output) == builds.digest(built)


def test_an_extended_dataset_is_the_one_built_from_nothing(
    ladder, tmp_path, monkeypatch
):
    first = [path for path in ladder.files if "game000" in path][:3]
    assert generate(first, tmp_path / "old") == 0
    played = []
    real = work_folder.write_result
    monkeypatch.setattr(
        work_folder, "write_result", lambda *args: (played.append(args[1]), real(*args))
    )
    more = ("--version", "1.1.0", "--extend", str(tmp_path / "old"))
    assert generate(ladder, tmp_path / "new", *more) == 0
    assert len(played) == ladder.games - 3
    monkeypatch.setattr(work_folder, "write_result", real)
    assert generate(ladder, tmp_path / "fresh", "--version", "1.1.0") == 0
    assert builds.digest(tmp_path / "new") == builds.digest(tmp_path / "fresh")


def test_a_dataset_of_other_settings_cannot_be_extended(
    ladder, built, tmp_path, capsys
):
    settings = tmp_path / "settings.json"
    content = manifest.read(str(built)).settings.to_json()
    settings.write_text(json.dumps({**content, "mmr": 1234}))
    more = ("--settings", str(settings), "--extend", str(built))
    assert generate(ladder, tmp_path / "new", *more) == 2
    assert "other settings" in capsys.readouterr().err


def test_failures_are_listed_and_quarantined(ladder, built, tmp_path, capsys):
    victim = pq.read_table(built / table.EPISODES).column("replay_id")[0].as_py()
    game = tmp_path / "game"
    install.install(game, versions.VERSIONS)
    rules = [{"kind": "crash", "loop": 20, "replay": victim[:12], "player": 2}]
    (game / faults.FILE_NAME).write_text(json.dumps({"rules": rules}))
    output = tmp_path / "data"
    assert generate(ladder, output, "--sc2", str(game), "--attempts", "2") == 1
    printed = capsys.readouterr().out
    assert f"{victim}-2: engine_crashed" in printed
    (row,) = pq.read_table(output / table.QUARANTINE).to_pylist()
    assert (row["replay_id"], row["player_id"]) == (victim, 2)
    assert manifest.read(str(output)).episodes == 2 * ladder.games - 1
    assert cli.main(["verify", str(output)]) == 0


def test_replays_of_versions_that_are_not_installed_are_quarantined(
    ladder, tmp_path, capsys
):
    install.install(tmp_path / "game", [versions.by_number("4.9.2")])
    output = tmp_path / "data"
    assert generate(ladder, output, "--sc2", str(tmp_path / "game")) == 1
    rows = pq.read_table(output / table.QUARANTINE).to_pylist()
    assert {row["reason"] for row in rows} == {"engine_missing"}
    assert all("found 4.9.2 (build 74741)" in row["detail"] for row in rows)
    assert len(rows) + manifest.read(str(output)).episodes == 2 * ladder.games


def test_a_side_that_the_selection_leaves_out_has_its_rule(ladder, tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"preset": "skirmish", "min_mmr": 4000}))
    line = builds.command(ladder, tmp_path / "data", "--workers", "1")[3:]
    line[line.index("skirmish")] = str(rules)
    assert cli.main(line) == 0
    content = manifest.read(str(tmp_path / "data"))
    rows = pq.read_table(tmp_path / "data" / table.UNSELECTED).to_pylist()
    assert {row["reason"] for row in rows} == {"mmr"}
    assert content.episodes == len(rows) == ladder.games
    assert content.quarantined == 0


def test_a_selected_side_that_fails_with_a_rules_reason_is_a_failure(
    ladder, tmp_path, capsys, monkeypatch
):
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"preset": "skirmish", "min_mmr": 4000}))
    line = builds.command(ladder, tmp_path / "data", "--workers", "1", "--json")[3:]
    line[line.index("skirmish")] = str(rules)
    outcomes = []

    def run(self, data, row, sides):
        """Fails every replay but the first, which becomes an episode of another game."""
        if outcomes:
            error = errors.ReplayError("mmr", "the rating vanished")
            rows = [episode_maker.quarantine_row(row, side, error) for side in sides]
            outcomes.append(episode_maker.Result(episodes=(), quarantine=tuple(rows)))
        else:
            episode = records.episode(1, replay_id=row.replay_id, player_id=sides[0])
            encoded = shards.EpisodeRecords(
                meta=episode.meta, records=codec.encode(episode.arrays, records.SMALL)
            )
            outcomes.append(episode_maker.Result(episodes=(encoded,), quarantine=()))
        return outcomes[-1]

    monkeypatch.setattr(episode_maker.EpisodeMaker, "run", run)
    for _ in range(2):  # a second run reads the tables of the finished dataset
        assert cli.main(line) == 1
        printed = capsys.readouterr().out
        assert printed.count("mmr: the rating vanished") == ladder.games - 1
        summary = json.loads(next(x for x in printed.splitlines() if x[0] == "{"))
        assert summary["failed"] == {"mmr": ladder.games - 1}
        assert summary["unselected"] == {"mmr": ladder.games}
    assert manifest.read(str(tmp_path / "data")).quarantined == ladder.games - 1


def test_a_dry_run_prints_the_plan_and_makes_no_dataset(ladder, tmp_path, capsys):
    assert generate(ladder, tmp_path / "data", "--dry-run") == 0
    printed = capsys.readouterr().out
    for word in ("replays", "loops", "bytes", "core hours", "rejected"):
        assert word in printed
    assert not (tmp_path / "data").exists()
    assert generate(ladder, tmp_path / "data", "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert plan["selected"] == ladder.games and plan["core_hours"] > 0


def one_line(capsys) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    errors_ = [line for line in lines if "Error" in line]
    assert len(errors_) == 1, lines
    return errors_[0]


def test_a_folder_with_something_else_in_it_is_left_alone(ladder, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("do not lose")
    assert generate(ladder, tmp_path) == 2
    assert "found 'thesis.txt'" in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_work_folder_with_something_else_in_it_is_left_alone(
    ladder, tmp_path, capsys
):
    work = tmp_path / "documents"
    work.mkdir()
    (work / "thesis.txt").write_text("do not lose")
    output = tmp_path / "data"
    assert generate(ladder, output, "--work", str(work)) == 2
    assert "found 'thesis.txt'" in one_line(capsys)
    assert [path.name for path in work.iterdir()] == ["thesis.txt"]


def test_the_end_of_a_build_deletes_its_own_files_alone(ladder, built, tmp_path):
    work, output = tmp_path / "work", tmp_path / "data"
    assert generate(ladder, output, "--work", str(work), "--dry-run") == 0
    (work / "thesis.txt").write_text("do not lose")
    assert generate(ladder, output, "--work", str(work)) == 0
    assert [path.name for path in work.iterdir()] == ["thesis.txt"]
    assert builds.digest(output) == builds.digest(built)


def test_the_work_folder_is_not_the_output(ladder, tmp_path, capsys):
    output = str(tmp_path / "data")
    assert generate(ladder, output, "--work", output + "/") == 2
    assert "another folder than --output" in one_line(capsys)


def test_a_build_killed_while_it_finished_is_resumed_and_leaves_nothing(
    ladder, built, tmp_path, monkeypatch
):
    output = tmp_path / "data"

    def killed(folder, content):
        raise errors.ConfigError("as if killed")

    monkeypatch.setattr(manifest, "write", killed)
    assert generate(ladder, output) == 2
    monkeypatch.undo()
    monkeypatch.setattr(cli, "_configure_logging", lambda: None)
    shard = next(output.glob("*.tfrecord")).name
    for name in (shard, table.EPISODES, manifest.NAME):
        (output / f"{name}.4711.tmp").write_bytes(b"half")
    assert generate(ladder, output) == 0
    assert builds.digest(output) == builds.digest(built)
    assert {path.name for path in output.iterdir()} == {
        path.name for path in built.iterdir()
    }


def test_a_finished_dataset_is_never_changed(ladder, built, capsys):
    before = builds.digest(built)
    assert generate(ladder.files[-3:], built) == 2
    assert "differs in the replays" in one_line(capsys)
    assert generate(ladder, built, "--version", "2.0.0") == 2
    assert "already holds" in one_line(capsys)
    assert builds.digest(built) == before


def test_unfinished_work_of_another_build_is_not_mixed_in(ladder, tmp_path, capsys):
    work = ("--work", str(tmp_path / "work"))
    assert generate(ladder, tmp_path / "data", "--dry-run", *work) == 0
    (tmp_path / "work/parts").mkdir()  # as soon as a replay has been played
    capsys.readouterr()
    assert generate(ladder, tmp_path / "data", "--name", "other", *work) == 2
    assert "differs in name" in one_line(capsys)


def test_a_selection_that_keeps_nothing_does_not_lock_the_output(
    ladder, built, tmp_path, capsys
):
    output = tmp_path / "data"
    assert generate(ladder, output, "--selection", "unplugged") == 2
    assert "keeps none of the replays" in one_line(capsys)
    assert generate(ladder, output) == 0
    assert builds.digest(output) == builds.digest(built)


def test_a_folder_that_is_called_starmill_does_no_harm(ladder, built, tmp_path):
    """As beside a clone: worker processes start in the working folder."""
    (tmp_path / "starmill").mkdir()
    (tmp_path / "starmill/__init__.py").write_text("raise SystemExit('not this one')")
    words = builds.command(ladder, tmp_path / "data", "--workers", "2")
    starmill = Path(sys.executable).with_name("starmill")
    done = subprocess.run(
        [starmill, *words[3:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert builds.digest(tmp_path / "data") == builds.digest(built)


def test_a_full_disk_gives_one_clear_line(ladder, tmp_path, capsys, monkeypatch):
    real = storage.write

    def full(url, data):
        if url.endswith(".part"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(url, data)

    monkeypatch.setattr(storage, "write", full)
    assert generate(ladder, tmp_path / "data") == 2
    line = one_line(capsys)
    assert "No space left on device" in line and str(tmp_path) in line


def test_missing_permissions_give_one_clear_line(ladder, tmp_path, capsys, monkeypatch):
    def refused(url, data):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(storage, "write", refused)
    assert generate(ladder, tmp_path / "data") == 2
    assert "Permission denied" in one_line(capsys)


def test_a_destination_below_a_file_gives_one_clear_line(ladder, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert generate(ladder, tmp_path / "file" / "data") == 2
    assert "file" in one_line(capsys)


def test_an_unreachable_store_gives_one_clear_line(ladder, capsys, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert generate(ladder, "s3://bucket/data") == 2
    assert "s3://bucket/data: cannot be reached" in one_line(capsys)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--no_such_option=1"], "--no_such_option=1"),
        (["--workers", "0"], "at least 1"),
        (["--attempts", "0"], "attempts"),
        (["--play-deadline", "0"], "deadline play"),
        (["--replays-per-shard", "0"], "replays per shard"),
        (["--selection", "nonsense"], "nonsense"),
        (["--sc2", "/nowhere"], "--sc2 skirmish"),
        (["--name", "Not A Name"], "name"),
    ],
)
def test_requests_that_make_no_sense(ladder, tmp_path, capsys, more, said):
    assert cli.main([*builds.command(ladder, tmp_path / "data")[3:], *more]) == 2
    assert said in capsys.readouterr().err


def test_no_game_at_all_says_what_to_do(ladder, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("SC2PATH", raising=False)
    line = builds.command(ladder, tmp_path / "data")[3:]
    at = line.index("--sc2")
    assert cli.main(line[:at] + line[at + 2 :]) == 2
    assert "SC2PATH" in one_line(capsys)


def test_a_selection_that_keeps_nothing_is_an_error(ladder, tmp_path, capsys):
    line = builds.command(ladder, tmp_path / "data", "--workers", "1")[3:]
    line[line.index("skirmish")] = "unplugged"
    assert cli.main(line) == 2
    assert "keeps none" in one_line(capsys)


def test_packs_are_replays_too(ladder, built, tmp_path):
    import zipfile

    pack = tmp_path / "pack.zip"
    with zipfile.ZipFile(pack, "w") as file:
        for path in ladder.files:
            file.write(path, f"Replays/{Path(path).name}")
    assert generate([str(pack)], tmp_path / "data") == 0
    assert builds.digest(tmp_path / "data") == builds.digest(built)


def test_an_index_made_before_is_taken(ladder, built, tmp_path):
    index = str(tmp_path / "index.parquet")
    assert cli.main(["index", str(ladder.folder), "--out", index]) == 1
    line = builds.command([], tmp_path / "data", "--workers", "1")[3:]
    line.remove("--replays")
    assert cli.main([*line, "--index", index]) == 0
    assert builds.digest(tmp_path / "data") == builds.digest(built)


def test_worker_processes_are_started_for_an_index_only_to_share_it():
    local = ["--runner=FnApiRunner", "--direct_num_workers=2", "--save_main_session"]
    assert _index_options(local, 2) == local
    assert _index_options(local, 1) == [local[0], local[2]]
