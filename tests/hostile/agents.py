"""Damaged checkpoints and `.agent` files, of a small agent that an earlier release stored."""

import contextlib
import functools
import io
import json
import random
import shutil
import tempfile
import zipfile
from pathlib import Path

from tests.hostile import mutations

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats_0_1"


@functools.cache
def run() -> Path:
    """The folder of a training run, with digests in its checkpoint."""
    from starmill.learners import checkpoint

    folder = Path(tempfile.mkdtemp(prefix="starmill-hostile-"))
    with zipfile.ZipFile(GOLDEN / "run.zip") as file:
        file.extractall(folder / "old")
    (old,) = {path.parent for path in (folder / "old").rglob("checkpoints")}
    meta, arrays = checkpoint.load(old)
    new = folder / "new"
    shutil.copytree(old, new, ignore=shutil.ignore_patterns("checkpoints"))
    with checkpoint.Store(new) as store:
        store.save(arrays, meta)
    return new


def damage_checkpoint(folder: Path, rng: random.Random) -> Path:
    """A copy of the run with one or two files of its checkpoint damaged; returns the first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run(), folder)
    files = sorted(
        path for path in (folder / "checkpoints").rglob("*") if path.is_file()
    )
    damaged = rng.sample(files, rng.choice([1, 1, 2]))
    for path in damaged:
        data = path.read_bytes()
        kind = rng.randrange(10)
        if kind == 0:
            path.unlink()
            continue
        if kind == 1:
            data = data[: rng.randrange(len(data) + 1)]
        elif kind == 2 and data[:1] in (b"{", b"["):
            value = mutations.changed(json.loads(data), rng)
            with contextlib.suppress(RecursionError, UnicodeEncodeError):
                data = json.dumps(value).encode()
        else:
            data = mutations.damaged(data, rng, most=3)
        path.write_bytes(data)
    return damaged[0]


def read_checkpoint(folder: Path) -> None:
    """Loads the run as `evaluate` does. Whatever loads has the arrays that were stored."""
    import numpy as np

    from starmill.learners import agent_file, checkpoint

    _, arrays = agent_file.load(folder)
    _, expected = _intact()
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
    assert checkpoint.PARAMETERS


@functools.cache
def _intact():
    from starmill.learners import checkpoint

    return checkpoint.load(run())


def forged_agent(rng: random.Random) -> bytes:
    """A `.agent` file with hostile meta, arrays or zip structure."""
    data = (GOLDEN / "run.agent").read_bytes()
    kind = rng.randrange(6)
    if kind == 0:
        return mutations.damaged(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(["meta.json", "meta.json", *sorted(members)])
        if name not in members:
            continue
        if kind == 1:
            del members[name]
        elif name == "meta.json" and kind != 2:
            value = mutations.changed(json.loads(members[name]), rng)
            with contextlib.suppress(RecursionError, UnicodeEncodeError, ValueError):
                members[name] = json.dumps(value).encode()
            break
        else:
            head = members[name][:128]
            members[name] = mutations.damaged(head, rng) + members[name][128:]
    if rng.random() < 0.05:
        members["arrays/0/bomb"] = bytes(1 << 26)
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return body.getvalue()


def read_agent(path: Path) -> None:
    """Loads an agent's file as `evaluate` does."""
    from starmill.learners import agent_file

    agent_file.load_trained(path)
