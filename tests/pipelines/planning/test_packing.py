"""The work list in order: by shard and version, with what is to be done with each replay."""

from starmill.pipelines import plan
from starmill.pipelines.planning import packets, spill
from starmill.schema import shards
from tests.pipelines.test_plan import everything, make, row


def test_the_list_is_sorted_by_shard_version_and_replay(tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "_BATCH_ROWS", 16)
    rows = [row(n, base_build=5 - n % 2) for n in range(90)]
    build_plan, out = make(rows[::-1], tmp_path, replays_per_shard=30)
    keys = [
        (shards.numbers_of_name(i.shard), i.row.base_build, i.row.replay_id)
        for i in everything(build_plan, out)
        if i.split == "train"
    ]
    assert keys == sorted(keys)


def test_each_row_is_as_in_the_index(tmp_path):
    rows = {row(n).replay_id: row(n, map_name=f"Map {n}") for n in range(40)}
    build_plan, out = make(list(rows.values()), tmp_path, replays_per_shard=7)
    items = everything(build_plan, out)
    assert {item.row.replay_id: item.row for item in items} == rows
    assert all(isinstance(item, plan.WorkItem) for item in items)
    assert packets.folder_name(build_plan.digest) in out
