"""What a new user waits for: the reader's size, its import, the first window, the first game.

Times are CPU seconds of new processes, whose caches of compiled code are empty unless a row says
otherwise. The size is that of the installed files of the packages that `pip install starmill`
brings without extras, as their own records list them.
"""

import importlib.metadata
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from perf.row import Row
from starmill.schema import settings
from tests.factories import records

# The aim, which does not hold: llvmlite (179 MB) and pyarrow (157 MB) alone take more.
MOST_MEGABYTES = 300.0
MOST_IMPORT, MOST_WINDOW, MOST_GAME = 1.0, 15.0, 60.0
_WINDOW = """
import sys, starmill
next(iter(starmill.open_dataset(sys.argv[1]).batches(starmill.BatchOptions(
    batch_size=1, rollout=4, seed=0))))
"""
_GAME = "from starmill.engines.skirmish import warmup; warmup.compile_game()"


def reader_packages() -> set[str]:
    """Returns the names of the packages that starmill needs without extras, itself left out."""
    names: set[str] = set()
    waiting = ["starmill"]
    while waiting:
        for line in importlib.metadata.requires(waiting.pop()) or ():
            requirement, _, marker = line.partition(";")
            match = re.match(r"[\w.-]+", requirement)
            if match is None or "extra" in marker or not _is_installed(match[0]):
                continue
            if match[0] not in names:
                names.add(match[0])
                waiting.append(match[0])
    return names


def _is_installed(name: str) -> bool:
    """Tells requirements of other platforms and Python releases, which are not here."""
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _megabytes() -> float:
    total = 0
    for name in reader_packages():
        for file in importlib.metadata.files(name) or ():
            path = Path(str(file.locate()))
            total += path.stat().st_size if path.is_file() else 0
    root = Path(__file__).resolve().parent.parent
    for room in ("schema", "converters", "engines", "pipelines", "learners"):
        total += sum(path.stat().st_size for path in (root / room).rglob("*.py"))
    return total / 1e6


def _cpu_seconds(code: str, cache: Path, *arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def _dataset(folder: Path) -> str:
    one = records.episode(0, steps=40, settings=settings.UNPLUGGED, outcome=1)
    records.dataset(str(folder), [one], settings=settings.UNPLUGGED)
    return str(folder)


def _at_most(name: str, unit: str, ours: float, most: float) -> Row:
    return Row(name=name, unit=unit, ours=ours, floor=most, ok=ours <= most)


def measure() -> list[Row]:
    """Returns the measurements; their floors are ceilings."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        url = _dataset(work / "data")
        cache, game = work / "cache", work / "game"
        imported = min(_cpu_seconds("import starmill", cache) for _ in range(3))
        first = _cpu_seconds(_WINDOW, cache, url)
        again = _cpu_seconds(_WINDOW, cache, url)
        compiled = _cpu_seconds(_GAME, game)
    return [
        _at_most("reader installed, at most", "MB", _megabytes(), MOST_MEGABYTES),
        _at_most("import starmill, at most", "CPU s", imported, MOST_IMPORT),
        _at_most("first window, compiling, at most", "CPU s", first, MOST_WINDOW),
        Row(name="first window, compiled before", unit="CPU s", ours=again),
        _at_most("the game compiled, at most", "CPU s", compiled, MOST_GAME),
    ]
