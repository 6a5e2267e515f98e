"""`python -m perf.learner_memory DATASET AGENT`: prints the host's peak memory of an update in MB.

Loads one update at the paper's scale and sends it to the devices, as training does, but computes
nothing: what the computation needs is memory of the devices. A process of its own, so that nothing
else's memory is counted.
"""

import resource
import sys

import jax

from starmill.learners import presets, splits
from starmill.learners.feed import Feed
from starmill.learners.learner import Learner
from starmill.schema.loader import dataset


def main() -> None:
    """Loads an update, and the beginning of the next, with one worker process."""
    url, agent = sys.argv[1:3]
    data = dataset.open_dataset(url)
    run = presets.run(agent, "full", data.settings)
    learner = Learner(run, 1)
    with splits.batches(run, data, workers=1) as iterator:
        batches = Feed(learner, iterator, run.algorithm.accumulate)
        groups = run.algorithm.accumulate // batches.group_size
        for _ in range(groups):
            group = batches.next()
            batches.advance()
            jax.block_until_ready(group.device)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # The largest child: the worker, with the shared memory that it filled.
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print((own + worker) / 1024)


if __name__ == "__main__":
    main()
