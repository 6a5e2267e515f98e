"""Fresh random captures through DeepMind's own converter and ours; needs its environment."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from starmill.converters import capture
from starmill.schema import errors
from tests.conftest import ROOT
from tests.factories import odd_captures, random_captures

RECORDER = ROOT / "tests/reference/record_converter.py"
COUNT = 60

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def python() -> str:
    default = ROOT / ".venv-reference/bin/python"
    path = os.environ.get("STARMILL_REFERENCE_PYTHON", str(default))
    if not Path(path).exists():
        pytest.skip(f"needs {path} with the pysc2 wheel: run `make reference`")
    return path


def _assert_agrees(path: Path, told: dict, result: Path) -> None:
    try:
        ours = capture.convert(capture.load(path))
    except (errors.ConverterError, errors.ConfigError) as error:
        assert told["outcome"] != "ok", f"{path.stem}: {error}"
        assert str(error).startswith(told["stage"]), (path.stem, str(error), told)
        if told["step"] >= 0 and told["stage"] != "done":
            assert f"step {told['step']}:" in str(error), (path.stem, told)
        return
    assert told["outcome"] == "ok", (path.stem, told)
    with np.load(result) as theirs:
        assert sorted(ours) == sorted(theirs.files)
        for key in theirs.files:
            assert ours[key].dtype == theirs[key].dtype, (path.stem, key)
            np.testing.assert_array_equal(ours[key], theirs[key], f"{path.stem} {key}")


@pytest.mark.parametrize("kind", ["tame", "plain", "wild", "agent", "odd"])
def test_random_captures_agree_with_the_reference(tmp_path, python, kind):
    inputs, outputs = tmp_path / "inputs", tmp_path / "outputs"
    inputs.mkdir()
    names = sorted(odd_captures.ODDITIES)
    for index in range(COUNT if kind != "odd" else len(names)):
        seed = 50_000 + index
        result = (
            odd_captures.odd(names[index], seed)
            if kind == "odd"
            else random_captures.capture(
                seed, tame=kind == "tame", wild=kind == "wild", agent=kind == "agent"
            )
        )
        data = capture.to_bytes(capture.to_arrays(result))
        (inputs / f"{index:03}.npz").write_bytes(data)
    subprocess.run([python, str(RECORDER), str(inputs), str(outputs)], check=True)
    for path in sorted(inputs.glob("*.npz")):
        told = json.loads((outputs / f"{path.stem}.json").read_text())
        _assert_agrees(path, told, outputs / path.name)
