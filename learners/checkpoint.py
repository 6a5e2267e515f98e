"""Checkpoints: parameters, optimiser and carry in orbax's format, with what they belong to.

    out/
      run.json             the resolved configuration, the dataset's reference, the schema
      checkpoints/NUMBER/  one for each update that was saved; the last few are kept

In: trees of arrays and a JSON-able `Meta`. Out: the same. Leaves are stored under their path in
the tree, so that no library's container types are in the files. A checkpoint that belongs to
another schema or dataset is refused, with the difference.
"""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from starmill.learners import runs
from starmill.schema import errors, specs
from starmill.schema import settings as settings_lib

log = logging.getLogger(__name__)

FOLDER = "checkpoints"
KEEP = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meta:
    """What a checkpoint belongs to.

    run: the `Run` as JSON. dataset: its reference. fingerprint: of the schema.
    update, frames: how far training had come.
    sampler: state of the dataset's iterator.
    max_mmr: the highest rating among the training episodes; what agents play with.
    """

    run: dict[str, Any]
    dataset: str
    fingerprint: str
    update: int
    frames: int
    sampler: dict[str, int]
    max_mmr: int

    @property
    def settings(self) -> settings_lib.ConverterSettings:
        """Returns the converter settings that the parameters were trained with."""
        return settings_lib.from_json(self.run["algorithm"]["settings"])


class Store:
    """The checkpoints of one run's folder. A context manager: leaving it ends the writing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute() / FOLDER
        self._manager = ocp.CheckpointManager(
            self._folder,
            options=ocp.CheckpointManagerOptions(
                max_to_keep=KEEP, create=True, enable_async_checkpointing=False
            ),
        )

    def __enter__(self) -> "Store":
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the writing."""
        self._manager.close()

    def latest(self) -> int | None:
        """Returns the newest checkpoint's update; None where there is none."""
        found = self._manager.latest_step()
        return None if found is None else int(found)

    def save(self, state: Any, meta: Meta) -> None:
        """Writes a checkpoint; what was there for the same update is kept instead."""
        if meta.update in self._manager.all_steps():
            return
        self._manager.save(
            meta.update,
            args=ocp.args.Composite(
                # Plain arrays: where they were when saved is nothing to restore.
                state=ocp.args.StandardSave(
                    {name: np.asarray(leaf) for name, leaf in _flat(state).items()}
                ),
                meta=ocp.args.JsonSave(dataclasses.asdict(meta)),
            ),
        )

    def meta(self) -> Meta:
        """Returns the newest checkpoint's meta; ConfigError where there is none."""
        step = self._step()
        found = self._manager.restore(
            step, args=ocp.args.Composite(meta=ocp.args.JsonRestore())
        )
        return checked_meta(found["meta"], self._folder / str(step))

    def restore(self, like: Any) -> Any:
        """Returns the newest state as a tree like the one given (of arrays or shapes)."""
        found = self.arrays()
        leaves, tree = jax.tree_util.tree_flatten_with_path(like)
        expected = {_name(path): (leaf.shape, leaf.dtype) for path, leaf in leaves}
        stored = {name: (value.shape, value.dtype) for name, value in found.items()}
        if stored != expected:
            odd = sorted(
                n for n in {*stored, *expected} if stored.get(n) != expected.get(n)
            )
            raise errors.ManifestMismatch(
                f"{self._folder}: arrays {odd[:8]} are not what this run has: "
                "another network or algorithm"
            )
        return jax.tree.unflatten(tree, [found[_name(path)] for path, _ in leaves])

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns every stored array of the newest checkpoint under its path."""
        step = self._step()
        found = self._manager.restore(
            step, args=ocp.args.Composite(state=ocp.args.StandardRestore())
        )["state"]
        return {name: np.asarray(value) for name, value in found.items()}

    def _step(self) -> int:
        step = self.latest()
        if step is None:
            raise errors.ConfigError(
                f"{self._folder}: expected a checkpoint, found none"
            )
        return step


def open_meta(folder: Path) -> Meta:
    """Returns the meta of a run's newest checkpoint; ConfigError where there is none."""
    _exists(folder)
    with Store(folder) as store:
        return store.meta()


def load(folder: Path) -> tuple[Meta, dict[str, np.ndarray]]:
    """Returns the newest checkpoint of a run: its meta, and arrays under their paths."""
    _exists(folder)
    with Store(folder) as store:
        return store.meta(), store.arrays()


def graft(
    arrays: dict[str, np.ndarray], like: Any, prefix: str
) -> tuple[Any, list[str]]:
    """Returns the tree with every leaf found under `prefix` put in, and the paths not found.

    ManifestMismatch, naming them, if found leaves have other shapes: another network.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(like)
    out, missing, wrong = [], [], []
    for path, leaf in leaves:
        name = f"{prefix}/{_name(path)}"
        if name not in arrays:
            missing.append(name)
            out.append(leaf)
            continue
        found = arrays[name]
        if found.shape != leaf.shape:
            wrong.append(f"{name}: {found.shape} -> {leaf.shape}")
        out.append(jax.numpy.asarray(found))
    if wrong:
        raise errors.ManifestMismatch(
            "checkpoint is of another network: " + "; ".join(wrong[:8])
        )
    return jax.tree.unflatten(tree, out), missing


def check_schema(meta: Meta, settings: settings_lib.ConverterSettings) -> None:
    """Raises ManifestMismatch, array by array, unless data and checkpoint agree."""
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
        f"checkpoint was trained with schema {meta.fingerprint[:12]}, the dataset has "
        f"{fingerprint[:12]}:\n  " + "\n  ".join(lines[:20])
    )


def check_dataset(meta: Meta, reference: str) -> None:
    """Raises ManifestMismatch unless a run goes on with the dataset it began with."""
    if meta.dataset != reference:
        raise errors.ManifestMismatch(
            f"checkpoint was trained on {meta.dataset}, this is {reference}: "
            "a run goes on with the dataset it began with; start another with --init"
        )


def checked_meta(found: Any, where: Path) -> Meta:
    """Returns what was read as a `Meta`; FormatError where keys are missing or unknown."""
    names = {field.name for field in dataclasses.fields(Meta)}
    if not isinstance(found, dict) or set(found) != names:
        raise errors.FormatError(
            f"{where}: expected the meta's keys {sorted(names)}, found "
            f"{sorted(found) if isinstance(found, dict) else type(found).__name__}"
        )
    return Meta(**found)


def _exists(folder: Path) -> None:
    if not (folder / FOLDER).is_dir():
        raise errors.ConfigError(
            f"{folder}: expected a folder that `starmill train` made, with {FOLDER}/ in it"
        )


def _flat(tree: Any) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): leaf for path, leaf in leaves}


def _name(path: Any) -> str:
    parts = []
    for key in path:
        for kind in ("key", "idx", "name"):
            if hasattr(key, kind):
                parts.append(str(getattr(key, kind)))
                break
    return "/".join(parts)
