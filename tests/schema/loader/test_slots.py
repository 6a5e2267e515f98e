"""Shared memory: how much a loader takes, and what it does where there is little."""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from starmill.schema import errors
from starmill.schema.loader import slots
from tests.factories import datasets, records

MB = 1 << 20
ROOT = Path(__file__).parents[3]
# Loads batches with two workers, and compares them with those of none.
SCRIPT = """
import logging, sys
import starmill
from tests.factories.datasets import assert_equal_batches, batches_of

if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    opened = starmill.open_dataset(sys.argv[1])
    options = {"batch_size": 2, "rollout": 16, "seed": 1}
    alone = batches_of(opened, **options)
    with batches_of(opened, workers=2, **options) as batches:
        for _ in range(3):
            assert_equal_batches(next(batches), next(alone))
    print("the batches are the same")
"""


@pytest.fixture
def room(monkeypatch):
    """Sets how many bytes each of two folders has."""
    free = {"memory": 64 * MB, "disk": 1000 * MB}
    monkeypatch.setattr(slots, "_free_bytes", free.__getitem__)
    return free


def place(size_bytes, workers):
    return slots.place(size_bytes, workers, ("memory", "disk"))


def test_slots_are_in_memory_as_far_as_there_is_room(room, caplog):
    assert place(8 * MB, 2) == slots.Place("memory", 4)
    assert place(9 * MB, 2) == slots.Place("memory", 3)
    assert place(32 * MB, 2) == slots.Place("memory", 1)
    assert not caplog.records
    room["memory"] = 10_000 * MB
    # No more than 512 MB ahead for each worker, but at least one slot.
    assert place(200 * MB, 2) == slots.Place("memory", 2)
    assert place(800 * MB, 2) == slots.Place("memory", 1)


def test_a_disk_is_the_last_resort(room, caplog):
    with caplog.at_level(logging.WARNING):
        assert place(33 * MB, 2) == slots.Place("disk", 4)
    (record,) = caplog.records
    assert record.getMessage() == (
        "memory has 64 MB free, and batches of 2 loader workers need 66 MB. They go through "
        "files in disk, which is slower. Start the container with --shm-size=264m or more, "
        "or use fewer workers or smaller batches"
    )
    with pytest.raises(errors.ConfigError) as caught:
        place(501 * MB, 2)
    assert str(caught.value) == (
        "workers: batches of 2 loader workers need 1,002 MB, but memory has 64 MB free and "
        "disk has 1,000 MB free. Use fewer workers or smaller batches, or start the "
        "container with --shm-size=1002m or more"
    )


def test_the_machine_s_own_folders_have_room():
    result = slots.place(1000, 2)
    assert result.slots == 4
    assert os.access(result.folder, os.W_OK)


def _with_small_memory(*command):
    """Runs a command in a mount namespace whose /dev/shm has 1 MB."""
    mount = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, "sh", *command],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
        check=False,
    )


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("unshare") is None, reason="no namespaces"
)
def test_batches_are_the_same_where_shared_memory_is_small(tmp_path):
    if _with_small_memory("true").returncode != 0:
        pytest.skip("namespaces are not allowed here")
    records.dataset(str(tmp_path / "data"), datasets.episodes())
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = _with_small_memory(sys.executable, str(script), str(tmp_path / "data"))
    assert "the batches are the same" in done.stdout, done.stderr
    assert "/dev/shm has 1 MB free" in done.stderr
    assert "--shm-size=" in done.stderr
