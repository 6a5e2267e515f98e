"""An agent in one small file: what a checkpoint needs to act, to hand on or to ship.

A zip of
    meta.json    {"meta": the checkpoint's `Meta`, "arrays": the names of all parameters}
    arrays/PATH  each parameter as .npy, floats in half precision
without optimiser and critic's targets, about a tenth of a checkpoint. Its bytes depend on the content
alone, so the file's hash names the agent.
"""

import dataclasses
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.learners import checkpoint
from starmill.schema import errors, storage

_META = "meta.json"
_ARRAYS = "arrays/"
# Zip knows no earlier day; a clock's time would be in the hash.
_DAY = (1980, 1, 1, 0, 0, 0)
# What zipfile, zlib, json and numpy raise on bytes that are not what they were.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    TypeError,
    ValueError,
    EOFError,
    OSError,
    RuntimeError,
)
# Parameters, and the behaviour policy that OAC's other arguments come from.
_KEPT = ("0/", "2/behaviour/")


def pack(folder: Path, path: Path) -> None:
    """Writes the newest checkpoint of a run as one file; what was there is replaced."""
    meta, arrays = checkpoint.load(folder)
    kept = sorted(name for name in arrays if name.startswith(_KEPT))
    content = {"meta": dataclasses.asdict(meta), "arrays": kept}
    with storage.replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as file:
        _add(file, _META, json.dumps(content, indent=1, sort_keys=True).encode())
        for name in kept:
            _add(file, _ARRAYS + name, _npy(arrays[name], f"{folder}: {name}"))


def load(path: Path) -> tuple[checkpoint.Meta, dict[str, NDArray[Any]]]:
    """Returns meta and arrays of a packed agent, or of the newest checkpoint of a run's folder."""
    if not path.is_file():
        return checkpoint.load(path)
    try:
        with zipfile.ZipFile(path) as file:
            content = json.loads(file.read(_META))
            # By the list, not by what the zip's directory has: damage can shorten that.
            arrays = {
                name: _floats(file.read(_ARRAYS + name)) for name in content["arrays"]
            }
            meta = checkpoint.checked_meta(content["meta"], path)
    except _DAMAGE as error:
        raise errors.FormatError(
            f"{path}: expected an agent as `starmill pack` writes it: {error}"
        ) from error
    return meta, arrays


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
