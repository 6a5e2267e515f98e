"""The work folder: whose it is, what is in it, and that only its own files are deleted."""

import itertools

import pytest

from perf.scale import counted_store
from starmill.pipelines import episode_maker, plan, work_folder
from starmill.pipelines.joining import joining
from starmill.pipelines.planning import packets
from starmill.schema import codec, errors, replay_row, shards, storage, table
from tests import s3_server
from tests.factories import records

JOB = {"name": "demo", "version": "1.0.0", "starmill": "0.1.0"}
SHARD = shards.shard_name("train", 0, 1)
_FOLDER = itertools.count()


@pytest.fixture(params=["disk", "memory"])
def work(request, tmp_path) -> str:
    if request.param == "memory":
        return f"memory://work-folder-{next(_FOLDER)}/work"
    return str(tmp_path / "work")


def result(seed: int, sides=(1,), reason: str | None = None) -> episode_maker.Result:
    """A replay's outcome: an episode for each side, and side 2 failed if there is a reason."""
    episodes = []
    for side in sides:
        episode = records.episode(seed, player_id=side)
        episodes.append(
            shards.EpisodeRecords(
                meta=episode.meta, records=codec.encode(episode.arrays, records.SMALL)
            )
        )
    failed = table.QuarantineRow(
        replay_id=records.replay_id(seed),
        player_id=2,
        source=f"game{seed}",
        reason=reason or "",
        detail="x",
    )
    return episode_maker.Result(
        episodes=tuple(episodes), quarantine=(failed,) if reason else ()
    )


def target(work: str, plan_digest: str = "0" * 16) -> work_folder.Target:
    return work_folder.Target(work, f"{work}-output", plan_digest, "")


def ref(seed: int) -> joining.PartRef:
    return joining.PartRef(records.replay_id(seed), "", "")


def item(seed: int) -> plan.WorkItem:
    row = replay_row.ReplayRow(
        replay_id=records.replay_id(seed), file_stem="x", source="x", size_bytes=1
    )
    return plan.WorkItem(
        row=row, sides=(1, 2), unselected=(), split="train", shard=SHARD
    )


def test_a_folder_belongs_to_the_build_that_claimed_it(work):
    work_folder.claim(work, JOB)
    work_folder.claim(work, JOB)
    replay_id = records.replay_id(1)
    storage.write(f"{work}/parts/{replay_id[:2]}/{replay_id}.part", b"played")
    with pytest.raises(errors.ConfigError, match="differs in name, version"):
        work_folder.claim(work, {**JOB, "name": "other", "version": "2.0.0"})


def test_a_folder_in_which_nothing_was_played_is_free(work):
    other = {**JOB, "name": "other"}
    work_folder.claim(work, JOB)
    for name in ("index", "plan"):
        storage.write(f"{work}/{name}-{'a' * 16}.parquet", b"")
    storage.write(f"{work}/index.parts/{'0' * 32}.parquet", b"")
    assert not work_folder.check(work, other)
    work_folder.claim(work, other)
    assert work_folder.check(work, other)
    assert not work_folder.check(work, JOB)


def test_a_folder_with_files_of_others_is_refused(work):
    storage.write(f"{work}/thesis.txt", b"do not lose")
    with pytest.raises(errors.ConfigError, match="found 'thesis.txt'"):
        work_folder.claim(work, JOB)
    assert storage.names(work) == ["thesis.txt"]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"jobs": 4}'])
def test_a_job_file_of_another_program_is_refused(work, content):
    storage.write(f"{work}/job.json", content)
    with pytest.raises(errors.ConfigError, match="not that of an unfinished build"):
        work_folder.claim(work, JOB)
    assert storage.read(f"{work}/job.json") == content


def test_a_build_killed_while_it_claimed_the_folder_can_claim_it_again(work):
    storage.write(f"{work}/job.json.4711.tmp", b"{")
    work_folder.claim(work, JOB)
    work_folder.remove(work)
    assert not storage.exists(work)


def test_only_what_builds_write_is_deleted(work):
    replay_id = records.replay_id(1)
    ours = [
        "job.json",
        f"index-{'a' * 16}.parquet",
        f"index.parts/{'0' * 32}.parquet",
        f"index.parts/units-{'0' * 16}.units",
        f"index.parts/units-{'0' * 16}.json.3.tmp",
        f"plan-{'a' * 16}.parquet",
        f"plan-{'a' * 16}.parquet.12.tmp",
        f"parts/{replay_id[:2]}/{replay_id}.part",
        f"parts/{replay_id[:2]}/{replay_id}.part.7.tmp",
        f"parts/{replay_id[:2]}/{replay_id}.quarantine.json",
        f"shards/{SHARD}-{'a' * 16}.json",
        f"shards/{SHARD}-{'a' * 16}.parquet",
        f"plan-{'a' * 16}/00000.packets",
        f"plan-{'a' * 16}/00012.json.12.tmp",
        f"done/{SHARD}-{'a' * 16}/1024",
        f"tables/train-00000-{'a' * 16}.parquet",
        f"summary-{'a' * 16}.json",
    ]
    foreign = [
        "notes.txt",
        "index.parquet",
        "index.parts/mine.parquet",
        "index.parts/units-mine.json",
        f"parts/00/{replay_id}.txt",
        "parts/job.json",
        f"shards/{SHARD}",
        f"shards/deeper/plan-{'a' * 16}.parquet",
        f"plan-{'a' * 16}/notes.json",
        f"done/{SHARD}-{'a' * 16}/mine",
    ]
    for name in [*ours, *foreign]:
        storage.write(f"{work}/{name}", b"x")
    work_folder.remove(work)
    assert [name for name in ours if storage.exists(f"{work}/{name}")] == []
    assert [name for name in foreign if not storage.exists(f"{work}/{name}")] == []


def test_an_object_store_deletes_parts_by_the_thousand(tmp_path):
    parts = tmp_path / "work/parts"
    for folder, count in (("ab", 2_500), ("cd", 10)):
        (parts / folder).mkdir(parents=True)
        for number in range(count):
            (parts / folder / f"{folder}{number:062x}.part").touch()
    (parts / "ab/notes.txt").touch()
    (tmp_path / "work/job.json").touch()
    counted_store.COUNTS.clear()
    work_folder.remove(counted_store.address(tmp_path / "work"))
    files = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert files == [parts / "ab/notes.txt"]
    # 2,500 parts, 10 parts, and the rest.
    assert counted_store.COUNTS["delete"] == 3 + 1 + 1
    # The folders of parts, what is in each of them, and what is left.
    assert counted_store.COUNTS["list"] == 1 + 3 + 1 + 1
    assert counted_store.requests() == 11


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_s3_loses_what_builds_wrote_in_few_requests():
    with s3_server.running() as (url, faults):
        work = f"{url}/work"
        work_folder.claim(work, JOB)
        for seed in range(40):
            work_folder.write_result(work, records.replay_id(seed), result(seed))
        storage.write(f"{work}/notes.txt", b"x")
        storage.write(f"{work}/parts/00/notes.txt", b"x")
        folders = {records.replay_id(seed)[:2] for seed in range(40)} | {"00"}
        faults.requests = 0
        faults.errors = 2
        work_folder.remove(work)
        requests = faults.requests
        storage.filesystem_of.cache_clear()
        filesystem, path = storage.filesystem_of(work)
        filesystem.invalidate_cache()
        left = sorted(
            str(file).removeprefix(f"{path}/") for file in filesystem.find(path)
        )
        assert left == ["notes.txt", "parts/00/notes.txt"]
        # Each folder is listed and emptied; so is the rest. Two requests failed.
        assert requests <= 2 * (len(folders) + 2) + 2


def test_a_folder_without_files_of_others_goes_altogether(work):
    work_folder.claim(work, JOB)
    work_folder.write_result(work, records.replay_id(1), result(1))
    joining.join_shard(target(work), SHARD, [ref(1)])
    work_folder.remove(work)
    assert not storage.exists(work)
    work_folder.remove(work)


def test_failures_that_may_pass_are_tried_again(work):
    assert not work_folder.is_done(work, item(1))
    work_folder.write_result(work, records.replay_id(1), result(1, reason="converter"))
    assert work_folder.is_done(work, item(1))
    work_folder.write_result(
        work, records.replay_id(1), result(1, reason="engine_timeout")
    )
    assert not work_folder.is_done(work, item(1))


def test_the_last_packet_of_a_shard_is_told_so_and_each_after_a_restart(work):
    first = packets.Packet(0, 0, 10, SHARD, 2, 0, 20)
    second = packets.Packet(0, 10, 20, SHARD, 2, 0, 20)
    assert not work_folder.mark_done(target(work), second)
    assert not work_folder.mark_done(target(work), second)
    assert not work_folder.mark_done(target(work, "1" * 16), first)  # another list
    assert work_folder.mark_done(target(work), first)
    assert work_folder.mark_done(target(work), second)
