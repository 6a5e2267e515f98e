"""RLDS: a dataset that `tfds.builder_from_directory` opens.

In: an opened dataset. Out: one TFRecord file for each of its shards, and TFDS's own metadata.
It needs TensorFlow, which is an optional extra, and holds one encoded episode in memory.
"""

import importlib
import itertools
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from starmill.pipelines.exports.windows import windows
from starmill.schema import errors, shards, storage
from starmill.schema.loader import dataset


def folder(opened: dataset.Dataset) -> str:
    """Returns the path of the data, relative to the export: {name}/{version}."""
    return f"{_name(opened)}/{opened.manifest.version.split('-')[0]}"


def _name(opened: dataset.Dataset) -> str:
    return opened.manifest.name.replace("-", "_").replace(".", "_")


def file_name(opened: dataset.Dataset, split: str, number: int, count: int) -> str:
    """Returns the path of a file, relative to the export."""
    name = f"{_name(opened)}-{split}.tfrecord-{number:05d}-of-{count:05d}"
    return f"{folder(opened)}/{name}"


def records(opened: dataset.Dataset) -> Iterator[bytes]:
    """Yields the framed records of a file: one for each episode."""
    tfds = tensorflow_datasets()
    features = _features(tfds, opened)
    serializer = tfds.core.example_serializer.ExampleSerializer(
        features.get_serialized_info()
    )
    for number in range(len(opened)):
        encoded = features.encode_example(_episode(opened, number))
        yield shards.frame_record(serializer.serialize_example(encoded))


def write_metadata(
    opened: dataset.Dataset,
    out: str,
    lengths: Mapping[str, list[int]],
    sizes: Mapping[str, int],
) -> None:
    """Writes TFDS's metadata, which makes the export complete.

    Args:
        opened: the dataset.
        out: path or URL of the export.
        lengths: split -> episodes of each of its files, in order.
        sizes: split -> bytes of its files.
    """
    tfds = tensorflow_datasets()
    with tempfile.TemporaryDirectory() as scratch:
        info = tfds.core.DatasetInfo(
            builder=tfds.core.DatasetIdentity(
                name=_name(opened),
                version=tfds.core.Version(folder(opened).rpartition("/")[2]),
                data_dir=scratch,
                module_name="starmill",
            ),
            description=f"{opened.reference}, by {opened.manifest.engine}",
            features=_features(tfds, opened),
        )
        info.set_file_format("tfrecord")
        template = tfds.core.ShardedFileTemplate(
            data_dir=scratch, dataset_name=_name(opened), filetype_suffix="tfrecord"
        )
        splits = [
            tfds.core.SplitInfo(
                name=split,
                shard_lengths=lengths[split],
                num_bytes=sizes[split],
                filename_template=template.replace(split=split),
            )
            for split in sorted(lengths)
        ]
        info.set_splits(tfds.core.splits.SplitDict(splits))
        info.write_to_directory(scratch)
        for path in sorted(Path(scratch).iterdir(), reverse=True):
            url = storage.join(out, f"{folder(opened)}/{path.name}")
            storage.write(url, path.read_bytes())


def _features(tfds: Any, opened: dataset.Dataset) -> Any:
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


def _episode(opened: dataset.Dataset, number: int) -> dict[str, Any]:
    meta = opened.metas[number]
    return {
        "steps": list(_steps(opened, number)),
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


def _steps(opened: dataset.Dataset, number: int) -> Iterator[dict[str, Any]]:
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


def tensorflow_datasets() -> Any:
    """Returns the module; ConfigError if it is not installed."""
    try:
        importlib.import_module("tensorflow")
        return importlib.import_module("tensorflow_datasets")
    except ImportError as error:
        raise errors.ConfigError(
            f"the format rlds needs TensorFlow and tensorflow-datasets ({error}): "
            f"pip install 'starmill[tensorflow]'"
        ) from error
