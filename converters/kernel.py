"""How the converter's inner loops are compiled: numba, without the GIL, cached on disk.

In: a plain Python function. Out: the same function compiled on first call. Arithmetic is
exact: no fast-math, so nothing is reordered or fused, and float32 stays float32.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


@functools.cache
def _sources() -> str:
    """Returns a digest of this folder's modules that have compiled functions."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text = path.read_bytes()
        if b"@compiled" in text or b"@inlined" in text:
            digest.update(path.name.encode() + text)
    return digest.hexdigest()


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function compiled by numba, with its machine code kept between runs.

    numba keys its cache by the file that holds the function alone, so a changed callee in
    another file would leave stale code behind. The stamp is therefore that of the folder.
    Where no folder for the cache can be written, the code is compiled anew in each process.
    """
    return _compiled(function, {})


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a compiled function whose body takes the place of every call.

    For the few that are called once per field of a message, where a call costs more than
    what it does.
    """
    return _compiled(function, {"forceinline": True})


def _compiled(function: Callable[P, R], extra: dict[str, Any]) -> Callable[P, R]:
    njit: Any = numba.njit  # its stubs differ between releases
    options = {"nogil": True, "error_model": "numpy", **extra}
    try:
        made: Any = njit(cache=True, **options)(function)
    except RuntimeError:
        made = njit(**options)(function)
    file = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if file is not None and hasattr(file, "_source_stamp"):
        file._source_stamp = _sources()
    out: Callable[P, R] = made
    return out
