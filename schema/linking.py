"""How numba builds compiled functions here: each kernel once, and all of it optimised once.

In: numba's own compiler. Out: two compilers for `numba.njit(pipeline_class=...)`, and a way to
let literal arguments share a specialisation. By default numba optimises every function together
with all that it calls, and makes machine code and wrappers for Python of it, although only the
outermost functions ever run by themselves. Here a kernel ends as the compiler's intermediate
code. An entry links every kernel below it, optimises the whole and makes machine code of that.
Nothing about a value changes, as the same operations are compiled in the same order.
"""

import functools
import logging
from types import MethodType
from typing import Any, cast

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.typed_passes import AnnotateTypes, NativeLowering

_LOG = logging.getLogger(__name__)


@functools.cache  # once in a process
def _say_so() -> None:
    _LOG.info("compiling; this takes up to a minute, and the result is kept on disk")


class KernelLibrary(JITCodeLibrary):
    """The intermediate code of one kernel, without that of the kernels it calls."""

    def add_llvm_module(self, module: Any) -> None:
        """Adds code as it is; entries optimise it."""
        self._final_module.link_in(module)

    def finalize(self) -> None:
        """Marks the code as complete."""
        self._finalized = True


class EntryLibrary(JITCodeLibrary):
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
            if isinstance(library, KernelLibrary):
                waiting.extend(library._linking_libraries)
        self._linking_libraries = list(libraries)
        super().finalize()


def _library(state: Any, kind: type[JITCodeLibrary]) -> JITCodeLibrary:
    library = kind(state.targetctx.codegen(), state.func_id.func_qualname)
    library.enable_object_caching()
    return library


@register_pass(mutates_CFG=False, analysis_only=True)
class _ForKernel(LoweringPass):
    """Lowers into a `KernelLibrary`, without wrappers for Python."""

    _name = "starmill_for_kernel"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _library(state, KernelLibrary)
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = True
        state.flags.no_cfunc_wrapper = True
        return True


@register_pass(mutates_CFG=False, analysis_only=True)
class _ForEntry(LoweringPass):
    """Lowers into an `EntryLibrary`."""

    _name = "starmill_for_entry"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = _library(state, EntryLibrary)
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


class KernelCompiler(CompilerBase):
    """Compiles functions that only compiled functions call."""

    def define_pipelines(self) -> list[PassManager]:
        """Returns numba's pipeline, with the kernel's library and without machine code."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_ForKernel, AnnotateTypes)
        passes.add_pass_after(_Callable, NativeLowering)
        passes.finalize()
        return [passes]


class EntryCompiler(CompilerBase):
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


def share_literals(dispatcher: Any) -> None:
    """Lets calls with different constants share a specialisation.

    numba compiles a function anew for each constant that callers pass.
    """
    dispatcher.get_call_template = MethodType(_call_template, dispatcher)
