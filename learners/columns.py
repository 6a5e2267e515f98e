"""Extra numbers for each step of a dataset, such as a critic's values or a frozen encoder's latents.

In: arrays with a row for every step of some episodes. Out: the rows that belong to a batch of the loader,
which are read like the batch's own arrays. A critic's values are kept in a file.
Must not know: what the numbers mean, and how they were made.
"""

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors, storage
from starmill.schema.archives import npz
from starmill.schema.loader.dataset import Dataset

_IDS, _LENGTHS = "episode_ids", "steps"


class Columns(NamedTuple):
    """Arrays over the steps of episodes, one episode after the other.

    Attributes:
        episode_ids: of the N episodes.
        lengths: int64 [N], their steps.
        arrays: by name, [steps of all episodes, ...].
    """

    episode_ids: Sequence[str]
    lengths: NDArray[np.int64]
    arrays: Mapping[str, NDArray[Any]]


def of_dataset(data: Dataset, arrays: Mapping[str, NDArray[Any]]) -> Columns:
    """Returns columns whose rows are the steps of a dataset's episodes in their order."""
    ids = data.table.column("episode_id").to_pylist()
    return Columns(ids, np.asarray(data.table.column("steps"), np.int64), arrays)


def starts(data: Dataset) -> NDArray[np.int64]:
    """Returns where each episode's steps start among all steps, and their number, [N + 1]."""
    lengths = np.asarray(data.table.column("steps"), np.int64)
    return np.concatenate([[0], np.cumsum(lengths)])


class LookUp:
    """Finds the rows of batches that are read from some of the episodes."""

    def __init__(self, columns: Columns, data: Dataset) -> None:
        ends = np.cumsum(columns.lengths)
        places = dict(zip(columns.episode_ids, ends - columns.lengths, strict=True))
        lengths = dict(zip(columns.episode_ids, columns.lengths, strict=True))
        ours = of_dataset(data, {})
        wrong = [
            name
            for name, length in zip(ours.episode_ids, ours.lengths, strict=True)
            if lengths.get(name) != length
        ]
        if wrong:
            raise errors.ManifestMismatch(
                f"columns: expected a row for each step of {len(ours.lengths)} episodes, "
                f"found none or another number for {len(wrong)}, such as {wrong[0]}. Make "
                "them again from this dataset"
            )
        self._starts = np.array([places[name] for name in ours.episode_ids], np.int64)
        self._lengths, self._arrays = ours.lengths, columns.arrays

    def of(self, batch: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Returns each column's rows of a batch [B, K]; padding has those of a last step."""
        episode = np.asarray(batch["episode"])
        step = np.minimum(np.asarray(batch["step"]), self._lengths[episode] - 1)
        rows = self._starts[episode] + step
        return {name: array[rows] for name, array in self._arrays.items()}


def write(path: Path, columns: Columns) -> None:
    """Writes columns as one file, replacing the file if it exists."""
    buffer = io.BytesIO()
    ids = np.array(list(columns.episode_ids))
    content: dict[str, Any] = {_IDS: ids, _LENGTHS: columns.lengths, **columns.arrays}
    np.savez(buffer, **content)
    storage.write(str(path), buffer.getvalue())


def read(path: Path) -> Columns:
    """Returns the columns of a file; FormatError if it is damaged or another kind of file."""
    try:
        arrays = {
            name.removesuffix(".npy"): npz.array(data, f"{path}: {name}")
            for name, data in npz.read_members(path).items()
        }
        ids, lengths = arrays.pop(_IDS), arrays.pop(_LENGTHS)
    except (OSError, KeyError) as error:
        raise errors.FormatError(
            f"{path}: expected the values that `starmill critic` writes: {error}"
        ) from error
    return Columns([str(name) for name in ids.tolist()], lengths, arrays)


def digest(path: Path) -> str:
    """Returns the sha256 of a file of columns."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise errors.ConfigError(f"{path}: {error}") from error
