import contextlib
import dataclasses
import subprocess
import sys

import pyarrow
import pyarrow.parquet as pq
import pytest

from starmill.schema import assembly, errors, shards, table
from tests.factories import records


def placed(seed, **overrides):
    return shards.Placed(
        meta=records.episode_meta(seed, **overrides),
        split="train",
        shard=f"train-{seed % 2:05d}-of-00002.tfrecord",
        offsets=(seed * 10, seed * 10 + 4, seed * 10 + 8),
        sha256="0" * 64,
    )


def test_rows_come_back_in_order_whatever_the_order_given():
    rows = [placed(seed) for seed in range(6)]
    one = table.episode_table(rows)
    assert one.equals(table.episode_table(rows[::-1]))
    assert one.schema.equals(table.EPISODE_SCHEMA)
    assert one.column("shard").to_pylist() == sorted(one.column("shard").to_pylist())
    by_id = {row.meta.episode_id: row.meta for row in rows}
    assert [by_id[meta.episode_id] for meta in table.metas(one)] == table.metas(one)


def test_unknown_values_stay_unknown():
    row = placed(0, mmr=None, opponent_mmr=None, apm=None, data_version=None)
    assert table.metas(table.episode_table([row])) == [row.meta]


def test_bytes_are_the_same_each_time(tmp_path):
    content = table.episode_table([placed(seed) for seed in range(4)])
    first = table.write_table(str(tmp_path / "a"), content)
    assert table.write_table(str(tmp_path / "b"), content) == first
    data = (tmp_path / "a").read_bytes()
    assert table.parse_table(data, table.EPISODE_SCHEMA, "a").equals(content)


def test_the_same_episode_twice_is_refused():
    with pytest.raises(errors.SpecError, match="appear twice"):
        table.episode_table([placed(1), placed(1)])


def test_other_columns_and_broken_files_are_refused(tmp_path):
    table.write_table(str(tmp_path / "a"), pyarrow.table({"x": [1]}))
    with pytest.raises(errors.FormatError, match="expected columns"):
        table.parse_table((tmp_path / "a").read_bytes(), table.EPISODE_SCHEMA, "a")
    with pytest.raises(errors.FormatError, match="not readable Parquet"):
        table.parse_table(b"nothing", table.EPISODE_SCHEMA, "a")


def test_names_of_columns_that_are_no_utf8_are_refused(tmp_path):
    content = table.episode_table([placed(seed) for seed in range(4)])
    table.write_table(str(tmp_path / "a"), content)
    data = (tmp_path / "a").read_bytes()
    refused = 0
    at = data.find(b"map_name")
    while at > 0:
        changed = data[:at] + b"\xff" + data[at + 1 :]
        with contextlib.suppress(errors.FormatError):
            table.parse_table(changed, table.EPISODE_SCHEMA, "a")
            refused -= 1
        refused += 1
        at = data.find(b"map_name", at + 1)
    assert refused > 0


def test_quarantine_rows_are_sorted():
    row = table.QuarantineRow(
        replay_id="b", player_id=None, source="x", reason="corrupt", detail="d"
    )
    rows = [row, dataclasses.replace(row, replay_id="a", player_id=2)]
    result = table.quarantine_table(rows).to_pylist()
    assert [item["replay_id"] for item in result] == ["a", "b"]
    assert result[1]["player_id"] is None
    assert table.quarantine_table([]).schema.equals(table.QUARANTINE_SCHEMA)


def test_statistics_count():
    rows = [placed(0, mmr=None, outcome=1), placed(1, mmr=4000, outcome=-1, steps=7)]
    numbers = table.statistics(table.episode_table(rows))
    assert numbers["by_outcome"] == {"-1": 1, "1": 1}
    assert numbers["mmr"] == {"known": 1, "min": 4000, "max": 4000}
    assert numbers["steps"] == {"min": 7, "max": 40}


def test_rows_that_come_piece_by_piece_make_the_same_file(tmp_path, monkeypatch):
    items = [records.episode(seed) for seed in range(20)]
    whole = episode_rows(tmp_path, items)
    pieces = [whole.slice(begin, 3) for begin in range(0, whole.num_rows, 3)]
    url = str(tmp_path / "pieces.parquet")
    written = assembly.write_pieces(url, table.EPISODE_SCHEMA, pieces)
    assert written == table.write_table(str(tmp_path / "whole.parquet"), whole)
    monkeypatch.setattr(assembly, "GROUP_ROWS", 8)
    groups = assembly.write_pieces(url, table.EPISODE_SCHEMA, pieces)
    assert groups == assembly.write_pieces(url, table.EPISODE_SCHEMA, [whole])
    file = pq.ParquetFile(url)
    assert [file.metadata.row_group(i).num_rows for i in range(3)] == [8, 8, 4]
    assert file.read().cast(table.EPISODE_SCHEMA).equals(whole)


def test_statistics_of_pieces_are_those_of_the_whole(tmp_path):
    items = [records.episode(seed, player_id=1 + seed % 2) for seed in range(9)]
    whole = episode_rows(tmp_path, items)
    counted = table.Statistics()
    for begin in range(0, 9, 2):
        counted.add(whole.slice(begin, 2))
    assert counted.to_json() == table.statistics(whole)
    assert counted.episodes == 9 and counted.replays == 9
    assert counted.to_json()["steps"]["max"] == max(whole.column("steps").to_pylist())


def test_left_out_rows_are_sorted_as_lists_of_them_are():
    rows = [
        table.QuarantineRow(
            replay_id=replay_id, player_id=player, source="x", reason=reason, detail=""
        )
        for replay_id in ("b", "a")
        for player in (2, None, 1)
        for reason in ("mmr", "desync")
    ]
    unsorted = pyarrow.Table.from_pylist(
        [dataclasses.asdict(row) for row in rows], table.QUARANTINE_SCHEMA
    )
    assert table.sort_left_out(unsorted).equals(table.quarantine_table(rows))


def episode_rows(tmp_path, items) -> pyarrow.Table:
    folder = str(tmp_path / "data")
    records.dataset(folder, items)
    rows = pq.read_table(f"{folder}/{table.EPISODES}")
    # Lists that were read have elements of another name.
    return rows.cast(table.EPISODE_SCHEMA)


_COUNT_THREADS = """
import os, sys
from starmill.schema import errors, table
data = sys.stdin.buffer.read()
before = len(os.listdir("/proc/self/task"))
for _ in range(3):
    try:
        table.parse_table(data, table.QUARANTINE_SCHEMA, "x")
    except errors.FormatError:
        print("refused")
print(len(os.listdir("/proc/self/task")) - before, "threads")
"""


@pytest.mark.parametrize("is_damaged", [True, False])
def test_tables_are_read_without_arrows_threads(is_damaged):
    """These can wait for each other, for ever, if a page is damaged."""
    rows = [
        table.QuarantineRow(
            replay_id="a" * 64, player_id=None, source="s", reason="x", detail="y"
        )
    ]
    data = bytearray(table.to_parquet(table.quarantine_table(rows)))
    if is_damaged:
        data[4:60] = b"\xff" * 56  # the first page's header
    lines = subprocess.run(
        [sys.executable, "-c", _COUNT_THREADS],
        input=bytes(data),
        capture_output=True,
        check=True,
    ).stdout.decode().split("\n")  # fmt: skip
    assert lines == ["refused"] * 3 * is_damaged + ["0 threads", ""]
