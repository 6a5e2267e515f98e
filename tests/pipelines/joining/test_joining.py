"""Joining parts: once, again when a part changes, and from another dataset."""

import dataclasses
import json

import pyarrow.parquet as pq
import pytest

from starmill.pipelines import claims, work_folder
from starmill.pipelines.joining import joining
from starmill.schema import errors, storage, table
from tests.factories import records
from tests.pipelines.test_work_folder import SHARD, ref, result, target, work

__all__ = ["work"]  # a fixture


def test_a_shard_is_joined_once_and_again_when_a_part_changes(work):
    for seed in (1, 2):
        work_folder.write_result(work, records.replay_id(seed), result(seed))
    first = joining.join_shard(target(work), SHARD, [ref(1), ref(2)])
    assert first.entry is not None and first.entry.episodes == 2
    stamp = storage.read(target(work).shard_result(SHARD))
    assert joining.join_shard(target(work), SHARD, [ref(2), ref(1)]) == first
    assert storage.read(target(work).shard_result(SHARD)) == stamp
    work_folder.write_result(work, records.replay_id(2), result(2, sides=(1, 2)))
    again = joining.join_shard(target(work), SHARD, [ref(1), ref(2)])
    assert again.entry is not None and again.entry.episodes == 3


def reused(tmp_path, **changes) -> joining.PartRef:
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
    return joining.PartRef(meta.replay_id, json.dumps([{**facts, **changes}]), "")


def test_reused_episodes_are_copied(work, tmp_path):
    joined = joining.join_shard(target(work), SHARD, [reused(tmp_path)])
    assert joined.entry is not None and joined.entry.episodes == 1


def test_a_reused_episode_that_its_table_does_not_describe_is_refused(work, tmp_path):
    damaged = reused(tmp_path, sha256="0" * 64)
    with pytest.raises(errors.ShardCorrupt, match="the episode table says sha256 000"):
        joining.join_shard(target(work), SHARD, [damaged])


def test_a_shards_name_does_not_lead_out_of_the_dataset(work, tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"secret")
    leading_out = reused(tmp_path, shard="../secret.bin", offsets=[0, 6])
    with pytest.raises(errors.ShardCorrupt, match="expected the name of a file in it"):
        joining.join_shard(target(work), SHARD, [leading_out])


def test_a_shard_of_failures_alone_has_no_file(work):
    work_folder.write_result(
        work, records.replay_id(1), result(1, sides=(), reason="desync")
    )
    joined = joining.join_shard(target(work), SHARD, [ref(1)])
    assert joined.entry is None
    assert [row.reason for row in joined.quarantine] == ["desync"]
    assert not storage.exists(f"{work}-output/{SHARD}")
    again = joining.read_shard_result(target(work), SHARD)
    assert again is not None and again.entry is None


def test_the_results_of_another_list_of_replays_are_not_taken(work):
    for seed in (1, 2):
        work_folder.write_result(work, records.replay_id(seed), result(seed))
    one, two = target(work, "1" * 16), target(work, "2" * 16)
    first = joining.join_shard(one, SHARD, [ref(1)])
    second = joining.join_shard(two, SHARD, [ref(2)])
    assert joining.read_shard_result(one, SHARD) == first
    assert joining.read_shard_result(two, SHARD) == second
    assert first.episodes.column("replay_id") != second.episodes.column("replay_id")


def test_a_finished_shard_that_another_process_replaced_is_joined_again(work):
    for seed in (1, 2):
        work_folder.write_result(work, records.replay_id(seed), result(seed))
    first = joining.join_shard(target(work, "1" * 16), SHARD, [ref(1)])
    joining.join_shard(target(work, "2" * 16), SHARD, [ref(2)])
    assert not joining.is_intact(f"{work}-output", first.entry)
    joining.join_shard(target(work, "1" * 16), SHARD, [ref(1)])
    assert joining.is_intact(f"{work}-output", first.entry)


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"inputs": 1}'])
def test_a_damaged_result_of_a_shard_is_made_again(work, content):
    work_folder.write_result(work, records.replay_id(1), result(1))
    first = joining.join_shard(target(work), SHARD, [ref(1)])
    storage.write(target(work).shard_result(SHARD), content)
    assert joining.read_shard_result(target(work), SHARD) is None
    assert joining.join_shard(target(work), SHARD, [ref(1)]) == first


def test_a_shard_is_not_joined_once_another_build_has_the_output(work):
    work_folder.write_result(work, records.replay_id(1), result(1))
    with claims.held([f"{work}-output"]) as (ours,):
        mine = target(work)._replace(token=ours.token)
        joining.join_shard(mine, SHARD, [ref(1)])
        with pytest.raises(errors.ConfigError, match="has taken it over"):
            joining.join_shard(mine._replace(token="other"), SHARD, [ref(1)])
