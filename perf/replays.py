"""Speed of index rows against sc2reader and of game events against s2protocol; memory.

Both sides read the same real replays (`../shared/replays`) in the same run: intact files that
sc2reader can load. Ours makes whole rows with `--selection unplugged`, so game events of
rejected replays are not decoded. sc2reader's `load_level=2` reads header, details and
initData. Memory is what `starmill index` uses for 100,000 artificial files.
"""

import csv
import importlib.util
import io
import logging
import resource
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from perf.row import Row
from starmill.converters import timing
from starmill.engines.replays import replay_file
from starmill.schema import selection
from tests import replay_factory

_REPLAYS = Path(__file__).resolve().parent.parent.parent / "shared/replays"
_ROUNDS = 5
_FILES = 100_000
_MOST_MEMORY_MB = 1024


def _cpu_seconds(action: Callable[[bytes], object], files: Sequence[bytes]) -> float:
    """Returns the CPU seconds of the fastest of a few passes over the files."""
    best = float("inf")
    for data in files:
        action(data)
    for _ in range(_ROUNDS):
        began = time.process_time()
        for data in files:
            action(data)
        best = min(best, time.process_time() - began)
    return best


def _compared(
    name: str,
    files: Sequence[bytes],
    ours: Callable[[bytes], object],
    peer: Callable[[bytes], object],
    *,
    peer_name: str,
    floor: float | None,
    unit: str = "rows/CPU s",
) -> Row:
    mine = len(files) / _cpu_seconds(ours, files)
    theirs = len(files) / _cpu_seconds(peer, files)
    return Row(
        name=f"{name} ({len(files)} files)",
        unit=unit,
        ours=mine,
        peer=theirs,
        peer_name=peer_name,
        ratio=mine / theirs,
        floor=floor,
        ok=floor is None or mine / theirs >= floor,
    )


def _files() -> tuple[list[bytes], list[bytes]]:
    """Returns the intact real replays: (rejected by version or MMR, the rest)."""
    if not _REPLAYS.is_dir():
        raise SystemExit("perf replays: needs the real replays of ../shared/replays")
    unplugged = selection.PRESETS["unplugged"]
    rejected, rest = [], []
    with (_REPLAYS / "manifest.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            data = (_REPLAYS / row["file"]).read_bytes()
            ours = replay_file.replay_row(data)
            if row["sc2reader_status"] != "ok" or ours.status != "ok":
                continue
            reason = selection.reject_reason(ours, unplugged)
            (rejected if reason in ("version", "mmr") else rest).append(data)
    return rejected, rest


def _with_sc2reader(data: bytes) -> object:
    import sc2reader

    return sc2reader.load_replay(io.BytesIO(data), load_level=2)


def _row(data: bytes) -> object:
    return replay_file.replay_row(data, selection=selection.PRESETS["unplugged"])


def _frames(data: bytes) -> object:
    return timing.action_frames(replay_file.open_replay(data).game_events())


def _frames_with_s2protocol(data: bytes) -> object:
    replay = replay_file.open_replay(data)
    spec = importlib.util.find_spec("s2protocol")
    folder = Path(spec.submodule_search_locations[0])  # type: ignore[union-attr,index]  # installed
    path = folder / f"versions/protocol{replay.header.base_build:05d}.py"
    loaded = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules.get(path.stem)
    if module is None:
        module = importlib.util.module_from_spec(loaded)  # type: ignore[arg-type]  # it is there
        loaded.loader.exec_module(module)  # type: ignore[union-attr]  # as above
        sys.modules[path.stem] = module
    return list(module.decode_replay_game_events(replay.member("replay.game.events")))


def _memory() -> list[Row]:
    """Indexes many small files in a new process; returns its memory and speed."""
    base = replay_factory.replay()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "replays"
        for number in range(_FILES):
            path = folder / f"{number // 1000:03d}/{number:06d}.SC2Replay"
            path.parent.mkdir(parents=True, exist_ok=True)
            # Bytes after the archive are allowed, and give each file an id of its own.
            path.write_bytes(base + struct.pack("<Q", number))
        out = Path(name) / "index.parquet"
        began = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "starmill",
            "index",
            str(folder),
            "--out",
            str(out),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - began
    megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return [
        Row(
            name=f"index {_FILES:,} files: most memory (at most {_MOST_MEMORY_MB})",
            unit="MB",
            ours=megabytes,
            ok=megabytes <= _MOST_MEMORY_MB,
        ),
        Row(name=f"index {_FILES:,} files", unit="rows/s", ours=_FILES / seconds),
    ]


def measure() -> list[Row]:
    """Returns the measurements."""
    logging.disable(logging.WARNING)  # sc2reader warns of every second replay
    warnings.simplefilter("ignore")
    rejected, rest = _files()
    peer = "sc2reader load_level=2"
    small = sorted(rest, key=len)[:8]
    return [
        _compared(
            "index rows rejected by version or MMR",
            rejected,
            _row,
            _with_sc2reader,
            peer_name=peer,
            floor=8.0,
        ),
        _compared(
            "index rows of the rest",
            rest,
            _row,
            _with_sc2reader,
            peer_name=peer,
            floor=1.0,
        ),
        _compared(
            "action frames",
            small,
            _frames,
            _frames_with_s2protocol,
            peer_name="s2protocol, events only",
            floor=None,
            unit="replays/CPU s",
        ),
        *_memory(),
    ]
