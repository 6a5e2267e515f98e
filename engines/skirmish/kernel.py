"""Compiling the simulation: two decorators, and a cache that notices every change.

Numba's own cache looks only at the file of the function it stores, so a change in a module that
the function calls would go unnoticed and stale code would run. Here the stamp of every
cached function is a digest of all modules that compiled code comes from.
"""

import functools
import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeVar, cast

import numba

_CONSTANTS = frozenset({"errorcodes.py", "rules.py", "world.py"})
# Modules with kernels, and those whose constants and record types kernels compile in.
MODULES = (
    "kernel",
    "world",
    "rules",
    "state",
    "errorcodes",
    "lifecycle",
    "movement",
    "combat",
    "terrain",
    "economy",
    "production",
    "effects",
    "vision",
    "requirements",
    "commands",
    "simulation",
    "entries",
)

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def source_digest() -> str:
    """Returns the sha256 of the sources that compiled code is made of, in order of names.

    These are the modules with kernels and the tables of constants they name; the server, the
    replay format and the bots change often and are not among them.
    """
    digest = hashlib.sha256()
    package = resources.files("starmill.engines.skirmish")
    for entry in sorted(package.iterdir(), key=lambda item: item.name):
        if not entry.name.endswith(".py"):
            continue
        content = entry.read_bytes()
        if b"@kernel" in content or entry.name in _CONSTANTS:
            digest.update(entry.name.encode() + b"\0" + content)
    return digest.hexdigest()


def kernel(function: F) -> F:
    """Returns the function compiled into whichever kernels call it; not cached by itself.

    No fastmath: the same operations in the same order everywhere is what makes games
    repeatable across machines. Integers in records are 64 bits wide, so that a kernel is
    compiled once and not for every mix of widths it is called with.
    """
    compiled: Any = numba.njit(error_model="numpy")(function)
    return cast(F, compiled)


def entry(function: F) -> F:
    """Returns a kernel for Python to call, with all it calls, cached on disk."""
    dispatcher: Any = numba.njit(cache=True, error_model="numpy")(function)
    # Private to numba, and the only place the stamp can be set; see the module's docstring.
    cache_file = getattr(dispatcher._cache, "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = source_digest()
    return cast(F, dispatcher)
