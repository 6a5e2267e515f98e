"""Exports a dataset to other layouts: the predecessor's records, RLDS, and npz files.

In: an opened dataset. Out: files that other tools read unchanged. Episodes are read in
windows, so memory does not grow with their length; only RLDS holds one encoded episode. RLDS
needs TensorFlow, which is an optional extra.
"""

import importlib
import itertools
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from starmill.pipelines.exports import alphastar
from starmill.pipelines.exports.windows import windows
from starmill.schema import errors, storage
from starmill.schema.loader import dataset

FORMATS = ("alphastar", "rlds", "npz")
MARKER = "export.json"
# How files are called. It is part of the marker, so that two layouts never mix.
_NAMES = {
    "alphastar": "{split}/{group}/{version}/{rating}/{replay_id}_{player_id}.tfrecord",
    "rlds": "{name}/{version}",
    "npz": "{episode_id}.npz",
}

Progress = Callable[[], None]


def export(
    opened: dataset.Dataset, layout: str, out: Path, done: Progress = lambda: None
) -> list[str]:
    """Writes a dataset in another layout; returns one sentence for each episode left out.

    After an interruption, the same call continues. Raises ConfigError if the folder holds
    anything but this export.

    Args:
        opened: the dataset.
        layout: one of FORMATS.
        out: the folder.
        done: called after each episode.
    """
    if layout not in FORMATS:
        raise errors.ConfigError(f"format: expected one of {FORMATS}, found {layout!r}")
    writers = {"alphastar": _alphastar, "rlds": _rlds, "npz": _npz}
    if layout == "rlds":
        _tensorflow_datasets()
    _claim(opened, layout, out)
    return writers[layout](opened, out, done)


def _claim(opened: dataset.Dataset, layout: str, out: Path) -> None:
    """Marks the folder as this export's; ConfigError if it holds something else."""
    facts = {
        "dataset": opened.reference,
        "format": layout,
        "episodes": len(opened),
        "path": _NAMES[layout],
    }
    marker = out / MARKER
    if marker.exists():
        if json.loads(marker.read_text("utf-8")) != facts:
            raise errors.ConfigError(
                f"{out}: holds another export ({marker}); choose another folder"
            )
        return
    if out.exists() and any(out.iterdir()):
        raise errors.ConfigError(f"{out}: is not empty; choose another folder")
    text = json.dumps(facts, sort_keys=True, indent=1) + "\n"
    storage.write(str(marker), text.encode())


def _alphastar(opened: dataset.Dataset, out: Path, done: Progress) -> list[str]:
    """Writes one TFRecord file for each episode, and `paths.py`."""
    problems = []
    places = set()
    splits = opened.column("split").to_pylist()
    for number, (meta, split) in enumerate(zip(opened.metas, splits, strict=True)):
        places.add(alphastar.place(meta, split))
        name = alphastar.name(meta, split)
        if not (out / name).exists():
            content = alphastar.file_bytes(opened, number)
            if isinstance(content, str):
                problems.append(content)
            else:
                storage.write(str(out / name), content)
        done()
    text = alphastar.paths_module(places, "")
    storage.write(str(out / "paths.py"), text.encode())
    return problems


def _npz(opened: dataset.Dataset, out: Path, done: Progress) -> list[str]:
    """Writes {episode_id}.npz for each episode: all arrays and the derived ones, time first."""
    for number, meta in enumerate(opened.metas):
        path = out / f"{meta.episode_id}.npz"
        if not path.exists():
            with tempfile.TemporaryFile() as scratch:
                _write_npz(opened, number, meta.steps, scratch)
                scratch.seek(0)
                storage.write(str(path), iter(lambda: scratch.read(1 << 20), b""))
        done()
    return []


def _write_npz(
    opened: dataset.Dataset, number: int, steps: int, file: IO[bytes]
) -> None:
    """Writes the file of numpy.savez_compressed, one array and one window at a time."""
    first = opened[number].read(0, 1)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for key in sorted(first):
            # Without a date, so that the bytes are the same each time.
            entry = zipfile.ZipInfo(f"{key}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as member:
                header = {
                    "descr": np.lib.format.dtype_to_descr(first[key].dtype),
                    "fortran_order": False,
                    "shape": (steps, *first[key].shape[1:]),
                }
                np.lib.format.write_array_header_1_0(member, header)
                for window in windows(opened, number, [key]):
                    member.write(np.ascontiguousarray(window[key]).tobytes())


def _rlds(opened: dataset.Dataset, out: Path, done: Progress) -> list[str]:
    """Writes a dataset for `tfds.builder_from_directory(out / name / version)`."""
    tfds = _tensorflow_datasets()
    name = opened.manifest.name.replace("-", "_").replace(".", "_")
    version = opened.manifest.version.split("-")[0]
    final = out / name / version
    if final.exists():
        for _ in range(len(opened)):
            done()
        return []
    scratch = out / f".{name}-unfinished"
    if scratch.exists():
        shutil.rmtree(scratch)
    target = scratch / name / version
    target.mkdir(parents=True)
    info = tfds.core.DatasetInfo(
        builder=tfds.core.DatasetIdentity(
            name=name,
            version=tfds.core.Version(version),
            data_dir=str(target),
            module_name="starmill",
        ),
        description=f"{opened.reference}, by {opened.manifest.engine}",
        features=_rlds_features(tfds, opened),
    )
    splits = opened.column("split").to_pylist()
    writer = tfds.core.SequentialWriter(info, max_examples_per_shard=64)
    writer.initialize_splits(sorted(set(splits)))
    for number, split in enumerate(splits):
        writer.add_examples({split: [_rlds_episode(opened, number)]})
        done()
    writer.close_all()
    final.parent.mkdir(parents=True, exist_ok=True)
    target.rename(final)
    shutil.rmtree(scratch)
    return []


def _rlds_features(tfds: Any, opened: dataset.Dataset) -> Any:
    features = tfds.features
    observation, action = {}, {}
    for key, spec in opened.specs.items():
        # Planes and unit rows are mostly zeros. Uncompressed, a long episode would exceed
        # protobuf's limit.
        encoding = "zlib" if np.prod(spec.shape, dtype=np.int64) >= 1024 else "none"
        tensor = features.Tensor(
            shape=spec.shape, dtype=np.dtype(spec.dtype).type, encoding=encoding
        )
        if key.startswith("action/"):
            action[key.removeprefix("action/")] = tensor
        else:
            observation[key] = tensor
    scalar = features.Scalar
    return features.FeaturesDict(
        {
            "steps": features.Dataset(
                {
                    "observation": features.FeaturesDict(observation),
                    "action": features.FeaturesDict(action),
                    "reward": scalar(np.float32),
                    "discount": scalar(np.float32),
                    "is_first": scalar(np.bool_),
                    "is_last": scalar(np.bool_),
                    "is_terminal": scalar(np.bool_),
                }
            ),
            "episode_metadata": features.FeaturesDict(
                {
                    "episode_id": features.Text(),
                    "game_version": features.Text(),
                    "map_name": features.Text(),
                    "race": features.Text(),
                    "opponent_race": features.Text(),
                    "mmr": scalar(np.int32),
                    "opponent_mmr": scalar(np.int32),
                    "outcome": scalar(np.int32),
                }
            ),
        }
    )


def _rlds_episode(opened: dataset.Dataset, number: int) -> dict[str, Any]:
    meta = opened.metas[number]
    return {
        "steps": list(_rlds_steps(opened, number)),
        "episode_metadata": {
            "episode_id": meta.episode_id,
            "game_version": meta.game_version,
            "map_name": meta.map_name,
            "race": meta.race,
            "opponent_race": meta.opponent_race,
            "mmr": -1 if meta.mmr is None else meta.mmr,
            "opponent_mmr": -1 if meta.opponent_mmr is None else meta.opponent_mmr,
            "outcome": meta.outcome,
        },
    }


def _rlds_steps(opened: dataset.Dataset, number: int) -> Iterator[dict[str, Any]]:
    """Yields an episode's steps with RLDS' rewards.

    In RLDS, a step's reward follows its own action, and the last step has no valid action or
    reward. So the outcome is the reward of the last step but one, or of the only step.
    """
    meta = opened.metas[number]
    rewarded = max(meta.steps - 2, 0)
    counter = itertools.count()
    for window in windows(opened, number, list(opened.specs)):
        for k in range(len(window["game_loop"])):
            t = next(counter)
            last = t == meta.steps - 1
            yield {
                "observation": {
                    key: array[k]
                    for key, array in window.items()
                    if not key.startswith("action/")
                },
                "action": {
                    key.removeprefix("action/"): array[k]
                    for key, array in window.items()
                    if key.startswith("action/")
                },
                "reward": np.float32(meta.outcome if t == rewarded else 0),
                "discount": np.float32(0 if last else 1),
                "is_first": t == 0,
                "is_last": last,
                "is_terminal": last,
            }


def _tensorflow_datasets() -> Any:
    try:
        importlib.import_module("tensorflow")
        return importlib.import_module("tensorflow_datasets")
    except ImportError as error:
        raise errors.ConfigError(
            f"the format rlds needs TensorFlow and tensorflow-datasets ({error}): "
            f"pip install 'starmill[tensorflow]'"
        ) from error
