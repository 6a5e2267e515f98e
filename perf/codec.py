"""The dataset against the predecessor's: bytes, encoding, loading, memory.

Both sides get the same episodes in the same run. Speeds are per CPU second of the process,
all its threads counted, so neither side wins by using more cores.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perf import games, predecessor
from perf.row import Row
from starmill.schema import assembly, codec, dataset, episode, shards

# The loader's cost does not depend on it; the baseline's shuffle buffer must be small to fit.
_BATCH, _UNROLL, _SHUFFLE = 16, 64, 48
_MEMORY_LIMIT_MB = 1000


def measure() -> list[Row]:
    """Returns the rows of the issue's table."""
    with tempfile.TemporaryDirectory() as folder:
        found = games.episodes(Path(folder) / "games")
        print(f"codec: {found.label}, {found.steps} steps", file=sys.stderr)
        return _measure(Path(folder), found)


def _measure(folder: Path, found: games.Games) -> list[Row]:
    settings, steps = found.settings, found.steps
    # Compile first, outside the measurement: a user pays for it once per machine.
    first = found.load(0)
    codec.decode(
        codec.encode({k: v[:40] for k, v in first.arrays.items()}, settings), settings
    )
    ours_seconds = peer_seconds = 0.0
    ours_bytes = peer_bytes = 0
    items, paths = [], []
    for number in range(len(found)):
        item = found.load(number)
        seconds, records = _cpu(lambda item=item: _stream(item.arrays, settings))
        ours_seconds += seconds
        ours_bytes += sum(len(shards.frame_record(record)) for record in records)
        items.append(shards.EpisodeRecords(meta=item.meta, records=records))
        seconds, record = _cpu(lambda item=item: predecessor.encode(item.arrays))
        peer_seconds += seconds
        peer_bytes += len(record)
        paths.append(folder / f"{item.meta.episode_id}.tfrecord")
        predecessor.write(paths[-1], record)
    url = _write(folder / "ours", items, settings)
    label = found.label
    name = "tf.train.Example, zlib"
    loader = "tf.data pipeline"
    rows = [
        _row(
            f"dataset size ({label})",
            "bytes/step",
            ours_bytes / steps,
            peer_bytes / steps,
            name,
            12,
            smaller=True,
        ),
        _row(
            f"encode ({label})",
            "steps/CPU s",
            steps / ours_seconds,
            steps / peer_seconds,
            name,
            4,
            least=1000,
        ),
        _row(
            f"random windows K=1, dense ({label})",
            "windows/CPU s",
            _random_windows(url),
            _peer_random(paths, found),
            loader,
            1000,
            least=500,
        ),
        _row(
            f"batches K=64, dense ({label})",
            "steps/CPU s",
            _stream_speed(url),
            _peer_stream(folder, settings),
            loader,
            20,
            least=8000,
        ),
    ]
    compact = _stream_speed(url, form="compact")
    rows.append(
        Row(name=f"batches K=64, compact ({label})", unit="steps/CPU s", ours=compact)
    )
    peak = _loader_memory(url)
    rows.append(
        Row(
            name=f"loader memory per worker, K=64 ({label}), at most",
            unit="MB",
            ours=peak,
            floor=_MEMORY_LIMIT_MB,
            ok=peak < _MEMORY_LIMIT_MB,
        )
    )
    return rows


def _row(
    name: str,
    unit: str,
    ours: float,
    peer: float,
    peer_name: str,
    floor: float,
    *,
    least: float = 0.0,
    smaller: bool = False,
) -> Row:
    ratio = peer / ours if smaller else ours / peer
    return Row(
        name=name,
        unit=unit,
        ours=ours,
        peer=peer,
        peer_name=peer_name,
        ratio=ratio,
        floor=floor,
        ok=ratio >= floor and ours >= least,
    )


def _cpu(action: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    result = action()
    return time.process_time() - begin, result


def _stream(arrays: episode.Arrays, settings: Any) -> list[bytes]:
    """Encodes as a pipeline does: step by step."""
    encoder = codec.EpisodeEncoder(settings)
    records: list[bytes] = []
    for t in range(len(arrays["game_loop"])):
        encoder.add({key: array[t] for key, array in arrays.items()})
        records += encoder.take()
    return records + encoder.finish()


def _write(folder: Path, items: Sequence[shards.EpisodeRecords], settings: Any) -> str:
    name = shards.shard_name("train", 0, 1)
    ordered = sorted(items, key=lambda item: item.meta.episode_id)
    entry, placed = shards.write_shard(str(folder), name, ordered)
    build = assembly.Build(
        name="perf",
        version="1.0.0",
        engine="perf",
        settings=settings,
        selection={},
        replay_ids=frozenset(item.meta.replay_id for item in items),
    )
    assembly.finish(str(folder), build, [entry], placed)
    return str(folder)


def _random_windows(url: str, count: int = 1024) -> float:
    opened = dataset.open_dataset(url)
    iterator = opened.batches(batch_size=128, rollout=1, seed=1, sampler="step")
    next(iterator)
    seconds, _ = _cpu(lambda: [next(iterator) and None for _ in range(count // 128)])
    return count / seconds


def _peer_random(paths: Sequence[Path], found: games.Games, count: int = 4) -> float:
    rng = np.random.default_rng(1)

    def run() -> None:
        for _ in range(count):
            number = int(rng.integers(len(paths)))
            step = int(rng.integers(found.lengths[number]))
            predecessor.random_step(paths[number], found.settings, step)

    predecessor.random_step(paths[0], found.settings, 0)
    return count / _cpu(run)[0]


def _stream_speed(url: str, form: str = "dense", count: int = 8) -> float:
    opened = dataset.open_dataset(url)
    iterator = opened.batches(batch_size=_BATCH, rollout=_UNROLL, seed=1, form=form)
    for _ in range(2):
        batch = next(iterator)
    done = 0

    def run() -> None:
        nonlocal done, batch
        for _ in range(count):
            batch = next(iterator)
            done += int(batch["valid"].sum())

    seconds, _ = _cpu(run)
    return done / seconds


def _peer_stream(folder: Path, settings: Any, count: int = 4) -> float:
    iterator = predecessor.unrolls(
        str(folder / "*.tfrecord"),
        settings,
        batch_size=_BATCH,
        unroll=_UNROLL,
        shuffle=_SHUFFLE,
    )

    # CPU time from the beginning: the pipeline works ahead, so its first batches have
    # paid for later ones. What is still buffered at the end is counted in its favour.
    def run() -> None:
        for _ in range(count):
            next(iterator)

    seconds, _ = _cpu(run)
    return (count * _BATCH + _SHUFFLE) * _UNROLL / seconds


def _loader_memory(url: str) -> float:
    """Returns the peak memory, in MB, of a process that loads shuffled rollouts of 64."""
    done = subprocess.run(
        [sys.executable, "-m", "perf.loader_memory", url, str(_BATCH), str(_UNROLL)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout)
