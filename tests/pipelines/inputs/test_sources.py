"""Which files an input names, and that odd names and odd files do no harm."""

import os

import pytest

from starmill.pipelines import index
from starmill.pipelines.inputs import sources
from starmill.schema import errors


def test_a_name_with_two_colons_is_a_file_like_any_other(tmp_path):
    path = tmp_path / "a::b.SC2Replay"
    path.write_bytes(b"no replay")
    for named in (str(path), str(tmp_path), str(tmp_path / "*.SC2Replay")):
        (unit,) = sources.find([named]).units
        assert unit.files == (str(path),)
        (row,) = index.rows_of(unit, index.IndexSettings())
        assert row.status == "not_a_replay"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["pipe.SC2Replay", "pipe.zip"])
def test_a_pipe_among_replays_is_unreadable_and_does_not_block(tmp_path, name):
    os.mkfifo(tmp_path / name)
    (unit,) = sources.find([str(tmp_path)]).units
    (row,) = index.rows_of(unit, index.IndexSettings())
    assert row.status == "unreadable"
    assert "expected a regular file" in row.detail


def test_a_pipe_is_no_replay_by_name(tmp_path):
    os.mkfifo(tmp_path / "pipe.SC2Replay")
    with pytest.raises(errors.ConfigError, match="found none"):
        sources.find([str(tmp_path / "pipe.SC2Replay")])
