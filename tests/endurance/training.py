"""`starmill train`, killed while it writes checkpoints, and on a disk that is full.

The end must equal that of a run that nobody disturbed: every array of the newest checkpoint.
"""

import json
import random
from pathlib import Path

from starmill.learners import checkpoint, run_folder
from tests.endurance import commands
from tests.factories import small_agents

_KILLS = 20
_SPARE_KB = 1024
_SAVES = 44
# A run begins from its newest checkpoint, so a kill in the first write of each would end it
# where it began, for ever.
_WRITES_BEFORE_KILL = (2, 3)


def train_command(folder: Path, out: Path) -> list[str]:
    data = folder / "data"
    if not data.exists():
        data.mkdir(parents=True)
        small_agents.write_dataset(data)
        run = small_agents.run("bc").to_json()
        del run["agent"], run["sampler"]
        sizes = run["algorithm"]
        per_update = sizes["batch_size"] * sizes["rollout"] * sizes["accumulate"]
        run["optim"]["frames"] = _SAVES * per_update
        run["log_every"] = run["save_every"] = 1
        (folder / "config.json").write_text(json.dumps(run))
    return [
        *("train", "--agent", "bc", "--dataset", str(data), "--out", str(out)),
        *("--config", str(folder / "config.json"), "--split", "none", "--workers", "1"),
    ]


def _undisturbed(folder: Path, temp: Path) -> Path:
    out = folder / "undisturbed"
    if not out.exists():
        ended = commands.run(train_command(folder, out), temp)
        assert ended.code == 0, ended.text[-3000:]
    return out


def _assert_same(out: Path, expected: Path) -> int:
    meta, arrays = checkpoint.load(out)
    wanted_meta, wanted = checkpoint.load(expected)
    assert meta == wanted_meta, "the newest checkpoint has other metadata"
    assert list(arrays) == list(wanted), "the newest checkpoint has other arrays"
    for name, array in wanted.items():
        same = array.dtype == arrays[name].dtype
        assert same and array.tobytes() == arrays[name].tobytes(), f"{name} differs"
    return len(wanted)


class _Writes:
    """Tells when the n-th checkpoint of a process is being written."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._number = folder, number
        self._seen: set[str] = set(self._temporary())

    def _temporary(self) -> list[str]:
        folder = self._folder / run_folder.CHECKPOINTS
        names = folder.iterdir() if folder.is_dir() else ()
        return [path.name for path in names if not path.name.isdigit()]

    def __call__(self) -> bool:
        self._seen |= set(self._temporary())
        return len(self._seen) >= self._number and bool(self._temporary())


def checkpoint_kills(folder: Path) -> str:
    """Kills `train` inside a checkpoint's write, 20 times, and continues it each time."""
    temp, out = folder / "tmp", folder / "killed"
    expected = _undisturbed(folder, temp)
    rng = random.Random(3)
    inside = 0
    for _ in range(_KILLS):
        writes = _Writes(out, rng.choice(_WRITES_BEFORE_KILL))
        ended = commands.run_and_kill(train_command(folder, out), temp, writes)
        assert ended.code < 0, f"it ended before the kill: {ended.text[-2000:]}"
        inside += bool(writes._temporary())
        checkpoints = run_folder.checkpoints(out)
        assert checkpoints, "no checkpoint survived the kill"
        checkpoint.load(out)  # intact, or this raises
        assert not (left := commands.left_processes(temp)), f"left behind: {left}"
    ended = commands.run(train_command(folder, out), temp)
    assert ended.code == 0, ended.text[-3000:]
    count = _assert_same(out, expected)
    assert inside >= _KILLS // 2, f"only {inside} of {_KILLS} kills were inside a write"
    return f"{_KILLS} kills, {inside} inside a write; {count} of {count} arrays equal"


def full_disk(folder: Path) -> str:
    """Trains on a disk that fills, enlarges the disk, and continues."""
    temp, disk = folder / "tmp", folder / "disk"
    expected = _undisturbed(folder, temp)
    needed_kb = sum(p.stat().st_size for p in expected.rglob("*") if p.is_file()) >> 10
    # Room for two checkpoints and the space that `train` keeps free, but not for a third, which
    # is written before the first is deleted.
    size_kb = _SPARE_KB + needed_kb * 11 // 10
    with commands.small_disk(disk, size_kb) as resize:
        out = disk / "run"
        ended = commands.run(train_command(folder, out), temp)
        assert ended.code in (1, 2), f"exit {ended.code} on a full disk"
        assert commands.is_sentence(ended.text), ended.text[-3000:]
        assert run_folder.checkpoints(out), "the disk was full before the first write"
        resize(needed_kb * 20)
        ended = commands.run(train_command(folder, out), temp)
        assert ended.code == 0, ended.text[-3000:]
        count = _assert_same(out, expected)
    return f"filled at {size_kb} KB, then {count} of {count} arrays equal"
