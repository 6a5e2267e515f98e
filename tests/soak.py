"""`make soak`: one digest over everything, and faults of every kind; an hour and more.

Builds the same dataset of 200 replays (three versions, some broken, some faulty by order) by
every runner and through every accident, and compares the digests; then once more with a 10%
chance of each misbehaviour. Prints a line per build and exits 1 if any differs.

    python -m tests.soak [--games 200] [--only one,prism,...] [--keep DIR]
"""

import argparse
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

from starmill.engines.skirmish import faults, install, versions
from starmill.schema import manifest, table
from tests.pipelines import builds, disturb

_FLINK_PORT = "8188"
# What is faulty by order: these fail every time, so they are in every build's quarantine;
# the next fail once, and leave no trace.
_ALWAYS = ("crash", "stub", "short", "wrong_id")
_ONCE = ("crash", "close", "garbage")


class Soak:
    """The replays, the game, and one method per way to build."""

    def __init__(self, folder: Path, games: int) -> None:
        self.folder = folder
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
        done = builds.build(
            replays or self.ladder,
            output,
            "--sc2",
            str(self.game),
            *more,
            during=during,
        )
        if done.returncode != code:
            sys.stderr.write(done.stderr[-4000:])
            raise SystemExit(f"soak: {name}: exit {done.returncode}, expected {code}")
        return output

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
        found = dict(line.split("=", 1) for line in lines)
        try:
            return self.build(
                "flink",
                "--runner=FlinkRunner",
                f"--flink_master=localhost:{_FLINK_PORT}",
                "--parallelism=2",
                f"--flink_version={found['FLINK_LINE']}",
                f"--flink_job_server_jar={found['FLINK_JOB_SERVER']}",
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

    def faults(self) -> None:
        """A 10% chance of each misbehaviour: nothing lost, nothing doubled, none left."""
        game = self.folder / "faulty"
        install.install(game, versions.VERSIONS)
        rules = [
            {"kind": kind, "loop": 40, "probability": 0.1, "seconds": 0.01}
            for kind in sorted(faults.KINDS - {"hang"})
        ]
        rules.append({"kind": "hang", "loop": 40, "probability": 0.1})
        (game / faults.FILE_NAME).write_text(json.dumps({"seed": 7, "rules": rules}))
        output = self.folder / "faults"
        done = builds.build(
            self.ladder, output, "--sc2", str(game), "--workers", "2",
            "--play-deadline", "10", "--attempts", "2",
        )  # fmt: skip
        if done.returncode not in (0, 1):
            raise SystemExit(f"soak: faults: {done.stderr[-2000:]}")
        found = manifest.read(str(output))
        rows = pq.read_table(output / table.QUARANTINE).to_pylist()
        made = pq.read_table(output / table.EPISODES).column("episode_id").to_pylist()
        sides = {f"{row['replay_id']}-{row['player_id']}" for row in rows}
        whole = len(made) + len(rows) == 2 * self.ladder.games
        if not whole or len(set(made)) != len(made) or sides & set(made):
            raise SystemExit(f"soak: faults: {len(made)} + {len(rows)} do not add up")
        reasons = sorted({row["reason"] for row in rows})
        print(
            f"soak  faults  {found.episodes} episodes, {len(rows)} left out: {reasons}"
        )


def _left_behind(before: set[str]) -> list[str]:
    now = {path.name for path in Path(tempfile.gettempdir()).glob("starmill-games-*")}
    return sorted(now - before)


def main() -> int:
    """Runs the builds asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    before = set(_left_behind(set()))
    folder = args.keep or Path(tempfile.mkdtemp(prefix="starmill-soak-"))
    soak = Soak(folder, args.games)
    ways: dict[str, Callable[[], Path]] = {
        "one": soak.one,
        "two": soak.two,
        "order": soak.order,
        "kills": soak.kills,
        "worker": soak.worker,
        "interrupt": soak.interrupt,
        "prism": soak.prism,
        "flink": soak.flink,
    }
    chosen = [name for name in args.only.split(",") if name] or [*ways, "faults"]
    digests = {}
    for name in chosen:
        began = time.monotonic()
        if name == "faults":
            soak.faults()
            continue
        digests[name] = builds.digest(ways[name]())
        seconds = time.monotonic() - began
        print(f"soak  {name:<10} {seconds:7.1f} s  {digests[name]}", flush=True)
    left = _left_behind(before)
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)
    if len(set(digests.values())) > 1 or left:
        print(f"soak: NO: {len(set(digests.values()))} digests, left behind: {left}")
        return 1
    print(f"soak: yes: {len(digests)} builds, one digest")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
