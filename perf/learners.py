"""Learners: whether the loader keeps up, frames per second, and the memory of `full`.

Trains behaviour cloning for a few updates on a dataset that it makes from the tests' factories
at the paper's shapes, so no game is needed. `tiny` trains on the dataset, and `lite` on one batch,
and beside a plain transcription of the published architecture.
`full` is only compiled, and the compiler reports its memory.
"""

import dataclasses
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from perf.row import Row, beside
from starmill.learners import presets, rollouts, runs, splits
from starmill.learners.learner import Learner
from starmill.learners.networks import parameters
from starmill.learners.networks.network import NetworkConfig
from starmill.learners.networks.parameters import Params
from starmill.learners.networks.published import loss, network, sizes
from starmill.schema import assembly, codec, settings, shards
from starmill.schema.loader import dataset
from tests.factories import records
from tests.reference import published_network

SETTINGS = settings.UNPLUGGED
EPISODES, STEPS = 12, 96
UPDATES, LITE_UPDATES = 12, 2
LITE_FRAMES, LITE_TURNS, LITE_FLOOR = 32, 6, 1.5
# The network that `tiny` had in the first release.
FIRST_NETWORK = NetworkConfig(
    vector=128,
    vector_blocks=1,
    unit=32,
    unit_blocks=1,
    unit_heads=1,
    unit_hidden=64,
    unit_points=16,
    unit_orders=1,
    plane_pool=4,
    plane_patch=2,
    plane_channels=(16, 32),
    plane_blocks=1,
    world_blocks=0,
    scatter=8,
    pointer=32,
)
FIRST_FLOOR, TURNS = 3.0, 5
# An update must spend less than a tenth of its time waiting for its batch.
MOST_WAITING = 0.10
FULL_FRAMES = 32
MOST_HOST_GB = 4.0


def measure() -> list[Row]:
    """Returns the rows."""
    with tempfile.TemporaryDirectory() as folder:
        data = _dataset(Path(folder) / "data")
        rows = [*_tiny(data), *_tiny_beside_others(data)]
        rows += [_lite(data), _lite_beside_plain()]
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


def _tiny(data: dataset.Dataset) -> list[Row]:
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


def _tiny_beside_others(data: dataset.Dataset) -> list[Row]:
    """`tiny` beside the network of the first release, and beside itself without legal actions.

    They take turns on one batch and are measured by the CPU time of this process, since other
    programs may be using the same cores.
    """
    preset = presets.run("bc", "tiny", SETTINGS)
    networks = {
        "tiny": preset.algorithm.network,
        "first": FIRST_NETWORK,
        "plain": dataclasses.replace(preset.algorithm.network, legal_actions=False),
    }
    updates, seconds = {}, {name: [] for name in networks}
    for name, config in networks.items():
        run = runs.replace(preset, network=config)
        learner = Learner(run)
        batch = rollouts.prepare(next(splits.batches(run, data)), SETTINGS)
        updates[name] = _Updates(learner, learner.init(), learner.put([batch]))
        updates[name].run()
    for _ in range(TURNS):
        for name, each in updates.items():
            began = time.process_time()
            each.run()
            seconds[name].append(time.process_time() - began)
    frames = preset.frames_per_update
    rates = {name: frames / min(times) for name, times in seconds.items()}
    ratio = rates["tiny"] / rates["first"]
    return [
        Row(
            name="bc tiny, an update",
            unit="frames/CPU s",
            ours=rates["tiny"],
            peer=rates["first"],
            peer_name="network of the first release",
            ratio=ratio,
            floor=FIRST_FLOOR,
            ok=ratio >= FIRST_FLOOR,
        ),
        Row(
            name="bc tiny, an update with legal actions",
            unit="frames/CPU s",
            ours=rates["tiny"],
            peer=rates["plain"],
            peer_name="without legal actions",
            ratio=rates["tiny"] / rates["plain"],
        ),
    ]


class _Updates:
    """Updates of one learner with the same batch."""

    def __init__(self, learner: Learner, state: Any, batches: Any) -> None:
        self._learner, self._state, self._batches = learner, state, batches
        self._number = 0

    def run(self) -> None:
        """Does one update and waits for it."""
        self._number += 1
        self._state, metrics = self._learner.update(
            self._state, self._batches, self._number
        )
        jax.block_until_ready(metrics)


def _lite(data: dataset.Dataset) -> Row:
    run = presets.run("bc", "lite", SETTINGS)
    run = runs.replace(run, batch_size=LITE_FRAMES, accumulate=1)
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


def _lite_beside_plain() -> Row:
    """Loss and gradient of `lite`, all 512 rows of units, beside the plain transcription.

    The two take turns and are measured by the CPU time of this process, since other programs
    may be using the same cores.
    """
    shapes = nnx.eval_shape(lambda: network.Network(sizes.LITE, rngs=nnx.Rngs(0)))
    graph, state = nnx.split(shapes, nnx.Param)
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: jnp.asarray(0.05 * rng.standard_normal(leaf.shape), jnp.float32),
        nnx.to_pure_dict(state),
    )
    step = jax.device_put(published_network.random_step(1, LITE_FRAMES))

    def ours(params: Params, *step: Any) -> jax.Array:
        output = nnx.merge(graph, params)(*step)
        return loss.supervised(output, step[2]).mean

    def plain(params: Params, *step: Any) -> jax.Array:
        return published_network.loss(params, *step).mean()

    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    steps = {
        name: jax.jit(jax.value_and_grad(function))
        for name, function in (("ours", ours), ("plain", plain))
    }
    values = {name: float(one(params, *step)[0]) for name, one in steps.items()}
    if not np.isclose(values["ours"], values["plain"], rtol=1e-4):
        raise RuntimeError(f"the two networks differ: {values}")
    for _ in range(LITE_TURNS):
        for name, one in steps.items():
            began = time.process_time()
            jax.block_until_ready(one(params, *step))
            seconds[name].append(time.process_time() - began)
    rates = {name: LITE_FRAMES / min(times) for name, times in seconds.items()}
    return beside(
        f"lite, loss and gradient of {LITE_FRAMES} frames",
        "frames/CPU s",
        rates["ours"],
        rates["plain"],
        "plain transcription",
        floor=LITE_FLOOR,
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
        full = parameters.merge(params, config, SETTINGS)
        latent = full.encode(frames)
        scores = full.policy.score(latent, rollouts.action(frames))
        return scores.log_prob, full.value(latent.vector)

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
