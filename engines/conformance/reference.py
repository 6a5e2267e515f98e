"""Plays a replay with DeepMind's own code, where a Python 3.10 with its wheel is at hand.

In: that Python, an installation, a replay and a player. Out: a file with the reference's arrays.
The code runs in a process of its own, since a failed check inside the compiled converter ends
the process.
"""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from starmill.engines.conformance import reference_script
from starmill.engines.conformance.recording import Replay
from starmill.schema import errors
from starmill.schema.settings import ConverterSettings

_SECONDS = 3600
_MOST_MESSAGE = 300


@contextlib.contextmanager
def play(
    python: str, root: Path, replay: Replay, side: int, settings: ConverterSettings
) -> Iterator[Path]:
    """Yields an npz file with an array for each field, time in axis 0.

    Raises ConfigError if this Python cannot run the reference, and EngineError if the reference
    fails on this replay.
    """
    with tempfile.TemporaryDirectory(prefix="starmill-reference-") as folder:
        file, out = Path(folder) / "game.SC2Replay", Path(folder) / "episode.npz"
        file.write_bytes(replay.data)
        # By path: Python 3.10 cannot import starmill.
        command = [python, reference_script.__file__, str(file), str(side), str(out)]
        try:
            done = subprocess.run(
                [*command, json.dumps(settings.to_json())],
                env={**os.environ, "SC2PATH": str(root), "TMPDIR": folder},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise errors.ConfigError(f"the reference's Python: {error}") from error
        lines = (done.stderr.strip().splitlines() or ["no message"])[-1]
        if done.returncode == reference_script.NOT_INSTALLED:
            raise errors.ConfigError(
                f"expected a Python 3.10 with pysc2 4.0.0's wheel: {lines}"
            )
        if done.returncode != 0:
            raise errors.EngineError(
                f"the reference ended with {done.returncode}: {lines[:_MOST_MESSAGE]}"
            )
        yield out
