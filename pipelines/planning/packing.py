"""The second pass over an index: the work list, ordered, cut into packets and written.

In: an open index, and the selected replays. Out: files of packets. The rows wait on this machine's
disk in one file for each file of the list, so memory holds some 100 MB of them.
"""

import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from starmill.pipelines.planning import candidates, judgements, packets, reuse, spill
from starmill.pipelines.planning.candidates import Selected
from starmill.pipelines.planning.packets import ShardPlace
from starmill.pipelines.planning.reuse import Reusable
from starmill.schema import replay_index, selection, shards, storage
from starmill.schema.replay_row import COLUMNS

# Replays of one packet, at most. A game starts in seconds and plays a replay in minutes.
PACKET_REPLAYS = 16
# Small builds have smaller packets, so that all workers have some.
_LEAST_PACKETS = 256
# Replays of one file of the list: some 20 MB, and 100 MB while it is sorted.
FILE_REPLAYS = 1 << 16
_HEX_DIGITS = 64


def shard_counts(selected: Selected, replays_per_shard: int) -> dict[str, int]:
    """Returns how many shards each split has."""
    replays = np.bincount(selected.splits, minlength=len(selection.SPLITS))
    return {
        split: -(-int(count) // replays_per_shard)
        for split, count in zip(selection.SPLITS, replays, strict=True)
        if count
    }


def shards_of(selected: Selected, counts: Mapping[str, int]) -> NDArray[np.int64]:
    """Returns the number of each replay's shard in its split. Shape [N]."""
    of = [counts.get(split, 0) for split in selection.SPLITS]
    text = selected.ids.tobytes().hex()
    numbers = [
        shards.shard_of(text[begin : begin + _HEX_DIGITS], of[split])
        for begin, split in zip(
            range(0, len(text), _HEX_DIGITS), selected.splits.tolist(), strict=True
        )
    ]
    return np.array(numbers, np.int64)


class Layout(NamedTuple):
    """How the list is cut, by places in it.

    Attributes:
        files: where each file begins, and the end.
        packets: where each packet begins, and the end.
        shards: where each shard begins, and the end.
        names: each shard's name.
    """

    files: NDArray[np.int64]
    packets: NDArray[np.int64]
    shards: NDArray[np.int64]
    names: list[str]


def layout(
    selected: Selected,
    numbers: NDArray[np.int64],
    order: NDArray[np.int64],
    counts: Mapping[str, int],
    increment: int = 0,
) -> Layout:
    """Cuts the ordered list into files, shards and packets of one version.

    The shards' names have the number of the increment, unless it is 0.
    """
    end = len(order)
    splits, of_shard = selected.splits[order], numbers[order]
    is_shard = _is_new(splits) | _is_new(of_shard)
    starts = np.flatnonzero(is_shard | _is_new(selected.versions[order]))
    place = np.arange(end) - np.repeat(starts, np.diff(starts, append=end))
    size = min(max(end // _LEAST_PACKETS, 1), PACKET_REPLAYS)
    begins = np.flatnonzero(is_shard)
    files = [0]
    for begin in begins.tolist():
        if begin - files[-1] >= FILE_REPLAYS:
            files.append(begin)
    names = [
        shards.shard_name(
            selection.SPLITS[split], number, counts[selection.SPLITS[split]], increment
        )
        for split, number in zip(splits[begins], of_shard[begins].tolist(), strict=True)
    ]
    return Layout(
        files=np.array([*files, end]),
        packets=np.append(np.flatnonzero(place % size == 0), end),
        shards=np.append(begins, end),
        names=names,
    )


def _is_new(values: NDArray) -> NDArray[np.bool_]:
    out = np.ones(len(values), bool)
    out[1:] = values[1:] != values[:-1]
    return out


def write(
    index: replay_index.Index,
    selected: Selected,
    order: NDArray[np.int64],
    plan: Layout,
    folder: str,
    reusable: Reusable | None,
) -> tuple[str, int]:
    """Writes the work list; returns its digest and the number of reused replays."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    file_of = np.searchsorted(plan.files, place, side="right") - 1
    count = len(plan.files) - 1
    digest, reused = hashlib.sha256(), 0
    with (
        spill.Spill(replay_index.SCHEMA, count) as waiting,
        reuse.new_spill(count) as old_rows,
    ):
        begin = 0
        for table in candidates.rows_at(index, selected.rows, list(COLUMNS)):
            end = begin + table.num_rows
            waiting.add(table.cast(replay_index.SCHEMA), file_of[begin:end])
            begin = end
        have = None
        if reusable is not None:
            have = reuse.collect(reusable, selected.ids, file_of, old_rows)
        lists = []
        for number, table in enumerate(waiting.tables()):
            mine = order[plan.files[number] : plan.files[number + 1]]
            # The rows are in the order of the index, which is the order of their places.
            table = table.take(pa.array(np.searchsorted(np.sort(mine), mine)))
            old = have.next_file() if have else {}
            table, taken = _with_work(table, selected, mine, plan, number, old)
            reused += taken
            data, list_ = _encoded(table, plan, number)
            lists.append(list_)
            digest.update(data)
            (waiting.folder / str(number)).write_bytes(data)
        name = digest.hexdigest()[:16]
        target = storage.join(folder, packets.folder_name(name))
        for number, list_ in enumerate(lists):
            data = (waiting.folder / str(number)).read_bytes()
            packets.write_file(target, number, data, list_)
    return name, reused


def _with_work(
    table: pa.Table,
    selected: Selected,
    mine: NDArray[np.int64],
    plan: Layout,
    number: int,
    have: Mapping[str, Mapping[int, str]],
) -> tuple[pa.Table, int]:
    """Adds the columns of the work to the rows of one file."""
    codes = selected.sides[:, mine]
    kept = [
        [player for player in (1, 2) if pair[player - 1] == judgements.KEPT]
        for pair in codes.T.tolist()
    ]
    reasons = [
        json.dumps(
            {
                str(player): judgements.REASONS[pair[player - 1]].value
                for player in (1, 2)
                if pair[player - 1] != judgements.KEPT
            }
        )
        for pair in codes.T.tolist()
    ]
    reused = [
        reuse.as_json(have.get(replay_id, {}), sides)
        for replay_id, sides in zip(
            table.column("replay_id").to_pylist(), kept, strict=True
        )
    ]
    begin = plan.files[number]
    shard = np.searchsorted(plan.shards, begin + np.arange(len(mine)), "right") - 1
    columns = (
        ["".join(map(str, sides)) for sides in kept],
        reasons,
        [selection.SPLITS[split] for split in selected.splits[mine]],
        [plan.names[i] for i in shard.tolist()],
        reused,
    )
    arrays = [pa.array(values, pa.string()) for values in columns]
    table = pa.table([*table.columns, *arrays], schema=packets.SCHEMA)
    return table.combine_chunks(), sum(item is not None for item in reused)


def _encoded(
    table: pa.Table, plan: Layout, number: int
) -> tuple[bytes, list[ShardPlace]]:
    """Returns the bytes of one file of the list, and where its packets are."""
    begin, end = plan.files[number], plan.files[number + 1]
    first, last = np.searchsorted(plan.packets, [begin, end])
    batch = table.to_batches()[0]
    body: list[bytes] = []
    places: list[ShardPlace] = []
    for low, high in itertools.pairwise(plan.packets[first : last + 1].tolist()):
        name = plan.names[int(np.searchsorted(plan.shards, low, "right")) - 1]
        if not places or places[-1].name != name:
            places.append(ShardPlace(name, []))
        body.append(packets.encode(batch.slice(low - begin, high - low)))
        places[-1].sizes.append(len(body[-1]))
    return b"".join(body), places
