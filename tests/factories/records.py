"""Records and arrays for tests, made from the spec, seeded; one argument overrides one field.

`episode(kind="noise")` draws every array from its dtype's whole range; `kind="game"` (the
default) imitates a game: units that live, move and die, vision around them, a camera.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from starmill.schema import assembly, codec, manifest, shards, specs
from starmill.schema.episode import Arrays, EpisodeMeta, InMemoryEpisode
from starmill.schema.settings import UNPLUGGED, ConverterSettings

# The paper's settings with small planes and few units: quick, and the same keys.
SMALL = dataclasses.replace(
    UNPLUGGED,
    minimap=(32, 32),
    raw_settings=dataclasses.replace(
        UNPLUGGED.raw_settings,
        resolution=(64, 64),
        max_unit_count=48,
        max_unit_selection_size=8,
    ),
)


def replay_id(seed: int = 0) -> str:
    """A sha256 in hex that depends on the seed alone."""
    return hashlib.sha256(f"replay {seed}".encode()).hexdigest()


def episode_meta(seed: int = 0, **overrides: Any) -> EpisodeMeta:
    """The metadata of an episode; any field can be overridden."""
    rng = np.random.default_rng([seed, 1])
    races = ("terran", "zerg", "protoss")
    fields: dict[str, Any] = {
        "replay_id": replay_id(seed),
        "player_id": 1 + seed % 2,
        "game_version": "4.9.2",
        "base_build": 74741,
        "data_version": "70E774E722A58287EF37D487605CD384",
        "map_name": ("Acropolis", "Thunderbird", "Year Zero")[seed % 3],
        "race": races[int(rng.integers(3))],
        "opponent_race": races[int(rng.integers(3))],
        "mmr": int(rng.integers(3500, 7000)),
        "opponent_mmr": int(rng.integers(3500, 7000)),
        "apm": float(rng.integers(50, 300)),
        "outcome": int(rng.integers(-1, 2)),
        "steps": 40,
        "game_loops": 1000,
        "duration_loops": 1010,
    }
    unknown = sorted(set(overrides) - set(fields))
    if unknown:
        raise ValueError(f"no such fields of EpisodeMeta: {unknown}")
    return EpisodeMeta(**{**fields, **overrides})


def noise_arrays(
    seed: int = 0,
    steps: int = 40,
    settings: ConverterSettings = SMALL,
) -> Arrays:
    """Every array drawn from the whole range of its dtype."""
    rng = np.random.default_rng([seed, 2])
    out = {}
    for key, spec in specs.episode_specs(settings).items():
        info = np.iinfo(spec.dtype)
        out[key] = rng.integers(
            info.min, info.max, (steps, *spec.shape), spec.dtype, endpoint=True
        )
    return out


def game_arrays(
    seed: int = 0,
    steps: int = 40,
    settings: ConverterSettings = SMALL,
) -> Arrays:
    """Arrays that look like a game's: within the spec's bounds, and mostly continuous."""
    rng = np.random.default_rng([seed, 3])
    shapes = specs.episode_specs(settings)
    out = {
        key: np.zeros((steps, *spec.shape), spec.dtype) for key, spec in shapes.items()
    }
    delay = rng.integers(1, 30, steps, np.int32)
    if steps > 1:
        delay[-1] = delay[-2]
    out["game_loop"][:] = np.concatenate([[0], np.cumsum(delay)[:-1]])
    out["mmr"][:] = rng.integers(3500, 7000)
    for key in ("home_race_requested", "away_race_requested", "away_race_observed"):
        out[key][:] = rng.integers(1, 4)
    out["player"][:] = np.maximum(
        0, np.cumsum(rng.integers(-3, 5, out["player"].shape), axis=0)
    )
    out["player"][:, 0] = 1
    out["unit_counts_bow"][:, : min(20, out["unit_counts_bow"].shape[1])] = 3
    _fill_units(out, rng, settings)
    _fill_planes(out, rng)
    if "action/function" in out:
        out["action/delay"][:] = delay
        _fill_actions(out, rng, shapes)
    return out


def episode(
    seed: int = 0,
    *,
    steps: int = 40,
    settings: ConverterSettings = SMALL,
    kind: str = "game",
    arrays: Arrays | None = None,
    **overrides: Any,
) -> InMemoryEpisode:
    """An episode; `arrays` replaces single arrays, other arguments override metadata."""
    make = {"game": game_arrays, "noise": noise_arrays}[kind]
    contents = {**make(seed, steps, settings), **(arrays or {})}
    loops = int(contents["game_loop"][-1])
    meta = episode_meta(
        seed,
        **{"steps": steps, "game_loops": loops, "duration_loops": loops, **overrides},
    )
    return InMemoryEpisode(meta=meta, arrays=contents)


def dataset(
    folder: str,
    episodes: Sequence[InMemoryEpisode] | None = None,
    *,
    settings: ConverterSettings = SMALL,
    shards_per_split: int = 2,
    **overrides: Any,
) -> manifest.Manifest:
    """Writes a dataset; without episodes, twelve of a game's kind, 20 to 75 steps long.

    Splits go by the first hex digit of the replay's id, so a few episodes fill all three.
    """
    if episodes is None:
        episodes = [
            episode(seed, steps=20 + 5 * seed, settings=settings) for seed in range(12)
        ]
    groups: dict[str, list[shards.EpisodeRecords]] = {}
    for item in episodes:
        name = item.meta.replay_id
        split = {"0": "valid", "1": "test"}.get(name[0], "train")
        shard = shards.shard_of(name, shards_per_split)
        groups.setdefault(shards.shard_name(split, shard, shards_per_split), []).append(
            shards.EpisodeRecords(
                meta=item.meta, records=codec.encode(item.arrays, settings)
            )
        )
    written = [
        shards.write_shard(
            folder, name, sorted(items, key=lambda item: item.meta.episode_id)
        )
        for name, items in sorted(groups.items())
    ]
    facts: dict[str, Any] = {
        "name": "factory",
        "version": "1.0.0",
        "engine": "factory",
        "settings": settings,
        "selection": {},
        "replay_ids": frozenset(item.meta.replay_id for item in episodes),
    }
    return assembly.finish(
        folder,
        assembly.Build(**{**facts, **overrides}),
        [entry for entry, _ in written],
        [row for _, rows in written for row in rows],
    )


def _fill_units(
    out: Arrays,
    rng: np.random.Generator,
    settings: ConverterSettings,
) -> None:
    names = specs.unit_columns(settings)
    column = {name: index for index, name in enumerate(names)}
    units = out["raw_units"]
    steps, capacity, _ = units.shape
    count = max(1, min(capacity - 2, capacity * 3 // 4))
    size = int(settings.raw_settings.resolution[0])  # type: ignore[union-attr]
    rows = np.zeros((count, len(names)), np.int32)
    rows[:, column["unit_type"]] = rng.integers(1, 243, count)
    rows[:, column["alliance"]] = rng.choice([1, 3, 4], count)
    rows[:, column["owner"]] = rng.choice([1, 2, 16], count)
    rows[:, column["health"]] = rng.integers(40, 400, count)
    rows[:, column["health_ratio"]] = 255
    rows[:, column["display_type"]] = rng.choice([1, 2], count)
    rows[:, column["x"]] = rng.integers(0, size, count)
    rows[:, column["y"]] = rng.integers(0, size, count)
    rows[:, column["radius"]] = rng.integers(0, 4, count)
    tags = rng.permutation(4 * count)[:count].astype(np.int64)
    # Low halves of 64-bit tags, as int32: some are negative, as in real games.
    rows[:, column["tag"]] = ((tags << 18) + 1).astype(np.uint32).view(np.int32)
    moving = rng.random(count) < 0.4
    alive = rng.random(count) < 0.9
    for t in range(steps):
        rows[moving, column["x"]] += rng.integers(-1, 2, int(moving.sum()))
        rows[moving, column["y"]] += rng.integers(-1, 2, int(moving.sum()))
        rows[:, column["weapon_cooldown"]] = rng.integers(0, 20, count) * (
            rng.random(count) < 0.1
        )
        alive ^= rng.random(count) < 0.02
        present = rows[alive]
        units[t, : len(present)] = present
        # An effect: no tag, as the reference leaves it.
        if t % 3 == 0 and len(present) < capacity:
            units[t, len(present), column["unit_type"]] = 250


def _fill_planes(out: Arrays, rng: np.random.Generator) -> None:
    steps = len(out["game_loop"])
    for key in sorted(out):
        if not key.startswith("minimap_"):
            continue
        plane = out[key]
        height, width = plane.shape[1:]
        if key == "minimap_height_map":
            plane[:] = rng.integers(0, 255, (height, width), np.uint8)
        elif key in ("minimap_pathable", "minimap_buildable"):
            plane[:] = rng.integers(0, 2, (height, width), np.uint8)
            plane[steps // 2 :, 3:5, 3:5] ^= 1
        elif key in ("minimap_visibility_map", "minimap_player_relative"):
            y, x = height // 2, width // 2
            for t in range(steps):
                y = int(np.clip(y + rng.integers(-1, 2), 3, height - 4))
                x = int(np.clip(x + rng.integers(-1, 2), 3, width - 4))
                if t:
                    plane[t] = np.minimum(plane[t - 1], 1)
                plane[t, y - 3 : y + 4, x - 3 : x + 4] = 2
    if "camera" in out:
        camera = out["camera"]
        for t in range(steps):
            top, left = (int(v) for v in rng.integers(-8, camera.shape[1], 2))
            camera[t, max(0, top) : top + 20, max(0, left) : left + 32] = 1
        out["camera_position"][:] = rng.integers(0, camera.shape[1], (steps, 2))
        out["camera_size"][:] = 32


def _fill_actions(
    out: Arrays,
    rng: np.random.Generator,
    shapes: dict[str, specs.ArraySpec],
) -> None:
    steps = len(out["game_loop"])
    for key in ("function", "queued", "repeat", "target_unit_tag", "world"):
        spec = shapes.get(f"action/{key}")
        if spec is not None:
            high = spec.maximum if isinstance(spec.maximum, int) else 1
            out[f"action/{key}"][:] = rng.integers(0, high + 1, steps)
    tags = out["action/unit_tags"]
    capacity = out["raw_units"].shape[1]
    tags[:] = capacity
    for t in range(steps):
        count = int(rng.integers(0, tags.shape[1] + 1))
        tags[t, :count] = np.sort(rng.choice(capacity, count, replace=False))
