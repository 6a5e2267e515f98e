"""Rows whose floor is a bound, and the memory of this process.

In: numbers. Out: `Row`s that say whether they are within bounds.
"""

import atexit
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

from perf.row import Row

FOLDER = "STARMILL_SCALE_FOLDER"


def folder() -> Path:
    """Returns the folder that all measurements of a run share, for what is made once.

    It is $STARMILL_SCALE_FOLDER, which stays, or a temporary one that ends with the run.
    """
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="starmill-scale-")
        atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)
    return Path(os.environ[FOLDER])


def at_most(name: str, unit: str, ours: float, bound: float | None) -> Row:
    """Returns a row that holds if `ours` is at most the bound; None: it is only reported."""
    is_within = bound is None or ours <= bound
    return Row(name=name, unit=unit, ours=float(ours), floor=bound, ok=is_within)


def peak_mb() -> float:
    """Returns the largest memory that this process has had, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def reset_peak() -> None:
    """Resets the largest memory to the present one, to leave out the preparation."""
    Path("/proc/self/clear_refs").write_text("5")


def core_seconds() -> float:
    """Returns the core seconds that this process has used."""
    return time.process_time()
