"""What the learners' tests need, as small as possible: settings, a network, batches, a dataset.

The sizes are as small as the shapes allow, because the tests spend most of their time compiling.
"""

import dataclasses
import functools
from pathlib import Path

import numpy as np

from starmill.learners import checkpoint, learner, presets, rollouts, runs
from starmill.learners.networks import parameters, policy, scoring
from starmill.learners.networks.network import NetworkConfig
from starmill.schema import assembly, codec, shards, specs, vocab
from starmill.schema.episode import InMemoryEpisode, derived
from starmill.schema.loader import dataset
from starmill.schema.settings import UNPLUGGED
from tests.factories import records

UNITS, SLOTS, SIDE, FUNCTIONS = 6, 3, 8, 12
SETTINGS = dataclasses.replace(
    UNPLUGGED,
    minimap=(SIDE, SIDE),
    num_action_types=FUNCTIONS,
    num_unit_types=20,
    num_upgrade_types=4,
    max_num_upgrades=3,
    raw_settings=dataclasses.replace(
        UNPLUGGED.raw_settings,
        resolution=(SIDE, SIDE),
        max_unit_count=UNITS,
        max_unit_selection_size=SLOTS,
    ),
)
NETWORK = NetworkConfig(
    vector=16,
    unit=8,
    unit_hidden=8,
    plane_pool=1,
    plane_patch=2,
    plane_channels=(8,),
    plane_blocks=1,
    scatter=2,
    pointer=8,
    memory_length=4,
)


def episode(seed: int, steps: int = 12, **overrides) -> InMemoryEpisode:
    """An episode whose tags and targets are rows that exist."""
    whole = records.episode(seed, steps=steps, settings=SETTINGS, **overrides)
    rng = np.random.default_rng([seed, 7])
    arrays = whole.arrays
    arrays["mmr"][:] = whole.meta.mmr
    units = arrays["raw_units"]
    table = policy.argument_table(SETTINGS)
    for t in range(steps):
        # Between two and all of the rows are units.
        count = int(rng.integers(2, UNITS + 1))
        missing = (units[t] == 0).all(-1)
        units[t, missing, 0] = 1 + np.flatnonzero(missing)
        units[t, count:] = 0
        function = int(arrays["action/function"][t])
        takes = dict(zip(scoring.ARGUMENTS, table[function], strict=True))
        tags = arrays["action/unit_tags"]
        tags[t] = UNITS if function else 0
        if takes["unit_tags"]:
            rows = np.sort(rng.permutation(count)[: rng.integers(1, SLOTS + 1)])
            tags[t, : len(rows)] = rows
        arrays["action/target_unit_tag"][t] = (
            rng.integers(count) if takes["target_unit_tag"] else 0
        )
        for name in ("queued", "repeat", "world"):
            if not takes[name]:
                arrays[f"action/{name}"][t] = 0
    return whole


def arrays(seed: int = 0, size: int = 4, steps: int = 5, **overrides):
    """A dense batch [B, steps] of whole episodes, as the dataset gives it."""
    lanes = []
    for row in range(size):
        one = episode(seed * 100 + row, steps, **overrides)
        time = derived(
            one.arrays["action/delay"],
            step=np.arange(steps),
            steps=steps,
            outcome=one.meta.outcome,
        )
        extra = {
            "outcome": np.full(steps, one.meta.outcome, np.int32),
            "valid": np.ones(steps, bool),
        }
        lanes.append({**one.arrays, **time, **extra})
    return {key: np.stack([lane[key] for lane in lanes]) for key in lanes[0]}


def batch(seed: int = 0, size: int = 4, steps: int = 5, **overrides):
    """A batch [B, steps] as losses take it."""
    dense = arrays(seed, size, steps + 1, **overrides)
    return rollouts.prepare(dense, SETTINGS, rollouts.Cut(consecutive=True))


def run(agent: str, **changes) -> runs.Run:
    """The tiny preset on the small network, with small batches."""
    preset = presets.run(agent, "tiny", SETTINGS)
    network = dataclasses.replace(
        NETWORK,
        condition_return=preset.algorithm.network.condition_return,
        action_values=preset.algorithm.network.action_values,
        latent_model=preset.algorithm.network.latent_model,
    )
    sizes = {"batch_size": 4, "rollout": 4, "frames": 4 * 4 * 6}
    if agent in ("oac", "e-oac"):
        sizes["trained"] = 2
    if agent == "e-oac":
        sizes["n"] = 2
    if agent == "mzs":
        sizes["unroll"] = 4
    # The small dataset has few episodes, with any rating.
    defaults = {
        "network": network,
        "log_every": 1,
        "save_every": 3,
        "mmr_above": None,
        **sizes,
    }
    return runs.replace(preset, **{**defaults, **changes})


def write_run(folder: Path, agent: str, seed: int = 3) -> runs.Run:
    """A run's folder as training leaves it, but with fresh parameters."""
    one = run(agent)
    start = parameters.init(seed, one.algorithm.network, SETTINGS)
    meta = checkpoint.Meta(
        run=one.to_json(),
        dataset="small@1.0.0#sha256:00",
        fingerprint=specs.fingerprint(SETTINGS),
        update=6,
        frames=60,
        sampler={},
        max_mmr=6500,
    )
    with checkpoint.Store(folder) as store:
        store.save(tuple(learner.Learner(one).init(start)), meta)  # as `train` does
    return one


@functools.cache
def kinds() -> dict[str, int]:
    """A function of each kind among the first few."""
    return {
        function.kind: function.id for function in vocab.functions()[:FUNCTIONS][::-1]
    }


def write_dataset(
    folder: Path,
    episodes: int = 8,
    settings=SETTINGS,
    splits=("train", "test"),
    **overrides,
) -> dataset.Dataset:
    """A dataset on disk: two thirds of the episodes train, the others test."""
    entries, placed = [], []
    whole = [episode(n, steps=20 + n, **overrides) for n in range(episodes)]
    for split, members in (
        ("train", whole[: -episodes // 3]),
        ("test", whole[-episodes // 3 :]),
    ):
        if split not in splits:
            continue
        ordered = sorted(members, key=lambda one: one.meta.episode_id)
        entry, rows = shards.write_shard(
            str(folder),
            shards.shard_name(split, 0, 1),
            [
                shards.EpisodeRecords(
                    meta=one.meta, records=codec.encode(one.arrays, settings)
                )
                for one in ordered
            ],
        )
        entries.append(entry)
        placed += rows
    assembly.finish(
        str(folder),
        assembly.Build(
            name="small",
            version="1.0.0",
            engine="none",
            settings=settings,
            selection={},
            replay_ids=frozenset(one.meta.replay_id for one in whole),
        ),
        entries,
        placed,
    )
    return dataset.open_dataset(str(folder))


def observation(seed: int = 0, step: int = 0) -> dict[str, np.ndarray]:
    """An observation as an agent gets it."""
    arrays = episode(seed).arrays
    frame = {
        key: value[step]
        for key, value in arrays.items()
        if not key.startswith("action/")
    }
    frame["prev_delay"] = np.int32(0)
    return frame


ACTION_SPECS = specs.action_specs(SETTINGS)
