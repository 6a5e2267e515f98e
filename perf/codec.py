"""The dataset against the predecessor's: bytes, encoding, loading, memory.

Both sides get the same episodes in the same run. Speeds are per CPU second of the process,
all its threads counted, so neither side wins by using more cores. Loading is measured in
rounds that alternate between the two, and the medians are compared.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from perf import games, predecessor
from perf.row import Row
from starmill.schema import assembly, codec, episode, shards
from starmill.schema.loader import dataset
from starmill.schema.loader.batch_options import BatchOptions

# The baseline's shuffle buffer must be this small to fit in memory.
_BATCH, _UNROLL, _SHUFFLE = 16, 64, 48
_ROUNDS = 3
_MEMORY_LIMIT_MB = 1000
_RECORD, _LOADER = "tf.train.Example, zlib", "tf.data pipeline"


def measure() -> list[Row]:
    """Returns the rows of the comparison, on Skirmish's episodes and on synthetic ones."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = games.skirmish(Path(folder))
        rows += _compare(Path(folder), source)
    for restless in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            source = games.imitated(restless=restless)
            written = _write(Path(folder), source)
            # Reported, not promised: nobody plays like this generator.
            rows += [row._replace(floor=None) for row in _sizes(source, written)]
    return [row.row() for row in rows]


class _Measured(NamedTuple):
    """A row before it is finished. least: the number that ours must reach, besides the ratio."""

    name: str
    unit: str
    ours: float
    peer: float | None = None
    peer_name: str | None = None
    floor: float | None = None
    least: float = 0.0
    smaller: bool = False

    def row(self) -> Row:
        """Returns the finished row."""
        ratio = None
        if self.peer is not None:
            ratio = self.peer / self.ours if self.smaller else self.ours / self.peer
        reached = self.ours if ratio is None else ratio
        ok = self.floor is None or (reached >= self.floor and self.ours >= self.least)
        return Row(
            name=self.name,
            unit=self.unit,
            ours=self.ours,
            peer=self.peer,
            peer_name=self.peer_name,
            ratio=ratio,
            floor=self.floor,
            ok=ok,
        )


class _Written(NamedTuple):
    """Both forms on disk, and the time that each took."""

    url: str
    paths: list[Path]
    our_bytes: int
    our_seconds: float
    peer_bytes: int
    peer_seconds: float


def _compare(folder: Path, source: games.Games) -> list[Any]:
    written = _write(folder, source)
    label = source.label
    windows, peer_windows, stream, peer_stream, compact = [], [], [], [], []
    for round_number in range(_ROUNDS):
        windows.append(_random_windows(written.url, round_number))
        peer_windows.append(_peer_random(written.paths, source, round_number))
        stream.append(_stream_speed(written.url, "dense", round_number))
        compact.append(_stream_speed(written.url, "compact", round_number))
        peer_stream.append(_peer_stream(folder, source.settings))
    rows: list[Any] = _sizes(source, written)
    rows.append(
        _Measured(
            f"random windows K=1, dense ({label})",
            "windows/CPU s",
            statistics.median(windows),
            statistics.median(peer_windows),
            _LOADER,
            floor=1000,
            least=500,
        )
    )
    rows.append(
        _Measured(
            f"batches K=64, dense ({label})",
            "steps/CPU s",
            statistics.median(stream),
            statistics.median(peer_stream),
            _LOADER,
            floor=20,
            least=8000,
        )
    )
    rows.append(
        _Measured(
            f"batches K=64, compact ({label})",
            "steps/CPU s",
            statistics.median(compact),
        )
    )
    rows.append(
        _Memory(f"loader memory per worker, K=64 ({label})", _memory(written.url))
    )
    return rows


class _Memory(NamedTuple):
    """A row whose floor is a ceiling."""

    name: str
    peak_mb: float

    def row(self) -> Row:
        """Returns the finished row."""
        return Row(
            name=f"{self.name}, less than",
            unit="MB",
            ours=self.peak_mb,
            floor=_MEMORY_LIMIT_MB,
            ok=self.peak_mb < _MEMORY_LIMIT_MB,
        )


def _sizes(source: games.Games, written: _Written) -> list[Any]:
    return [
        _Measured(
            f"dataset size ({source.label})",
            "bytes/step",
            written.our_bytes / source.steps,
            written.peer_bytes / source.steps,
            _RECORD,
            floor=12,
            smaller=True,
        ),
        _Measured(
            f"encode ({source.label})",
            "steps/CPU s",
            source.steps / written.our_seconds,
            source.steps / written.peer_seconds,
            _RECORD,
            floor=4,
            least=1000,
        ),
    ]


def _write(folder: Path, source: games.Games) -> _Written:
    """Encodes every episode both ways and writes both."""
    print(f"codec: {source.label}: {source.steps} steps", file=sys.stderr)
    settings = source.settings
    # Compile first, outside the measurement: a user pays for it once per machine.
    first = source.load(0).arrays
    codec.decode(
        codec.encode({key: array[:40] for key, array in first.items()}, settings),
        settings,
    )
    items, paths = [], []
    our_seconds = peer_seconds = 0.0
    our_bytes = peer_bytes = 0
    for number in range(len(source)):
        item = source.load(number)
        begin = time.process_time()
        records = _stream(item.arrays, settings)
        middle = time.process_time()
        record = predecessor.encode(item.arrays)
        peer_seconds += time.process_time() - middle
        our_seconds += middle - begin
        our_bytes += sum(len(shards.frame_record(piece)) for piece in records)
        peer_bytes += len(record)
        items.append(shards.EpisodeRecords(meta=item.meta, records=records))
        paths.append(folder / f"{item.meta.episode_id}.tfrecord")
        predecessor.write(paths[-1], record)
    url = str(folder / "ours")
    ordered = sorted(items, key=lambda item: item.meta.episode_id)
    entry, placed = shards.write_shard(url, shards.shard_name("train", 0, 1), ordered)
    build = assembly.Build(
        name="perf",
        version="1.0.0",
        engine="perf",
        settings=settings,
        selection={},
        replay_ids=frozenset(item.meta.replay_id for item in items),
    )
    assembly.finish(url, build, [entry], placed)
    return _Written(url, paths, our_bytes, our_seconds, peer_bytes, peer_seconds)


def _stream(arrays: episode.Arrays, settings: Any) -> list[bytes]:
    """Encodes as a pipeline does: step by step."""
    encoder = codec.EpisodeEncoder(settings)
    records: list[bytes] = []
    for t in range(len(arrays["game_loop"])):
        encoder.add({key: array[t] for key, array in arrays.items()})
        records += encoder.take()
    return records + encoder.finish()


def _seconds(action: Callable[[], Any]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


def _random_windows(url: str, seed: int, count: int = 1024) -> float:
    opened = dataset.open_dataset(url)
    options = BatchOptions(batch_size=128, rollout=1, seed=seed, sampler="step")
    iterator = opened.batches(options)
    next(iterator)

    def run() -> None:
        for _ in range(count // 128):
            next(iterator)

    return count / _seconds(run)


def _peer_random(
    paths: Sequence[Path], source: games.Games, seed: int, count: int = 3
) -> float:
    rng = np.random.default_rng(seed)
    lengths = np.array(source.lengths)
    numbers = rng.choice(len(paths), count, p=lengths / lengths.sum())

    def run() -> None:
        for number in numbers:
            step = int(rng.integers(lengths[number]))
            predecessor.random_step(paths[number], source.settings, step)

    return count / _seconds(run)


def _stream_speed(url: str, form: str, seed: int, count: int = 6) -> float:
    opened = dataset.open_dataset(url)
    options = BatchOptions(batch_size=_BATCH, rollout=_UNROLL, seed=seed, form=form)
    iterator = opened.batches(options)
    batch = next(iterator)
    batch = next(iterator)
    done = 0

    def run() -> None:
        nonlocal batch, done
        for _ in range(count):
            batch = next(iterator)
            done += int(batch["valid"].sum())

    seconds = _seconds(run)
    return done / seconds


def _peer_stream(folder: Path, settings: Any, count: int = 4) -> float:
    """Times the pipeline from its beginning, with what it has buffered at the end counted.

    It works ahead, so timing later batches alone would leave out work done before.
    """
    iterator = predecessor.unrolls(
        str(folder / "*.tfrecord"),
        settings,
        batch_size=_BATCH,
        unroll=_UNROLL,
        shuffle=_SHUFFLE,
    )

    def run() -> None:
        for _ in range(count):
            next(iterator)

    return (count * _BATCH + _SHUFFLE) * _UNROLL / _seconds(run)


def _memory(url: str) -> float:
    """Returns the peak memory, in MB, of a process that loads shuffled rollouts of 64."""
    done = subprocess.run(
        [sys.executable, "-m", "perf.loader_memory", url, str(_BATCH), str(_UNROLL)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout)
