"""Learners: whether the loader keeps up, frames per second, and the memory of `full`.

Trains behaviour cloning for a few updates on a dataset that it makes from the tests' factories
at the paper's shapes, so no game is needed. `tiny` trains on the dataset, and `lite` on one batch.
`full` is only compiled, and the compiler reports its memory.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from perf.row import Row
from starmill.learners import presets, rollouts, runs, splits
from starmill.learners.learner import Learner
from starmill.learners.networks import parameters
from starmill.learners.networks.parameters import Params
from starmill.schema import assembly, codec, settings, shards
from starmill.schema.loader import dataset
from tests.factories import records

SETTINGS = settings.UNPLUGGED
EPISODES, STEPS = 12, 96
UPDATES, LITE_UPDATES = 12, 2
# An update must spend less than a tenth of its time waiting for its batch.
MOST_WAITING = 0.10
FULL_FRAMES = 32
MOST_HOST_GB = 4.0


def measure() -> list[Row]:
    """Returns the rows."""
    with tempfile.TemporaryDirectory() as folder:
        data = _dataset(Path(folder) / "data")
        rows = _tiny(data, Path(folder) / "run")
        rows.append(_lite(data))
        rows += [_host_memory(data, agent) for agent in ("bc", "mzs")]
    rows += _full()
    return rows


def _dataset(folder: Path) -> dataset.Dataset:
    episodes = sorted(
        (
            records.episode(n, steps=STEPS, settings=SETTINGS, outcome=1)
            for n in range(EPISODES)
        ),
        key=lambda one: one.meta.episode_id,
    )
    stored = [
        shards.EpisodeRecords(meta=one.meta, records=codec.encode(one.arrays, SETTINGS))
        for one in episodes
    ]
    entry, placed = shards.write_shard(
        str(folder), shards.shard_name("train", 0, 1), stored
    )
    build = assembly.Build(
        name="perf",
        version="1.0.0",
        engine="none",
        settings=SETTINGS,
        selection={},
        replay_ids=frozenset(one.meta.replay_id for one in episodes),
    )
    assembly.finish(str(folder), build, [entry], placed)
    return dataset.open_dataset(str(folder))


def _tiny(data: dataset.Dataset, folder: Path) -> list[Row]:
    run = presets.run("bc", "tiny", SETTINGS)
    run = runs.replace(run, save_every=10**6 * run.log_every)
    learner = Learner(run)
    state = learner.init()
    seconds = waited = 0.0
    with splits.batches(run, data, workers=1) as iterator:
        for number in range(1, UPDATES + 3):
            began = time.perf_counter()
            arrays = next(iterator)
            loaded = time.perf_counter()
            batch = rollouts.prepare(arrays, SETTINGS)
            state, metrics = learner.update(state, learner.put([batch]), number)
            jax.block_until_ready(metrics)
            # The first two updates compile, and fill the loader's buffers.
            if number > 2:
                seconds += time.perf_counter() - began
                waited += loaded - began
    share = waited / seconds
    rate = UPDATES * run.frames_per_update / seconds
    count = _parameters("tiny")
    return [
        Row(
            name="waiting for data, share of a bc tiny update",
            unit="ratio",
            ours=share,
            floor=MOST_WAITING,
            ok=share < MOST_WAITING,
        ),
        Row(name=f"bc tiny ({count:,} parameters)", unit="frames/s", ours=rate),
    ]


def _lite(data: dataset.Dataset) -> Row:
    run = presets.run("bc", "lite", SETTINGS)
    run = runs.replace(run, batch_size=16, accumulate=1)
    learner = Learner(run)
    state = learner.init()
    batch = rollouts.prepare(next(splits.batches(run, data)), SETTINGS)
    state, metrics = learner.update(state, learner.put([batch]), 1)
    jax.block_until_ready(metrics)
    began = time.perf_counter()
    for number in range(2, 2 + LITE_UPDATES):
        state, metrics = learner.update(state, learner.put([batch]), number)
    jax.block_until_ready(metrics)
    seconds = time.perf_counter() - began
    rate = LITE_UPDATES * run.frames_per_update / seconds
    name = f"bc lite ({_parameters('lite'):,} parameters)"
    return Row(name=name, unit="frames/s", ours=rate)


def _host_memory(data: dataset.Dataset, agent: str) -> Row:
    """Measures in a process of its own what an update of the paper's size takes."""
    command = [sys.executable, "-m", "perf.learner_memory", data.url, agent]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ours = float(done.stdout) / 1024
    return Row(
        name=f"host memory of an update of {agent} full, loader included",
        unit="GB",
        ours=ours,
        floor=MOST_HOST_GB,
        ok=ours < MOST_HOST_GB,
    )


def _full() -> list[Row]:
    """Compiles the forward pass of `full` over FULL_FRAMES frames without running it."""
    config = presets.NETWORKS["full"]
    episode = records.episode(0, steps=FULL_FRAMES + 1, settings=SETTINGS)
    arrays = {key: value[None] for key, value in episode.arrays.items()}
    shape = (1, FULL_FRAMES + 1)
    arrays |= {
        "step_type": np.ones(shape, np.int32),
        "prev_delay": np.ones(shape, np.int32),
    }
    batch = rollouts.prepare(arrays, SETTINGS)
    frames = {
        key: jax.ShapeDtypeStruct((FULL_FRAMES, *value.shape[2:]), value.dtype)
        for key, value in batch.items()
    }

    def forward(params: Params, frames: rollouts.Batch) -> object:
        network = parameters.merge(params, config, SETTINGS)
        latent = network.encode(frames)
        scores = network.policy.score(latent, rollouts.action(frames))
        return scores.log_prob, network.value(latent.vector)

    shapes = parameters.shapes(config, SETTINGS)
    compiled = jax.jit(forward).lower(shapes, frames).compile()
    memory = compiled.memory_analysis()
    total = memory.temp_size_in_bytes + memory.argument_size_in_bytes
    return [
        Row(
            name=f"full ({_parameters('full'):,} parameters) forward, {FULL_FRAMES} frames",
            unit="GB",
            ours=total / 1e9,
        )
    ]


def _parameters(size: str) -> int:
    return parameters.count(parameters.shapes(presets.NETWORKS[size], SETTINGS))


if __name__ == "__main__":
    for row in measure():
        print(row, file=sys.stderr)
