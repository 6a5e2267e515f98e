"""Where a run's checkpoints are, without opening one."""

import pytest

from starmill.learners import run_folder


def test_checkpoints_are_ordered_by_number(tmp_path):
    for name in ("9", "10", "2", "10.orbax-checkpoint-tmp"):
        (tmp_path / run_folder.CHECKPOINTS / name).mkdir(parents=True)
    names = [path.name for path in run_folder.checkpoints(tmp_path)]
    assert names == ["2", "9", "10"]
    newest = run_folder.newest_checkpoint(tmp_path)
    assert newest == tmp_path / run_folder.CHECKPOINTS / "10"


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_folder_without_checkpoints_has_none(tmp_path, name):
    assert run_folder.checkpoints(tmp_path / name) == []
    assert run_folder.newest_checkpoint(tmp_path / name) is None
