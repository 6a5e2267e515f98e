"""Checkpoints: parameters, optimizer and carry in orbax's format, with what they belong to.

In: a training state (a tree of arrays) and a `Meta`. Out: the same. Arrays are stored under their
path in the tree, so the files hold no library's container types. A digest of each array is
stored beside them and checked when they are read; checkpoints of earlier versions have none.
Writing goes on in the background. Where several processes train, all of them write and read
together; they may be another number of processes when they read.
Must not know: how training works, and what the arrays mean beyond `PARAMETERS` and `BEHAVIOUR`.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
import math
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from numpy.typing import NDArray

from starmill.learners import run_folder, runs
from starmill.schema import errors, specs
from starmill.schema.settings import ConverterSettings

# A training state is stored as (parameters, optimizer, carry). These are the paths of the
# parameters in it, and of the behaviour policy in the actor-critics' carry.
PARAMETERS = "0"
BEHAVIOUR = "2/behaviour"
# How many checkpoints of a run are kept: the newest, and one to fall back on.
KEEP = 2

# What orbax, tensorstore, json and numpy raise on files that are missing or damaged.
_DAMAGE = (KeyError, TypeError, ValueError, EOFError, OSError, RuntimeError)
_NO_SPACE = os.strerror(errno.ENOSPC)
# Of a checkpoint's other files, and of metrics.
_SPARE_BYTES = 1 << 20
# Arrays of zeros shrink to a thousandth, but parameters do not.
_MOST_RATIO, _MOST_EXTRA = 200, 16 << 20
_Result = TypeVar("_Result")

Arrays = dict[str, NDArray[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meta:
    """What a checkpoint belongs to.

    Attributes:
        run: the `Run` as JSON.
        dataset: the dataset's reference.
        fingerprint: of the dataset's schema.
        update: how many updates were made.
        frames: how many frames were trained on.
        sampler: state of the dataset's iterator, from which training continues.
        max_mmr: the rating that the agent plays with: a high one among the training episodes
            (`training.playing_rating`); earlier versions stored the highest.
    """

    run: dict[str, Any]
    dataset: str
    fingerprint: str
    update: int
    frames: int
    sampler: dict[str, int]
    max_mmr: int

    @property
    def settings(self) -> ConverterSettings:
        """Returns the converter settings that the parameters were trained with."""
        return ConverterSettings.from_json(self.run["algorithm"]["settings"])


class Store:
    """The checkpoints of one run's folder. A context manager: leaving it ends the writing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute() / run_folder.CHECKPOINTS
        self._manager = _guarded(
            self._folder,
            lambda: ocp.CheckpointManager(
                self._folder,
                options=ocp.CheckpointManagerOptions(
                    max_to_keep=KEEP, create=True, enable_async_checkpointing=True
                ),
                item_handlers={
                    "state": ocp.StandardCheckpointHandler(),
                    "meta": ocp.JsonCheckpointHandler(),
                    "digests": ocp.JsonCheckpointHandler(),
                },
            ),
        )

    def __enter__(self) -> "Store":
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the writing."""
        with self._full_disks():
            self._manager.close()

    def latest(self) -> int | None:
        """Returns the newest checkpoint's update; None if there is none."""
        update = self._manager.latest_step()
        return None if update is None else int(update)

    def save(self, state: Any, meta: Meta) -> None:
        """Begins to write a checkpoint. One that exists for the same update is kept instead.

        On return the arrays have been copied: they may be used up. OSError if the disk is full;
        training can continue from the checkpoint before.
        """
        if meta.update in self._manager.all_steps():
            return
        values = dataclasses.asdict(meta)
        arrays = _flat(state)
        self._check_space(sum(array.nbytes for array in arrays.values()))
        # One process writes the small parts, for all of them.
        digests = _digests(values, arrays) if jax.process_index() == 0 else {}
        items = ocp.args.Composite(
            state=ocp.args.StandardSave(arrays),
            meta=ocp.args.JsonSave(values),
            digests=ocp.args.JsonSave(digests),
        )
        with self._full_disks():
            self._manager.save(meta.update, args=items)

    @contextlib.contextmanager
    def _full_disks(self) -> Iterator[None]:
        """Raises OSError for a full disk, also if it was the checkpoint before that failed."""
        try:
            yield
        except ValueError as error:
            # This is how tensorstore reports a full disk.
            if _NO_SPACE not in str(error):
                raise
            raise self._no_space() from error

    def _check_space(self, size_bytes: int) -> None:
        """Raises OSError if the disk has too little space for arrays of this size.

        A write that fails half-way leaves tensorstore's threads with an event loop that is
        closed, and each of them prints a traceback.
        """
        if shutil.disk_usage(self._folder).free < size_bytes + _SPARE_BYTES:
            raise self._no_space()

    def _no_space(self) -> OSError:
        return OSError(errno.ENOSPC, _NO_SPACE, str(self._folder))

    def load(self) -> tuple[Meta, Arrays]:
        """Returns the newest checkpoint's meta, and every array under its path.

        ConfigError if there is no checkpoint. FormatError if the newest one is damaged; the
        message names the newest intact one.
        """
        update = self.latest()
        if update is None:
            raise errors.ConfigError(
                f"{self._folder}: expected a checkpoint, found none"
            )
        try:
            return self._read(update)
        except errors.FormatError as error:
            raise errors.FormatError(f"{error}. {self._remedy(update)}") from error

    def _read(self, update: int) -> tuple[Meta, Arrays]:
        folder = self._folder / str(update)
        # As plain arrays: on which devices they were is of no interest.
        metadata = _guarded(folder, lambda: self._manager.item_metadata(update))
        if metadata.get("state") is None:
            raise errors.FormatError(
                f"{folder}: the checkpoint is damaged or incomplete: it has no state"
            )
        _check_size(folder, metadata["state"].values())
        like = {
            name: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape)
            for name, leaf in metadata["state"].items()
        }
        items = {
            "state": ocp.args.StandardRestore(like),
            "meta": ocp.args.JsonRestore(),
        }
        if _has_digests(folder):
            items["digests"] = ocp.args.JsonRestore()
        stored = _guarded(
            folder,
            lambda: self._manager.restore(update, args=ocp.args.Composite(**items)),
        )
        arrays = {name: np.asarray(value) for name, value in stored["state"].items()}
        if "digests" in items:
            expected = stored["digests"]
            actual = _digests(stored["meta"], arrays)
            if lines := runs.differences(actual, expected):
                names = [line.split(":")[0] for line in lines]
                raise errors.FormatError(
                    f"{folder}: the checkpoint is damaged: {names[:4]} differ from the "
                    "digests stored with them"
                )
        return checked_meta(stored["meta"], folder), arrays

    def _remedy(self, damaged: int) -> str:
        """Says which checkpoint can be used instead, if there is one."""
        for update in sorted(map(int, self._manager.all_steps()), reverse=True):
            if update >= damaged:
                continue
            try:
                self._read(update)
            except errors.FormatError:
                continue
            return (
                f"The newest intact checkpoint is {self._folder / str(update)}; to use "
                f"it, delete {self._folder / str(damaged)}"
            )
        return (
            "No other checkpoint of this run is intact; train again in another folder"
        )


def load(folder: Path) -> tuple[Meta, Arrays]:
    """Returns the newest checkpoint of a run: its meta, and its arrays under their paths."""
    if not (folder / run_folder.CHECKPOINTS).is_dir():
        raise errors.ConfigError(
            f"{folder}: expected a folder that `starmill train` wrote, with "
            f"{run_folder.CHECKPOINTS}/ in it"
        )
    _check_files(folder / run_folder.CHECKPOINTS)
    with Store(folder) as store:
        return store.load()


def restore(arrays: Arrays, like: Any, where: Path) -> Any:
    """Returns stored arrays as a tree like the given one (of arrays or shapes).

    ManifestMismatch unless both have the same paths, shapes and dtypes.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    expected = {path_name(path): (leaf.shape, leaf.dtype) for path, leaf in leaves}
    stored = {name: (value.shape, value.dtype) for name, value in arrays.items()}
    if stored != expected:
        names = sorted(
            name
            for name in {*stored, *expected}
            if stored.get(name) != expected.get(name)
        )
        raise errors.ManifestMismatch(
            f"{where}: the checkpoint belongs to another network or algorithm: arrays "
            f"{names[:8]} differ from this run's"
        )
    return jax.tree.unflatten(tree, [arrays[path_name(path)] for path, _ in leaves])


def graft(
    arrays: Mapping[str, NDArray[Any]], like: Any, prefix: str
) -> tuple[Any, list[str]]:
    """Returns a tree with the arrays under `prefix` put in, and the paths that are missing.

    Leaves that are missing are left as in `like`. ManifestMismatch names arrays of other
    shapes, which belong to another network.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    grafted, missing, wrong = [], [], []
    for path, leaf in leaves:
        name = f"{prefix}/{path_name(path)}"
        if name not in arrays:
            missing.append(name)
            grafted.append(leaf)
            continue
        array = arrays[name]
        if array.shape != leaf.shape:
            wrong.append(f"{name}: {array.shape} -> {leaf.shape}")
        grafted.append(jax.numpy.asarray(array))
    if wrong:
        raise errors.ManifestMismatch(
            "the checkpoint belongs to another network: " + "; ".join(wrong[:8])
        )
    return jax.tree.unflatten(tree, grafted), missing


def check_schema(meta: Meta, settings: ConverterSettings) -> None:
    """Raises ManifestMismatch, array by array, unless dataset and checkpoint agree."""
    fingerprint = specs.fingerprint(settings)
    if meta.fingerprint == fingerprint:
        return
    ours = specs.observation_specs(settings)
    theirs = specs.observation_specs(meta.settings)
    lines = runs.differences(
        {key: spec.to_json() for key, spec in ours.items()},
        {key: spec.to_json() for key, spec in theirs.items()},
    )
    raise errors.ManifestMismatch(
        f"the checkpoint was trained with schema {meta.fingerprint[:12]}, the dataset "
        f"has {fingerprint[:12]}:\n  " + "\n  ".join(lines[:20])
    )


def check_dataset(meta: Meta, reference: str) -> None:
    """Raises ManifestMismatch unless training continues on the dataset it began with."""
    if meta.dataset != reference:
        raise errors.ManifestMismatch(
            f"the checkpoint was trained on {meta.dataset}, this is {reference}: a run "
            "continues on the dataset it began with; start another run with --init"
        )


def checked_meta(values: Any, where: Path) -> Meta:
    """Returns stored values as a `Meta`; FormatError if keys are missing or unknown."""
    names = {field.name for field in dataclasses.fields(Meta)}
    if not isinstance(values, dict) or set(values) != names:
        keys = sorted(values) if isinstance(values, dict) else type(values).__name__
        raise errors.FormatError(
            f"{where}: expected the meta's keys {sorted(names)}, found {keys}"
        )
    return Meta(**values)


def path_name(path: Any) -> str:
    """Returns the path of a leaf in a tree as text, "0/policy/kernel"."""
    parts = []
    for key in path:
        for kind in ("key", "idx", "name"):
            if hasattr(key, kind):
                parts.append(str(getattr(key, kind)))
                break
    return "/".join(parts)


def _guarded(where: Path, action: Callable[[], _Result]) -> _Result:
    """Returns the action's result; a FormatError in place of what damaged files raise."""
    try:
        return action()
    except _DAMAGE as error:
        # tensorstore's messages run to pages; their first line says enough.
        (reason, *_) = str(error).splitlines() or [""]
        raise errors.FormatError(
            f"{where}: the checkpoint is damaged or incomplete: "
            f"{type(error).__name__}: {reason[:200]}"
        ) from error


def _check_files(folder: Path) -> None:
    """Raises FormatError for pipes, devices and sockets, which a reader could wait for for ever."""
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(parent, name)
            try:
                mode = path.stat().st_mode
            except OSError:
                continue  # deleted by the process that trains, or a link that leads nowhere
            if not (
                stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and not path.is_symlink())
            ):
                raise errors.FormatError(
                    f"{path}: expected a regular file or a folder; delete what is there, or "
                    "copy the run again"
                )


def _check_size(folder: Path, leaves: Iterable[Any]) -> None:
    """Raises FormatError for arrays that a checkpoint of this size cannot hold."""
    total = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    stored = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    limit = _MOST_RATIO * stored + _MOST_EXTRA
    if total > limit:
        raise errors.FormatError(
            f"{folder}: expected arrays of at most {limit:,} bytes in {stored:,} bytes of "
            f"files, found {total:,}"
        )


def _has_digests(folder: Path) -> bool:
    """Returns whether a checkpoint was written with digests, even if they are lost."""
    index = folder / "_CHECKPOINT_METADATA"
    listed = index.is_file() and b'"digests"' in index.read_bytes()
    return listed or (folder / "digests").exists()


def _digests(meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sha256 of the meta, and of each array with its dtype and shape."""
    text = json.dumps(meta, sort_keys=True)
    return {
        "meta": hashlib.sha256(text.encode()).hexdigest(),
        "arrays": {
            name: _array_digest(np.asarray(array)) for name, array in arrays.items()
        },
    }


def _array_digest(array: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _flat(tree: Any) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {path_name(path): leaf for path, leaf in leaves}
