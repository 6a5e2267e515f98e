"""Runs the whole job at a small scale and prints one line per result: which, where, and how long
it took.

    python deploy/demo.py [--games N] [--frames N] [--out FOLDER]

Each step is a command of starmill. What the commands print goes to FOLDER/log.txt; on a terminal, the
latest line of it is shown while a step runs. Run again, each step carries on or finds its work done.
Exits 1, with the end of the log, at the first command that fails.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

SHOWN_LINES = 15
# An agent that ships, and the one that the demo trains.
SHIPPED, OWN = "skirmish:bc", "bc"
OPPONENT = "very_easy"
WATCHED = tuple(
    f"{name.replace(':', '-')}-vs-{OPPONENT}-0000" for name in (SHIPPED, OWN)
)
TRUNCATE = 60


class Step(NamedTuple):
    """One result, and what makes it.

    Attributes:
        name: of the result.
        commands: words after `starmill`, one list per command.
        open_this: file or folder to look at.
        summary: returns what to say about the result when it is there.
    """

    name: str
    commands: Sequence[Sequence[str]]
    open_this: Path
    summary: Callable[[], str]


def steps(out: Path, games: int, frames: int) -> list[Step]:
    """Returns the demo's steps."""
    replays, dataset, report = out / "replays", out / "dataset", out / "report.html"
    agent, evaluation = out / "bc", out / "evaluation"
    generate = (
        *("generate", "--replays", str(replays), "--selection", "skirmish"),
        *("--name", "demo", "--output", str(dataset), "--sc2", "skirmish"),
    )
    verify = ("verify", str(dataset))
    built = (dataset / "manifest.json").exists()
    train = (
        *("train", "--agent", "bc", "--preset", "tiny", "--dataset", str(dataset)),
        *("--out", str(agent), "--hold-out", "200", "--split", "valid,test"),
        *("--frames", str(frames)),
    )
    evaluate = (
        *("evaluate", "--agent", f"{OWN}={agent}", "--agent", SHIPPED),
        *("--opponents", OPPONENT, "--anchor", OPPONENT, "--games", "1"),
        *("--parallel", "2", "--max-minutes", "20", "--out", str(evaluation)),
    )
    watch = ("watch", str(evaluation), *(f"--game={name}" for name in WATCHED))
    ladder = (
        *("skirmish", "ladder", "--games", str(games), "--seed", "1"),
        *("--out", str(replays), "--parallel", "2"),
    )
    return [
        Step("replays", [ladder], replays, lambda: f"{games} games of a small ladder"),
        Step(
            "dataset",
            [verify] if built else [generate, verify],
            dataset / "README.md",
            lambda: "both sides of each replay, every byte verified",
        ),
        Step(
            "its page",
            [("report", str(dataset), "--out", str(report))],
            report,
            lambda: "statistics and an episode viewer",
        ),
        Step(
            "agent",
            [train, ("report", str(agent), "--out", str(out / "curves.html"))],
            out / "curves.html",
            lambda: f"behaviour cloning on {frames:,} frames, and its learning curves",
        ),
        Step(
            "games",
            [evaluate, watch],
            evaluation / "watch" / f"{WATCHED[0]}.html",
            lambda: _outcomes(evaluation / "results.csv"),
        ),
    ]


def _outcomes(path: Path) -> str:
    """Returns how the watched games ended, from the results' first six columns."""
    rows = [line.split(",") for line in path.read_text("utf-8").splitlines()[1:]]
    words = {"1": "won", "0": "drew", "-1": "lost"}
    endings = {row[0]: f"{row[1]} {words[row[5]]}" for row in rows}
    return f"against {OPPONENT} " + ", ".join(
        endings[name] for name in WATCHED if name in endings
    )


def run(out: Path, plan: Sequence[Step]) -> int:
    """Runs the steps and prints a line for each; returns the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    log = out / "log.txt"
    log.write_bytes(b"")
    print(f"{'result':<10}{'seconds':>8}  {'what':<58}  open this", flush=True)
    for step in plan:
        start = time.monotonic()
        for command in step.commands:
            code = _call(step.name, command, log)
            if code:
                words = " ".join(("starmill", *command))
                text = log.read_text("utf-8", "replace").splitlines()
                print(f"{words}\nended with {code}:", *text[-SHOWN_LINES:], sep="\n")
                return 1
        seconds = time.monotonic() - start
        line = f"{step.name:<10}{seconds:>8.0f}  {step.summary():<58}  {step.open_this}"
        print(line, flush=True)
    return 0


def _call(name: str, command: Sequence[str], log: Path) -> int:
    """Runs a command with its output in the log; shows the log's last line on a terminal."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "starmill", *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    _show(f"{name:<10}{_last_line(log)}")
        except KeyboardInterrupt:
            # Ctrl-C reached the command too; it says what to do next.
            process.wait()
            _show("")
            raise SystemExit(130) from None
    _show("")
    return code


def _show(text: str) -> None:
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


def _last_line(log: Path) -> str:
    lines = log.read_bytes()[-400:].decode("utf-8", "replace").split("\n")
    return next((x.strip() for x in reversed(lines) if x.strip()), "")[:TRUNCATE]


def main() -> int:
    """Reads the options and runs the demo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=12)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    args = parser.parse_args()
    return run(args.out, steps(args.out, args.games, args.frames))


if __name__ == "__main__":
    sys.exit(main())
