"""Attacks everything that starmill reads, for a time: `make fuzz MINUTES=60 SEED=1`.

    python -m tests.hostile.fuzz [--minutes 10] [--seed 0] [--only chunks,tables]
    python -m tests.hostile.fuzz --only tables --seed 0 --first 4711 --inputs 1

An input follows from the seed, its kind and its number, so the second line repeats a failure.
Each kind runs in a process of its own: an end of that process, an exception that is not the
project's own, more than 10 seconds of CPU for an input, or more than 512 MB of memory is a
problem. JAX alone takes most of that: the limit of checkpoints and agents is 512 MB above what
the process has after it has loaded an intact one.
"""

import argparse
import faulthandler
import logging
import multiprocessing
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from starmill.schema import errors
from tests import fuzz_converter, fuzz_replays
from tests.hostile import agents, captures, chunks, datasets, indexes

MAX_BYTES = 512 << 20
MAX_SECONDS = 10.0
# Without a message for so long, a process hangs: while it compiles, and later.
START_SECONDS, HANG_SECONDS = 900, 120


def attack_chunks(rng: random.Random, folder: Path) -> None:
    chunks.consume(chunks.forged(rng), rng)


def attack_tables(rng: random.Random, folder: Path) -> None:
    copy = datasets.copy(folder)
    datasets.forge_table(copy, rng)
    datasets.consume(copy)


def attack_manifests(rng: random.Random, folder: Path) -> None:
    copy = datasets.copy(folder)
    datasets.forge_manifest(copy, rng)
    datasets.consume(copy)


def attack_checkpoints(rng: random.Random, folder: Path) -> None:
    agents.damage_checkpoint(folder / "run", rng)
    agents.read_checkpoint(folder / "run")


def attack_agents(rng: random.Random, folder: Path) -> None:
    path = folder / "forged.agent"
    path.write_bytes(agents.forged_agent(rng))
    agents.read_agent(path)


def attack_captures(rng: random.Random, folder: Path) -> None:
    path = folder / "forged.npz"
    path.write_bytes(captures.forged(rng))
    captures.consume(path)


def attack_indexes(rng: random.Random, folder: Path) -> None:
    path = folder / "forged.parquet"
    path.write_bytes(indexes.forged(rng))
    indexes.consume(path, folder / "work")


def _read_chunks() -> None:
    """Compiles what reading needs."""
    chunks.consume(chunks.originals()[0], random.Random(0))


def _read_dataset() -> None:
    datasets.consume(datasets.original())


def _read_capture() -> None:
    with tempfile.TemporaryDirectory(prefix="starmill-fuzz-") as folder:
        path = Path(folder) / "intact.npz"
        path.write_bytes(captures._file(captures.originals()[0], random.Random(0)))
        captures.consume(path)


def _read_index() -> None:
    with tempfile.TemporaryDirectory(prefix="starmill-fuzz-") as folder:
        path = Path(folder) / "intact.parquet"
        path.write_bytes(indexes.original())
        indexes.consume(path, Path(folder))


def _load_jax() -> None:
    """Loads what intact checkpoints and agents need, so that the rest is the attack's."""
    agents._intact()
    agents.read_agent(agents.GOLDEN / "run.agent")


class Kind(NamedTuple):
    """One kind of attack.

    Attributes:
        attack: makes an input from a generator and gives it to the reader.
        prepare: reads what is intact, which compiles and loads what that needs.
        share: of the time, beside the other kinds.
        has_jax: whether memory counts from what `prepare` left.
    """

    attack: Callable[[random.Random, Path], None]
    prepare: Callable[[], None]
    share: float
    has_jax: bool = False


KINDS = {
    "chunks": Kind(attack_chunks, _read_chunks, 2),
    "tables": Kind(attack_tables, _read_dataset, 2),
    "manifests": Kind(attack_manifests, _read_dataset, 2),
    "checkpoints": Kind(attack_checkpoints, _load_jax, 1.5, has_jax=True),
    "agents": Kind(attack_agents, _load_jax, 1, has_jax=True),
    "indexes": Kind(attack_indexes, _read_index, 1),
    "captures": Kind(attack_captures, _read_capture, 1.5),
}
# Fuzzers of their own that take a time.
OTHERS = {"replays": 1.0, "converter": 1.0}


class Outcome(NamedTuple):
    """What the attacks of a kind did.

    Attributes:
        inputs: how many there were.
        refused: how many the reader refused; the others were harmless.
        slowest: the most seconds of CPU for an input.
        memory: the process's peak, in bytes, above what `prepare` left.
        problems: sentences that say how to repeat each.
    """

    inputs: int
    refused: int
    slowest: float
    memory: int
    problems: list[str]


def _attack(
    name: str, seed: int, first: int, inputs: int, seconds: float, pipe
) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    kind = KINDS[name]
    logging.disable()  # orbax tells of each damaged file
    kind.prepare()
    base = _peak() if kind.has_jax else 0
    pipe.send(("ready", None))
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="starmill-fuzz-") as folder:
        for number in range(first, first + inputs):
            if time.monotonic() > end:
                break
            pipe.send(("begin", number))
            began = time.process_time()
            problem, refused = None, False
            try:
                kind.attack(random.Random(f"{seed} {name} {number}"), Path(folder))
            except errors.StarmillError:
                refused = True
            except BaseException:  # noqa: BLE001  # whatever it is, it is a problem
                problem = traceback.format_exc(limit=-4)
            took = time.process_time() - began
            if took > MAX_SECONDS:
                problem = f"took {took:.0f} s of CPU"
            if _peak() - base > MAX_BYTES:
                problem = f"peak memory {(_peak() - base) >> 20} MB"
            pipe.send(("done", (refused, took, _peak() - base, problem)))
            if _peak() - base > MAX_BYTES:
                return  # the peak stays, so a new process goes on
    pipe.send(("end", None))


def _prepare(name: str) -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    KINDS[name].prepare()


def _peak() -> int:
    # Not getrusage: its peak includes that of the process which started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def run(name: str, seed: int, first: int, inputs: int, seconds: float) -> Outcome:
    """Attacks one kind of thing, in processes that are replaced when they end."""
    context = multiprocessing.get_context("spawn")
    count = refusals = memory = 0
    slowest = 0.0
    problems: list[str] = []
    number, finished = first, False
    # Compiling takes memory that reading does not: it is done in a process of its own.
    compiler = context.Process(target=_prepare, args=(name,))
    compiler.start()
    compiler.join(START_SECONDS)
    end = time.monotonic() + seconds
    while not finished and number < first + inputs and time.monotonic() < end:
        reader, writer = context.Pipe(duplex=False)
        left = (first + inputs - number, end - time.monotonic())
        child = context.Process(
            target=_attack, args=(name, seed, number, *left, writer)
        )
        child.start()
        writer.close()
        patience = START_SECONDS
        while True:
            try:
                if not reader.poll(patience):
                    child.kill()
                    problems.append(_place(name, seed, number, "hangs"))
                word, value = reader.recv()
            except EOFError:
                child.join()
                if child.exitcode != 0:
                    died = f"the process ended ({child.exitcode})"
                    problems.append(_place(name, seed, number, died))
                number += 1
                break
            patience = HANG_SECONDS
            if word == "begin":
                number = value
            elif word == "ready":
                pass
            elif word == "end":
                finished = True
            else:
                refused, took, peak, problem = value
                count, refusals = count + 1, refusals + refused
                slowest, memory = max(slowest, took), max(memory, peak)
                if problem:
                    problems.append(_place(name, seed, number, problem))
        child.join()
    return Outcome(count, refusals, slowest, memory, problems)


def _place(name: str, seed: int, number: int, problem: str) -> str:
    again = f"--only {name} --seed {seed} --first {number} --inputs 1"
    return f"python -m tests.hostile.fuzz {again}: {problem}"


def _other(name: str, seed: int, seconds: float) -> Outcome:
    """Runs one of the older fuzzers for a time."""
    if name == "replays":
        result = fuzz_replays.run(seed * 10**9, 10**9, seconds)
        return Outcome(result.inputs, 0, result.slowest, result.memory, result.problems)
    end, block, problems = time.monotonic() + seconds, 0, []
    while time.monotonic() < end and not problems:
        wrong = fuzz_converter.run(500, seed * 10**6 + block)
        block += 1
        problems = [wrong] if wrong else []
    return Outcome(500 * block, 0, 0.0, 0, problems)


def main() -> int:
    """Attacks in turn, prints a line for each kind, and says yes or no."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join([*KINDS, *OTHERS]))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=10**9)
    args = parser.parse_args()
    names = args.only.split(",")
    shares = {name: kind.share for name, kind in KINDS.items()} | OTHERS
    total = sum(shares[name] for name in names)
    failed = 0
    for name in names:
        seconds = 60 * args.minutes * shares[name] / total
        if name in OTHERS:
            outcome = _other(name, args.seed, seconds)
        else:
            outcome = run(name, args.seed, args.first, args.inputs, seconds)
        failed += len(outcome.problems)
        for problem in outcome.problems[:20]:
            sys.stdout.write(problem.rstrip() + "\n")
        sys.stdout.write(
            f"fuzz  {name}: {outcome.inputs:,} inputs, {outcome.refused:,} refused, "
            f"slowest {outcome.slowest:.1f} s, peak {outcome.memory >> 20} MB, "
            f"{len(outcome.problems)} problems\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"fuzz: {'yes' if not failed else f'no, {failed} problems'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
