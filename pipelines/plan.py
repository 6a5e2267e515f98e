"""Decides what a build will do, before any replay is played: the work list.

In: an index and a selection. Out: files of packets of the replays to play (`packets`), and the
counts of what was left out and why. The list depends on the replays and the selection alone, not
on the order of the index.

The index is read twice. The first pass judges, and keeps some 60 bytes of each selected replay: its
number, id, version and split, from which its place in the list follows. The second pass copies the
rows to a file for each range of places, on this machine's disk. These files are sorted one by one.
"""

import collections
import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from starmill.pipelines.planning import candidates, judgements, packing
from starmill.pipelines.planning.packets import Packet, Reused, WorkItem
from starmill.pipelines.planning.reuse import Reusable
from starmill.schema import errors, replay_index, selection
from starmill.schema.reasons import RejectReason

__all__ = ["BuildPlan", "Packet", "Reusable", "Reused", "WorkItem", "make"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """What a build will do. Always `read == selected + sum(rejected.values())`.

    Attributes:
        read: rows of the index.
        selected: replays with at least one side to make.
        rejected: reason -> replays that the selection leaves out.
        sides: episodes to make, or to take over from the extended dataset.
        unselected: reason -> sides of selected replays that the selection leaves out.
        loops: game loops of the selected games, by their headers.
        replay_set: digest of the ids of all replays read; those that could not be read have no id.
            Of an increment, the selected ones count alone.
        shard_counts: split -> shards.
        replays_by_shard: shard's name -> replays.
        engine: the game that recorded the replays: "sc2" or "skirmish".
        reused: replays whose episodes the extended dataset already has.
        files: files of the work list.
        packets: packets in all files.
        digest: of the work list, 16 hex digits. Its folder is named by it, and so are the
            results of its shards: those of other lists are never taken for them.
    """

    read: int
    selected: int
    rejected: Mapping[str, int]
    sides: int
    unselected: Mapping[str, int]
    loops: int
    replay_set: str
    shard_counts: Mapping[str, int]
    replays_by_shard: Mapping[str, int]
    engine: str
    reused: int
    files: int
    packets: int
    digest: str


def make(
    index_url: str,
    rules: selection.Selection,
    folder: str,
    *,
    replays_per_shard: int,
    reusable: Reusable | None = None,
    known: NDArray[np.bytes_] | None = None,
    increment: int = 0,
) -> BuildPlan:
    """Writes the work list to a folder and returns the plan.

    Args:
        index_url: of the index.
        rules: the selection.
        folder: where the work list goes.
        replays_per_shard: on average; this decides how many shards there are.
        reusable: the episodes of the dataset that is extended into a new one.
        known: sorted ids of the replays of the dataset that gets an increment.
        increment: number of the increment; 0: the plan is that of a whole dataset.

    Raises ConfigError if the selection keeps no replay, or none that is new.
    """
    if replays_per_shard < 1:
        raise errors.ConfigError(
            f"replays per shard: expected at least 1, found {replays_per_shard}"
        )
    with replay_index.opened(index_url) as index:
        judged = candidates.judge(index, rules)
        selected = judged.selected
        rejected, replay_set = judged.rejected, judged.replay_set
        if known is not None:
            rejected += _without_known(selected, known)
            replay_set = candidates.digest_of_ids([selected.ids])
        counts = packing.shard_counts(selected, replays_per_shard)
        numbers = packing.shards_of(selected, counts)
        order = np.lexsort((selected.ids, selected.versions, numbers, selected.splits))
        layout = packing.layout(selected, numbers, order, counts, increment)
        digest, reused = packing.write(index, selected, order, layout, folder, reusable)
    unselected = collections.Counter(
        judgements.REASONS[code].value
        for code in selected.sides[selected.sides != judgements.KEPT]
    )
    return BuildPlan(
        read=judged.read,
        selected=len(selected.rows),
        rejected=dict(sorted(rejected.items())),
        sides=int((selected.sides == judgements.KEPT).sum()),
        unselected=dict(sorted(unselected.items())),
        loops=int(selected.loops.sum()),
        replay_set=replay_set,
        shard_counts=counts,
        replays_by_shard=dict(
            zip(layout.names, np.diff(layout.shards).tolist(), strict=True)
        ),
        engine=judged.engine,
        reused=reused,
        files=len(layout.files) - 1,
        packets=len(layout.packets) - 1,
        digest=digest,
    )


def _without_known(
    selected: candidates.Selected, known: NDArray[np.bytes_]
) -> collections.Counter[str]:
    """Removes replays that a dataset has; returns their number as that of duplicates."""
    count = candidates.remove_known(selected, known)
    if not len(selected.rows):
        raise errors.ConfigError(
            f"nothing to add: the dataset already has all {count:,} replays that the "
            "selection keeps"
        )
    return collections.Counter({RejectReason.DUPLICATE.value: count} if count else {})
