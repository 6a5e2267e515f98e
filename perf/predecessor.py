"""A baseline: the predecessor's record and loader, rebuilt from its published description.

A record is one episode: a tf.train.Example with one bytes feature for each array, compressed by
zlib at its default level, in its own TFRecord file. The loader is the predecessor's tf.data
pipeline with the same options in the same order: it interleaves files, decodes whole records,
cuts episodes into steps, batches steps into unrolls, shuffles the unrolls, and batches them.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from starmill.schema import episode, specs
from starmill.schema.settings import ConverterSettings

Spec = dict[str, tuple[tf.DType, tuple[int, ...]]]


def feature_specs(settings: ConverterSettings) -> Spec:
    """Returns the dtype and shape of each feature, by its path in the record."""
    features = {
        f"observation/{key}": (tf.as_dtype(spec.dtype), spec.shape)
        for key, spec in specs.episode_specs(settings).items()
    }
    return {**features, "step_type": (tf.int32, ())}


def encode(arrays: episode.Arrays) -> bytes:
    """Returns an episode's record, without reading it back as the original does."""
    steps = len(arrays["game_loop"])
    step_type = np.full(steps, episode.MID, np.int32)
    step_type[0], step_type[-1] = episode.FIRST, episode.LAST
    rows = {f"observation/{key}": array for key, array in arrays.items()}
    features = {
        path: tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[zlib.compress(array.tobytes())])
        )
        for path, array in {**rows, "step_type": step_type}.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return bytes(example.SerializeToString())


def write(path: Path, record: bytes) -> None:
    """Writes a file with one record."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(record)


def decoder(settings: ConverterSettings) -> Any:
    """Returns the function from a serialized record to a dict of tensors."""
    features = feature_specs(settings)
    strings = {path: tf.io.FixedLenFeature((), tf.string) for path in features}

    def decode(serialized: Any) -> dict[str, Any]:
        parsed = tf.io.parse_single_example(serialized, strings)
        out = {}
        for path, (dtype, shape) in features.items():
            raw = tf.io.decode_compressed(parsed[path], compression_type="ZLIB")
            out[path] = tf.reshape(tf.io.decode_raw(raw, dtype), (-1, *shape))
        return out

    return decode


def unrolls(
    pattern: str,
    settings: ConverterSettings,
    *,
    batch_size: int,
    unroll: int,
    shuffle: int,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches without end, as the predecessor's learner gets them."""
    files = tf.data.Dataset.list_files(pattern, shuffle=True)
    data = files.interleave(
        tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE
    )
    data = data.map(decoder(settings), num_parallel_calls=tf.data.AUTOTUNE).repeat()
    data = data.flat_map(tf.data.Dataset.from_tensor_slices).batch(unroll)
    data = data.shuffle(buffer_size=shuffle, reshuffle_each_iteration=True)
    data = data.batch(batch_size).prefetch(tf.data.AUTOTUNE).prefetch(1)
    yield from data.as_numpy_iterator()


def random_step(path: Path, settings: ConverterSettings, step: int) -> Any:
    """Returns one step of an episode, which means to decompress the whole episode."""
    record = next(iter(tf.data.TFRecordDataset(str(path)).take(1)))
    decoded = decoder(settings)(record)
    return {key: value[step].numpy() for key, value in decoded.items()}
