"""The plain way to open a dataset: the whole episode table, checked, then filtered.

In: a dataset's folder. Out: the rows that filters keep, and the index of all their records. This
is how `starmill.open_dataset` read tables of any size before it read them by columns; here it is
what the measurements compare with.
"""

import numpy as np
import pyarrow
import pyarrow.compute as pc

from starmill.schema import manifest
from starmill.schema.loader import lazy_table


def open_table(folder: str, *, mmr_above: int, outcome: int) -> pyarrow.Table:
    """Returns the rows of winners above a rating."""
    rows = lazy_table.read_episodes(folder, manifest.read(folder))
    rows = rows.filter(pc.field("outcome").isin([outcome]))
    return rows.filter(pc.field("mmr") > mmr_above)


def index_arrays(rows: pyarrow.Table) -> dict[str, np.ndarray]:
    """Returns what readers were given, and what was pickled for each worker process."""
    lists = pyarrow.concat_arrays(rows.column("offsets").chunks)
    return {
        "ids": np.array(rows.column("episode_id").to_pylist(), np.bytes_),
        "steps": np.asarray(rows.column("steps"), np.int64),
        "offsets": np.asarray(lists.values, np.int64),
        "begins": np.asarray(lists.offsets, np.int64),
    }
