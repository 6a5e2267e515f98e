"""`python -m perf.loader_memory DATASET B K`: prints a loader worker's peak memory in MB.

A process of its own, so that nothing else's memory is counted.
"""

import resource
import sys

from starmill.schema.loader import dataset
from starmill.schema.loader.batch_options import BatchOptions

_BATCHES = 8


def main() -> None:
    """Loads some batches, shuffled over the whole dataset, with one worker process."""
    url, size, rollout = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    opened = dataset.open_dataset(url)
    options = BatchOptions(batch_size=size, rollout=rollout, seed=1, sampler="step")
    with opened.batches(options, workers=1) as batches:
        for _ in range(_BATCHES):
            next(batches)
    # The largest child: the worker, with the shared memory that it filled.
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
