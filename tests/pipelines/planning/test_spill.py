"""Rows that wait on disk come back in their order, by file."""

import numpy as np
import pyarrow as pa

from starmill.pipelines.planning import spill

_SCHEMA = pa.schema([("n", pa.int64())])


def test_rows_come_back_by_file_in_the_order_they_came(monkeypatch):
    monkeypatch.setattr(spill, "_BATCH_ROWS", 10)
    with spill.Spill(_SCHEMA, 4) as waiting:
        for begin in range(0, 60, 6):
            rows = np.arange(begin, begin + 6)
            waiting.add(pa.table({"n": rows}, _SCHEMA), rows % 3)
        tables = [table.column("n").to_pylist() for table in waiting.tables()]
        folder = waiting.folder
    assert tables == [[n for n in range(60) if n % 3 == file] for file in range(4)]
    assert not folder.exists()
