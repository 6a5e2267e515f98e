"""`python -m perf.predecessor_play PYTHON310|- OUT SIDE:REPLAY...`: plays as the predecessor does.

For each side of each replay, two new game processes (its own and the opponent's) follow pysc2's
own `ReplayObservationStream` and step sequence. Every message is parsed, every kept observation
is converted, and the episode is stored as one zlib'd `tf.train.Example`. With a Python 3.10,
DeepMind's own `converted_observation_stream` does all of that except for the record. Without
one, pysc2's stream is used with our converter. Prints counts as a line of JSON.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from perf import predecessor
from starmill.converters import episode, protos, timing
from starmill.converters.observation import Converter
from starmill.engines import playback
from starmill.engines.replays import replay_file
from starmill.schema.settings import UNPLUGGED

# Runs in Python 3.10, where the wheel's compiled converter loads.
_REFERENCE = """
import sys, json
import numpy as np
from absl import flags
from google.protobuf import json_format
from pysc2.env.converter.proto import converter_pb2
from pysc2.lib import remote_controller
from pysc2.lib.replay import replay_converter
flags.FLAGS([sys.argv[0], "--sc2_timeout=300"])
loops = [0]
step = remote_controller.RemoteController.step
def counted(self, n=1):
    loops[0] += n
    return step(self, n)
remote_controller.RemoteController.step = counted
settings = json_format.ParseDict(json.loads(sys.argv[4]), converter_pb2.ConverterSettings())
with open(sys.argv[1], "rb") as f:
    replay = f.read()
rows = list(replay_converter.converted_observation_stream(replay, int(sys.argv[2]), settings))
np.savez(sys.argv[3], **{k: np.stack([row[k] for row in rows]) for k in rows[0]})
print(json.dumps(loops[0]))
"""


def _with_reference(
    python: str, replay: Path, side: int
) -> tuple[dict[str, np.ndarray], int]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "episode.npz"
        settings = json.dumps(UNPLUGGED.to_json())
        done = subprocess.run(
            [python, "-c", _REFERENCE, str(replay), str(side), str(out), settings],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with np.load(out) as stored:
            return dict(stored), int(done.stdout.splitlines()[-1])


def _with_stream(replay: Path, side: int) -> tuple[dict[str, np.ndarray], int]:
    """Plays a side with pysc2's own stream on this Python, and our converter."""
    protos.mark_flags_parsed()
    from pysc2.lib.replay import replay_observation_stream

    data = replay.read_bytes()
    frames = timing.action_frames(replay_file.open_replay(data).game_events())[side]
    plan = timing.step_plan(frames)
    settings = UNPLUGGED
    with replay_observation_stream.ReplayObservationStream(
        interface_options=playback.interface_options(settings),
        game_steps_per_episode=playback.MAX_LOOPS,
        add_opponent_observations=True,
    ) as stream:
        stream.start_replay_from_data(data, player_id=side)
        converter = Converter(settings, stream.game_info(), stream.replay_info())

        def observed():
            for mine, _ in stream.observations(step_sequence=plan):
                message = mine.SerializeToString()
                yield mine.observation.game_loop, episode.Observed(message)

        steps = episode.convert_stream(converter, observed(), frames)
        return episode.stack(steps), 2 * sum(plan)


def main() -> None:
    """Plays the given sides one after the other."""
    python, out, *jobs = sys.argv[1:]
    Path(out).mkdir(exist_ok=True, parents=True)
    loops = steps = size = 0
    # The time to import TensorFlow is subtracted from its cost.
    began, imports = time.monotonic(), time.process_time()
    for job in jobs:
        side, _, path = job.partition(":")
        if python == "-":
            arrays, played = _with_stream(Path(path), int(side))
        else:
            arrays, played = _with_reference(python, Path(path), int(side))
        record = predecessor.encode(arrays)
        predecessor.write(Path(out) / f"{Path(path).stem}-{side}.tfrecord", record)
        loops, steps, size = (
            loops + played,
            steps + len(arrays["game_loop"]),
            size + len(record),
        )
    counts = {
        "episodes": len(jobs),
        "game_loops": loops,
        "steps": steps,
        "bytes": size,
        "seconds": time.monotonic() - began,
        "import_core_seconds": imports,
    }
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
