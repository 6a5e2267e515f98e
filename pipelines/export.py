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
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from starmill.schema import episode, errors, protobuf, shards, storage
from starmill.schema.loader import dataset

FORMATS = ("alphastar", "rlds", "npz")
MARKER = "export.json"
# Steps in memory at a time: 128 dense steps are 61 MB.
_WINDOW = 128
# The largest protobuf message.
_MOST_RECORD_BYTES = (1 << 31) - 1
# Least MMR in the predecessor's configuration, where it is only the key of a lookup.
_PREDECESSOR_MMR = 3500

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
    facts = {"dataset": opened.reference, "format": layout, "episodes": len(opened)}
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


def _windows(
    opened: dataset.Dataset, number: int, keys: list[str] | None = None
) -> Iterator[episode.Arrays]:
    steps = opened.metas[number].steps
    for start in range(0, steps, _WINDOW):
        yield opened[number].read(start, min(start + _WINDOW, steps), keys=keys)


def _alphastar(opened: dataset.Dataset, out: Path, done: Progress) -> list[str]:
    """Writes one TFRecord file for each episode: a tf.train.Example of zlib'd arrays.

    Files are {split}/{version}/{replay_id}_{player}.tfrecord. The predecessor's learner finds
    them through paths.py.
    """
    problems = []
    folders: set[tuple[str, str]] = set()
    splits = opened.table.column("split").to_pylist()
    for number, (meta, split) in enumerate(zip(opened.metas, splits, strict=True)):
        folders.add((split, meta.game_version))
        name = f"{split}/{meta.game_version}/{meta.replay_id}_{meta.player_id}.tfrecord"
        if not (out / name).exists():
            record = alphastar_record(opened, number)
            if len(record) > _MOST_RECORD_BYTES:
                problems.append(
                    f"episode {meta.episode_id}: left out, because its record of "
                    f"{len(record)} bytes exceeds protobuf's limit"
                )
            else:
                storage.write(str(out / name), shards.frame_record(record))
        done()
    lines = [
        f"    (({version!r},), {split!r}, {_PREDECESSOR_MMR}): "
        f"'{split}/{version}/*.tfrecord',"
        for split, version in sorted(folders)
    ]
    text = "\n".join(
        [
            '"""Where the predecessor\'s learner finds these episodes."""',
            "",
            "import os",
            "",
            "BASE_PATH = os.path.dirname(os.path.abspath(__file__))",
            "RELATIVE_PATHS = {",
            *lines,
            "}",
            "",
        ]
    )
    storage.write(str(out / "paths.py"), text.encode())
    return problems


def alphastar_record(opened: dataset.Dataset, number: int) -> bytes:
    """Returns an episode as the predecessor's `TFExampleCoder(compress=True)` encodes it.

    Features are `observation/<key>` and `step_type`, each the zlib'd little-endian bytes of
    the array over time.
    """
    keys = [*opened.specs, "step_type"]
    packers = {key: zlib.compressobj() for key in keys}
    pieces: dict[str, list[bytes]] = {key: [] for key in keys}
    for window in _windows(opened, number, keys):
        for key, array in window.items():
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            pieces[key].append(packers[key].compress(little.tobytes()))
    features = {
        key if key == "step_type" else f"observation/{key}": b"".join(
            [*pieces[key], packers[key].flush()]
        )
        for key in keys
    }
    return _example(features)


def _example(features: Mapping[str, bytes]) -> bytes:
    """Returns a serialized tf.train.Example with one bytes value per feature.

    Example{1: Features{1: repeated entry{1: key, 2: Feature{1: BytesList{1: value}}}}}: so
    little that TensorFlow is not needed for it. Sorted, so the same bytes each time.
    """
    entries = b"".join(
        protobuf.bytes_field(
            1,
            protobuf.bytes_field(1, key.encode())
            + protobuf.bytes_field(
                2, protobuf.bytes_field(1, protobuf.bytes_field(1, value))
            ),
        )
        for key, value in sorted(features.items())
    )
    return protobuf.bytes_field(1, entries)


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
                for window in _windows(opened, number, [key]):
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
    splits = opened.table.column("split").to_pylist()
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
    for window in _windows(opened, number, list(opened.specs)):
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
