"""Training: batches in, checkpoints and metrics out; what is the same for every algorithm.

In: a `Run`, a dataset, a folder. Out: files in the folder (see `checkpoint`, `journal`) and a
`Summary`. A run in a folder that has checkpoints goes on from the newest, bit for bit: the
optimiser's state, the carry and the sampler's position are in it, and every random number
follows from the seed and the update's number.
Batches are split over devices along their first axis; parameters are on all of them.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pyarrow.compute
from jax.sharding import NamedSharding, PartitionSpec

from starmill.learners import (
    agent_file,
    checkpoint,
    journal,
    rollouts,
    runs,
)
from starmill.learners import (
    optimizer as optim,
)
from starmill.learners.algorithms.contract import Carry, Metrics, Params
from starmill.learners.networks import network
from starmill.learners.rollouts import Batch
from starmill.schema import errors, specs, storage
from starmill.schema.loader import dataset
from starmill.schema.loader.batch_options import BatchOptions

log = logging.getLogger(__name__)

RUN_FILE = "run.json"
SPLIT = "train"


class State(NamedTuple):
    """What changes from update to update."""

    params: Params
    optimizer: Any
    carry: Carry


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """How a run ended.

    update, frames: how far it came, earlier parts included.
    seconds: of this part; wait_seconds of them for data.
    problem: why it stopped early; None if it did not.
    """

    update: int
    frames: int
    seconds: float
    wait_seconds: float
    new_frames: int
    problem: str | None = None


class Learner:
    """The compiled part: a state, and updates of it."""

    def __init__(self, run: runs.Run, devices: int | None = None) -> None:
        self.run = run
        config = run.algorithm
        available = jax.devices()
        count = len(available) if devices is None else devices
        if not 1 <= count <= len(available) or config.batch_size % count:
            raise errors.ConfigError(
                f"devices: {count} of {len(available)} with batches of "
                f"{config.batch_size}: expected a divisor of the batch size"
            )
        mesh = jax.sharding.Mesh(np.asarray(available[:count]), ("batch",))
        self._everywhere = NamedSharding(mesh, PartitionSpec())
        self._split = NamedSharding(mesh, PartitionSpec("batch"))
        self._optimizer = optim.optimizer(run.optim, run.frames_per_update)
        self._loss = runs.ALGORITHMS[run.agent].loss
        jit = functools.partial(jax.jit, out_shardings=self._everywhere)
        self._update = jit(self._whole_update)
        self._add = jit(self._add_gradient)
        self._apply = jit(self._apply_gradient)

    def init(self, start: Params | None = None) -> State:
        """Returns the first state; `start` are parameters to begin from."""
        run = self.run
        params, carry = runs.ALGORITHMS[run.agent].init(run.seed, run.algorithm, start)
        return self.put_state(State(params, self._optimizer.init(params), carry))

    def put_state(self, state: State) -> State:
        """Returns the state on all devices."""
        return jax.device_put(state, self._everywhere)

    def put(self, batch: Batch) -> Batch:
        """Returns a batch split over the devices."""
        return jax.device_put(batch, self._split)

    def update(
        self, state: State, batches: list[Batch], number: int
    ) -> tuple[State, Metrics]:
        """Returns the state after one update of `accumulate` batches, and mean metrics."""
        keys = jax.random.split(
            jax.random.fold_in(jax.random.key(self.run.seed), number), len(batches)
        )
        if len(batches) == 1:
            return self._update(state, self.put(batches[0]), keys[0])
        shapes = jax.eval_shape(self._gradient, state, batches[0], keys[0])
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        total: Any = (zeros[0], zeros[2])
        for batch, key in zip(batches, keys, strict=True):
            state, total = self._add(state, total, self.put(batch), key)
        gradient, metrics = jax.tree.map(lambda leaf: leaf / len(batches), total)
        return self._apply(state, gradient), metrics

    def _gradient(
        self, state: State, batch: Batch, key: jax.Array
    ) -> tuple[Params, Carry, Metrics]:
        def loss(params: Params) -> tuple[jax.Array, tuple[Carry, Metrics]]:
            return self._loss(params, state.carry, batch, key, self.run.algorithm)

        gradient, (carry, metrics) = jax.grad(loss, has_aux=True)(state.params)
        return gradient, carry, metrics

    def _whole_update(
        self, state: State, batch: Batch, key: jax.Array
    ) -> tuple[State, Metrics]:
        gradient, carry, metrics = self._gradient(state, batch, key)
        squares = [jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient)]
        metrics["gradient_norm"] = jnp.sqrt(sum(squares))
        return self._apply_gradient(state._replace(carry=carry), gradient), metrics

    def _add_gradient(
        self, state: State, total: Any, batch: Batch, key: jax.Array
    ) -> tuple[State, Any]:
        gradient, carry, metrics = self._gradient(state, batch, key)
        total = jax.tree.map(jnp.add, total, (gradient, metrics))
        return state._replace(carry=carry), total

    def _apply_gradient(self, state: State, gradient: Params) -> State:
        steps, optimizer = self._optimizer.update(
            gradient, state.optimizer, state.params
        )
        params = optax.apply_updates(state.params, steps)
        return State(params, optimizer, state.carry)


def split_host(devices: int) -> None:
    """Makes the CPU appear as so many devices; before jax is used, and of no effect on others.

    Worth it on few cores: much of XLA's CPU code runs on one thread per device.
    """
    jax.config.update("jax_num_cpu_devices", devices)


def training_data(run: runs.Run, data: dataset.Dataset) -> dataset.Dataset:
    """Returns the episodes that the run trains on."""
    return training_games(run, data).filter(
        mmr_above=run.mmr_above, outcome=run.outcome
    )


def training_games(run: runs.Run, data: dataset.Dataset) -> dataset.Dataset:
    """Returns all episodes of the training split but for the games that the run holds out."""
    chosen = data.filter(split=SPLIT)
    if not run.hold_out:
        return chosen
    return chosen.filter(where=~_is_held_out(run, chosen))


def held_out_data(
    run: runs.Run, data: dataset.Dataset, splits: Sequence[str]
) -> dataset.Dataset:
    """Returns the episodes of some splits, and of the games that the run holds out."""
    if SPLIT in splits:
        raise errors.ConfigError(f"split: {SPLIT!r} is what is trained on")
    where = pyarrow.compute.field("split").isin(list(splits))
    if run.hold_out:
        where |= _is_held_out(run, data.filter(split=SPLIT))
    try:
        return data.filter(where=where)
    except errors.ConfigError as error:
        raise errors.ConfigError(
            f"nothing to evaluate on: {error}. Hold out training games (hold_out=100 of "
            f"a thousand, --hold-out on the command line), name another split than "
            f"{','.join(splits)}, or none"
        ) from error


def _is_held_out(run: runs.Run, data: dataset.Dataset) -> pyarrow.compute.Expression:
    names = sorted(set(data.table.column("replay_id").to_pylist()))
    held = [name for name in names if _place(name) < run.hold_out]
    return pyarrow.compute.field("replay_id").isin(held)


def _place(replay_id: str) -> int:
    """Returns a number below 1000 that follows from the id, but not from its split."""
    digest = hashlib.sha256(f"starmill hold out 1:{replay_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 1000


def batches(
    run: runs.Run,
    data: dataset.Dataset,
    *,
    workers: int = 0,
    state: dict[str, int] | None = None,
) -> Any:
    """Returns the dataset's iterator for a run: K + 1 steps, see `rollouts.prepare`."""
    config = run.algorithm
    consecutive = run.sampler == "consecutive"
    overlap = getattr(config, "overlap", 0)
    options = BatchOptions(
        batch_size=config.batch_size,
        rollout=config.rollout + 1,
        seed=run.seed,
        sampler=run.sampler,
        form="compact",
        stride=config.rollout - overlap if consecutive else None,
        cross_episodes=consecutive,
    )
    return data.batches(options, workers=workers, state=state)


def train(
    run: runs.Run,
    data: dataset.Dataset,
    folder: Path,
    *,
    init: Path | None = None,
    workers: int = 0,
    devices: int | None = None,
    stop_after: int | None = None,
    on_update: Callable[[int, int], None] = lambda update, frames: None,
) -> Summary:
    """Trains in a folder, from its newest checkpoint if it has one.

    Args:
        run: what to train. Its settings must be the dataset's.
        data: the whole dataset; the run's filters and the split are applied here.
        folder: for the results; made if missing. One that holds another run is refused.
        init: an earlier run's folder, or a packed agent, whose parameters to start from.
        workers: processes that load data ahead.
        devices: how many to use; all by default.
        stop_after: updates after which to stop, as if interrupted; for tests.
        on_update: told the update and the frames done, after each.
    """
    if run.algorithm.settings != data.settings:
        raise errors.ManifestMismatch(
            "the run and the dataset have other settings:\n  "
            + "\n  ".join(
                runs.differences(
                    run.algorithm.settings.to_json(), data.settings.to_json()
                )
            )
        )
    chosen = training_data(run, data)
    _claim(folder, run, data, init)
    learner = Learner(run, devices)
    mmr = [value for value in chosen.table.column("mmr").to_pylist() if value]
    meta = checkpoint.Meta(
        run=run.to_json(),
        dataset=data.reference,
        fingerprint=specs.fingerprint(data.settings),
        update=0,
        frames=0,
        sampler={},
        max_mmr=max(mmr, default=0),
    )
    with checkpoint.Store(folder) as store:
        if store.latest() is None:
            state = learner.init(_start(run, data, init))
        else:
            meta = store.meta()
            checkpoint.check_schema(meta, data.settings)
            checkpoint.check_dataset(meta, data.reference)
            like = jax.eval_shape(lambda: learner.init(None))
            state = learner.put_state(State(*store.restore(tuple(like))))
        with (
            batches(
                run, chosen, workers=workers, state=meta.sampler or None
            ) as iterator,
            journal.Journal(folder, update=meta.update) as notes,
        ):
            loop = _Loop(learner, iterator, notes, store, meta, folder)
            return loop.go(state, stop_after, on_update)


class _Pending(NamedTuple):
    update: int
    batches: list[Batch]
    metrics: Metrics


class _Loop:
    """One part of a run: from a checkpoint, or the start, to the end or a problem."""

    def __init__(
        self,
        learner: Learner,
        iterator: Any,
        notes: journal.Journal,
        store: checkpoint.Store,
        meta: checkpoint.Meta,
        folder: Path,
    ) -> None:
        self._learner, self._run = learner, learner.run
        self._iterator, self._notes, self._store = iterator, notes, store
        self._meta, self._folder = meta, folder
        self._rows: list[dict[str, float]] = []
        self._wait_seconds = 0.0

    def go(
        self,
        state: State,
        stop_after: int | None,
        on_update: Callable[[int, int], None],
    ) -> Summary:
        """Runs updates; metrics are looked at one update late, so devices never idle."""
        began, first = time.monotonic(), self._meta.update
        last = self._run.updates
        if stop_after is not None:
            last = min(last, stop_after)
        pending: _Pending | None = None
        problem, update = None, first
        for update in range(first + 1, last + 1):
            taken = list(
                itertools.islice(self._loaded(), self._run.algorithm.accumulate)
            )
            before = state
            state, metrics = self._learner.update(state, taken, update)
            if pending is not None and (problem := self._settle(pending)):
                state = before
                break
            pending = _Pending(update, taken, metrics)
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
        consecutive = self._run.sampler == "consecutive"
        while True:
            began = time.monotonic()
            arrays = next(self._iterator)
            self._wait_seconds += time.monotonic() - began
            yield rollouts.prepare(
                arrays, self._run.algorithm.settings, consecutive=consecutive
            )

    def _settle(self, pending: _Pending) -> str | None:
        """Notes an update's metrics; returns the problem if they are not numbers."""
        row = {name: float(value) for name, value in pending.metrics.items()}
        bad = sorted(name for name, value in row.items() if not np.isfinite(value))
        if bad:
            path = self._folder / f"not-finite-{pending.update:08d}.npz"
            kept = {
                f"{number}/{key}": value
                for number, batch in enumerate(pending.batches)
                for key, value in batch.items()
            }
            np.savez_compressed(path, **kept)  # type: ignore[arg-type]  # arrays by name
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
            self._notes.add(pending.update, frames, mean)
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


def _claim(
    folder: Path, run: runs.Run, data: dataset.Dataset, init: Path | None
) -> None:
    """Writes run.json, or refuses a folder in which another run lives."""
    ours = {
        "run": run.to_json(),
        "dataset": data.reference,
        "init": None if init is None else str(init),
    }
    path = folder / RUN_FILE
    if path.exists():
        theirs = json.loads(path.read_text("utf-8"))
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
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(ours, indent=1, sort_keys=True) + "\n"
    storage.write(str(path), text.encode())


def _start(run: runs.Run, data: dataset.Dataset, init: Path | None) -> Params | None:
    if init is None:
        if run.agent in runs.STARTS_FROM:
            raise errors.ConfigError(
                f"{run.agent} improves a trained {runs.STARTS_FROM[run.agent]} agent: "
                "give its folder with --init"
            )
        return None
    meta, arrays = agent_file.load(init)
    checkpoint.check_schema(meta, data.settings)
    seen = int(meta.run.get("hold_out", 0))
    if seen < run.hold_out and meta.dataset == data.reference:
        raise errors.ConfigError(
            f"hold_out: {init} held out {seen} of a thousand games, this run "
            f"{run.hold_out}: it would be evaluated on games that it was trained on"
        )
    config = run.algorithm
    fresh = network.init(run.seed, config.network, config.settings)
    params, missing = checkpoint.graft(arrays, fresh, prefix="0")
    heads = sorted({name.split("/")[1] for name in missing})
    expected = {"action_value_head", "dynamics", "memory"}
    if not set(heads) <= expected:
        raise errors.ManifestMismatch(
            f"{init}: parameters {heads} are missing: another network"
        )
    if heads:
        log.info("%s has no %s: these start fresh", init, ", ".join(heads))
    return params
