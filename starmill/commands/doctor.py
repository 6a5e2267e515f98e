"""`starmill doctor`: what works on this machine."""

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from starmill import extras
from starmill.schema import errors
from starmill.version import __version__

EXAMPLES = """\
  starmill doctor
  starmill doctor --sc2 ~/StarCraftII --output /data
  starmill doctor --json
"""
_PYTHONS = ((3, 11), (3, 14))
_CORE = (
    "fsspec",
    "google-crc32c",
    "numba",
    "numpy",
    "protobuf",
    "pyarrow",
    "zstandard",
)
# What each optional part of starmill needs, by the extra that installs it.
_EXTRAS = {
    "generate": (
        "apache-beam",
        "mpyq",
        "pysc2",
        "s2clientprotocol",
        "s2protocol",
        "websockets",
    ),
    "learners": ("jax", "flax", "optax", "orbax-checkpoint", "mctx"),
    "tensorflow": ("tensorflow-cpu", "tensorflow-datasets"),
    "gcp": ("gcsfs",),
    "s3": ("s3fs",),
}
_LOW_DISK_BYTES = 10 << 30
OK, WARN, BAD = "ok", "warn", "BAD"


class Finding(NamedTuple):
    """One line of the report.

    Attributes:
        topic: what was checked.
        state: "ok", "warn" (an option is missing) or BAD.
        text: what was found.
    """

    topic: str
    state: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--sc2", metavar="PATH", help="the game's folder (default: $SC2PATH)"
    )
    parser.add_argument(
        "--output", default=".", metavar="DIR", help="where datasets will go"
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Looks at everything; exit 1 if something that is needed does not work."""
    findings = [finding for check in _checks(args) for finding in check()]
    if args.json:
        print(json.dumps([finding._asdict() for finding in findings]))
    else:
        width = max(len(finding.topic) for finding in findings)
        for topic, state, text in findings:
            print(f"{state:<5} {topic:<{width}}  {text}")
    return 1 if any(finding.state == BAD for finding in findings) else 0


def _checks(args: argparse.Namespace) -> list[Callable[[], Iterator[Finding]]]:
    return [
        _python,
        _libraries,
        _extras,
        _machine,
        _ports,
        _embedded_game,
        lambda: _real_game(args.sc2 or os.environ.get("SC2PATH")),
        lambda: _disk(Path(args.output)),
        _runners,
    ]


def _python() -> Iterator[Finding]:
    fits = _PYTHONS[0] <= sys.version_info[:2] < _PYTHONS[1]
    wanted = "" if fits else "; needs 3.11, 3.12 or 3.13"
    yield Finding("python", OK if fits else BAD, f"{platform.python_version()}{wanted}")
    yield Finding("starmill", OK, __version__)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _libraries() -> Iterator[Finding]:
    versions = {name: _version(name) for name in _CORE}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        yield Finding(
            "libraries", BAD, f"missing {', '.join(missing)}; run: pip install starmill"
        )
    shown = ", ".join(
        f"{name} {version}" for name, version in versions.items() if version
    )
    yield Finding("libraries", OK, shown)


def _extras() -> Iterator[Finding]:
    for extra, names in _EXTRAS.items():
        missing = [name for name in names if _version(name) is None]
        if missing:
            text = f"missing {', '.join(missing)}; run: pip install 'starmill[{extra}]'"
            yield Finding(f"[{extra}]", WARN, text)
        else:
            yield Finding(f"[{extra}]", OK, "installed")


def _machine() -> Iterator[Finding]:
    cores = os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError):
        memory = 0.0
    yield Finding(
        "machine", OK, f"{platform.system()}, {cores} cores, {memory:.1f} GiB memory"
    )


def _ports() -> Iterator[Finding]:
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            pass
    except OSError as error:
        yield Finding("ports", BAD, f"no connection over loopback: {error}")
        return
    yield Finding("ports", OK, "loopback connections work")


def _engines() -> tuple[Any, Any]:
    """Returns the modules that find and run games, which the extra "generate" needs."""
    return (
        importlib.import_module("starmill.engines.installation"),
        importlib.import_module("starmill.engines.pool"),
    )


def _embedded_game() -> Iterator[Finding]:
    try:
        _, engine = _engines()
        pool = engine.Pool(engine.PoolConfig(root=engine.SKIRMISH))
        try:
            build = pool.installation.builds[-1]
            with pool.lease(pool.installation.executable("", build, None)):
                text = f"starts and answers ({len(pool.installation.builds)} versions)"
        finally:
            pool.close()
    except ModuleNotFoundError as error:
        advice = extras.advice("the embedded game", error)
        yield Finding("skirmish", WARN, advice or str(error))
        return
    except errors.StarmillError as error:
        yield Finding("skirmish", BAD, str(error))
        return
    yield Finding("skirmish", OK, text)


def _real_game(root: str | None) -> Iterator[Finding]:
    if root is None:
        yield Finding(
            "StarCraft II",
            WARN,
            "SC2PATH is not set; ladder replays need the game (docs/game.md)",
        )
        return
    try:
        installation, _ = _engines()
        game = installation.find(Path(root).expanduser())
    except ModuleNotFoundError as error:
        advice = extras.advice("the game", error)
        yield Finding("StarCraft II", WARN, advice or str(error))
        return
    except errors.ConfigError as error:
        yield Finding("StarCraft II", WARN, str(error))
        return
    state = OK if game.builds else WARN
    yield Finding("StarCraft II", state, f"{game.root}: {game.describe()}")


def _disk(folder: Path) -> Iterator[Finding]:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    state = OK if free > _LOW_DISK_BYTES else WARN
    yield Finding("disk", state, f"{free / 2**30:.1f} GiB free at {place}")
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        yield Finding("disk", BAD, f"{place}: cannot be written: {error.strerror}")


def _runners() -> Iterator[Finding]:
    if _version("apache-beam"):
        yield Finding("runner local", OK, "FnApiRunner, part of apache-beam")
    else:
        text = "no Beam; run: pip install 'starmill[generate]'"
        yield Finding("runner local", WARN, text)
    java = _first_line(["java", "-version"])
    if java is None:
        text = "no java; a local Flink cluster needs a JDK 17 (deploy/flink)"
        yield Finding("runner Flink", WARN, text)
    else:
        yield Finding("runner Flink", OK, f"{java}; set up with deploy/flink/setup")
    go = _first_line(["go", "version"])
    if go is None:
        yield Finding(
            "runner Prism", WARN, "no go; Prism is built with it (deploy/prism)"
        )
    else:
        yield Finding("runner Prism", OK, f"{go}; set up with deploy/prism/setup")


def _first_line(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None
