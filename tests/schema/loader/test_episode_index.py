import pickle
import shutil

import numpy as np
import pytest

import starmill
from starmill.schema import errors
from starmill.schema.loader import episode_file, episode_index, lazy_table
from starmill.schema.loader.episode_index import EpisodeIndex
from tests.factories import records

ARRAYS = ("ids", "steps", "outcome", "shard", "offsets", "begins")


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("index")
    items = [records.episode(seed, steps=30 + 33 * seed) for seed in range(4)]
    records.dataset(str(path), items)
    return starmill.open_dataset(path)


@pytest.fixture
def index(opened):
    return EpisodeIndex.from_table(opened.table)


def assert_same(one, two):
    for name in ARRAYS:
        if name != "shard":
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert shards_of(one) == shards_of(two)


def shards_of(index):
    return [index.shard_names[number] for number in index.shard]


def test_the_index_says_what_the_table_says(opened, index):
    assert len(index) == 4
    for number, row in enumerate(opened.table.to_pylist()):
        assert index.ids[number].decode() == row["episode_id"]
        assert index.steps[number] == row["steps"]
        assert index.outcome[number] == row["outcome"]
        assert index.shard_names[index.shard[number]] == row["shard"]
        begin, end = index.begins[number : number + 2]
        assert index.offsets[begin:end].tolist() == row["offsets"]


def test_the_index_of_some_episodes_has_only_their_rows(opened):
    part = opened.table.take([3, 1])
    for content in (part, opened.table.slice(1, 2)):
        index = EpisodeIndex.from_table(content)
        rows = content.to_pylist()
        assert [name.decode() for name in index.ids] == [r["episode_id"] for r in rows]
        assert len(index.offsets) == sum(len(row["offsets"]) for row in rows)
        for number, row in enumerate(rows):
            begin, end = index.begins[number : number + 2]
            assert index.offsets[begin:end].tolist() == row["offsets"]
            assert index.shard_names[index.shard[number]] == row["shard"]


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [1, 3], [2], [3, 0, 2], []])
def test_an_index_in_files_is_that_of_the_table(opened, monkeypatch, rows):
    rows = np.array(rows, np.int64)
    expected = EpisodeIndex.from_table(opened.table.take(rows))
    monkeypatch.setattr(episode_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(episode_file, "_BATCH_ROWS", 3)
    monkeypatch.setattr(episode_index, "MOST_IN_MEMORY", 0)
    content = lazy_table.LazyTable(opened.url, opened.manifest)
    index = EpisodeIndex.build(content, rows)
    assert_same(index, expected)
    assert (index.home is None) == (rows.tolist() in ([3, 0, 2], []))


def test_a_shared_index_is_the_same(index):
    with index.in_files() as folder:
        other = EpisodeIndex.shared(folder)
    assert_same(other, index)
    assert not folder.exists()


def test_a_pickle_of_a_large_index_names_its_files(opened, index, monkeypatch):
    assert_same(pickle.loads(pickle.dumps(index)), index)
    monkeypatch.setattr(episode_index, "MOST_PICKLED_BYTES", 100)
    data = pickle.dumps(index)
    assert bytes(index.ids[0]) not in data
    copy = pickle.loads(data)
    assert_same(copy, index)
    # A copy of the copy has files of its own.
    assert_same(pickle.loads(pickle.dumps(copy)), index)
    shutil.rmtree(index.home.path)
    with pytest.raises(errors.ConfigError, match="on another machine"):
        pickle.loads(data)


def test_an_index_is_made_again_where_its_files_are_not(tmp_path, monkeypatch):
    items = [records.episode(seed, steps=3) for seed in range(20)]
    records.dataset(str(tmp_path), items)
    part = starmill.open_dataset(tmp_path).filter(mmr_above=4000)[::-1][1:]
    expected = EpisodeIndex.from_table(part.table)
    is_taken = [item.meta.mmr > 4000 for item in items]
    assert len(expected) == sum(is_taken) - 1
    source = part.windows(rollout=2, keys=["player"])
    monkeypatch.setattr(episode_index, "MOST_PICKLED_BYTES", 1000)
    data = pickle.dumps(source)
    assert bytes(expected.ids[0]) not in data
    shutil.rmtree(part._index.home.path)
    copy = pickle.loads(data)
    assert_same(copy._maker.index, expected)
    np.testing.assert_array_equal(copy[3]["player"], source[3]["player"])
