"""Checkpoints: what is stored, damage of every kind, and files without digests."""

import errno
import os
import shutil

import numpy as np
import pytest

from starmill.learners import checkpoint, run_folder
from starmill.schema import errors, specs
from tests.factories import small_agents

# When reading fails, orbax closes its event loop before all of tensorstore's reads have ended.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)


def _meta(update):
    return checkpoint.Meta(
        run=small_agents.run("bc").to_json(),
        dataset="small@1.0.0#sha256:00",
        fingerprint=specs.fingerprint(small_agents.SETTINGS),
        update=update,
        frames=16 * update,
        sampler={"position": update},
        max_mmr=6500,
    )


def _state(update):
    rng = np.random.default_rng(update)
    weights = {"kernel": rng.normal(size=(40, 50)).astype(np.float32)}
    return (weights, {"count": np.int32(update)}, {"turn": np.int32(0)})


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run's folder with two checkpoints."""
    folder = tmp_path_factory.mktemp("run")
    with checkpoint.Store(folder) as store:
        for update in (3, 6):
            store.save(_state(update), _meta(update))
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """A copy that a test may damage."""
    shutil.copytree(written, tmp_path / "run")
    return tmp_path / "run"


def _files(folder, update):
    newest = folder / run_folder.CHECKPOINTS / str(update)
    return [path for path in newest.rglob("*") if path.is_file()]


def _is_restored(folder, update):
    meta, arrays = checkpoint.load(folder)
    assert meta == _meta(update)
    assert set(arrays) == {"0/kernel", "1/count", "2/turn"}
    np.testing.assert_array_equal(arrays["0/kernel"], _state(update)[0]["kernel"])
    assert arrays["1/count"] == update


def test_the_newest_checkpoint_is_loaded(written):
    _is_restored(written, 6)
    newest = run_folder.newest_checkpoint(written)
    assert newest == written / "checkpoints" / "6"
    assert [path.name for path in run_folder.checkpoints(written)] == ["3", "6"]


def test_a_folder_without_checkpoints_has_none(tmp_path):
    assert run_folder.newest_checkpoint(tmp_path) is None
    with pytest.raises(errors.ConfigError, match="starmill train"):
        checkpoint.load(tmp_path)
    with checkpoint.Store(tmp_path) as store:
        assert store.latest() is None
        with pytest.raises(errors.ConfigError, match="found none"):
            store.load()


@pytest.mark.parametrize("text", ["RESOURCE_EXHAUSTED: No space left on device", "bad"])
def test_a_full_disk_is_an_error_of_the_system(tmp_path, monkeypatch, text):
    def save(*_, **__):
        raise ValueError(text)

    with checkpoint.Store(tmp_path) as store:
        monkeypatch.setattr(store._manager, "save", save)
        with pytest.raises((OSError, ValueError)) as raised:
            store.save(_state(1), _meta(1))
    is_full = getattr(raised.value, "errno", None) == errno.ENOSPC
    assert is_full == text.startswith("RESOURCE")


def test_too_little_space_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with checkpoint.Store(tmp_path) as store:
        with pytest.raises(OSError, match=r"No space left.*checkpoints") as raised:
            store.save(_state(1), _meta(1))
        assert raised.value.errno == errno.ENOSPC
        assert store.latest() is None


def test_a_checkpoint_without_digests_loads(folder):
    """As versions before digests wrote it."""
    newest = folder / run_folder.CHECKPOINTS / "6"
    shutil.rmtree(newest / "digests")
    index = newest / "_CHECKPOINT_METADATA"
    index.write_text(index.read_text().replace('"digests"', '"other"'))
    _is_restored(folder, 6)


def test_a_flipped_bit_is_found(folder):
    """Bytes throughout the largest file; no change of one may be loaded."""
    path = max(_files(folder, 6), key=lambda file: file.stat().st_size)
    data = path.read_bytes()
    caught = 0
    for place in range(0, len(data), max(1, len(data) // 12)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        try:
            _is_restored(folder, 6)
        except errors.FormatError as error:
            caught += 1
            assert "checkpoints/6" in str(error)
            assert "newest intact checkpoint is" in str(error)
            assert "checkpoints/3" in str(error)
    assert caught >= 6


@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_missing_and_truncated_files_are_one_sentence(folder, damage):
    caught = 0
    for path in _files(folder, 6):
        data = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(data[: len(data) // 2 if damage == "cut" else 0])
        try:
            _is_restored(folder, 6)
        except errors.FormatError as error:
            caught += 1
            assert str(folder / "checkpoints" / "6") in str(error)
            assert "newest intact checkpoint is" in str(error)
            assert "\n" not in str(error)
        path.write_bytes(data)
    assert caught >= 3
    _is_restored(folder, 6)


def test_when_none_is_intact_the_message_says_so(folder):
    for update in (3, 6):
        shutil.rmtree(folder / run_folder.CHECKPOINTS / str(update) / "state")
    with pytest.raises(errors.FormatError, match="No other checkpoint .* is intact"):
        checkpoint.load(folder)


def test_deleting_the_damaged_one_goes_back(folder):
    shutil.rmtree(folder / run_folder.CHECKPOINTS / "6")
    _is_restored(folder, 3)


def test_changed_meta_is_found(folder):
    path = folder / run_folder.CHECKPOINTS / "6" / "meta" / "metadata"
    text = path.read_text()
    assert text.count('"max_mmr": 6500') == 1
    path.write_text(text.replace('"max_mmr": 6500', '"max_mmr": 6501'))
    with pytest.raises(errors.FormatError, match=r"checkpoints/6.*\['meta'\]"):
        checkpoint.load(folder)


def test_a_tree_of_another_shape_is_refused(written):
    _, arrays = checkpoint.load(written)
    like = _state(6)
    restored = checkpoint.restore(arrays, like, written)
    np.testing.assert_array_equal(restored[0]["kernel"], like[0]["kernel"])
    like[0]["kernel"] = like[0]["kernel"][:3]
    with pytest.raises(errors.ManifestMismatch, match="0/kernel"):
        checkpoint.restore(arrays, like, written)


def test_unknown_keys_of_the_meta_are_refused(written):
    with pytest.raises(errors.FormatError, match="expected the meta's keys"):
        checkpoint.checked_meta({"run": {}}, written)


@pytest.mark.parametrize(
    "name", ["meta/metadata", "_CHECKPOINT_METADATA", "state/manifest.ocdbt", "other"]
)
@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_what_is_not_a_file_is_refused_before_it_blocks_a_reader(folder, name, kind):
    path = folder / run_folder.CHECKPOINTS / "6" / name
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else folder)
    with pytest.raises(errors.FormatError, match=f"{name}: expected a regular file"):
        checkpoint.load(folder)


def test_arrays_larger_than_their_files_can_hold_are_refused(tmp_path, monkeypatch):
    """Files of kilobytes can state arrays of gigabytes: what is not stored is zero."""
    zeros = ({"kernel": np.zeros(1 << 21, np.float32)}, {}, {})
    with checkpoint.Store(tmp_path) as store:
        store.save(zeros, _meta(1))
    checkpoint.load(tmp_path)
    monkeypatch.setattr(checkpoint, "_MOST_EXTRA", 0)
    with pytest.raises(errors.FormatError, match="expected arrays of at most"):
        checkpoint.load(tmp_path)
