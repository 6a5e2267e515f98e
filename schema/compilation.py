"""Compiling with numba: the decorators, and a cache on disk that notices every change.

Numba's own cache looks only at the file of the function that it stores. A change in a module
that the function calls would go unnoticed, and stale machine code would run. Here the stamp of
every cached function is a digest of its module and of every module of this package that the
module imports, directly or not: no list to keep, and moving a module cannot break it.

By default numba optimises every function together with all that it calls, and makes machine code
and wrappers for Python of it, although only the outermost functions ever run by themselves. Here a
kernel ends as the compiler's intermediate code. An entry links every kernel below it, optimises the
whole and makes machine code of that. This takes a third of the time.

Numba also counts the references to every array and every view of one, with an atomic operation each.
Code that reads a message makes thousands of views. A *bare* function does not count: it may view the
arrays that it is given, but makes none.

No fast-math anywhere: the same operations in the same order everywhere is what makes games and
datasets repeatable across machines.
"""

import functools
import hashlib
import logging
import re
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.typed_passes import AnnotateTypes, NativeLowering

P = ParamSpec("P")
R = TypeVar("R")
_PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(
    r"^[ \t]*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([^\n]*))", re.M
)
_NAME = re.compile(r"[\w.]+")
# Compiled code follows the IEEE rules for a division by zero unless a module says otherwise.
_NUMPY = "numpy"
_BARE = {"error_model": _NUMPY, "_nrt": False}
_LOG = logging.getLogger(__name__)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function for kernels and entries to call, in whose code it ends up.

    Python cannot call it.
    """
    return _kernel(function, {"error_model": _NUMPY})


def checked_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a kernel in which a division by zero raises."""
    return _kernel(function, {})


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a kernel whose body replaces every call.

    For the few that are called once per field of a message, where a call costs more than the
    work itself.
    """
    return _kernel(function, {"error_model": _NUMPY, "forceinline": True})


def bare_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a kernel that makes no array and does not count references."""
    return _kernel(function, _BARE)


def bare_inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a bare kernel whose body replaces every call."""
    return _kernel(function, {**_BARE, "forceinline": True})


def bare_compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Returns an entry without the GIL that makes no array and does not count references."""
    return _entry(function, {**_BARE, "nogil": True})


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a function for Python to call, cached on disk together with all it calls."""
    return _entry(function, {"error_model": _NUMPY})


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Returns an entry that runs without the GIL; kernels may call it too."""
    return _entry(function, {"error_model": _NUMPY, "nogil": True})


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Returns an entry without the GIL in which a division by zero raises."""
    return _entry(function, {"nogil": True})


def _kernel(function: Callable[P, R], options: dict[str, Any]) -> Callable[P, R]:
    dispatcher = _compile(function, {**options, "pipeline_class": _KernelCompiler})
    _share_literals(dispatcher)
    return dispatcher


def _entry(function: Callable[P, R], options: dict[str, Any]) -> Callable[P, R]:
    return _compile_cached(function, {**options, "pipeline_class": _EntryCompiler})


def _compile(function: Callable[P, R], options: dict[str, Any]) -> Callable[P, R]:
    njit: Any = numba.njit  # its stubs differ between releases
    dispatcher: Callable[P, R] = njit(**options)(function)
    return dispatcher


def _compile_cached(
    function: Callable[P, R], options: dict[str, Any]
) -> Callable[P, R]:
    try:
        dispatcher: Any = _compile(function, {"cache": True, **options})
    except (
        RuntimeError
    ):  # no folder for the cache can be written: compile in each process
        return _compile(function, options)
    # Private to numba, and the only place where the stamp can be set.
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    inside = _path(function.__module__) is not None
    if inside and file is not None and hasattr(file, "_source_stamp"):
        file._source_stamp = source_digest(function.__module__)
    cached: Callable[P, R] = dispatcher
    return cached


@functools.cache
def source_digest(*modules: str) -> str:
    """Returns a sha256 of the sources of these modules and of all that they import.

    Only modules of this package count; other libraries belong to the environment.
    """
    digest = hashlib.sha256()
    for name in sorted(imported_modules(*modules)):
        digest.update(name.encode() + b"\0" + _source(name) + b"\0")
    return digest.hexdigest()


def imported_modules(*modules: str) -> frozenset[str]:
    """Returns these modules and those of this package that they import, directly or not."""
    names: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting.extend(_imports(name))
    return frozenset(names)


@functools.cache
def _path(name: str) -> Path | None:
    """Returns the source file of a module of this package, None if it is not one."""
    parts = name.split(".")
    if parts[0] != _PACKAGE:
        return None
    stem = Path(__file__).parent.parent.joinpath(*parts[1:])
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None


@functools.cache
def _source(name: str) -> bytes:
    path = _path(name)
    return b"" if path is None else path.read_bytes()


@functools.cache
def _imports(name: str) -> frozenset[str]:
    """Returns the modules of this package that a module imports by itself.

    Read with a regular expression, as parsing would cost a tenth of a second at each start of
    the game. It may take a line of prose for an import; `_path` then knows no such module.
    """
    names: set[str] = set()
    for source, members, modules in _IMPORT.findall(_source(name).decode("utf-8")):
        names.update(_NAME.findall(modules))
        if source:
            names.add(source)
            names.update(f"{source}.{member}" for member in _NAME.findall(members))
    return frozenset(name for name in names if _path(name) is not None)


@functools.cache  # once in a process
def _say_so() -> None:
    # Where no program has set up logging, Python shows warnings only.
    level = logging.INFO if _LOG.hasHandlers() else logging.WARNING
    _LOG.log(
        level, "compiling; this takes up to a minute, and the result is kept on disk"
    )


class _KernelLibrary(JITCodeLibrary):
    """The intermediate code of one kernel, without that of the kernels it calls."""

    def finalize(self) -> None:
        """Marks the code as complete."""
        self._finalized = True


class _EntryLibrary(JITCodeLibrary):
    """The code of an entry and of every kernel below it."""

    def finalize(self) -> None:
        """Links all kernels, however deep, optimises and makes machine code."""
        libraries: dict[Any, None] = {}
        waiting = list(self._linking_libraries)
        while waiting:
            library = waiting.pop(0)
            if library in libraries:
                continue
            libraries[library] = None
            if isinstance(library, _KernelLibrary):
                waiting.extend(library._linking_libraries)
        self._linking_libraries = list(libraries)
        super().finalize()


def _library(state: Any, kind: type[JITCodeLibrary]) -> JITCodeLibrary:
    library = kind(state.targetctx.codegen(), state.func_id.func_qualname)
    library.enable_object_caching()
    return library


@register_pass(mutates_CFG=False, analysis_only=True)
class _ForKernel(LoweringPass):
    """Lowers into a `_KernelLibrary`, without wrappers for Python."""

    _name = "starmill_for_kernel"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _library(state, _KernelLibrary)
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = True
        state.flags.no_cfunc_wrapper = True
        return True


@register_pass(mutates_CFG=False, analysis_only=True)
class _ForEntry(LoweringPass):
    """Lowers into an `_EntryLibrary`."""

    _name = "starmill_for_entry"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _library(state, _EntryLibrary)
        state.flags.no_cfunc_wrapper = True
        return True


@register_pass(mutates_CFG=False, analysis_only=True)
class _Callable(LoweringPass):
    """Lets other compiled functions call a kernel that has no machine code."""

    _name = "starmill_callable"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        lowered = state["cr"]
        # numba knows a compiled function by the built-in function that Python would call. This
        # one is new each time, and raises a TypeError.
        stand_in = cast(Any, iter([])).__setstate__
        state.targetctx.insert_user_function(stand_in, lowered.fndesc, [state.library])
        state["cr"] = _LowerResult(
            lowered.fndesc, lowered.call_helper, cfunc=stand_in, env=lowered.env
        )
        return True


class _KernelCompiler(CompilerBase):
    """Compiles functions that only compiled functions call."""

    def define_pipelines(self) -> list[PassManager]:
        """Returns numba's pipeline, with the kernel's library and without machine code."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_ForKernel, AnnotateTypes)
        passes.add_pass_after(_Callable, NativeLowering)
        passes.finalize()
        return [passes]


class _EntryCompiler(CompilerBase):
    """Compiles functions that Python calls."""

    def define_pipelines(self) -> list[PassManager]:
        """Returns numba's pipeline, with the entry's library."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        _say_so()
        passes.add_pass_after(_ForEntry, AnnotateTypes)
        passes.finalize()
        return [passes]


def _call_template(dispatcher: Any, args: Any, kws: Any) -> Any:
    plain = tuple(types.unliteral(arg) for arg in args)
    named = {name: types.unliteral(arg) for name, arg in kws.items()}
    return type(dispatcher).get_call_template(dispatcher, plain, named)


def _share_literals(dispatcher: Any) -> None:
    """Lets calls with different constants share a specialisation.

    numba compiles a function anew for each constant that callers pass.
    """
    dispatcher.get_call_template = MethodType(_call_template, dispatcher)
