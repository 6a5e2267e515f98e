"""Runs the measurements of this folder, each in a process of its own.

In: `MEASUREMENTS`, functions without arguments that return rows. Out: their rows, in order.
`python -m perf.scale.section MODULE:FUNCTION` runs a single one and prints its table.
"""

import dataclasses
import importlib
import json
import os
import subprocess
import sys
import time

from perf.row import Row
from perf.scale import bounds

# MODULE:FUNCTION of this folder; in the order of the data's path. Names that begin alike run with
# `STARMILL_SCALE=planning` alone.
MEASUREMENTS: list[str] = [
    "planning:index_graph",
    "planning:select",
    "planning:make",
    "planning:read",
    "planning:pack",
    "finishing:finish",
    "finishing:remove",
    "extending:grow",
    "extending:compact",
    "reading:opening",
    "reading:windows",
    "reading:round_trips",
]
_JSON = "--json"


def selected_names() -> list[str]:
    """Returns the measurements whose names begin with $STARMILL_SCALE; all without it."""
    begin = os.environ.get("STARMILL_SCALE", "")
    return [name for name in MEASUREMENTS if name.startswith(begin)]


def measure() -> list[Row]:
    """Returns the rows of all measurements. This takes minutes."""
    bounds.folder()  # shared by the processes
    rows: list[Row] = []
    for name in selected_names():
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "perf.scale.section", name, _JSON],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"perf: {name} failed with exit {done.returncode}")
        rows += [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]
        print(f"perf: {name} {time.monotonic() - began:.0f} s", file=sys.stderr)
    return rows


def main() -> None:
    """Runs one measurement."""
    module, function = sys.argv[1].split(":")
    rows = getattr(importlib.import_module(f"perf.scale.{module}"), function)()
    if _JSON in sys.argv:
        print(json.dumps([dataclasses.asdict(row) for row in rows]))
        return
    for row in rows:
        verdict = "" if row.floor is None else f" (at most {row.floor:,.6g})"
        print(
            f"{row.name}: {row.ours:,.6g} {row.unit}{verdict}{'' if row.ok else ' NO'}"
        )


if __name__ == "__main__":
    main()
