"""A table that is read by columns gives what the whole table gives."""

import dataclasses
import pickle

import numpy as np
import pyarrow.compute
import pyarrow.parquet
import pytest

import starmill
from starmill.schema import errors, manifest, storage, table
from starmill.schema.loader import episode_file, lazy_table
from starmill.schema.loader.lazy_table import LazyTable
from tests.factories import datasets, records
from tests.factories.datasets import LIGHT, assert_equal_batches, batches_of

field = pyarrow.compute.field


@pytest.fixture(params=["file", "memory"], scope="module")
def folder(request, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("lazy"))
    path = path if request.param == "file" else "memory://lazy-table"
    records.dataset(path, datasets.episodes())
    return path


@pytest.fixture
def lazy(monkeypatch):
    """Makes small tables be read as large ones are."""
    monkeypatch.setattr(episode_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(episode_file, "_BATCH_ROWS", 5)


def rewrite(folder, change, **options):
    """Changes the episode table of a dataset; its manifest then fits it."""
    url = f"{folder}/{table.EPISODES}"
    content = manifest.read(folder)
    rows = change(pyarrow.parquet.read_table(url))
    pyarrow.parquet.write_table(rows, url, **options)
    written = storage.digest(folder, table.EPISODES)
    files = tuple(
        manifest.FileEntry(name=entry.name, **written._asdict())
        if entry.name == table.EPISODES
        else entry
        for entry in content.files
    )
    manifest.write(folder, dataclasses.replace(content, files=files))


def test_columns_of_any_rows_are_those_of_the_whole(folder, lazy):
    content = manifest.read(folder)
    whole = lazy_table.read_episodes(folder, content)
    part = LazyTable(folder, content)
    for rows in ([], [0], [11, 0, 3], [3, 3], list(range(12)), [4, 5, 9, 10]):
        rows = np.array(rows, np.int64)
        for names in (["mmr"], ["offsets", "episode_id", "steps", "shard"]):
            assert part.columns(names, rows) == whole.select(names).take(rows)
    part.verify()
    assert part.columns(part.names, np.arange(12)) == whole


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"mmr_above": 5000, "outcome": [1, 0]},
        {"map_name": "Acropolis", "race": ["zerg", "terran"]},
        {"where": (field("player_id") == 2) & (field("map_name") != "Acropolis")},
        {"where": pyarrow.compute.match_substring(field("replay_id"), "a")},
    ],
)
def test_datasets_are_the_same_either_way(folder, filters, monkeypatch):
    whole = starmill.open_dataset(folder, **filters)
    monkeypatch.setattr(episode_file, "WHOLE_BYTES", 0)
    monkeypatch.setattr(episode_file, "_BATCH_ROWS", 5)
    part = starmill.open_dataset(folder, **filters)
    assert len(part) == len(whole) > 0
    assert repr(part) == repr(whole)
    assert part._repr_html_() == whole._repr_html_()
    assert part.table == whole.table
    assert part.metas == whole.metas == [episode.meta for episode in part]
    assert_equal_batches(part[-1].load().arrays, whole[-1].load().arrays)
    options = {"batch_size": 2, "rollout": 5, "seed": 1, "keys": LIGHT}
    one, two = (batches_of(opened, **options) for opened in (part, whole))
    assert one.get_state() == two.get_state()
    assert_equal_batches(next(one), next(two))


def test_filters_read_only_the_columns_that_they_need(folder, lazy, monkeypatch):
    read = []
    plain = LazyTable.pieces

    def pieces(self, names, *rows):
        read.extend(names)
        return plain(self, names, *rows)

    monkeypatch.setattr(LazyTable, "pieces", pieces)
    part = starmill.open_dataset(folder, mmr_above=4000, outcome=1)
    part.filter(where=(field("apm") > 0) & (field("steps") > 1))
    assert sorted(read) == ["apm", "mmr", "outcome", "steps"]


def test_a_table_can_be_pickled(folder, lazy):
    if folder.startswith("memory:"):
        pytest.skip("memory:// is a process's own")
    content = LazyTable(folder, manifest.read(folder))
    copy = pickle.loads(pickle.dumps(content))
    rows = np.arange(12)
    assert copy.columns(["mmr"], rows) == content.columns(["mmr"], rows)


def test_a_changed_table_is_noticed_before_an_episode_is_read(tmp_path, lazy):
    records.dataset(str(tmp_path))
    path = tmp_path / table.EPISODES
    plain = path.read_bytes()
    path.write_bytes(plain + b"x")
    with pytest.raises(errors.ManifestMismatch, match=f"expected {len(plain)} bytes"):
        starmill.open_dataset(tmp_path)
    # Another file of the same length, whose checksums of pages are right.
    races = plain.replace(b"terran", b"zergzg")
    assert races != plain
    path.write_bytes(races)
    opened = starmill.open_dataset(tmp_path)
    for read in (
        lambda: opened[0][:1],
        lambda: opened.windows(rollout=2),
        lambda: batches_of(opened, seed=1),
    ):
        with pytest.raises(errors.ManifestMismatch, match="sha256"):
            read()


@pytest.mark.parametrize("name", table.EPISODE_SCHEMA.names)
def test_damage_of_a_column_is_noticed_when_it_is_read(tmp_path, lazy, name):
    """Parquet's checksums of pages, where nothing else has been compared yet."""
    records.dataset(str(tmp_path))
    path = tmp_path / table.EPISODES
    opened = starmill.open_dataset(tmp_path)
    group = pyarrow.parquet.read_metadata(path).row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    (column,) = (c for c in columns if c.path_in_schema.split(".")[0] == name)
    damaged = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    damaged[begin + column.total_compressed_size - 2] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(errors.FormatError, match=r"episodes\.parquet"):
        opened.column(name)


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("steps", 0, "steps: expected 1 to"),
        ("outcome", 5, "outcome: expected -1 to 1"),
        ("sha256", "x", "sha256: expected 64 hex digits"),
        ("race", None, "expected values, found none in some rows of"),
        ("map_name", "m" * (1 << 17), "expected texts of at most"),
    ],
)
def test_impossible_values_are_refused_when_they_are_read(
    tmp_path, lazy, name, value, match
):
    records.dataset(str(tmp_path))

    def change(rows):
        number = rows.column_names.index(name)
        values = rows.column(name).to_pylist()
        values[7] = value
        kind = rows.schema.field(name).type
        return rows.set_column(number, name, pyarrow.array(values, kind))

    rewrite(str(tmp_path), change)
    opened = starmill.open_dataset(tmp_path)
    assert len(opened) == 12
    with pytest.raises(errors.FormatError, match=match):
        opened.column(name)


def test_tables_of_other_rows_or_columns_are_refused(tmp_path, lazy):
    for number, (change, match) in enumerate(
        [
            (lambda rows: rows.slice(1), "expected 12 rows, found 11"),
            (lambda rows: rows.drop_columns(["apm"]), "expected columns"),
        ]
    ):
        folder = str(tmp_path / str(number))
        records.dataset(folder)
        rewrite(folder, change)
        with pytest.raises(errors.FormatError, match=match):
            starmill.open_dataset(folder)


def test_unknown_columns_are_refused(folder):
    with pytest.raises(errors.ConfigError, match="column 'mrm': .* did you mean 'mmr'"):
        starmill.open_dataset(folder).column("mrm")
