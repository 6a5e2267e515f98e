"""An agent in one small file: what a checkpoint needs to act, to hand on or to ship.

In: the folder of a training run. Out: a `.agent` file; and from either of them, a `TrainedAgent`.
The file is a zip of

    meta.json    {"meta": the checkpoint's `Meta`, "arrays": the names of all parameters,
                 "equal": for those that are not stored, the name of a stored one with the same values}
    arrays/PATH  each parameter as .npy, floats in half precision

without the optimizer and the critics' targets, and about a tenth of a checkpoint. Its bytes depend
on its content alone, so the file's hash identifies the agent.
"""

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.learners import checkpoint, runs
from starmill.learners.checkpoint import Arrays, Meta
from starmill.learners.networks import parameters
from starmill.learners.networks.parameters import Params
from starmill.learners.runs import Run
from starmill.schema import errors, storage
from starmill.schema.archives import json_text, npz

_META = "meta.json"
_ARRAYS = "arrays/"
# The earliest day that a zip can hold. The present time would change the file's hash.
_DAY = (1980, 1, 1, 0, 0, 0)
# What json raises on damaged bytes, and Python on values of other types.
_DAMAGE = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
_KEPT = (f"{checkpoint.PARAMETERS}/", f"{checkpoint.BEHAVIOUR}/")


class TrainedAgent(NamedTuple):
    """An agent as training left it.

    Attributes:
        meta: what its parameters belong to.
        run: how it was trained.
        params: its parameters.
        behaviour: parameters of the policy that chooses all arguments but function and delay;
            None if the agent chooses them itself.
    """

    meta: Meta
    run: Run
    params: Params
    behaviour: Params | None


def pack(folder: Path, path: Path) -> None:
    """Writes the newest checkpoint of a run as one file, replacing the file if it exists."""
    meta, arrays = checkpoint.load(folder)
    names = sorted(name for name in arrays if name.startswith(_KEPT))
    stored: dict[bytes, str] = {}
    equal: dict[str, str] = {}
    for name in names:
        data = _npy(arrays[name], f"{folder}: {name}")
        first = stored.setdefault(data, name)
        if first != name:
            equal[name] = first
    content: dict[str, Any] = {"meta": dataclasses.asdict(meta), "arrays": names}
    if equal:
        content["equal"] = equal
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        _add(file, _META, json.dumps(content, indent=1, sort_keys=True).encode())
        for data, name in stored.items():
            _add(file, _ARRAYS + name, data)
    storage.write(str(path), buffer.getvalue())


def load(path: Path) -> tuple[Meta, Arrays]:
    """Returns meta and arrays of an agent's file, or of a run's newest checkpoint."""
    if not path.is_file():
        return checkpoint.load(path)
    members = npz.read_members(path)
    try:
        content = json_text.parse(members[_META])
        equal = content.get("equal", {})
        # By this list and not by the zip's directory, which damage can shorten.
        arrays = {
            name: _floats(
                members[_ARRAYS + equal.get(name, name)], f"{path}: {name!r:.100}"
            )
            for name in content["arrays"]
        }
        meta = checkpoint.checked_meta(content["meta"], path)
    except _DAMAGE as error:
        raise errors.FormatError(
            f"{path}: expected an agent as `starmill pack` writes it: {error}"
        ) from error
    return meta, arrays


def load_trained(path: Path) -> TrainedAgent:
    """Returns the agent of a file, or of a run's newest checkpoint."""
    meta, arrays = load(path)
    run = runs.from_json(meta.run)
    shapes = parameters.shapes(run.algorithm.network, run.algorithm.settings)

    def part(prefix: str) -> Params:
        params: Params
        params, missing = checkpoint.graft(arrays, shapes, prefix)
        if missing:
            raise errors.FormatError(f"{path}: parameters {missing[:4]} are missing")
        return params

    behaviour = part(checkpoint.BEHAVIOUR) if run.record.has_behaviour else None
    return TrainedAgent(meta, run, part(checkpoint.PARAMETERS), behaviour)


def _add(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _DAY)
    info.create_system = 3  # Unix, so that every system writes the same bytes
    info.compress_type = zipfile.ZIP_DEFLATED
    file.writestr(info, data, compresslevel=9)


def _npy(array: NDArray[Any], where: str) -> bytes:
    if np.issubdtype(array.dtype, np.floating):
        halves = array.astype(np.float16)
        if not np.array_equal(np.isfinite(halves), np.isfinite(array)):
            raise errors.FormatError(f"{where}: too large for half precision")
        array = halves
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _floats(data: bytes, where: str) -> NDArray[Any]:
    array = npz.array(data, where)
    return array.astype(np.float32) if array.dtype == np.float16 else array
