"""Training: batches in, checkpoints and metrics out.

In: a `Run`, a dataset and a folder. Out: files in the folder (`run_folder`) and a `Summary`. A run
whose folder has checkpoints continues from the newest one, bit for bit: the optimizer's state,
the carry and the sampler's position are stored in it, and all random numbers follow from the seed
and the number of the update.
"""

import dataclasses
import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from starmill.learners import (
    agent_file,
    checkpoint,
    journal,
    rollouts,
    run_folder,
    runs,
    splits,
)
from starmill.learners.algorithms.contract import Metrics
from starmill.learners.checkpoint import Meta
from starmill.learners.learner import Learner, State
from starmill.learners.networks import parameters, streams
from starmill.learners.networks.parameters import Params
from starmill.learners.rollouts import Batch
from starmill.learners.runs import Run
from starmill.schema import errors, specs, storage
from starmill.schema.loader.dataset import Dataset

_log = logging.getLogger(__name__)

# Parts of the network that the agent to start from may lack. They then start fresh.
_OPTIONAL_PARTS = {"action_value_head", "dynamics", "memory"}

# Of the training episodes: fewer do not teach a network how players of their rating play.
PLAYING_SHARE = 0.05

OnUpdate = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """How a session of training ended.

    Attributes:
        update: the run's last update, counted from its beginning.
        frames: that the run has trained on, counted from its beginning.
        seconds: that this session took.
        wait_seconds: of them, spent waiting for data.
        new_frames: that this session trained on.
        problem: why training stopped early; None if it did not.
    """

    update: int
    frames: int
    seconds: float
    wait_seconds: float
    new_frames: int
    problem: str | None = None


def train(
    run: Run,
    data: Dataset,
    folder: Path,
    *,
    init: Path | None = None,
    workers: int = 0,
    devices: int | None = None,
    stop_after: int | None = None,
    on_update: OnUpdate = lambda update, frames: None,
) -> Summary:
    """Trains in a folder, from its newest checkpoint if it has one.

    Args:
        run: what to train. Its settings must be the dataset's.
        data: the whole dataset; the run's filters and the split are applied here.
        folder: for the results; created if missing. A folder with another run is refused.
        init: an earlier run's folder, or an agent's file, whose parameters to start from.
        workers: processes that load data ahead.
        devices: how many devices to use; None for all.
        stop_after: the update after which to stop, as if interrupted; for tests.
        on_update: called after each update with its number and the frames done.
    """
    if run.algorithm.settings != data.settings:
        lines = runs.differences(
            run.algorithm.settings.to_json(), data.settings.to_json()
        )
        raise errors.ManifestMismatch(
            "the run's settings differ from the dataset's:\n  " + "\n  ".join(lines)
        )
    episodes = splits.training_episodes(run, data)
    _claim(folder, run, data, init)
    learner = Learner(run, devices)
    with checkpoint.Store(folder) as store:
        if store.latest() is None:
            meta = _first_meta(run, data, episodes)
            state = learner.init(_start(run, data, init))
        else:
            meta, arrays = store.load()
            checkpoint.check_schema(meta, data.settings)
            checkpoint.check_dataset(meta, data.reference)
            # The folder's run is this one, but earlier versions may have spelled it otherwise.
            meta = dataclasses.replace(meta, run=run.to_json())
            like = jax.eval_shape(lambda: learner.init(None))
            tree = checkpoint.restore(arrays, tuple(like), folder)
            state = learner.put_state(State(*tree))
        with (
            splits.batches(
                run, episodes, workers=workers, state=meta.sampler or None
            ) as iterator,
            journal.Journal(folder, update=meta.update) as metrics_journal,
        ):
            session = _Session(learner, iterator, metrics_journal, store, meta, folder)
            return session.train(state, stop_after, on_update)


class _Pending(NamedTuple):
    """An update whose metrics have not been read yet.

    Attributes:
        update: its number.
        batches: what it was trained on.
        metrics: still on the devices; reading them waits for the update.
    """

    update: int
    batches: list[Batch]
    metrics: Metrics


class _Session:
    """Training from a checkpoint, or the start, to the end or a problem."""

    def __init__(
        self,
        learner: Learner,
        iterator: Any,
        metrics_journal: journal.Journal,
        store: checkpoint.Store,
        meta: Meta,
        folder: Path,
    ) -> None:
        self._learner, self._run = learner, learner.run
        self._iterator, self._journal, self._store = iterator, metrics_journal, store
        self._meta, self._folder = meta, folder
        self._rows: list[dict[str, float]] = []
        self._wait_seconds = 0.0

    def train(
        self, state: State, stop_after: int | None, on_update: OnUpdate
    ) -> Summary:
        """Runs updates. Metrics are read one update late, so that devices are never idle."""
        began, first = time.monotonic(), self._meta.update
        last = self._run.updates
        if stop_after is not None:
            last = min(last, stop_after)
        pending: _Pending | None = None
        problem, update = None, first
        for update in range(first + 1, last + 1):
            batches = list(
                itertools.islice(self._loaded(), self._run.algorithm.accumulate)
            )
            before = state
            state, metrics = self._learner.update(state, batches, update)
            if pending is not None and (problem := self._settle(pending)):
                state = before
                break
            pending = _Pending(update, batches, metrics)
            if update % self._run.save_every == 0 or update == last:
                problem = self._settle(pending)
                pending = None
                if problem:
                    break
                self._save(state, update)
            on_update(update, update * self._run.frames_per_update)
        return Summary(
            update=update,
            frames=update * self._run.frames_per_update,
            seconds=time.monotonic() - began,
            wait_seconds=self._wait_seconds,
            new_frames=(update - first) * self._run.frames_per_update,
            problem=problem,
        )

    def _loaded(self) -> Iterator[Batch]:
        while True:
            began = time.monotonic()
            arrays = next(self._iterator)
            self._wait_seconds += time.monotonic() - began
            yield rollouts.prepare(
                arrays,
                self._run.algorithm.settings,
                consecutive=self._run.is_consecutive,
            )

    def _settle(self, pending: _Pending) -> str | None:
        """Journals an update's metrics; returns the problem if they are not finite."""
        row = {name: float(value) for name, value in pending.metrics.items()}
        bad = sorted(name for name, value in row.items() if not np.isfinite(value))
        if bad:
            path = self._folder / f"not-finite-{pending.update:08d}.npz"
            arrays = {
                f"{number}/{key}": value
                for number, batch in enumerate(pending.batches)
                for key, value in batch.items()
            }
            np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # by name
            return (
                f"update {pending.update}: {', '.join(bad)} not finite; the batch is in "
                f"{path}, the last good checkpoint at update {self._store.latest()}"
            )
        self._rows.append(row)
        if pending.update % self._run.log_every == 0:
            mean = {
                name: float(np.mean([one[name] for one in self._rows])) for name in row
            }
            frames = pending.update * self._run.frames_per_update
            self._journal.add(pending.update, frames, mean)
            self._rows = []
        return None

    def _save(self, state: State, update: int) -> None:
        meta = dataclasses.replace(
            self._meta,
            update=update,
            frames=update * self._run.frames_per_update,
            sampler=self._iterator.get_state(),
        )
        self._store.save(tuple(state), meta)


def _first_meta(run: Run, data: Dataset, episodes: Dataset) -> Meta:
    ratings = [value for value in episodes.table.column("mmr").to_pylist() if value]
    return Meta(
        run=run.to_json(),
        dataset=data.reference,
        fingerprint=specs.fingerprint(data.settings),
        update=0,
        frames=0,
        sampler={},
        max_mmr=playing_rating(ratings),
    )


def playing_rating(ratings: Sequence[int]) -> int:
    """Returns the rating to play with, given those of the training episodes.

    It is the median of the highest bucket of the network's input that holds at least
    PLAYING_SHARE of the episodes. Of a bucket with one episode in it, a network has learned
    nothing. 0 without ratings.
    """
    if not ratings:
        return 0
    known = np.sort(np.asarray(ratings))
    buckets = np.minimum(known // streams.MMR_STEP, streams.MMR_BUCKETS - 1)
    numbers, counts = np.unique(buckets, return_counts=True)
    common = numbers[counts >= PLAYING_SHARE * len(known)]
    inside = known[buckets == common.max()]
    return int(inside[len(inside) // 2])


def _claim(folder: Path, run: Run, data: Dataset, init: Path | None) -> None:
    """Writes run.json; refuses a folder that holds another run or other files."""
    ours = {
        "run": run.to_json(),
        "dataset": data.reference,
        "init": None if init is None else str(init),
    }
    path = folder / run_folder.RUN
    if path.exists():
        theirs = _stored_claim(path)
        lines = runs.differences(ours, theirs)
        if any(line.startswith("dataset") for line in lines):
            raise errors.ManifestMismatch(
                f"{folder} holds a run on {theirs.get('dataset')}, this is "
                f"{data.reference}; choose another --out"
            )
        if lines:
            raise errors.ConfigError(
                f"{folder} holds another run; choose another --out, or make it agree:\n  "
                + "\n  ".join(lines)
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise errors.ConfigError(f"{folder}: expected an empty or new folder")
    text = json.dumps(ours, indent=1, sort_keys=True) + "\n"
    storage.write(str(path), text.encode())


def _stored_claim(path: Path) -> dict[str, Any]:
    """Returns run.json with the run as this version writes it."""
    try:
        claim = json.loads(path.read_text("utf-8"))
        return {**claim, "run": runs.from_json(claim["run"]).to_json()}
    except (ValueError, KeyError, TypeError) as error:
        raise errors.FormatError(
            f"{path}: the file is damaged: {error}. Choose another --out, or restore it "
            "from a copy"
        ) from error


def _start(run: Run, data: Dataset, init: Path | None) -> Params | None:
    """Returns the parameters to start from; None to start fresh."""
    if init is None:
        if run.record.starts_from:
            raise errors.ConfigError(
                f"{run.agent} improves a trained {run.record.starts_from} agent: "
                "give its folder with --init"
            )
        return None
    meta, arrays = agent_file.load(init)
    checkpoint.check_schema(meta, data.settings)
    held_out = int(meta.run.get("hold_out", 0))
    if held_out < run.hold_out and meta.dataset == data.reference:
        raise errors.ConfigError(
            f"hold_out: {init} held out {held_out} of a thousand games, this run holds "
            f"out {run.hold_out}: it would be evaluated on games that it was trained on"
        )
    config = run.algorithm
    fresh = parameters.init(run.seed, config.network, config.settings)
    params: Params
    params, missing = checkpoint.graft(arrays, fresh, checkpoint.PARAMETERS)
    parts = sorted({name.split("/")[1] for name in missing})
    if not set(parts) <= _OPTIONAL_PARTS:
        raise errors.ManifestMismatch(
            f"{init}: parameters {parts} are missing: it has another network"
        )
    if parts:
        _log.info("%s has no %s: these start fresh", init, ", ".join(parts))
    return params
