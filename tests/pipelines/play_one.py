"""`python -m tests.pipelines.play_one REPLAY`: one replay in a worker; its memory as JSON."""

import json
import resource
import sys
from pathlib import Path

from starmill.engines import client
from starmill.engines.pool import SKIRMISH, Pool, PoolConfig
from starmill.engines.replays import replay_file
from starmill.pipelines import episode_maker


def peak_bytes() -> int:
    """Returns the most memory that this process, without the games, has had so far."""
    # macOS counts in bytes, Linux in kibibytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Plays it and prints what came of it."""
    data = Path(sys.argv[1]).read_bytes()
    deadlines = client.Deadlines(start=600, load=600, play=600)
    pool = Pool(PoolConfig(root=SKIRMISH, deadlines=deadlines))
    try:
        row = replay_file.replay_row(data, sys.argv[1])
        result = episode_maker.EpisodeMaker(pool, episode_maker.MakerConfig()).run(
            data, row
        )
    finally:
        pool.close()
    message = {
        "loops": row.duration_loops,
        "steps": [episode.meta.steps for episode in result.episodes],
        "record_bytes": sum(
            len(record) for episode in result.episodes for record in episode.records
        ),
        "failed": [f"{row.reason}: {row.detail}" for row in result.quarantine],
        "peak_bytes": peak_bytes(),
    }
    sys.stdout.write(json.dumps(message) + "\n")


if __name__ == "__main__":
    main()
