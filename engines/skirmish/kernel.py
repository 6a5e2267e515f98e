"""Compiling the simulation: two decorators, and a cache that notices every change.

Numba's own cache looks only at the file of the function it stores, so a change in a module that
the function calls would go unnoticed and stale code would run. Here the stamp of every
cached function is a digest of all modules that its group's code comes from.
"""

import functools
import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeVar, cast

import numba

# What the compiled simulation is made of: modules with kernels, and those whose constants
# and record types kernels compile in. The server, the replay format and the bots change often
# and are not among them.
SIMULATION = (
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
# The same for observations, which are compiled apart: neither waits for the other's changes.
OBSERVATION = (
    "kernel",
    "world",
    "rules",
    "state",
    "vision",
    "unit_kernels",
    "plane_kernels",
)

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def source_digest(modules: tuple[str, ...]) -> str:
    """Returns the sha256 of the sources of these modules, in the order given."""
    digest = hashlib.sha256()
    package = resources.files("starmill.engines.skirmish")
    for name in modules:
        content = package.joinpath(f"{name}.py").read_bytes()
        digest.update(name.encode() + b"\0" + content)
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
        module = function.__module__.rsplit(".", 1)[-1]
        group = SIMULATION if module in SIMULATION else OBSERVATION
        cache_file._source_stamp = source_digest(group)
    return cast(F, dispatcher)
