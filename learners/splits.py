"""Which episodes a run trains on, and which it is evaluated on.

In: a `Run` and a dataset. Out: the dataset's episodes for either purpose, and the batches to train
on. A game is on one side only: with `Run.hold_out`, some games of the training split are kept
from training and evaluated together with the held-out split.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.compute

from starmill.learners import rollouts
from starmill.learners.networks import latents, parameters
from starmill.learners.rollouts import Cut
from starmill.learners.runs import HOLD_OUT_TOTAL, Run
from starmill.schema import errors, selection
from starmill.schema.loader import filters
from starmill.schema.loader.batch_options import BatchOptions
from starmill.schema.loader.dataset import Dataset

TRAIN = "train"
# Steps of a rollout when all are read: as many as a chunk of the dataset has.
WINDOW = 32
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
    options = BatchOptions(
        batch_size=config.batch_size // hosts,
        rollout=cut(run).steps_read(config.rollout),
        seed=run.seed,
        sampler=run.sampler,
        form="compact",
        keys=_keys(run, data),
        stride=config.rollout - overlap if run.is_consecutive else None,
        cross_episodes=run.is_consecutive,
        # Each batch of an update has rows of its own, which continue in the next update.
        parts=config.accumulate if run.is_consecutive else 1,
        ahead=getattr(config, "ahead", 0),
    )
    return data.batches(options, workers=workers, host=host, hosts=hosts, state=state)


def _keys(run: Run, data: Dataset) -> list[str] | None:
    """Returns the stored arrays that a run reads."""
    if getattr(run.algorithm, "frozen_encoder", False):
        return sorted(latents.KEYS)
    unread = parameters.unread_keys(run.algorithm.network, data.settings)
    # None where nothing is left out: the options' digest of earlier runs has it.
    return sorted(set(data.specs) - unread) if unread else None


def every_step(data: Dataset, batch_size: int) -> Iterator[rollouts.Batch]:
    """Yields every step once as valid, with the action before it."""
    # Rollouts overlap by one step, since the first supplies the previous action.
    options = BatchOptions(
        batch_size=batch_size,
        rollout=WINDOW + 1,
        stride=WINDOW,
        sampler="sequential",
        form="compact",
    )
    for arrays in data.batches(options):
        batch = rollouts.add_previous_action(rollouts.trim_units(arrays, data.settings))
        # A first step that is not the episode's was in the rollout before.
        is_repeated = batch["step"][:, 0] > 0
        batch["valid"] = batch["valid"].copy()
        batch["valid"][is_repeated, 0] = False
        yield batch


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
