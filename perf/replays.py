"""Speed of index rows against sc2reader and of game events against s2protocol; memory.

Both sides read the same replays in the same run: games of the embedded engine's ladder, which
are in the real game's file format, or the replays of a folder, as in
`python -m perf.replays FOLDER`. Each replay is read twice: once with a selection that rejects it
by its MMR, so its game events are not decoded, and once with a selection that keeps it.
sc2reader's `load_level=2` reads header, details and initData. Memory is what `starmill index`
uses for 100,000 artificial files.
"""

import dataclasses
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

from perf import games
from perf.row import Row, beside
from starmill.converters import timing
from starmill.engines.replays import replay_file
from starmill.schema import selection
from tests import replay_factory

_ROUNDS = 5
_GAMES, _SEED = 6, 5
_KEEPING = selection.Selection(ladder=True, two_humans=True)
_REJECTING = dataclasses.replace(_KEEPING, min_mmr=100_000)
_FILES = 100_000
# A ladder game of the embedded engine has a small lobby, which is what sc2reader is slow at. On 44
# replays of the real game the first ratio was 15.4, and 7.5 on the ladder's.
_REJECTED_FLOOR, _KEPT_FLOOR = 5.0, 1.0
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
    return beside(
        f"{name} ({len(files)} files)", unit, mine, theirs, peer_name, floor=floor
    )


def _files(folder: Path) -> list[bytes]:
    """Returns the replays below a folder that both readers can read."""
    files = []
    for path in sorted(folder.glob("**/*.SC2Replay")):
        data = path.read_bytes()
        if replay_file.replay_row(data).status != "ok":
            continue
        try:
            _with_sc2reader(data)
        except Exception as error:  # noqa: BLE001  # whatever the peer stumbles over
            print(f"perf: {path}: sc2reader: {error!r}", file=sys.stderr)
            continue
        files.append(data)
    return files


def _with_sc2reader(data: bytes) -> object:
    import sc2reader

    return sc2reader.load_replay(io.BytesIO(data), load_level=2)


def _rejected_row(data: bytes) -> object:
    return replay_file.replay_row(data, selection=_REJECTING)


def _kept_row(data: bytes) -> object:
    return replay_file.replay_row(data, selection=_KEEPING)


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


def measure(folder: Path | None = None) -> list[Row]:
    """Returns the measurements, on the replays of a folder or of a new ladder."""
    logging.disable(logging.WARNING)  # sc2reader warns of every second replay
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as work:
        if folder is None:
            folder = Path(work)
            games.ladder(folder, games=_GAMES, seed=_SEED)
        files = _files(folder)
    peer = "sc2reader load_level=2"
    return [
        _compared(
            "index rows rejected by MMR",
            files,
            _rejected_row,
            _with_sc2reader,
            peer_name=peer,
            floor=_REJECTED_FLOOR,
        ),
        _compared(
            "index rows kept",
            files,
            _kept_row,
            _with_sc2reader,
            peer_name=peer,
            floor=_KEPT_FLOOR,
        ),
        _compared(
            "action frames",
            files,
            _frames,
            _frames_with_s2protocol,
            peer_name="s2protocol, events only",
            floor=None,
            unit="replays/CPU s",
        ),
        *_memory(),
    ]


if __name__ == "__main__":
    for row in measure(*map(Path, sys.argv[1:2])):
        print(row, file=sys.stderr)
