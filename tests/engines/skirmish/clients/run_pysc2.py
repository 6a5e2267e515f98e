"""Runs pysc2's own game tests, unmodified, and python-sc2's bots, and compares them with lists.

    python -m tests.engines.skirmish.clients.run_pysc2 [--only TEXT] [--parallel N] [--write]

`make clients` makes the environments `.venv-clients` and `.venv-burnysc2`, in which the cases run.
Each case is a process group of its own, which is killed when the case ends or is out of time.
pysc2_cases.csv and python_sc2_cases.csv list each case with its outcome and, if it fails, the
reason. Exits 0 if every case ends as listed. `--write` stores the outcomes in the lists and keeps
the reasons.
"""

import argparse
import concurrent.futures
import contextlib
import csv
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from starmill.engines.skirmish import install, versions
from tests.conftest import ROOT
from tests.engines.skirmish.clients import python_sc2

CASES = Path(__file__).with_name("pysc2_cases.csv")
BOT_CASES = Path(__file__).with_name("python_sc2_cases.csv")
SITE = Path(__file__).with_name("site")
PYTHON = ROOT / ".venv-clients/bin/python"
TIMEOUT_SECONDS = 240
# These test a class for other tests' observations, without a game.
_WITHOUT_GAME = ("dummy_observation_test",)
_FIND_CASES = """
import importlib, pkgutil, unittest
import pysc2.tests
for module in sorted(m.name for m in pkgutil.iter_modules(pysc2.tests.__path__)):
    if module.endswith("_test"):
        loaded = importlib.import_module("pysc2.tests." + module)
        for suite in unittest.defaultTestLoader.loadTestsFromModule(loaded):
            for case in suite:
                print("case", ".".join(case.id().split()[0].split(".")[-3:]))
"""


def published_cases() -> set[str]:
    """Returns the names of the installed pysc2's game tests: module.Class.method."""
    process = subprocess.run(
        [str(PYTHON), "-c", _FIND_CASES],
        env={**os.environ, "PYTHONPATH": str(SITE)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    names = re.findall(r"^case (\S+)$", process.stdout, re.MULTILINE)
    return {name for name in names if name.split(".")[0] not in _WITHOUT_GAME}


def run_case(name: str, installation: Path) -> tuple[str, str, float]:
    """Runs one case. Returns "pass", "fail" or "timeout", the end of its output, and seconds."""
    environment = {
        **os.environ,
        "SC2PATH": str(installation),
        "SDL_VIDEODRIVER": "dummy",
    }
    if name.startswith(python_sc2.PREFIX):
        command = python_sc2.command(name)
    else:
        module, case = name.split(".", 1)
        command = [str(PYTHON), "-m", f"pysc2.tests.{module}", case]
        command.append("--sc2_timeout=120")
        environment["PYTHONPATH"] = str(SITE)
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            outcome = "fail" if child.wait(TIMEOUT_SECONDS) else "pass"
        except subprocess.TimeoutExpired:
            outcome = "timeout"
        finally:
            _kill_group(child)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return outcome, text[-4000:], time.monotonic() - start


def _kill_group(child: "subprocess.Popen[bytes]") -> None:
    """Ends a case's process and the games that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def read_cases() -> dict[str, tuple[str, str]]:
    """Returns the listed outcome and reason of each case."""
    listed = {}
    for path in (CASES, BOT_CASES):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                listed[row["case"]] = (row["outcome"], row["reason"])
    return listed


def _write_cases(cases: dict[str, tuple[str, str]]) -> None:
    for path in (CASES, BOT_CASES):
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["case", "outcome", "reason"])
            for name, row in sorted(cases.items()):
                if name.startswith(python_sc2.PREFIX) == (path == BOT_CASES):
                    writer.writerow([name, *row])


def main() -> int:
    """Runs the cases. Returns the process's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="run cases whose name contains this")
    parser.add_argument("--parallel", type=int, default=2, help="cases at a time")
    parser.add_argument("--write", action="store_true", help="store the outcomes")
    parser.add_argument("--logs", type=Path, help="folder for the output of each case")
    options = parser.parse_args()
    listed = read_cases()
    published = published_cases() | python_sc2.cases()
    differences = sorted(published ^ set(listed))
    names = [name for name in sorted(published) if options.only in name]
    passed = bots_passed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(options.parallel) as threads,
    ):
        installation = Path(folder)
        install.install(installation, versions.VERSIONS)
        futures = {name: threads.submit(run_case, name, installation) for name in names}
        for name, future in futures.items():
            outcome, output, seconds = future.result()
            passed += outcome == "pass"
            bots_passed += outcome == "pass" and name.startswith(python_sc2.PREFIX)
            expected, reason = listed.get(name, ("unlisted", ""))
            _say(f"{outcome:8}{seconds:6.1f} s  {name}")
            if (outcome == "pass") != (expected == "pass"):
                differences.append(name)
                _say(f"{output}\n{name}: expected {expected}, found {outcome}")
            if options.logs:
                options.logs.mkdir(parents=True, exist_ok=True)
                (options.logs / f"{name}.txt").write_text(output)
            ok = outcome == "pass"
            listed[name] = ("pass", "") if ok else ("fail", reason)
    if options.write:
        _write_cases(listed)
    held = (
        "as listed" if not differences else f"not as listed: {sorted(set(differences))}"
    )
    bots = sum(name.startswith(python_sc2.PREFIX) for name in names)
    _say(
        f"clients: {passed} of {len(names)} pass (pysc2's game tests {passed - bots_passed} of "
        f"{len(names) - bots}, python-sc2's bots {bots_passed} of {bots}), {held}"
    )
    return 0 if not differences else 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
