"""Two builds that want one folder: one has it, the other is refused, and nothing is mixed."""

import pytest

from starmill import cli
from starmill.pipelines.joining import joining
from starmill.pipelines.planning import packets
from starmill.schema import errors, replay_row, shards, storage, table
from tests import s3_server
from tests.factories import builds, records
from tests.hostile import builds as hostile

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Two lists of replays that have none in common."""
    ladder = builds.make_ladder(tmp_path_factory.mktemp("ladder"), 6, loops=120)
    games = [path for path in ladder.files if "game" in path]
    return games[:3], games[3:]


@pytest.fixture(scope="module")
def digests(halves, tmp_path_factory):
    """The digest of each list, built alone."""
    folder = tmp_path_factory.mktemp("alone")
    collected = []
    for number, replays in enumerate(halves):
        done = builds.build(replays, folder / str(number), "--workers", "1")
        assert done.returncode == 0, done.stderr
        collected.append(builds.digest(folder / str(number)))
    return collected


def one_each(results):
    """Returns (the number of the build that succeeded, what the other one said)."""
    codes = [result.returncode for result in results]
    assert sorted(codes) == [0, 2], [result.stderr for result in results]
    return codes.index(0), results[codes.index(2)].stderr


@pytest.mark.parametrize("same", [False, True], ids=["other replays", "same replays"])
def test_two_builds_into_one_output(halves, digests, tmp_path, same):
    lists = (halves[0], halves[0]) if same else halves
    output = tmp_path / "data"
    results = hostile.together(
        [(replays, output, ["--workers", "1"]) for replays in lists]
    )
    winner, said = one_each(results)
    assert "is writing to it" in said and str(output) in said
    assert builds.digest(output) == digests[0 if same else winner]
    assert cli.main(["verify", str(output)]) == 0
    assert not (output / "_claim.json").exists()


def test_two_builds_with_one_work_folder(halves, digests, tmp_path):
    work = ["--workers", "1", "--work", str(tmp_path / "work")]
    results = hostile.together([(halves[n], tmp_path / str(n), work) for n in range(2)])
    winner, said = one_each(results)
    assert f"{tmp_path / 'work'}: process" in said
    assert builds.digest(tmp_path / str(winner)) == digests[winner]
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    "mark", ["_work/job.json", "_work/parts/*/*.part", "*.tfrecord"]
)
def test_a_killed_build_is_taken_over(halves, digests, tmp_path, mark):
    output = tmp_path / "data"
    killed = builds.build(
        halves[0], output, "--workers", "1", during=hostile.kill_when(output, [mark])
    )
    assert killed.returncode == -9
    assert (output / "_claim.json").exists()
    done = builds.build(halves[0], output, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert builds.digest(output) == digests[0]
    assert not (output / "_claim.json").exists()


def test_work_of_fewer_replays_is_continued_without_leftovers(
    halves, digests, tmp_path
):
    """More replays mean other shards: those of the first list must not stay."""
    output = tmp_path / "data"
    first = builds.build(
        halves[0], output, "--workers", "1",
        during=hostile.kill_when(output, ["*.tfrecord"]),
    )  # fmt: skip
    assert first.returncode == -9
    (output / shards.shard_name("train", 3, 7)).write_bytes(b"of an earlier list")
    everything = [*halves[0], *halves[1]]
    assert builds.build(everything, output, "--workers", "1").returncode == 0
    assert builds.build(everything, tmp_path / "new", "--workers", "1").returncode == 0
    assert builds.digest(output) == builds.digest(tmp_path / "new")
    assert cli.main(["verify", str(output)]) == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_builds_into_one_place_of_an_object_store(halves, digests):
    with s3_server.running() as (url, _):
        results = hostile.together(
            [(replays, f"{url}/data", ["--workers", "1"]) for replays in halves]
        )
        winner, said = one_each(results)
        assert "is writing to it" in said
        storage.filesystem_of.cache_clear()
        assert builds.digest(f"{url}/data") == digests[winner]
        assert "_claim" not in storage.names(f"{url}/data")


def test_a_dry_run_writes_nothing(halves, tmp_path):
    output = tmp_path / "data"
    assert builds.build(halves[0], output, "--dry-run").returncode == 0
    assert not output.exists()


def planned(replay_id, selected, unselected):
    row = replay_row.ReplayRow(
        replay_id=replay_id, file_stem="x", source="x", size_bytes=1
    )
    return packets.WorkItem(
        row=row,
        sides=selected,
        unselected=tuple((side, "mmr") for side in unselected),
        split="train",
        shard="train-00000-of-00001.tfrecord",
    )


def placed(replay_id, player_id):
    return shards.Placed(
        meta=records.episode_meta(replay_id=replay_id, player_id=player_id),
        split="train",
        shard="train-00000-of-00001.tfrecord",
        offsets=(0, 1),
        sha256="",
    )


def failed(replay_id, player_id):
    return table.QuarantineRow(
        replay_id=replay_id, player_id=player_id, source="", reason="mmr", detail=""
    )


def left_out(replay_id, player_id):
    return table.UnselectedRow(
        replay_id=replay_id, player_id=player_id, source="", reason="mmr"
    )


PLANNED = [planned("a", (1, 2), ()), planned("b", (1,), (2,))]


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (
            ([placed("a", 1), placed("b", 1)], [failed("a", 2)], [left_out("b", 2)]),
            None,
        ),
        (
            # As many as planned, but one of another replay.
            ([placed("a", 1), placed("c", 1)], [failed("a", 2)], [left_out("b", 2)]),
            "missing: 1, such as b-1; .*of other replays: 1, such as c-1",
        ),
        (
            ([placed("a", 1), placed("b", 1)], [failed("a", 1)], [left_out("b", 2)]),
            "missing: 1, such as a-2; .*counted twice: 1, such as a-1",
        ),
        (
            ([placed("a", 1), placed("b", 1)], [failed("a", 2)], [left_out("a", 2)]),
            "leaves out missing: 1, such as b-2; .*of other replays: 1, such as a-2",
        ),
        (
            ([placed("a", 1), placed("b", 1)], [failed("a", None)], [left_out("b", 2)]),
            "such as a-None",
        ),
    ],
)
def test_which_sides_are_placed_is_compared_not_how_many(results, said):
    episodes, *rest = results
    result = joining.ShardResult(None, table.episode_table(episodes), *rest)
    if said is None:
        joining.check_sides(PLANNED, result)
    else:
        with pytest.raises(errors.SpecError, match=said):
            joining.check_sides(PLANNED, result)


def test_the_temporary_folder_of_a_killed_build_is_deleted_by_the_next(
    halves, digests, tmp_path
):
    temp, output = tmp_path / "tmp", tmp_path / "data"
    temp.mkdir()
    abandoned = temp / "starmill-beam-of-another-program"
    abandoned.mkdir()
    killed = builds.build(
        halves[0], output, "--workers", "1",
        during=hostile.kill_when(output, ["_work/job.json"]), TMPDIR=str(temp),
    )  # fmt: skip
    assert killed.returncode == -9
    assert len(list(temp.glob("starmill-beam-*/lock"))) == 1
    done = builds.build(halves[0], output, "--workers", "1", TMPDIR=str(temp))
    assert done.returncode == 0, done.stderr
    assert list(temp.glob("starmill-beam-*")) == [abandoned]
