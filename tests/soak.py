"""`make soak`: one digest over everything, and faults of every kind; an hour on two idle cores.

Builds the same dataset of 40 replays (three versions, some broken, some faulty by order) by every
runner and through every accident, and compares the digests; then once more with a 10% chance of
each misbehaviour. Each build has a temp folder of its own, in which nothing may be left, and no
process that descends from it may be. Then come the steps of `tests/endurance`: commands that are
killed while they write and continued, disks that fill, signals, hostile requests, hundreds of
games in one process. The likeliest to fail come first.

A step that fails is told, and the others still run. A step that needs what this machine does not
allow (mounting a small disk) says so and is skipped. A step that does not end within an hour has
failed. At the end come a table of all steps and a yes or no; exit 1 for no. `--full` builds of 200
replays and plays three times as many games, which takes about three hours.

    python -m tests.soak [--full] [--games 40] [--only one,prism,...] [--keep DIR]
"""

import argparse
import collections
import contextlib
import functools
import hashlib
import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from starmill.engines.skirmish import install, versions
from starmill.engines.skirmish.server import faults
from starmill.schema import errors, table
from tests.endurance import building, commands, matches, serving, signals, training
from tests.factories import builds
from tests.pipelines import disturb

_FLINK_PORT = "8188"
_GRACE_SECONDS = 60
_GAMES, _FULL_GAMES = 40, 200
_SERVED, _FULL_SERVED = 100, 300
_SECONDS = 3600
# What is faulty by order: these fail every time, so they are in every build's quarantine;
# the next fail once, and leave no trace.
_ALWAYS = ("crash", "stub", "short", "wrong_id")
_ONCE = ("crash", "close", "garbage")


class Soak:
    """The replays, the game, and one method per way to build."""

    def __init__(self, folder: Path, games: int) -> None:
        self.folder = folder
        self._seconds = 0.0
        self.ladder = builds.make_ladder(folder / "replays", games, loops=220)
        self.game = folder / "game"
        install.install(self.game, versions.VERSIONS)
        self._order_faults(self.game)

    def _order_faults(self, game: Path) -> None:
        rules = []
        for number, kind in enumerate(_ALWAYS):
            rules.append(self._rule(number, kind))
        for number, kind in enumerate(_ONCE, len(_ALWAYS)):
            rules.append({**self._rule(number, kind), "attempts": [1]})
        (game / faults.FILE_NAME).write_text(json.dumps({"rules": rules}))

    def _rule(self, number: int, kind: str) -> dict:
        data = (self.ladder.folder / f"game{number:04d}.SC2Replay").read_bytes()
        loop = {"stub": 0, "short": 30}.get(kind, 60)
        name = hashlib.sha256(data).hexdigest()[:16]
        return {"kind": kind, "loop": loop, "replay": name}

    def build(self, name: str, *more: str, replays=None, during=None, code=1) -> Path:
        """Runs one build; every one of them ends with exit 1, for the orders above."""
        output = self.folder / name
        shutil.rmtree(self.game / faults.STATE_DIR, ignore_errors=True)
        replays = replays or self.ladder
        self.run(replays, output, self.game, *more, during=during, codes=(code,))
        return output

    def run(self, replays, output: Path, game: Path, *more, during=None, codes) -> None:
        """Runs one build and looks at what it leaves behind."""
        temp = self.folder / "tmp"
        temp.mkdir(exist_ok=True)
        done = builds.build(
            replays, output, "--sc2", str(game), *more, during=during, seconds=_SECONDS,
            TMPDIR=str(temp),
        )  # fmt: skip
        assert done.returncode in codes, (
            f"exit {done.returncode}, expected {codes}\n{done.stderr[-4000:]}"
        )
        # Whatever was killed may need a moment to go.
        end = time.monotonic() + _GRACE_SECONDS
        while (left := _left_behind(temp)) and time.monotonic() < end:
            time.sleep(0.5)
        assert not left, f"left behind: {left}\n{done.stderr[-4000:]}"

    def one(self) -> Path:
        return self.build("one", "--workers", "1")

    def two(self) -> Path:
        return self.build("two", "--workers", "2")

    def order(self) -> Path:
        return self.build("order", "--workers", "2", replays=self.ladder.files[::-1])

    def prism(self) -> Path:
        subprocess.run([builds.ROOT / "deploy/prism/setup"], check=True)
        location = builds.ROOT / ".cache/prism/prism"
        return self.build(
            "prism", "--runner=PrismRunner", f"--prism_location={location}"
        )

    def flink(self) -> Path:
        scripts = builds.ROOT / "deploy/flink"
        environment = {**os.environ, "PORT": _FLINK_PORT, "SLOTS": "2"}
        subprocess.run([scripts / "setup"], check=True)
        subprocess.run([scripts / "cluster", "start"], check=True, env=environment)
        lines = (builds.ROOT / ".cache/flink/env").read_text().split()
        result = dict(line.split("=", 1) for line in lines)
        try:
            return self.build(
                "flink",
                "--runner=FlinkRunner",
                f"--flink_master=localhost:{_FLINK_PORT}",
                "--parallelism=2",
                f"--flink_version={result['FLINK_LINE']}",
                f"--flink_job_server_jar={result['FLINK_JOB_SERVER']}",
                "--environment_type=LOOPBACK",
            )
        finally:
            subprocess.run([scripts / "cluster", "stop"], check=True, env=environment)

    def kills(self) -> Path:
        during = disturb.kill_games(seed=5, every_seconds=2.0)
        return self.build("kills", "--workers", "2", during=during)

    def worker(self) -> Path:
        half = self.ladder.games // 2
        during = disturb.kill_a_worker(self.folder / "worker", half)
        return self.build("worker", "--workers", "2", during=during)

    def interrupt(self) -> Path:
        output = self.folder / "interrupt"
        during = disturb.interrupt(output, self.ladder.games // 2)
        self.build("interrupt", "--workers", "2", during=during, code=130)
        return self.build("interrupt", "--workers", "2")

    def sigkill(self) -> Path:
        began = time.monotonic()
        self.reference()
        # Kills fall within the time that a build takes.
        seconds = self._seconds or time.monotonic() - began
        shutil.rmtree(self.game / faults.STATE_DIR, ignore_errors=True)
        return building.kills(self.folder, self.ladder.files, self.game, seconds)

    def opens(self) -> Path:
        shutil.rmtree(self.game / faults.STATE_DIR, ignore_errors=True)
        return building.opened_while_written(self.folder, self.ladder.files, self.game)

    def disk(self) -> str:
        """Builds on a disk that fills and is enlarged."""
        size_bytes = sum(path.stat().st_size for path in self.reference().iterdir())
        shutil.rmtree(self.game / faults.STATE_DIR, ignore_errors=True)
        digest = building.small_disk(
            self.folder, self.ladder.files, self.game, size_bytes, builds.digest
        )
        expected = builds.digest(self.reference())
        assert digest == expected, f"{digest}, undisturbed {expected}"
        return f"{digest} after a disk of {size_bytes // 2 >> 10} KB was full"

    def reference(self) -> Path:
        """Returns the build that nothing disturbed."""
        output = self.folder / "one"
        if not (output / "manifest.json").exists():
            began = time.monotonic()
            self.one()
            self._seconds = time.monotonic() - began
        return output

    def faults(self) -> str:
        """A 10% chance of each misbehaviour: nothing lost, nothing doubled, none left."""
        game = self.folder / "faulty"
        install.install(game, versions.VERSIONS)
        rules = [
            {"kind": kind, "loop": 40, "probability": 0.1, "seconds": 0.01}
            for kind in sorted(set(faults.KINDS) - {"leak"})
        ]
        rules.append({"kind": "leak", "loop": 40, "probability": 0.1, "megabytes": 2})
        (game / faults.FILE_NAME).write_text(json.dumps({"seed": 7, "rules": rules}))
        output = self.folder / "faults"
        self.run(
            self.ladder, output, game, "--workers", "2", "--play-deadline", "10",
            "--attempts", "2", codes=(0, 1),
        )  # fmt: skip
        rows = pq.read_table(output / table.QUARANTINE).to_pylist()
        result = _episodes(output)
        failed = [f"{row['replay_id']}-{row['player_id']}" for row in rows]
        assert sorted([*result, *failed]) == sorted(self._sides()), (
            f"{len(result)} episodes and {len(failed)} failures are not each side of each "
            "game once"
        )
        nameless = [row for row in rows if not (row["reason"] and row["detail"])]
        assert not nameless, f"no reason: {nameless[0]}"
        clean = _episodes(self.reference())
        changed = [
            name for name in result if clean.get(name, result[name]) != result[name]
        ]
        assert not changed, f"other bytes than without: {changed}"
        compared = len(set(result) & set(clean))
        assert compared, "no episode was built with and without faults"
        reasons = dict(collections.Counter(row["reason"] for row in rows).most_common())
        return (
            f"each side once: {len(result)} episodes, {len(rows)} left out: {reasons}; "
            f"{compared} episodes compared"
        )

    def _sides(self) -> list[str]:
        good = [path for path in self.ladder.files if "/game" in path]
        names = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in good]
        return [f"{name}-{side}" for name in names for side in (1, 2)]


def _episodes(dataset: Path) -> dict[str, str]:
    """Returns the hash of each episode of a dataset; none if it is not there."""
    if not (dataset / table.EPISODES).exists():
        return {}
    rows = pq.read_table(dataset / table.EPISODES, columns=["episode_id", "sha256"])
    return {row["episode_id"]: row["sha256"] for row in rows.to_pylist()}


def _left_behind(temp: Path) -> list[str]:
    """Returns what is in the temp folder, and processes that were given it."""
    mark = f"TMPDIR={temp}".encode()
    names = [path.name for path in temp.iterdir()]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    names.append(f"{folder.name} {line.decode(errors='replace')[:80]}")
    return sorted(names)


class Step(NamedTuple):
    """How a step went.

    Attributes:
        name: of the step.
        word: "yes", "no" or "skipped".
        seconds: of the clock.
        cpu: seconds of this process and of those that it started and that have ended.
        text: what was found.
    """

    name: str
    word: str
    seconds: float
    cpu: float
    text: str

    def line(self) -> str:
        """What the log says of the step."""
        return (
            f"soak  {self.name:<10} {self.word:<7} {self.seconds:7.1f} s "
            f"{self.cpu:7.1f} CPU s  {self.text}"
        )


def _steps(soak: Soak, served: int) -> dict[str, Callable[[], Path | str]]:
    """Every step by its name, the likeliest to fail first; builds return their folder."""
    folder = soak.folder / "steps"
    replays = soak.ladder.files
    return {
        "one": soak.one,
        "sigkill": soak.sigkill,
        "disk": soak.disk,
        "interrupt": soak.interrupt,
        "faults": soak.faults,
        "checkpoint": functools.partial(training.checkpoint_kills, folder),
        "train-disk": functools.partial(training.full_disk, folder),
        "evaluate": functools.partial(matches.evaluate, folder),
        "ladder": functools.partial(matches.ladder, folder),
        "signals": functools.partial(signals.signals, folder, replays),
        "worker": soak.worker,
        "kills": soak.kills,
        "opens": soak.opens,
        "prism": soak.prism,
        "flink": soak.flink,
        "requests": functools.partial(serving.requests, folder),
        "memory": functools.partial(serving.memory, folder, served),
        "two": soak.two,
        "order": soak.order,
    }


def _cpu_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _run(soak: Soak, name: str, step: Callable[[], Path | str]) -> Step:
    """Runs one step. A build must have the digest of the one that nothing disturbed."""
    began, cpu = time.monotonic(), _cpu_seconds()
    word = "yes"
    try:
        built = step()
        text = str(built)
        if isinstance(built, Path):
            text = builds.digest(built)
            expected = builds.digest(soak.reference())
            assert text == expected, f"{text}, undisturbed {expected}"
    except commands.Skipped as reason:
        word, text = "skipped", str(reason)
    except (
        AssertionError,
        errors.StarmillError,
        OSError,
        subprocess.SubprocessError,
    ) as error:
        word, text = "no", f"{type(error).__name__}: {error}"
    return Step(name, word, time.monotonic() - began, _cpu_seconds() - cpu, text)


def main() -> int:
    """Runs the builds and steps asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--games", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    games = args.games or (_FULL_GAMES if args.full else _GAMES)
    folder = args.keep or Path(tempfile.mkdtemp(prefix="starmill-soak-"))
    soak = Soak(folder, games)
    steps = _steps(soak, _FULL_SERVED if args.full else _SERVED)
    selected = [name for name in args.only.split(",") if name] or list(steps)
    if unknown := sorted(set(selected) - set(steps)):
        parser.error(f"unknown steps {unknown}; expected some of {list(steps)}")
    began = time.monotonic()
    done = []
    for name in selected:
        done.append(_run(soak, name, steps[name]))
        print(done[-1].line(), flush=True)
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)
    print("\nsoak: summary")
    for step in done:
        print(step.line().splitlines()[0])
    words = collections.Counter(step.word for step in done)
    minutes, cpu = (time.monotonic() - began) / 60, sum(step.cpu for step in done) / 60
    print(
        f"soak: {'no' if words['no'] else 'yes'}: {words['yes']} steps held, {words['no']} "
        f"did not, {words['skipped']} skipped; {minutes:.0f} minutes, {cpu:.0f} CPU minutes"
    )
    return 1 if words["no"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
