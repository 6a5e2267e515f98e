"""The episodes of an extended dataset, brought to the replays of a work list that they belong to.

In: rows of the episode table, piece by piece, and the selected replays. Out: for each file of the
list, the rows of its replays, as JSON by replay. The rows wait on this machine's disk, so memory
holds those of one file. Must not know where the table is.
"""

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from starmill.pipelines.planning import candidates, spill
from starmill.schema import table
from starmill.schema.episode import EpisodeMeta

_META = [field.name for field in dataclasses.fields(EpisodeMeta)]
# What is read of the episode table.
COLUMNS = [*_META, "shard", "offsets", "sha256"]
_ROWS = pa.schema(
    [
        *(table.EPISODE_SCHEMA.field(name) for name in [*_META, "shard", "sha256"]),
        ("begin", pa.int64()),
        ("end", pa.int64()),
    ]
)
# Rows that are Python objects at a time.
_BATCH_ROWS = 1 << 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reusable:
    """The episodes that a dataset has.

    Attributes:
        folder: path or URL of the dataset.
        pieces: its episode table, with COLUMNS.
    """

    folder: str
    pieces: Iterable[pa.Table]


class Reuse:
    """The rows of an extended dataset by file of a work list."""

    def __init__(self, folder: str, waiting: spill.Spill) -> None:
        self._folder = folder
        self._tables = waiting.tables()

    def next_file(self) -> dict[str, dict[int, str]]:
        """Returns replay id -> player -> JSON of a `packets.Reused`, for the next file."""
        have: dict[str, dict[int, str]] = collections.defaultdict(dict)
        for batch in next(self._tables).to_batches(_BATCH_ROWS):
            for row in batch.to_pylist():
                episode = {
                    "folder": self._folder,
                    "shard": row["shard"],
                    "offsets": [row["begin"], row["end"]],
                    "meta": {name: row[name] for name in _META},
                    "sha256": row["sha256"],
                }
                text = json.dumps(episode)
                have[row["replay_id"]][row["player_id"]] = text
        return have


def collect(
    reusable: Reusable,
    ids: NDArray[np.bytes_],
    file_of: NDArray[np.int64],
    waiting: spill.Spill,
) -> Reuse:
    """Puts the rows of the selected replays into files; returns them by file.

    Args:
        reusable: the episodes.
        ids: of the selected replays.
        file_of: the file of the work list that each of these goes to.
        waiting: an empty spill of `new_spill`.
    """
    order = np.argsort(ids)
    ordered = ids[order]
    for piece in reusable.pieces:
        if not len(ordered):
            break
        own = candidates.id_bytes(piece.column("replay_id").combine_chunks())
        places = np.minimum(np.searchsorted(ordered, own), len(ordered) - 1)
        is_selected = ordered[places] == own
        rows = _rows(piece.filter(pa.array(is_selected)))
        waiting.add(rows, file_of[order[places[is_selected]]])
    return Reuse(reusable.folder, waiting)


def new_spill(files: int) -> spill.Spill:
    """Returns a place for the rows of so many files, a context manager."""
    return spill.Spill(_ROWS, files)


def as_json(have: Mapping[int, str], sides: Sequence[int]) -> str | None:
    """Returns the JSON of all sides of a replay; None if the dataset lacks one of them."""
    if not all(side in have for side in sides):
        return None
    return f"[{', '.join(have[side] for side in sides)}]"


def _rows(piece: pa.Table) -> pa.Table:
    """Returns rows with the first and the last of their offsets in place of all."""
    ends = [
        [pa.compute.list_element(lists, 0), _last(lists)]
        for lists in piece.column("offsets").chunks
    ]
    columns = [
        pa.chunked_array(list(each), pa.int64()) for each in zip(*ends, strict=True)
    ]
    begins, lasts = columns or [pa.chunked_array([], pa.int64())] * 2
    content = piece.drop_columns(["offsets"])
    content = content.append_column("begin", begins).append_column("end", lasts)
    return content.select(_ROWS.names).cast(_ROWS)


def _last(lists: pa.ListArray) -> pa.Array:
    ends = np.asarray(lists.offsets, np.int64)[1:] - 1
    return lists.values.take(pa.array(ends))
