"""The work folder: whose it is, what is in it, and that only its own files are deleted."""

import dataclasses
import itertools
import json

import pyarrow.parquet as pq
import pytest

from starmill.pipelines import claims, episode_maker, plan, work_folder
from starmill.schema import codec, errors, replay_row, shards, storage, table
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


def ref(seed: int) -> work_folder.PartRef:
    return work_folder.PartRef(records.replay_id(seed), "", "")


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
    with pytest.raises(errors.ConfigError, match="differs in name, version"):
        work_folder.claim(work, {**JOB, "name": "other", "version": "2.0.0"})


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
        f"plan-{'a' * 16}.parquet",
        f"plan-{'a' * 16}.parquet.12.tmp",
        f"parts/{replay_id[:2]}/{replay_id}.part",
        f"parts/{replay_id[:2]}/{replay_id}.part.7.tmp",
        f"parts/{replay_id[:2]}/{replay_id}.quarantine.json",
        f"shards/{SHARD}-{'a' * 16}.json",
    ]
    foreign = [
        "notes.txt",
        "index.parquet",
        "index.parts/mine.parquet",
        f"parts/00/{replay_id}.txt",
        "parts/job.json",
        f"shards/{SHARD}",
        f"shards/deeper/plan-{'a' * 16}.parquet",
    ]
    for name in [*ours, *foreign]:
        storage.write(f"{work}/{name}", b"x")
    work_folder.remove(work)
    assert [name for name in ours if storage.exists(f"{work}/{name}")] == []
    assert [name for name in foreign if not storage.exists(f"{work}/{name}")] == []


def test_a_folder_without_files_of_others_goes_altogether(work):
    work_folder.claim(work, JOB)
    work_folder.write_result(work, records.replay_id(1), result(1))
    work_folder.join_shard(target(work), SHARD, [ref(1)])
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


def test_a_shard_is_joined_once_and_again_when_a_part_changes(work):
    for seed in (1, 2):
        work_folder.write_result(work, records.replay_id(seed), result(seed))
    first = work_folder.join_shard(target(work), SHARD, [ref(1), ref(2)])
    assert first.entry is not None and first.entry.episodes == 2
    stamp = storage.read(work_folder.shard_result_url(target(work), SHARD))
    assert work_folder.join_shard(target(work), SHARD, [ref(2), ref(1)]) == first
    assert storage.read(work_folder.shard_result_url(target(work), SHARD)) == stamp
    work_folder.write_result(work, records.replay_id(2), result(2, sides=(1, 2)))
    again = work_folder.join_shard(target(work), SHARD, [ref(1), ref(2)])
    assert again.entry is not None and again.entry.episodes == 3


def reused(tmp_path, **changes) -> work_folder.PartRef:
    """An episode of a dataset on disk, with wrong facts where there are changes."""
    folder = str(tmp_path / "old")
    records.dataset(folder, [records.episode(1)])
    (row,) = pq.read_table(f"{folder}/{table.EPISODES}").to_pylist()
    meta = records.episode(1).meta
    facts = {
        "folder": folder,
        "shard": row["shard"],
        "offsets": row["offsets"],
        "meta": dataclasses.asdict(meta),
        "sha256": row["sha256"],
    }
    return work_folder.PartRef(meta.replay_id, json.dumps([{**facts, **changes}]), "")


def test_reused_episodes_are_copied(work, tmp_path):
    joined = work_folder.join_shard(target(work), SHARD, [reused(tmp_path)])
    assert joined.entry is not None and joined.entry.episodes == 1


def test_a_reused_episode_that_its_table_does_not_describe_is_refused(work, tmp_path):
    damaged = reused(tmp_path, sha256="0" * 64)
    with pytest.raises(errors.ShardCorrupt, match="the episode table says sha256 000"):
        work_folder.join_shard(target(work), SHARD, [damaged])


def test_a_shards_name_does_not_lead_out_of_the_dataset(work, tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"secret")
    leading_out = reused(tmp_path, shard="../secret.bin", offsets=[0, 6])
    with pytest.raises(errors.ShardCorrupt, match="expected the name of a file in it"):
        work_folder.join_shard(target(work), SHARD, [leading_out])


def test_a_shard_of_failures_alone_has_no_file(work):
    work_folder.write_result(
        work, records.replay_id(1), result(1, sides=(), reason="desync")
    )
    joined = work_folder.join_shard(target(work), SHARD, [ref(1)])
    assert joined.entry is None
    assert [row.reason for row in joined.quarantine] == ["desync"]
    assert not storage.exists(f"{work}-output/{SHARD}")
    content = json.loads(
        storage.read(work_folder.shard_result_url(target(work), SHARD))
    )
    assert content["entry"] is None


def test_the_results_of_another_list_of_replays_are_not_taken(work):
    for seed in (1, 2):
        work_folder.write_result(work, records.replay_id(seed), result(seed))
    one, two = target(work, "1" * 16), target(work, "2" * 16)
    first = work_folder.join_shard(one, SHARD, [ref(1)])
    second = work_folder.join_shard(two, SHARD, [ref(2)])
    assert work_folder.read_shard_result(one, SHARD) == first
    assert work_folder.read_shard_result(two, SHARD) == second
    assert first.placed[0].meta.replay_id != second.placed[0].meta.replay_id


def test_a_finished_shard_that_another_process_replaced_is_joined_again(work):
    for seed in (1, 2):
        work_folder.write_result(work, records.replay_id(seed), result(seed))
    first = work_folder.join_shard(target(work, "1" * 16), SHARD, [ref(1)])
    work_folder.join_shard(target(work, "2" * 16), SHARD, [ref(2)])
    assert not work_folder.is_intact(f"{work}-output", first.entry)
    work_folder.join_shard(target(work, "1" * 16), SHARD, [ref(1)])
    assert work_folder.is_intact(f"{work}-output", first.entry)


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"inputs": 1}'])
def test_a_damaged_result_of_a_shard_is_made_again(work, content):
    work_folder.write_result(work, records.replay_id(1), result(1))
    first = work_folder.join_shard(target(work), SHARD, [ref(1)])
    storage.write(work_folder.shard_result_url(target(work), SHARD), content)
    assert work_folder.read_shard_result(target(work), SHARD) is None
    assert work_folder.join_shard(target(work), SHARD, [ref(1)]) == first


def test_a_shard_is_not_joined_once_another_build_has_the_output(work):
    work_folder.write_result(work, records.replay_id(1), result(1))
    with claims.held([f"{work}-output"]) as (ours,):
        mine = target(work)._replace(token=ours.token)
        work_folder.join_shard(mine, SHARD, [ref(1)])
        with pytest.raises(errors.ConfigError, match="has taken it over"):
            work_folder.join_shard(mine._replace(token="other"), SHARD, [ref(1)])
