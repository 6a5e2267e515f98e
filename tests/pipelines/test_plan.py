"""The work list: what is kept, why not, and that it follows from the replays alone."""

import dataclasses
import io

import numpy as np
import pyarrow.parquet as pq
import pytest

from starmill.pipelines import plan
from starmill.pipelines.planning import packets, packing, reuse
from starmill.schema import (
    errors,
    manifest,
    replay_index,
    selection,
    shards,
    storage,
    table,
)
from tests.factories import records
from tests.factories.replay_rows import row


def write_index(url: str, rows) -> str:
    body = io.BytesIO()
    pq.write_table(replay_index.table_from_rows(rows), body)
    storage.write(url, body.getvalue())
    return url


def make(rows, tmp_path, rules=selection.PRESETS["skirmish"], name="a", **options):
    url = write_index(str(tmp_path / f"{name}.index"), rows)
    options = {"replays_per_shard": 4, **options}
    build_plan = plan.make(url, rules, str(tmp_path), **options)
    return build_plan, str(tmp_path / packets.folder_name(build_plan.digest))


def all_packets(build_plan: plan.BuildPlan, out: str) -> list[plan.Packet]:
    return [
        p for file in range(build_plan.files) for p in packets.packets_of(out, file)
    ]


def everything(build_plan: plan.BuildPlan, out: str) -> list[plan.WorkItem]:
    return [
        item
        for packet in all_packets(build_plan, out)
        for item in packets.read(out, packet.file, packet.begin, packet.end)
    ]


def test_what_is_read_is_selected_or_rejected_by_reason(tmp_path):
    rows = [row(n) for n in range(10)]
    rows += [row(20, ladder=False), row(21, status="corrupt", detail="x")]
    rows += [row(3, file_stem="again", source="/elsewhere/again.SC2Replay")]
    build_plan, out = make(rows, tmp_path)
    assert build_plan.read == 13
    assert build_plan.selected == 10
    assert dict(build_plan.rejected) == {"corrupt": 1, "duplicate": 1, "ladder": 1}
    assert build_plan.sides == 20
    assert build_plan.loops == 10_000
    read = {row(n).replay_id for n in [*range(10), 20, 21]}
    assert build_plan.replay_set == manifest.replay_set_digest(read)
    assert len(everything(build_plan, out)) == 10


def test_order_and_places_of_the_replays_do_not_matter(tmp_path):
    rows = [row(n, base_build=74741 - n % 3) for n in range(150)]
    first, out = make(rows, tmp_path)
    moved = [
        dataclasses.replace(r, source=r.source.replace("/replays", "s3://bucket"))
        for r in rows[::-1]
    ]
    second, other = make(moved, tmp_path, name="b")
    # Only the addresses in the work list differ, and so its digest.
    assert first == dataclasses.replace(second, digest=first.digest)
    strip = [
        dataclasses.replace(i, row=i.row.replay_id) for i in everything(first, out)
    ]
    assert strip == [
        dataclasses.replace(i, row=i.row.replay_id) for i in everything(second, other)
    ]


def test_a_packet_has_replays_of_one_version_and_one_shard(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "_LEAST_PACKETS", 20)
    rows = [row(n, base_build=74741 - n % 3) for n in range(150)]
    build_plan, out = make(rows, tmp_path, replays_per_shard=40)
    sizes = []
    for packet in all_packets(build_plan, out):
        items = packets.read(out, packet.file, packet.begin, packet.end)
        assert len({item.row.base_build for item in items}) == 1
        assert {item.shard for item in items} == {packet.shard}
        sizes.append(len(items))
    assert build_plan.packets == len(sizes)
    assert sum(sizes) == 150 and max(sizes) == 7  # 150 / 20, and few remainders
    assert len(sizes) < 50


def test_a_packet_names_its_shard_and_where_the_shards_packets_are(tmp_path):
    build_plan, out = make([row(n) for n in range(50)], tmp_path, replays_per_shard=10)
    shard_items = {}
    for packet in all_packets(build_plan, out):
        result = packets.read_shard(out, packet)
        shard_items[packet.shard] = len(result)
        assert {item.shard for item in result} == {packet.shard}
        assert packet.of == sum(
            other.shard == packet.shard for other in all_packets(build_plan, out)
        )
    assert shard_items == build_plan.replays_by_shard


def test_the_list_has_many_files_and_a_shard_is_in_one(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "FILE_REPLAYS", 25)
    build_plan, out = make([row(n) for n in range(100)], tmp_path, replays_per_shard=10)
    files = {}
    for packet in all_packets(build_plan, out):
        files.setdefault(packet.shard, set()).add(packet.file)
    assert build_plan.files == 4
    assert all(len(numbers) == 1 for numbers in files.values())
    ids = [item.row.replay_id for item in everything(build_plan, out)]
    assert sorted(ids) == [row(n).replay_id for n in range(100)]


def test_of_doubles_the_first_name_stays(tmp_path):
    rows = [row(1, file_stem="b"), row(1, file_stem="a")]
    for name, given in (("x", rows), ("y", rows[::-1])):
        build_plan, out = make(given, tmp_path, name=name)
        (item,) = everything(build_plan, out)
        assert item.row.file_stem == "a"


def test_a_rule_on_the_own_player_keeps_one_side(tmp_path):
    rules = dataclasses.replace(selection.PRESETS["skirmish"], min_mmr=3500)
    build_plan, out = make([row(n) for n in range(4)], tmp_path, rules)
    assert build_plan.selected == 4 and build_plan.sides == 4
    assert dict(build_plan.unselected) == {"mmr": 4}
    assert all(item.sides == (1,) for item in everything(build_plan, out))
    assert all(item.unselected == ((2, "mmr"),) for item in everything(build_plan, out))


def test_shards_follow_from_ids_and_the_number_of_replays(tmp_path):
    build_plan, out = make([row(n) for n in range(100)], tmp_path, replays_per_shard=10)
    items = everything(build_plan, out)
    for item in items:
        count = build_plan.shard_counts[item.split]
        number = shards.shard_of(item.row.replay_id, count)
        assert item.shard == shards.shard_name(item.split, number, count)
        assert item.split == selection.split_of(item.row.replay_id)
    assert sum(build_plan.replays_by_shard.values()) == 100
    replays = sum(item.split == "train" for item in items)
    assert build_plan.shard_counts["train"] == -(-replays // 10)


def test_episodes_of_another_dataset_are_reused_only_if_all_sides_are_there(tmp_path):
    sides = [(1, 1), (1, 2), (2, 1), (7, 1), (7, 2)]
    placed = [
        shards.Placed(
            meta=records.episode_meta(
                replay_id=row(number).replay_id, player_id=side, apm=None
            ),
            split="train",
            shard="s",
            offsets=(10 * place, 10 * place + 4, 10 * place + 9),
            sha256="x",
        )
        for place, (number, side) in enumerate(sides)
    ]
    rows = table.episode_table(placed).select(reuse.COLUMNS)
    have = plan.Reusable(folder="old", pieces=[rows.slice(0, 1), rows.slice(1)])
    build_plan, out = make([row(n) for n in range(3)], tmp_path, reusable=have)
    entries = {item.row.replay_id: item.reused for item in everything(build_plan, out)}
    assert build_plan.reused == 1
    assert entries[row(1).replay_id] == tuple(
        plan.Reused(
            folder="old",
            shard="s",
            offsets=(placed[place].offsets[0], placed[place].offsets[-1]),
            meta=dataclasses.asdict(placed[place].meta),
            sha256="x",
        )
        for place in (0, 1)
    )
    assert entries[row(0).replay_id] == entries[row(2).replay_id] == ()


def test_a_plan_of_an_increment_has_the_new_replays_alone(tmp_path):
    known = np.sort([bytes.fromhex(row(n).replay_id) for n in (0, 3, 50)])
    rows = [row(n) for n in range(6)]
    build_plan, out = make(rows, tmp_path, known=known, increment=2)
    new = {row(n).replay_id for n in (1, 2, 4, 5)}
    assert {item.row.replay_id for item in everything(build_plan, out)} == new
    assert build_plan.replay_set == manifest.replay_set_digest(new)
    assert (build_plan.read, build_plan.selected, dict(build_plan.rejected)) == (
        6,
        4,
        {"duplicate": 2},
    )
    assert all(
        shards.increment_of_name(name) == 2 for name in build_plan.replays_by_shard
    )
    others = [*rows, row(20, ladder=False)]
    assert (
        make(others, tmp_path, known=known, increment=2)[0].replay_set
        == build_plan.replay_set
    )
    with pytest.raises(errors.ConfigError, match="nothing to add: .* all 2 replays"):
        make([row(0), row(3)], tmp_path, known=known, increment=2)


def test_two_engines_in_one_dataset_are_an_error(tmp_path):
    rules = selection.Selection(name="all")
    with pytest.raises(errors.ConfigError, match="one engine"):
        make([row(0), row(1, engine="sc2")], tmp_path, rules)


def test_an_empty_selection_is_an_error(tmp_path):
    with pytest.raises(errors.ConfigError, match="keeps none"):
        make([row(0, ladder=False)], tmp_path)


def test_replays_per_shard_are_at_least_one(tmp_path):
    with pytest.raises(errors.ConfigError, match="replays per shard"):
        make([row(0)], tmp_path, replays_per_shard=0)
