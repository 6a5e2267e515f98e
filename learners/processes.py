"""The processes that train one run together: how they find each other, and which one writes.

In: an address, a number and a count, or nothing where a cluster tells (Slurm, GKE, TPU, MPI). Out:
JAX sees the devices of all processes. Without a cluster there is one process, and nothing here has
an effect. Must not know: runs and training.

Only `join` changes anything. It must come before anything else uses JAX's devices.
"""

import logging
import os
import sys
from typing import Any, NoReturn

import jax
from jax.experimental import multihost_utils

from starmill.schema import errors

_COLLECTIVES = "jax_cpu_collectives_implementation"
_log = logging.getLogger(__name__)

# What JAX says where it finds no cluster, and where its devices are in use already.
_NO_CLUSTER, _TOO_LATE = (
    "coordinator_address should be defined",
    "must be called before",
)

# A process that sends no heartbeat for this long is given up, and all others end.
HEARTBEAT_SECONDS = 60
# How long a process waits for the others to start. Queues may start them far apart.
START_SECONDS = 600


def join(
    coordinator: str | None = None,
    process_id: int | None = None,
    processes: int | None = None,
    *,
    heartbeat_seconds: int = HEARTBEAT_SECONDS,
) -> None:
    """Joins the other processes; waits until all are there.

    Args:
        coordinator: HOST:PORT of process 0, the same in all processes; None to ask the cluster.
        process_id: this process's number, from 0.
        processes: how many there are.
        heartbeat_seconds: how long a process may be silent before all others end.
    """
    if coordinator is None and process_id is None and processes == 1:
        return
    _check(coordinator, process_id, processes)
    # Only used where the devices are CPUs, which have no collectives of their own.
    before = getattr(jax.config, _COLLECTIVES)
    jax.config.update(_COLLECTIVES, "gloo")
    options: dict[str, Any] = {}
    if coordinator is not None:
        options["cluster_detection_method"] = "deactivate"
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process_id,
            initialization_timeout=START_SECONDS,
            heartbeat_timeout_seconds=heartbeat_seconds,
            shutdown_timeout_seconds=heartbeat_seconds,
            **options,
        )
    except (RuntimeError, ValueError) as error:
        # Undone, because without other processes the collectives cannot be created.
        # Versions of JAX differ in what says so.
        jax.config.update(_COLLECTIVES, before)
        if coordinator is None and _NO_CLUSTER in str(error):
            return
        if coordinator is None and _TOO_LATE in str(error):
            _log.debug("JAX was in use already: no cluster was looked for")
            return
        raise errors.ConfigError(
            f"{coordinator or 'the cluster'}: the processes could not be joined: {error}. "
            "If there is only this one, pass --processes 1"
        ) from error
    _log.info("process %d of %d", index(), count())


def _check(
    coordinator: str | None, process_id: int | None, processes: int | None
) -> None:
    values = (coordinator, process_id, processes)
    if any(value is not None for value in values) and None in values:
        raise errors.ConfigError(
            "--coordinator, --process-id and --processes: expected all three or none, found "
            f"{coordinator!r}, {process_id} and {processes}"
        )
    if coordinator is None or process_id is None or processes is None:
        return
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit():
        raise errors.ConfigError(
            f"--coordinator: expected HOST:PORT, found {coordinator!r}"
        )
    if not 0 <= process_id < processes:
        raise errors.ConfigError(
            f"--process-id: expected 0 to {processes - 1}, found {process_id}"
        )


def count() -> int:
    """Returns how many processes train together."""
    return jax.process_count()


def index() -> int:
    """Returns this process's number, from 0."""
    return jax.process_index()


def is_writer() -> bool:
    """Returns whether this process writes the run's files; checkpoints are written by all."""
    return index() == 0


def wait(event: str) -> None:
    """Waits until all processes have come this far."""
    if count() > 1:
        multihost_utils.sync_global_devices(f"starmill: {event}")


def give_up(error: Exception) -> NoReturn:
    """Ends this process at once, because the computation with the others has failed.

    An orderly end would wait for a process that is gone.
    """
    _log.error(
        "process %d of %d ends, because a computation with the others failed; another process "
        "has probably ended. Start all of them again, in any number, to continue from the newest "
        "checkpoint: %s",
        index(),
        count(),
        error,
        exc_info=error,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
