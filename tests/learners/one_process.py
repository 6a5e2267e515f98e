"""One of several processes that train together; `test_processes` starts it.

Its one argument is JSON: `agent`, `changes` of the small run, `data`, `out`, `init`, and `port`,
`process` and `processes`. With `kill_at`, the process kills itself after that update.
"""

import json
import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Joins the others and trains."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update(
        "jax_compilation_cache_dir", os.environ["STARMILL_TEST_JAX_CACHE"]
    )
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    from starmill.learners import processes, training
    from starmill.schema.loader import dataset
    from tests.factories import small_agents

    task = json.loads(sys.argv[1])
    if task["processes"] > 1:
        processes.join(
            f"127.0.0.1:{task['port']}",
            task["process"],
            task["processes"],
            heartbeat_seconds=task.get("heartbeat", 60),
        )

    def on_update(update: int, frames: int) -> None:
        if update == task.get("kill_at"):
            os.kill(os.getpid(), signal.SIGKILL)

    run = small_agents.run(task["agent"], **task["changes"])
    init = task.get("init")
    training.train(
        run,
        dataset.open_dataset(task["data"]),
        Path(task["out"]),
        init=None if init is None else Path(init),
        on_update=on_update,
    )


if __name__ == "__main__":
    main()
