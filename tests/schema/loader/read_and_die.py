"""`python -m tests.schema.loader.read_and_die DATASET`: reads with a worker, and is killed.

It ends while a message of the worker waits to be read: the worker's next read then fails with
a reset connection instead of the end of the file.
"""

import os
import signal
import sys

import starmill
from tests.factories.datasets import LIGHT


def main() -> None:
    """Reads a batch, and waits for the next one to be there, unread."""
    options = starmill.BatchOptions(batch_size=1, rollout=2, seed=0, keys=LIGHT)
    iterator = starmill.open_dataset(sys.argv[1]).batches(options, workers=1)
    next(iterator)
    (worker,) = iterator._team
    worker._pipe.poll(None)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
