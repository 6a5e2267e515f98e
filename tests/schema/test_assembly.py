"""Datasets that grow: nothing that exists is written again, and readers see all of it."""

import json
import pickle

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import starmill
from starmill.schema import assembly, card, errors, manifest, registry, table
from starmill.schema.loader import episode_file
from tests.factories import datasets, grown, records
from tests.factories.datasets import LIGHT, assert_equal_batches, batches_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("grown")
    grown.write(str(path))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole")
    records.dataset(str(path), datasets.episodes())
    return starmill.open_dataset(path)


def by_id(opened):
    return {episode.meta.episode_id: episode for episode in opened}


def test_a_grown_dataset_has_the_episodes_and_counts_of_a_whole_one(folder, whole):
    opened = starmill.open_dataset(folder)
    assert opened.manifest.statistics == whole.manifest.statistics
    assert opened.manifest.counts("episodes") == [6, 4, 2]
    assert opened.manifest.counts("quarantined") == [0, 1, 1]
    assert (opened.steps, len(opened)) == (whole.steps, len(whole))
    one, two = by_id(opened), by_id(whole)
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].meta == two[name].meta
        assert_equal_batches(one[name].read(), two[name].read())


def test_filters_windows_and_batches_see_all_increments(folder, whole, monkeypatch):
    opened = starmill.open_dataset(folder, outcome=[1, 0])
    assert len(opened) == len(whole.filter(outcome=[1, 0]))
    batches = batches_of(
        starmill.open_dataset(folder), batch_size=3, rollout=5, seed=1, keys=LIGHT
    )
    seen = {int(n) for _ in range(60) for n in next(batches)["episode"].ravel()}
    assert seen == set(range(12))
    windows = starmill.open_dataset(folder).windows(rollout=8, keys=LIGHT)
    assert len(windows) == len(whole.windows(rollout=8, keys=LIGHT))
    copy = pickle.loads(pickle.dumps(windows))
    assert_equal_batches(copy[76], windows[76])
    # Large tables are read in pieces.
    plain = starmill.open_dataset(folder)
    monkeypatch.setattr(episode_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(episode_file, "_BATCH_ROWS", 3)
    lazy = starmill.open_dataset(folder)
    assert lazy.table == plain.table
    rows = np.array([11, 0, 7, 6, 5, 5])
    assert lazy.content.columns(["mmr"], rows) == plain.content.columns(["mmr"], rows)


def test_the_same_increments_give_the_same_bytes_anywhere(folder, tmp_path):
    content = grown.write(str(tmp_path))
    assert content.digest() == manifest.read(str(folder)).digest()
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_growing_writes_no_file_again_but_manifest_and_card(tmp_path):
    base = grown.write(str(tmp_path), (6,))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    grown.add(str(tmp_path), base, datasets.episodes()[6:10], "1.1.0")
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {manifest.NAME, card.README, card.CROISSANT}
    assert after["manifest.0000.json"] == before[manifest.NAME]


def test_references_from_before_it_grew_open_the_dataset_of_that_time(folder):
    present = manifest.read(str(folder))
    for increment, count in zip(present.increments, (6, 10), strict=True):
        opened = starmill.open_dataset(f"{folder}#{increment.base}")
        assert len(opened) == count
        assert opened.manifest.digest() == increment.base
        assert len(opened[-1].read()["player"]) == opened[-1].meta.steps
    with pytest.raises(errors.ManifestMismatch, match="another dataset"):
        registry.open_manifest(f"{folder}#sha256:{'0' * 64}")


def test_a_kill_before_the_manifest_leaves_the_dataset_as_it_was(tmp_path, monkeypatch):
    base = grown.write(str(tmp_path), (6,))
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "write", lambda *_: (_ for _ in ()).throw(OSError))
        with pytest.raises(OSError):
            grown.add(str(tmp_path), base, datasets.episodes()[6:10], "1.1.0")
    opened = starmill.open_dataset(f"{tmp_path}#{base.digest()}")
    assert opened.manifest == base
    again = grown.add(str(tmp_path), base, datasets.episodes()[6:10], "1.1.0")
    assert len(starmill.open_dataset(f"{tmp_path}#{again.digest()}")) == 10


def test_the_card_lists_all_files_of_a_table(folder):
    text = (folder / card.README).read_text("utf-8")
    assert (
        "- config_name: episodes\n  data_files:\n  - episodes.0001.parquet\n"
        "  - episodes.0002.parquet\n  - episodes.parquet\n  default: true\n"
    ) in text
    assert "| increment 2 | 2 | 2 |" in text
    sets = json.loads((folder / card.CROISSANT).read_text("utf-8"))["recordSet"]
    names = [each["name"] for each in sets]
    assert names == ["episodes", "episodes_0001", "episodes_0002"]


def test_left_out_sides_of_all_increments_are_read(folder):
    content = manifest.read(str(folder))
    failed = assembly.read_left_out(str(folder), content).quarantine
    assert [row.replay_id for row in failed] == [
        records.replay_id(101),
        records.replay_id(102),
    ]
    (last,) = assembly.read_left_out(str(folder), content, last=True).quarantine
    assert last.replay_id == records.replay_id(102)


def rewritten(content, change):
    """The manifest's bytes after a change that keeps its own checksum right."""
    loaded = json.loads(content.to_bytes())
    del loaded["checksum"]
    change(loaded)
    loaded["checksum"] = manifest._checksum(loaded)
    return manifest._canonical(loaded)


def rename(entries, old, new):
    for entry in entries:
        entry["name"] = entry["name"].replace(old, new)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: m.update(format=1), "increments: expected none"),
        (lambda m: m["increments"].pop(), "there is no increment 2"),
        (lambda m: m["increments"][1].update(steps=3), "2: steps: expected .* found 3"),
        (lambda m: m["increments"][0].update(note=1), "expected entries with"),
        (lambda m: m["increments"][0].update(base="x"), "expected a digest"),
        (lambda m: m["increments"][0].update(quarantined=9), "of 2 in all"),
        (
            lambda m: m["increments"][0].update(base="sha256:" + "0" * 64),
            "expected manifest.0000.json with sha256:0000",
        ),
        (
            lambda m: rename(m["files"], "manifest.0001", "manifest.0002"),
            "there is no increment 2",
        ),
        (lambda m: rename(m["shards"], ".0002.", ".0003."), "no increment 3"),
        (lambda m: rename(m["shards"], ".0002.", ".0000."), "is not a shard's name"),
        (lambda m: rename(m["shards"], ".0002.", ".2."), "is not a shard's name"),
        (
            lambda m: rename(m["shards"], ".0002.", ".0001."),
            "1: episodes: expected .* found 4",
        ),
    ],
)
def test_increments_that_do_not_fit_are_refused(folder, change, match):
    content = manifest.read(str(folder))
    with pytest.raises(errors.FormatError, match=match):
        manifest.parse(rewritten(content, change))


def test_a_manifest_without_increments_has_the_first_format(folder):
    first = json.loads((folder / "manifest.0000.json").read_bytes())
    assert first["format"] == 1
    assert "increments" not in first
    assert json.loads((folder / manifest.NAME).read_bytes())["format"] == 2


def test_a_file_that_is_missing_or_damaged_is_named(folder, tmp_path):
    grown.write(str(tmp_path))
    path = tmp_path / "episodes.0002.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"x")
    with pytest.raises(errors.ManifestMismatch, match=r"episodes\.0002\.parquet"):
        starmill.open_dataset(tmp_path)
    path.unlink()
    with pytest.raises(errors.FormatError, match=r"episodes\.0002\.parquet"):
        starmill.open_dataset(tmp_path)


def test_other_programs_read_the_table_with_one_pattern(folder, whole):
    rows = pq.ParquetDataset(
        sorted(str(path) for path in folder.glob("episodes*.parquet"))
    ).read()
    assert rows.num_rows == len(whole)
    assert pc.sum(rows["steps"]).as_py() == whole.steps
    assert rows.schema.names == table.EPISODE_SCHEMA.names
