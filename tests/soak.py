"""`make soak`: one digest over everything, and faults of every kind; three hours on two cores.

Builds the same dataset of 200 replays (three versions, some broken, some faulty by order) by
every runner and through every accident, and compares the digests; then once more with a 10%
chance of each misbehaviour. Each build has a temp folder of its own, in which nothing may
be left, and no process that descends from it may be. Prints a line per build; exits 1
if a digest differs, and at once if anything is left, lost or doubled. Then come the steps of
`tests/endurance`: commands that are killed while they write and continued, disks that fill,
signals, hostile requests, hundreds of games in one process. A step that needs what this machine
does not allow (mounting a small disk) says so and is skipped.

    python -m tests.soak [--games 200] [--only one,prism,...] [--keep DIR]
"""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from starmill.engines.skirmish import install, versions
from starmill.engines.skirmish.server import faults
from starmill.schema import table
from tests.endurance import building, commands, matches, serving, signals, training
from tests.factories import builds
from tests.pipelines import disturb

_FLINK_PORT = "8188"
_GRACE_SECONDS = 60
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
            replays, output, "--sc2", str(game), *more, during=during, TMPDIR=str(temp)
        )
        if done.returncode not in codes:
            sys.stderr.write(done.stderr[-4000:])
            raise SystemExit(
                f"soak: {output.name}: exit {done.returncode}, expected {codes}"
            )
        # Whatever was killed may need a moment to go.
        end = time.monotonic() + _GRACE_SECONDS
        while (left := _left_behind(temp)) and time.monotonic() < end:
            time.sleep(0.5)
        if left:
            sys.stderr.write(done.stderr[-4000:])
            raise SystemExit(f"soak: {output.name}: left behind: {left}")

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
        self._reference()
        # Kills fall within the time that a build takes.
        seconds = self._seconds or time.monotonic() - began
        shutil.rmtree(self.game / faults.STATE_DIR, ignore_errors=True)
        return building.kills(self.folder, self.ladder.files, self.game, seconds)

    def opens(self) -> Path:
        shutil.rmtree(self.game / faults.STATE_DIR, ignore_errors=True)
        return building.opened_while_written(self.folder, self.ladder.files, self.game)

    def disk(self) -> str:
        size_bytes = sum(path.stat().st_size for path in self._reference().iterdir())
        shutil.rmtree(self.game / faults.STATE_DIR, ignore_errors=True)
        return building.small_disk(
            self.folder, self.ladder.files, self.game, size_bytes, builds.digest
        )

    def _reference(self) -> Path:
        """Returns the build that nothing disturbed."""
        output = self.folder / "one"
        if not (output / "manifest.json").exists():
            began = time.monotonic()
            self.one()
            self._seconds = time.monotonic() - began
        return output

    def faults(self) -> None:
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
        if sorted([*result, *failed]) != sorted(self._sides()):
            raise SystemExit(
                f"soak: faults: {len(result)} episodes and {len(failed)} failures are "
                "not each side of each game once"
            )
        if nameless := [row for row in rows if not (row["reason"] and row["detail"])]:
            raise SystemExit(f"soak: faults: no reason: {nameless[0]}")
        clean = _episodes(self.folder / "one")
        changed = [
            name for name in result if clean.get(name, result[name]) != result[name]
        ]
        if changed:
            raise SystemExit(f"soak: faults: other bytes than without: {changed}")
        reasons = dict(collections.Counter(row["reason"] for row in rows).most_common())
        print(
            f"soak  faults  {len(result)} episodes, {len(rows)} left out: {reasons}; "
            f"{len(set(result) & set(clean))} episodes compared",
            flush=True,
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


# Steps that need no dataset of the builds above. Each gets a folder of its own.
STEPS: dict[str, Callable[[Path], str]] = {
    "checkpoint": training.checkpoint_kills,
    "train-disk": training.full_disk,
    "ladder": matches.ladder,
    "evaluate": matches.evaluate,
    "signals": signals.signals,
    "requests": serving.requests,
    "memory": serving.memory,
}


def _run(soak: Soak, ways, name: str, digests: dict[str, str]) -> str:
    """Runs one step and returns what the log says of it."""
    if name in STEPS:
        return STEPS[name](soak.folder / "steps")
    if name == "faults":
        soak.faults()
        return "each side once"
    built = ways[name]()
    digests[name] = built if isinstance(built, str) else builds.digest(built)
    return digests[name]


def main() -> int:
    """Runs the builds and steps asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(prefix="starmill-soak-"))
    soak = Soak(folder, args.games)
    ways: dict[str, Callable[[], Path | str]] = {
        "one": soak.one,
        "two": soak.two,
        "order": soak.order,
        "kills": soak.kills,
        "worker": soak.worker,
        "interrupt": soak.interrupt,
        "sigkill": soak.sigkill,
        "opens": soak.opens,
        "disk": soak.disk,
        "prism": soak.prism,
        "flink": soak.flink,
    }
    every = [*ways, "faults", *STEPS]
    choice = [name for name in args.only.split(",") if name] or every
    if unknown := sorted(set(choice) - set(every)):
        parser.error(f"unknown steps {unknown}; expected some of {every}")
    digests, failed = {}, []
    for name in choice:
        began = time.monotonic()
        try:
            text = _run(soak, ways, name, digests)
        except commands.Skipped as reason:
            text = f"skipped: {reason}"
        except AssertionError as error:
            text = f"NO: {error}"
            failed.append(name)
        seconds = time.monotonic() - began
        print(f"soak  {name:<10} {seconds:7.1f} s  {text}", flush=True)
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)
    if len(set(digests.values())) > 1:
        print(f"soak: NO: {len(set(digests.values()))} digests")
        return 1
    if failed:
        print(f"soak: NO: {', '.join(failed)}")
        return 1
    print(f"soak: yes: {len(digests)} builds, one digest; {len(choice)} steps")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
