"""`starmill convert` from the command line."""

import numpy as np
import pytest

from starmill import cli
from tests.conftest import ROOT

GOLDEN = ROOT / "tests/golden/converter"


def test_it_writes_what_the_reference_wrote_byte_for_byte(tmp_path, capsys):
    out = tmp_path / "out.npz"
    case = GOLDEN / "inputs/tame_0.npz"
    assert cli.main(["convert", str(case), "--out", str(out)]) == 0
    assert out.read_bytes() == (GOLDEN / "expected/tame_0.npz").read_bytes()
    assert "4 steps" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]


def test_it_overwrites_only_when_told(tmp_path, capsys):
    out = tmp_path / "out.npz"
    out.write_bytes(b"precious")
    case = str(GOLDEN / "inputs/tame_0.npz")
    assert cli.main(["convert", case, "--out", str(out)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert out.read_bytes() == b"precious"
    assert cli.main(["convert", case, "--out", str(out), "--overwrite"]) == 0
    with np.load(out) as file:
        assert "__spec_json" in file.files


@pytest.mark.parametrize("name", ["missing.npz", "folder/out.npz"])
def test_it_says_which_path_is_wrong(tmp_path, capsys, name):
    case = GOLDEN / "inputs/tame_0.npz" if "/" in name else tmp_path / name
    out = tmp_path / name
    assert cli.main(["convert", str(case), "--out", str(out)]) == 2
    assert "no such" in capsys.readouterr().err
