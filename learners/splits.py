"""Which episodes a run trains on, and which it is evaluated on.

In: a `Run` and a dataset. Out: the dataset's episodes for either purpose, and the batches to train
on. A game is on one side only: with `Run.hold_out`, some games of the training split are kept
from training and evaluated together with the held-out split.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow.compute

from starmill.learners.networks import parameters
from starmill.learners.rollouts import Cut
from starmill.learners.runs import HOLD_OUT_TOTAL, Run
from starmill.schema import errors, selection
from starmill.schema.loader import filters
from starmill.schema.loader.batch_options import BatchOptions
from starmill.schema.loader.dataset import Dataset

TRAIN = "train"
HELD_OUT = tuple(name for name in selection.SPLITS if name != TRAIN)


def training_episodes(run: Run, data: Dataset) -> Dataset:
    """Returns the episodes that the run trains on."""
    return training_games(run, data).filter(
        mmr_above=run.mmr_above, outcome=run.outcome
    )


def training_games(run: Run, data: Dataset) -> Dataset:
    """Returns all episodes of the training split, except the games that the run holds out."""
    split = data.filter(split=TRAIN)
    if not run.hold_out:
        return split
    return split.filter(where=~_is_held_out(run, split))


def held_out_episodes(run: Run, data: Dataset, splits: Sequence[str]) -> Dataset | None:
    """Returns the episodes of some splits and the games that the run holds out; None if none."""
    unknown = [name for name in splits if name not in HELD_OUT]
    if TRAIN in splits:
        raise errors.ConfigError(
            f"split: the run is trained on {TRAIN!r}; expected some of {HELD_OUT}"
        )
    if unknown:
        raise errors.ConfigError(
            f"split: expected some of {HELD_OUT}, found {unknown[0]!r}"
        )
    where = pyarrow.compute.field("split").isin(list(splits))
    if run.hold_out:
        where |= _is_held_out(run, data.filter(split=TRAIN))
    if len(filters.rows_where(data.content, data.rows, where)) == 0:
        return None
    return data.filter(where=where)


def batches(
    run: Run,
    data: Dataset,
    *,
    workers: int = 0,
    host: int = 0,
    hosts: int = 1,
    state: dict[str, int] | None = None,
) -> Any:
    """Returns the dataset's iterator for a run; one host reads its share of each batch's rows.

    Its batches have a step more than a rollout, and the steps of the burn-in.
    `rollouts.prepare` makes them into what losses take.
    """
    config = run.algorithm
    overlap = getattr(config, "overlap", 0)
    unread = parameters.unread_keys(config.network, data.settings)
    options = BatchOptions(
        batch_size=config.batch_size // hosts,
        rollout=cut(run).steps_read(config.rollout),
        seed=run.seed,
        sampler=run.sampler,
        form="compact",
        # None where nothing is left out: the options' digest of earlier runs has it.
        keys=sorted(set(data.specs) - unread) if unread else None,
        stride=config.rollout - overlap if run.is_consecutive else None,
        cross_episodes=run.is_consecutive,
        # Each batch of an update has rows of its own, which go on in the next update.
        parts=config.accumulate if run.is_consecutive else 1,
        ahead=getattr(config, "ahead", 0),
    )
    return data.batches(options, workers=workers, host=host, hosts=hosts, state=state)


def cut(run: Run) -> Cut:
    """Returns which of the steps that are read become what the run's losses take."""
    return Cut(
        consecutive=run.is_consecutive,
        burn_in=run.algorithm.burn_in,
        ahead=getattr(run.algorithm, "ahead", 0) > 0,
    )


def _is_held_out(run: Run, data: Dataset) -> pyarrow.compute.Expression:
    replay_ids = sorted(set(data.column("replay_id").to_pylist()))
    held_out = [name for name in replay_ids if _place(name) < run.hold_out]
    return pyarrow.compute.field("replay_id").isin(held_out)


def _place(replay_id: str) -> int:
    """Returns a number below HOLD_OUT_TOTAL that depends on the id but not on its split."""
    digest = hashlib.sha256(f"starmill hold out 1:{replay_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % HOLD_OUT_TOTAL
