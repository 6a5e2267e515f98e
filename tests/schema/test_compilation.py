"""The cache of compiled code: a change anywhere in what a kernel is made of is noticed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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
    folder = Path(str(compilation.__file__)).parent
    for name in ("compilation.py", "linking.py"):
        shutil.copy(folder / name, root / "starmill/schema" / name)
    _write(root, "rooms/near/caller.py", CALLER.format(decorator=decorator))
    _write(root, "rooms/near/middle.py", MIDDLE)
    _write(root, "rooms/far/callee.py", CALLEE.format(factor=2))


def test_an_edit_in_another_room_compiles_the_callers_again(tmp_path: Path) -> None:
    for decorator in ("entry", "compiled", "checked"):
        root = tmp_path / decorator
        root.mkdir()
        _package(root, decorator)
        assert _run(root) == (42, 0)
        assert _run(root) == (42, 1)  # unchanged: nothing is compiled
        _write(root, "rooms/far/callee.py", CALLEE.format(factor=3))
        assert _run(root) == (63, 0)


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
