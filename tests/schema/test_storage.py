from pathlib import Path

import fsspec
import pytest

from starmill.schema import errors, storage


def test_a_failed_write_leaves_what_was_there(tmp_path):
    url = str(tmp_path / "folder" / "a")
    assert storage.write(url, b"old").size_bytes == 3

    def pieces():
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        storage.write(url, pieces())
    assert storage.read(url) == b"old"
    assert storage.names(str(tmp_path / "folder")) == ["a"]


def test_hash_and_size_are_of_what_was_written(tmp_path):
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    for url in (str(tmp_path / "a"), "memory://storage-test/a"):
        assert storage.write(url, b"") == (0, empty)
        assert storage.write(url, [b"ab", b"c"]).sha256.startswith("ba7816bf")
        assert storage.size_bytes(url) == 3


def test_missing_and_short_files_are_named(tmp_path):
    for folder in (str(tmp_path), "memory://storage-test-2"):
        reader = storage.RangeReader(folder)
        with pytest.raises(
            errors.ShardCorrupt, match=r"gone\.bin: the file is missing"
        ):
            reader.read("gone.bin", 0, 4)
        with pytest.raises(errors.FormatError, match="no such file"):
            storage.read(storage.join(folder, "gone.bin"))
        storage.write(storage.join(folder, "short.bin"), b"1234567890")
        assert reader.read("short.bin", 2, 5) == b"345"
        with pytest.raises(errors.ShardCorrupt, match="the file ends at 10"):
            reader.read("short.bin", 8, 12)
    assert storage.names(str(tmp_path / "nowhere")) == []


def test_passing_failures_are_ridden_out(monkeypatch):
    waits = []
    monkeypatch.setattr(storage.time, "sleep", waits.append)
    failures = [OSError("503"), TimeoutError("slow")]

    def action():
        if failures:
            raise failures.pop()
        return "done"

    assert storage.retry(action, "test") == "done"
    assert waits == [0.1, 0.2]


def test_lasting_and_final_failures_are_not_repeated_for_ever(monkeypatch):
    waits = []
    monkeypatch.setattr(storage.time, "sleep", waits.append)
    calls = []

    def always(error):
        def action():
            calls.append(1)
            raise error

        return action

    with pytest.raises(OSError, match="503"):
        storage.retry(always(OSError("503")), "test")
    assert len(calls) == storage.ATTEMPTS
    assert waits == [0.1, 0.2, 0.4, 0.8]
    calls.clear()
    with pytest.raises(PermissionError):
        storage.retry(always(PermissionError()), "test")
    with pytest.raises(OSError, match="28"):
        storage.retry(always(OSError(28, "no space")), "test")
    assert len(calls) == 2


def test_readers_keep_few_files_open(tmp_path, monkeypatch):
    monkeypatch.setattr(storage.RangeReader, "_MOST_OPEN", 2)
    reader = storage.RangeReader(str(tmp_path))
    for number in range(6):
        storage.write(str(tmp_path / str(number)), b"x")
        assert reader.read(str(number), 0, 1) == b"x"
        assert len(reader._open) <= 2
    reader.close()
    assert reader._open == {}
    assert reader.read("0", 0, 1) == b"x"


def test_replacing_renames_at_the_end_or_leaves_what_was_there(tmp_path):
    path = tmp_path / "tool"
    with storage.replacing(path) as temporary:
        Path(temporary).write_bytes(b"old")
        Path(temporary).chmod(0o755)
        assert not path.exists()
    assert path.read_bytes() == b"old"
    assert path.stat().st_mode & 0o777 == 0o755
    with pytest.raises(ValueError, match="no"), storage.replacing(path) as temporary:
        Path(temporary).write_bytes(b"half")
        raise ValueError("no")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["tool"]


def test_users_choose_how_many_connections_there_are(monkeypatch):
    most = storage.MOST_CONNECTIONS
    cases = ({}, most), ({"max_pool_connections": 5}, 5), ({"read_timeout": 3}, most)
    for configured, expected in cases:
        monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": configured})
        result = storage._client_options("s3://bucket/data")["config_kwargs"]
        assert result == {**configured, "max_pool_connections": expected}
    assert storage._client_options("gs://bucket/data") == {}
