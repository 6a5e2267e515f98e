"""An agent in one small file: what a checkpoint needs to act, to hand on or to ship.

A zip of
    meta.json    the checkpoint's `Meta`
    arrays/PATH  each parameter as .npy, floats in half precision
without optimiser and critic's targets, about a tenth of a checkpoint. Its bytes depend on the content
alone, so the file's hash names the agent.
"""

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.learners import checkpoint
from starmill.schema import errors

_META = "meta.json"
_ARRAYS = "arrays/"
# Zip knows no earlier day; a clock's time would be in the hash.
_DAY = (1980, 1, 1, 0, 0, 0)
# Parameters, and the behaviour policy that OAC's other arguments come from.
_KEPT = ("0/", "2/behaviour/")


def pack(folder: Path, path: Path) -> None:
    """Writes the newest checkpoint of a run as one file; what was there is replaced."""
    meta, arrays = checkpoint.load(folder)
    partial = path.with_name(path.name + ".partial")
    with zipfile.ZipFile(partial, "w") as file:
        text = json.dumps(dataclasses.asdict(meta), indent=1, sort_keys=True)
        _add(file, _META, text.encode())
        for name in sorted(arrays):
            if name.startswith(_KEPT):
                _add(file, _ARRAYS + name, _npy(arrays[name], f"{folder}: {name}"))
    partial.replace(path)


def load(path: Path) -> tuple[checkpoint.Meta, dict[str, NDArray[Any]]]:
    """Returns meta and arrays of a packed agent, or of the newest checkpoint of a run's folder."""
    if not path.is_file():
        return checkpoint.load(path)
    try:
        with zipfile.ZipFile(path) as file:
            meta = json.loads(file.read(_META))
            arrays = {
                name.removeprefix(_ARRAYS): _floats(file.read(name))
                for name in file.namelist()
                if name.startswith(_ARRAYS)
            }
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError) as error:
        raise errors.FormatError(
            f"{path}: expected an agent as `starmill pack` writes it: {error}"
        ) from error
    return checkpoint.checked_meta(meta, path), arrays


def _add(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _DAY)
    info.create_system = 3  # the same bytes on every system
    info.compress_type = zipfile.ZIP_DEFLATED
    file.writestr(info, data, compresslevel=9)


def _npy(array: NDArray[Any], where: str) -> bytes:
    if np.issubdtype(array.dtype, np.floating):
        halves = array.astype(np.float16)
        if not np.array_equal(np.isfinite(halves), np.isfinite(array)):
            raise errors.FormatError(f"{where}: too large for half precision")
        array = halves
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def _floats(data: bytes) -> NDArray[Any]:
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array.astype(np.float32) if array.dtype == np.float16 else array
