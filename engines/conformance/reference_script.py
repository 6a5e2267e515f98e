"""Plays one side of a replay with DeepMind's own code. For Python 3.10 with pysc2 4.0.0's wheel.

    SC2PATH=DIR python3.10 reference_script.py GAME.SC2Replay SIDE OUT.npz SETTINGS

Run by path, not imported by that Python: it needs nothing of starmill. Writes an array for each
field, time in axis 0. Exits with NOT_INSTALLED where the wheel does not load.
"""

import json
import sys
from pathlib import Path
from typing import Any

NOT_INSTALLED = 3
_TIMEOUT_FLAG = "--sc2_timeout=600"


def main() -> None:
    """Plays the side that the command line names."""
    # Here, because starmill's own Python can load neither.
    try:
        import numpy as np
        from absl import flags
        from google.protobuf import json_format
        from pysc2.env.converter.proto import converter_pb2
        from pysc2.lib.replay import replay_converter
    except (
        ImportError,
        TypeError,
    ) as error:  # protobuf's, for messages made too long ago
        sys.stderr.write(f"{type(error).__name__}: {str(error).splitlines()[0]}\n")
        raise SystemExit(NOT_INSTALLED) from error
    replay, side, out, settings = sys.argv[1:]
    flags.FLAGS([sys.argv[0], _TIMEOUT_FLAG])
    message = json_format.ParseDict(
        json.loads(settings), converter_pb2.ConverterSettings()
    )
    rows = list(
        replay_converter.converted_observation_stream(
            Path(replay).read_bytes(), int(side), message
        )
    )
    arrays: dict[str, Any] = {
        key: np.stack([row[key] for row in rows]) for key in rows[0]
    }
    np.savez(out, **arrays)


if __name__ == "__main__":
    main()
