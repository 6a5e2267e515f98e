"""The cache of compiled code: a change anywhere in what a kernel is made of is noticed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import NumbaError

from starmill.schema import compilation

CALLER = """
from starmill.schema.compilation import {decorator}
from starmill.rooms.near import (
    middle,  # through another module
)

@{decorator}
def answer():
    return middle.twice(21)
"""
MIDDLE = """
from starmill.schema.compilation import kernel
from starmill.rooms.far import callee

@kernel
def twice(number):
    return callee.scale(number)
"""
CALLEE = """
from starmill.schema.compilation import kernel

@kernel
def scale(number):
    return {factor} * number
"""
LOGGING = "import logging, sys; logging.basicConfig(level=sys.argv[1])\n"
PROGRAM = """
from starmill.rooms.near import caller
print(caller.answer(), sum(caller.answer.stats.cache_hits.values()))
"""


def _write(root: Path, name: str, text: str) -> None:
    path = root / "starmill" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    for folder in path.parents:
        if folder != root and root in folder.parents:
            (folder / "__init__.py").touch()
    path.write_text(text)


def _run(root: Path) -> tuple[int, int]:
    """Returns what the kernel answers in a new process, and how often the cache served."""
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return int(output[0]), int(output[1])


def _package(root: Path, decorator: str) -> None:
    _write(root, "schema/compilation.py", "")
    source = Path(str(compilation.__file__))
    shutil.copy(source, root / "starmill/schema/compilation.py")
    _write(root, "rooms/near/caller.py", CALLER.format(decorator=decorator))
    _write(root, "rooms/near/middle.py", MIDDLE)
    _write(root, "rooms/far/callee.py", CALLEE.format(factor=2))


def test_an_edit_in_another_room_compiles_the_callers_again(tmp_path: Path) -> None:
    for decorator in ("entry", "compiled", "checked", "bare_compiled"):
        root = tmp_path / decorator
        root.mkdir()
        _package(root, decorator)
        assert _run(root) == (42, 0)
        assert _run(root) == (42, 1)  # unchanged: nothing is compiled
        _write(root, "rooms/far/callee.py", CALLEE.format(factor=3))
        assert _run(root) == (63, 0)


def test_a_program_without_logging_says_that_it_compiles(tmp_path: Path) -> None:
    said = []
    for number, words in enumerate(
        (["-c", PROGRAM], ["-c", LOGGING + PROGRAM, "WARNING"])
    ):
        root = tmp_path / str(number)
        root.mkdir()
        _package(root, "entry")
        environment = {**os.environ, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, *words],
            cwd=root,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        said.append(done.stderr.count("compiling; "))
    assert said == [1, 0]


def test_what_the_game_is_compiled_from() -> None:
    names = compilation.imported_modules(
        "starmill.engines.skirmish.simulation.entry_points"
    )
    rooms = "starmill.engines.skirmish.simulation"
    assert {f"{rooms}.combat", f"{rooms}.movement", f"{rooms}.vision"} <= names
    # What changes often and is not compiled in must not cost minutes of compiling.
    assert not any(".server" in name or ".players" in name for name in names)


def test_modules_of_other_packages_do_not_count() -> None:
    assert compilation.imported_modules("numpy.linalg") == {"numpy.linalg"}
    assert "numpy" not in compilation.imported_modules("starmill.schema.compilation")


@compilation.kernel
def _power(base, exponent):
    result = 1
    for _ in range(exponent):
        result *= base
    return result


@compilation.kernel
def _sum_of_powers(base):
    return _power(base, 2) + _power(3, 3) + _power(base, base)


@compilation.checked_kernel
def _quotient(a, b):
    return a // b


def _compiled(function, **options):
    """Returns an entry that is not kept on disk, so that it compiles here and now."""
    return compilation._compile(
        function, {**options, "pipeline_class": compilation._EntryCompiler}
    )


def test_an_entry_links_kernels_of_kernels():
    entry = _compiled(lambda base: _sum_of_powers(base) - _power(base, 1))
    assert entry(4) == 16 + 27 + 256 - 4


def test_constants_share_a_specialisation():
    _compiled(lambda base: _power(2, 5) + _power(base, 7))(3)
    assert len(_power.signatures) == 1


def test_a_process_says_once_that_it_compiles(caplog):
    compilation._say_so.cache_clear()
    with caplog.at_level("INFO"):
        _compiled(lambda a: _power(a, 1))(2)
        _compiled(lambda a: _power(a, 2))(2)
    assert [record.message.split(";")[0] for record in caplog.records] == ["compiling"]


def test_python_cannot_call_a_kernel():
    with pytest.raises(TypeError):
        _power(2, 3)


def test_a_division_by_zero_raises_through_an_entry():
    entry = _compiled(lambda a, b: _quotient(a, b) + 1)
    assert entry(7, 2) == 4
    with pytest.raises(ZeroDivisionError):
        entry(7, 0)


def _largest_first(rows):
    best = rows[0]
    for i in range(len(rows)):
        if rows[i, 0] > best[0]:
            best = rows[i]
    return best[1]


def test_a_bare_entry_views_arrays_without_counting_references():
    bare = _compiled(_largest_first, **compilation._BARE)
    counting = _compiled(_largest_first)
    rows = np.array([[1, 10], [3, 30], [2, 20]])
    assert bare(rows) == counting(rows) == 30
    code = {each: next(iter(each.inspect_llvm().values())) for each in (bare, counting)}
    assert "NRT_decref" in code[counting]
    assert "NRT_" not in code[bare]


def test_a_bare_entry_makes_no_array():
    with pytest.raises(NumbaError):
        compilation.bare_compiled(lambda size: np.empty(size).sum())(3)
