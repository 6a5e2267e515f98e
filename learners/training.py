"""Training: batches in, checkpoints and metrics out.

In: a `Run`, a dataset and a folder. Out: files in the folder (`run_folder`) and a `Summary`. A run
whose folder has checkpoints continues from the newest one, bit for bit: the optimizer's state,
the carry and the sampler's position are stored in it, and all random numbers follow from the seed
and the number of the update. Several processes (`processes`) train one run together in one folder,
which all of them see. Any number of them can continue a run.
"""

import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from starmill.learners import (
    agent_file,
    checkpoint,
    columns,
    feed,
    journal,
    processes,
    run_folder,
    runs,
    splits,
)
from starmill.learners.algorithms.contract import Metrics
from starmill.learners.checkpoint import Meta
from starmill.learners.columns import LookUp
from starmill.learners.counts import actions
from starmill.learners.feed import Feed, Group
from starmill.learners.learner import Learner, State
from starmill.learners.networks import latents, parameters, streams
from starmill.learners.networks.compact import aim
from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.parameters import Params
from starmill.learners.runs import Run
from starmill.schema import errors, specs, storage
from starmill.schema.loader.dataset import Dataset

_log = logging.getLogger(__name__)

# Parts of the network that the agent to start from may lack. They then start fresh.
_OPTIONAL_PARTS = {"action_value_head", "dynamics", "memory"}

# Of the training episodes: fewer do not teach a network how players of their rating play.
PLAYING_SHARE = 0.05

# Rollouts of steps that are encoded together.
_ENCODED_TOGETHER = 8

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
    critic: Path | None = None,
    workers: int = 0,
    devices: int | None = None,
    stop_after: int | None = None,
    loggers: Collection[str] = (journal.TENSORBOARD,),
    on_update: OnUpdate = lambda update, frames: None,
) -> Summary:
    """Trains in a folder, from its newest checkpoint if it has one.

    Args:
        run: what to train. Its settings must be the dataset's.
        data: the whole dataset; the run's filters and the split are applied here.
        folder: for the results; created if missing. A folder with another run is refused.
        init: an earlier run's folder, or an agent's file, whose parameters to start from.
        critic: a file of values that replace those of the run's critic.
        workers: processes that load data ahead, of each process that trains.
        devices: how many devices to use; None for all.
        stop_after: the update after which to stop, as if interrupted; for tests.
        loggers: what shows the metrics besides metrics.csv: of `journal.LOGGERS`.
        on_update: called after each update with its number and the frames done.
    """
    if run.algorithm.settings != data.settings:
        lines = runs.differences(
            run.algorithm.settings.to_json(), data.settings.to_json()
        )
        raise errors.ManifestMismatch(
            "the run's settings differ from the dataset's:\n  " + "\n  ".join(lines)
        )
    _check_memory(run)
    _check_critic(run, critic)
    episodes = splits.training_episodes(run, data)
    claim = _claim(run, data, init)
    path = folder / run_folder.RUN
    _check_claim(folder, claim)
    learner = Learner(run, devices)
    if processes.is_writer() and not path.exists():
        storage.write(str(path), claim)
    processes.wait("the run's folder")
    if not path.exists():
        raise errors.ConfigError(
            f"{path}: expected the file that process 0 wrote: --out must be a folder that all "
            "processes share"
        )
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
            tree = checkpoint.restore(arrays, tuple(learner.shapes()), folder)
            state = learner.put_state(State(*tree))
        with (
            splits.batches(
                run,
                episodes,
                workers=workers,
                host=processes.index(),
                hosts=processes.count(),
                state=meta.sampler or None,
            ) as iterator,
            _journal(folder, meta.update, loggers) as metrics_journal,
        ):
            extra = _columns(run, state, episodes, critic)
            session = _Session(
                learner, iterator, metrics_journal, store, meta, folder, extra
            )
            try:
                return session.train(state, stop_after, on_update)
            except (RuntimeError, ValueError) as error:
                if processes.count() > 1:
                    processes.give_up(error)
                raise


def _journal(
    folder: Path, update: int, loggers: Collection[str]
) -> contextlib.AbstractContextManager[journal.Journal | None]:
    """Returns the journal in the process that writes it; a context without one in others."""
    if processes.is_writer():
        return journal.Journal(folder, update=update, loggers=loggers)
    return contextlib.nullcontext()


class _Pending(NamedTuple):
    """A group whose metrics have not been read yet.

    Attributes:
        update: the number of its update.
        is_last: whether it is the update's last group.
        group: what was computed.
        metrics: still on the devices; reading them waits for the computation.
    """

    update: int
    is_last: bool
    group: Group
    metrics: Metrics


class _Session:
    """Training from a checkpoint, or the start, to the end or a problem."""

    def __init__(
        self,
        learner: Learner,
        iterator: Any,
        metrics_journal: journal.Journal | None,
        store: checkpoint.Store,
        meta: Meta,
        folder: Path,
        columns: Sequence[LookUp],
    ) -> None:
        self._learner, self._run = learner, learner.run
        self._columns = columns
        self._iterator, self._journal, self._store = iterator, metrics_journal, store
        self._meta, self._folder = meta, folder
        self._first_position = iterator.get_state()["position"]
        # Of the groups of the present update, and of the updates since the last row.
        self._group_rows: list[dict[str, float]] = []
        self._rows: list[dict[str, float]] = []

    def train(
        self, state: State, stop_after: int | None, on_update: OnUpdate
    ) -> Summary:
        """Runs updates. Metrics are read one group late, so that devices are never idle."""
        began, first = time.monotonic(), self._meta.update
        last = self._run.updates
        if stop_after is not None:
            last = min(last, stop_after)
        size = feed.group_size(
            self._run.algorithm.accumulate, self._iterator.batch_bytes
        )
        groups = self._run.algorithm.accumulate // size
        count = max(0, last - first) * groups
        batches = Feed(self._learner, self._iterator, count, self._columns)
        pending: _Pending | None = None
        problem, update = None, first
        for update in range(first + 1, last + 1):
            total = None
            for number in range(groups):
                group = batches.next()
                if groups == 1:
                    state, metrics = self._learner.update(state, group.device, update)
                else:
                    state, total, metrics = self._learner.add(
                        state, total, group.device, update, number * size
                    )
                batches.advance()
                if pending is not None and (problem := self._settle(pending)):
                    break
                is_last = number == groups - 1
                pending = _Pending(update, is_last, group, metrics)
            if problem:
                break
            if total is not None:
                state = self._learner.apply(state, total)
            if update % self._run.save_every == 0 or update == last:
                problem = self._settle(pending) if pending else None
                pending = None
                if problem:
                    break
                self._save(state, update)
            on_update(update, update * self._run.frames_per_update)
        return Summary(
            update=update,
            frames=update * self._run.frames_per_update,
            seconds=time.monotonic() - began,
            wait_seconds=batches.wait_seconds,
            new_frames=(update - first) * self._run.frames_per_update,
            problem=problem,
        )

    def _settle(self, pending: _Pending) -> str | None:
        """Journals a group's metrics; returns the problem if they are not finite."""
        row = {name: float(value) for name, value in pending.metrics.items()}
        bad = sorted(name for name, value in row.items() if not np.isfinite(value))
        if bad:
            path = self._write_batches(pending)
            return (
                f"update {pending.update}: {', '.join(bad)} not finite; the batch is in "
                f"{path}, the last good checkpoint at update {self._store.latest()}"
            )
        self._group_rows.append(row)
        if not pending.is_last:
            return None
        # The norm of the last group is that of the whole update's gradient.
        mean = {**_mean(self._group_rows), "gradient_norm": row["gradient_norm"]}
        self._group_rows = []
        self._rows.append(mean)
        if pending.update % self._run.log_every == 0:
            frames = pending.update * self._run.frames_per_update
            if self._journal is not None:
                self._journal.add(pending.update, frames, _mean(self._rows))
            self._rows = []
        return None

    def _write_batches(self, pending: _Pending) -> Path:
        """Writes this process's rows of a group; process 0 has the plain name."""
        name = f"not-finite-{pending.update:08d}"
        if not processes.is_writer():
            name += f"-process-{processes.index()}"
        path = self._folder / f"{name}.npz"
        arrays = {
            f"{number}/{checkpoint.path_name(place)}": value
            for number, batch in enumerate(pending.group.batches)
            for place, value in jax.tree_util.tree_leaves_with_path(batch)
        }
        np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # by name
        return path

    def _save(self, state: State, update: int) -> None:
        # The iterator itself is ahead: it has loaded batches that were not trained on.
        batches = (update - self._meta.update) * self._run.algorithm.accumulate
        position = self._first_position + batches
        meta = dataclasses.replace(
            self._meta,
            update=update,
            frames=update * self._run.frames_per_update,
            sampler={**self._iterator.get_state(), "position": position},
        )
        self._store.save(tuple(state), meta)


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[-1]}


def _check_memory(run: Run) -> None:
    """Raises ConfigError where memory would be trained empty, as it never is in a game."""
    config = run.algorithm
    memory = config.network.memory
    if memory != "none" and getattr(config, "frozen_encoder", False):
        raise errors.ConfigError(
            f"frozen_encoder: expected a network without memory, found {memory!r}: its "
            "latents depend on the steps before"
        )
    if memory == "none":
        if config.burn_in:
            raise errors.ConfigError(
                f"burn_in {config.burn_in}: expected 0 for a network without memory"
            )
        return
    if hasattr(config, "unroll"):
        raise errors.ConfigError(
            f"memory {memory!r}: {run.agent} encodes single steps, which have no memory; "
            "expected 'none'"
        )
    if config.rollout + config.burn_in < 2:
        raise errors.ConfigError(
            f"memory {memory!r}: in rollouts of 1 step it would always be empty. Let it "
            "see earlier steps, for example --burn-in 16, or use longer rollouts"
        )


def _check_critic(run: Run, critic: Path | None) -> None:
    """Raises ConfigError unless the file of values is the run's."""
    expected = getattr(run.algorithm, "critic", "")
    actual = "" if critic is None else columns.digest(critic)
    if actual != expected:
        raise errors.ConfigError(
            f"critic: the run has values with sha256 {expected or 'none'}, found "
            f"{critic or 'no file'} with {actual or 'none'}"
        )


def _columns(
    run: Run, state: State, episodes: Dataset, critic: Path | None
) -> list[LookUp]:
    """Returns the numbers for each step that the run has beside those of the dataset."""
    lookups = []
    if critic is not None:
        lookups.append(LookUp(columns.read(critic), episodes))
    if getattr(run.algorithm, "frozen_encoder", False):
        _log.info("computing the latents of %d steps", episodes.steps)
        arrays = latents.encode(
            jax.device_get(state.carry["behaviour"]),
            run.algorithm.network,
            episodes.settings,
            splits.every_step(episodes, _ENCODED_TOGETHER),
            columns.starts(episodes),
        )
        lookups.append(LookUp(columns.of_dataset(episodes, arrays), episodes))
    return lookups


def _first_meta(run: Run, data: Dataset, episodes: Dataset) -> Meta:
    ratings = [value for value in episodes.column("mmr").to_pylist() if value]
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


def _claim(run: Run, data: Dataset, init: Path | None) -> bytes:
    """Returns what run.json says."""
    claim = {
        "run": run.to_json(),
        "dataset": data.reference,
        "init": None if init is None else str(init),
    }
    return (json.dumps(claim, indent=1, sort_keys=True) + "\n").encode()


def _check_claim(folder: Path, claim: bytes) -> None:
    """Refuses a folder that holds another run or other files."""
    ours = json.loads(claim)
    path = folder / run_folder.RUN
    if path.exists():
        theirs = _stored_claim(path)
        lines = runs.differences(ours, theirs)
        if any(line.startswith("dataset") for line in lines):
            raise errors.ManifestMismatch(
                f"{folder} holds a run on {theirs.get('dataset')}, this is "
                f"{ours['dataset']}; choose another --out"
            )
        if lines:
            raise errors.ConfigError(
                f"{folder} holds another run; choose another --out, or make it agree:\n  "
                + "\n  ".join(lines)
            )
    elif folder.exists() and any(folder.iterdir()):
        raise errors.ConfigError(f"{folder}: expected an empty or new folder")


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
        if not _has_legal_actions(run):
            return None
        network = run.algorithm.network
        new = parameters.init(run.seed, network, data.settings)
        return parameters.with_counts(new, _legal_actions(run, data))
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
    if _has_legal_actions(run) and any("/policy/legal/" in name for name in missing):
        params = parameters.with_counts(params, _legal_actions(run, data))
        missing = [name for name in missing if "/policy/legal/" not in name]
    parts = sorted({name.split("/")[1] for name in missing})
    if not set(parts) <= _OPTIONAL_PARTS:
        raise errors.ManifestMismatch(
            f"{init}: parameters {parts} are missing: it has another network"
        )
    if parts:
        _log.info("%s has no %s: these start fresh", init, ", ".join(parts))
    return params


def _has_legal_actions(run: Run) -> bool:
    network = run.algorithm.network
    return isinstance(network, CompactConfig) and network.legal_actions


def _legal_actions(run: Run, data: Dataset) -> actions.Tables:
    """Returns what was ever done in the run's training games, by winners and losers."""
    _log.info("counting the actions of the training games")
    games = splits.training_games(run, data)
    return actions.count(games, aim.valued_planes(data.settings))
