"""Which Pythons can run DeepMind's own code, and what is said of those that cannot."""

import sys

import pytest

from starmill.engines.conformance import reference
from starmill.engines.conformance.recording import Replay
from starmill.schema import errors
from starmill.schema.settings import UNPLUGGED

REPLAY = Replay(
    data=b"",
    name="0" * 16,
    game_version="4.9.2.74741",
    base_build=74741,
    data_version=None,
    map_name="",
    duration_loops=0,
    mmrs={},
    frames={},
)


@pytest.mark.parametrize(
    ("python", "message"),
    [(sys.executable, "pysc2 4.0.0's wheel"), ("/none/python3.10", "No such file")],
)
def test_a_python_that_cannot_run_it_is_named(tmp_path, python, message):
    with (
        pytest.raises(errors.ConfigError, match=message),
        reference.play(python, tmp_path, REPLAY, 1, UNPLUGGED),
    ):
        pass


def test_a_failure_of_the_reference_is_the_engines(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'check failed' >&2\nexit 134\n")
    python.chmod(0o755)
    with (
        pytest.raises(errors.EngineError, match="ended with 134: check failed"),
        reference.play(str(python), tmp_path, REPLAY, 1, UNPLUGGED),
    ):
        pass
