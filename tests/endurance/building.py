"""`starmill generate`, killed at random moments, on a disk that fills, and read while it writes."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from starmill.schema import errors
from starmill.schema.loader import dataset
from tests.endurance import commands
from tests.factories import builds

_KILLS = 13
_PAUSE_SECONDS = 0.01
# A build of replays some of which fail by order ends with 1, without such with 0.
_FINISHED = (0, 1)


def _line(replays: list[str], output: Path, game: Path) -> list[str]:
    command = builds.command(replays, output, "--sc2", str(game), "--workers", "2")
    return command[3:]  # without the interpreter, -m and starmill


def kills(folder: Path, replays: list[str], game: Path, seconds: float) -> Path:
    """Kills the command at 13 random moments of so many seconds, then lets it finish."""
    output, temp = folder / "sigkill", folder / "sigkill-tmp"
    rng = random.Random(17)
    killed = 0
    for _ in range(_KILLS):
        when = commands.after(rng.uniform(1.0, seconds))
        ended = commands.run_and_kill(_line(replays, output, game), temp, when)
        killed += ended.code < 0
        assert not (left := commands.left_processes(temp)), f"left behind: {left}"
        if ended.code in _FINISHED:
            break
    assert killed, "it finished before it could be killed"
    if not (output / "manifest.json").exists():
        _finish(replays, output, game, temp)
    print(f"soak  sigkill    {killed} kills", flush=True)
    return output


def _finish(replays: list[str], output: Path, game: Path, temp: Path) -> None:
    ended = commands.run(_line(replays, output, game), temp)
    assert ended.code in _FINISHED, ended.text[-3000:]


def small_disk(
    folder: Path,
    replays: list[str],
    game: Path,
    size_bytes: int,
    digest_of: Callable[[Path], str],
) -> str:
    """Builds on a disk of half the dataset's size, enlarges the disk, and finishes.

    size_bytes: of the finished dataset.
    """
    disk, temp = folder / "disk", folder / "disk-tmp"
    with commands.small_disk(disk, size_bytes // 2 >> 10) as resize:
        output = disk / "dataset"
        ended = commands.run(_line(replays, output, game), temp)
        assert ended.code in (1, 2), f"exit {ended.code} on a full disk"
        assert commands.is_sentence(ended.text), ended.text[-3000:]
        assert not (output / "manifest.json").exists(), "a full disk gave a dataset"
        assert not (left := commands.left_processes(temp)), f"left behind: {left}"
        resize(size_bytes * 20 >> 10)
        _finish(replays, output, game, temp)
        return digest_of(output)


def opened_while_written(folder: Path, replays: list[str], game: Path) -> Path:
    """Opens the dataset again and again while it is built.

    Each attempt is refused in a sentence until the manifest is there; then every one succeeds.
    """
    output, temp = folder / "opens", folder / "opens-tmp"
    outcomes: list[tuple[bool, str]] = []
    stop = threading.Event()

    def open_it() -> None:
        while not stop.is_set():
            try:
                outcomes.append((True, str(len(dataset.open_dataset(str(output))))))
            except errors.StarmillError as error:
                outcomes.append((False, str(error)))
            except Exception as error:  # noqa: BLE001  # this is what must not happen
                outcomes.append((False, f"raised {type(error).__name__}"))
            time.sleep(_PAUSE_SECONDS)

    thread = threading.Thread(target=open_it)
    thread.start()
    try:
        _finish(replays, output, game, temp)
        time.sleep(1.0)  # some attempts at the finished dataset
    finally:
        stop.set()
        thread.join()
    raised = sorted({text for _, text in outcomes if text.startswith("raised ")})
    assert not raised, raised
    first = next(i for i, (is_open, _) in enumerate(outcomes) if is_open)
    assert first > 0, "it was never refused"
    assert len({text for is_open, text in outcomes[first:]}) == 1, "two datasets"
    assert all(is_open for is_open, _ in outcomes[first:]), "refused after it opened"
    print(f"soak  opens      {len(outcomes):,} attempts, {first:,} refused", flush=True)
    return output
