"""Reading an index: rows in batches, and files whose parts contradict each other."""

import pyarrow.parquet as pq
import pytest

from starmill.schema import errors, replay_index
from tests.factories import replay_rows

COLUMNS = ["replay_id", "size_bytes"]


@pytest.fixture
def index(tmp_path):
    path = tmp_path / "index.parquet"
    rows = [replay_rows.row(number) for number in range(6)]
    pq.write_table(replay_index.table_from_rows(rows), path, row_group_size=4)
    return path


def _rows(path) -> int:
    with replay_index.opened(str(path)) as content:
        return sum(batch.num_rows for batch in content.batches(COLUMNS))


def test_all_row_groups_are_read(index):
    assert _rows(index) == 6


def test_columns_shorter_than_their_row_group_are_an_error(index, monkeypatch):
    """A footer can state rows that the pages of a column do not have."""

    def without_rows(self, size, groups, columns, use_threads):
        assert not use_threads
        return iter(())

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", without_rows)
    with pytest.raises(errors.FormatError, match="expected 4 rows .* found 0"):
        _rows(index)
