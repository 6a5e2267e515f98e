"""Runs a command's work on the shards of a dataset, on this machine or as a Beam job.

In: a command's options. Out: what runs the work. Beam is imported only if a runner is given, so
that a dataset can be verified and exported without it.
"""

import argparse
import contextlib
import difflib
import functools
import importlib
import logging
import os
import tempfile
from collections.abc import Iterator

from starmill import progress
from starmill.pipelines.jobs import processes
from starmill.schema import errors, storage

# Beam's runner on this machine; its workers can write to any folder.
_LOCAL = "FnApiRunner"


def add_arguments(parser: argparse.ArgumentParser, work: str | None) -> None:
    """Declares the options.

    Args:
        parser: of the command.
        work: the folder of the job's results if no other is given, for the help; None if
            there is none.
    """
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes on this machine (default: one per core)",
    )
    parser.add_argument(
        "--runner",
        metavar="RUNNER",
        help="run as a Beam job on this runner, such as FlinkRunner or DataflowRunner; "
        "other options of Beam may follow",
    )
    parser.add_argument(
        "--work",
        metavar="DIR",
        help="with --runner: folder or URL that all workers can write to"
        + (f" (default: {work})" if work else ""),
    )


@contextlib.contextmanager
def runs(
    args: argparse.Namespace, command: str, shards: int, folder: str | None
) -> Iterator[processes.Run]:
    """Yields what runs the work, and shows progress in the block.

    Args:
        args: of the command.
        command: its name.
        shards: how many the dataset has.
        folder: for the job's results if --work is not given; None if there is none.
    """
    if args.workers < 1:
        raise errors.ConfigError(f"--workers {args.workers}: expected at least 1")
    if args.runner is None:
        given = [*args.beam, *(["--work"] if args.work else [])]
        if given:
            raise errors.ConfigError(_unknown(given[0], args, command))
        with _local(args.workers, command, shards) as run:
            yield run
        return
    beam_options = importlib.import_module("starmill.pipelines.jobs.beam_options")
    shard_job = importlib.import_module("starmill.pipelines.jobs.shard_job")
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    options = beam_options.checked(args.runner, args.beam, command)
    with contextlib.ExitStack() as stack:
        work = args.work or folder
        if args.runner == _LOCAL:
            work = work or stack.enter_context(tempfile.TemporaryDirectory())
        if work is None:
            raise errors.ConfigError(
                f"--runner {args.runner}: pass --work, a folder or URL that all workers "
                "can write to"
            )
        if storage.is_local(work):
            work = os.path.abspath(work)  # noqa: PTH100  # a plain string for workers
        yield functools.partial(shard_job.run, options=options, folder=work)


def _unknown(word: str, args: argparse.Namespace, command: str) -> str:
    name = word.split("=")[0]
    options = [f"--{option.replace('_', '-')}" for option in vars(args)]
    nearest = difflib.get_close_matches(name, set(options) - {"--beam", name}, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"{name}: expected an option of {command}, or --runner with options of Beam{hint}"


@contextlib.contextmanager
def _local(workers: int, command: str, shards: int) -> Iterator[processes.Run]:
    done = [0]

    def count() -> None:
        done[0] += 1

    with progress.Progress(command, shards, "shards", lambda: done[0]):
        yield functools.partial(processes.run, processes=workers, on_done=count)
