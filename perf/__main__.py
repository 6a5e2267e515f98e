"""`make perf [ONLY=a,b]`: runs the measurements, prints a table, writes perf/results.json.

Each section is a module of this folder with `measure() -> list[Row]`, and runs in a process
of its own so that one section's memory and caches do not colour the next.
Exit 1 if any floor is missed, 2 if a section could not run.
"""

import argparse
import dataclasses
import importlib
import json
import subprocess
import sys
from pathlib import Path

from perf.row import Row

RESULTS = Path(__file__).parent / "results.json"
# section -> module; in the order of the data's path
SECTIONS: dict[str, str] = {
    "first_use": "perf.first_use",
    "converter": "perf.converter",
    "replays": "perf.replays",
    "skirmish": "perf.skirmish",
    "codec": "perf.codec",
    "generate": "perf.generate",
    "learners": "perf.learners",
    "scale": "perf.scale.section",
}


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _table(rows: list[Row]) -> str:
    head = ["name", "unit", "ours", "peer", "peer name", "ratio", "floor", "ok"]
    body = [
        [
            row.name,
            row.unit,
            _number(row.ours),
            _number(row.peer),
            row.peer_name or "-",
            _number(row.ratio),
            _number(row.floor),
            "yes" if row.ok else "NO",
        ]
        for row in rows
    ]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in [head, *body]
    ]
    return "\n".join(line.rstrip() for line in lines)


def _run_section(name: str) -> list[Row]:
    done = subprocess.run(
        [sys.executable, "-m", "perf", "--section", name],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"perf: section {name!r} failed with exit {done.returncode}")
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def main() -> int:
    """Runs the chosen sections."""
    parser = argparse.ArgumentParser(prog="python -m perf")
    parser.add_argument(
        "--only", default="", help=f"comma list of {', '.join(SECTIONS)}"
    )
    parser.add_argument("--section", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.section:
        rows = importlib.import_module(SECTIONS[args.section]).measure()
        print(json.dumps([dataclasses.asdict(row) for row in rows]))
        return 0
    names = [name for name in args.only.split(",") if name] or list(SECTIONS)
    unknown = sorted(set(names) - set(SECTIONS))
    if unknown:
        print(
            f"perf: unknown sections {unknown}; known: {list(SECTIONS)}",
            file=sys.stderr,
        )
        return 2
    rows = []
    for name in names:
        print(f"perf: {name} ...", file=sys.stderr)
        rows += _run_section(name)
    RESULTS.write_text(
        json.dumps([dataclasses.asdict(r) for r in rows], indent=1) + "\n"
    )
    print(_table(rows))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
