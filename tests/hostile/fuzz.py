"""Attacks everything that starmill reads, for a time: `make fuzz MINUTES=60 SEED=1`.

    python -m tests.hostile.fuzz [--minutes 10] [--seed 0] [--only chunks,tables]
    python -m tests.hostile.fuzz --counts chunks=10000,tables=1000
    python -m tests.hostile.fuzz --only tables --seed 0 --first 4711 --inputs 1

An input follows from the seed, its kind and its number, so the third line repeats a failure.
The kinds take turns, so that a run which is ended early has tried each of them. Each kind runs
in a process of its own: an end of that process, an exception that is not the project's own, more
than 10 seconds of CPU for an input, or more than 512 MB of memory is a problem. JAX alone takes
most of that: the limit of checkpoints and agents is 512 MB above what the process has after it
has loaded an intact one.
"""

import argparse
import dataclasses
import faulthandler
import functools
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
START_SECONDS, HANG_SECONDS = 900, 300
# A round gives each kind one turn.
ROUND_MINUTES, MOST_ROUNDS = 5, 6


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


# Captures whose messages are damaged; each takes a converter.
_BENCHES = 64


@functools.lru_cache(_BENCHES)
def _bench(seed: int) -> fuzz_converter.Bench:
    return fuzz_converter.Bench(seed)


def attack_converter(rng: random.Random, folder: Path) -> None:
    bench = _bench(rng.randrange(_BENCHES))
    messages = bench.messages
    data = fuzz_converter.damaged(rng.choice(messages), rng.choice(messages), rng)
    wrong = fuzz_converter.differs(bench, data)
    assert wrong is None, wrong


def attack_replays(rng: random.Random, folder: Path) -> None:
    number = rng.randrange(10**12)
    fuzz_replays.read_everything(
        fuzz_replays.make(number), whole=number % fuzz_replays.WHOLE_EVERY == 0
    )


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


def _convert() -> None:
    attack_converter(random.Random(0), Path())


def _read_replays() -> None:
    fuzz_replays.check(0)


class Kind(NamedTuple):
    """One kind of attack.

    Attributes:
        attack: makes an input from a generator and gives it to the reader.
        prepare: reads what is intact, which compiles and loads what that needs.
        share: of the time, beside the other kinds.
        has_jax: whether memory counts from what `prepare` left.
        seconds: of CPU that an input may take.
    """

    attack: Callable[[random.Random, Path], None]
    prepare: Callable[[], None]
    share: float
    has_jax: bool = False
    seconds: float = MAX_SECONDS


KINDS = {
    "chunks": Kind(attack_chunks, _read_chunks, 2),
    "tables": Kind(attack_tables, _read_dataset, 2),
    "manifests": Kind(attack_manifests, _read_dataset, 2),
    "checkpoints": Kind(attack_checkpoints, _load_jax, 1.5, has_jax=True),
    "agents": Kind(attack_agents, _load_jax, 1, has_jax=True),
    "indexes": Kind(attack_indexes, _read_index, 1),
    "captures": Kind(attack_captures, _read_capture, 1.5),
    "replays": Kind(attack_replays, _read_replays, 1, seconds=fuzz_replays.MAX_SECONDS),
    "converter": Kind(attack_converter, _convert, 1),
}


@dataclasses.dataclass
class Outcome:
    """What the attacks of a kind did.

    Attributes:
        inputs: how many there were.
        refused: how many the reader refused; the others were harmless.
        slowest: the most seconds of CPU for an input.
        memory: the process's peak, in bytes, above what `prepare` left where JAX is loaded.
        whole: the process's peak, in bytes.
        problems: sentences that say how to repeat each.
    """

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    memory: int = 0
    whole: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)

    def line(self, name: str) -> str:
        """What the log says of a kind."""
        above = f" ({self.memory >> 20} above the start)" if KINDS[name].has_jax else ""
        return (
            f"fuzz  {name}: {self.inputs:,} inputs, {self.refused:,} refused, "
            f"slowest {self.slowest:.1f} s, peak {self.whole >> 20} MB{above}, "
            f"{len(self.problems)} problems\n"
        )


def _attack(name: str, seed: int, pipe) -> None:
    """The life of a process: attacks as often as it is told, until it hears None."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    kind = KINDS[name]
    logging.disable()  # orbax tells of each damaged file
    kind.prepare()
    base = _peak() if kind.has_jax else 0
    pipe.send(("ready", None))
    with tempfile.TemporaryDirectory(prefix="starmill-fuzz-") as folder:
        while (turn := pipe.recv()) is not None:
            first, inputs, seconds = turn
            end = time.monotonic() + seconds
            for number in range(first, first + inputs):
                if time.monotonic() > end:
                    break
                pipe.send(("begin", number))
                refused, took, problem = _try(kind, f"{seed} {name} {number}", folder)
                peak = _peak()
                if peak - base > MAX_BYTES:
                    problem = f"peak memory {(peak - base) >> 20} MB"
                pipe.send(("done", (refused, took, peak - base, peak, problem)))
                if peak - base > MAX_BYTES:
                    return  # the peak stays, so a new process goes on
            pipe.send(("end", None))


def _try(kind: Kind, key: str, folder: str) -> tuple[bool, float, str | None]:
    """Makes one attack: whether it was refused, its seconds, and what is wrong."""
    began = time.process_time()
    problem, refused = None, False
    try:
        kind.attack(random.Random(key), Path(folder))
    except errors.StarmillError:
        refused = True
    except BaseException:  # noqa: BLE001  # whatever it is, it is a problem
        problem = traceback.format_exc(limit=-4)
    took = time.process_time() - began
    if took > kind.seconds:
        problem = f"took {took:.0f} s of CPU"
    return refused, took, problem


def _prepare(name: str) -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    KINDS[name].prepare()


def _peak() -> int:
    # Not getrusage: its peak includes that of the process which started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


class Attacker:
    """Attacks one kind of thing, turn by turn, in processes that are replaced when they end."""

    def __init__(self, name: str, seed: int, first: int = 0, inputs: int = 10**9):
        self.outcome = Outcome()
        self._name, self._seed = name, seed
        self._number, self._end = first, first + inputs
        self._context = multiprocessing.get_context("spawn")
        self._child = None
        self._is_busy = False
        # Compiling takes memory that reading does not: it is done in a process of its own.
        compiler = self._context.Process(target=_prepare, args=(name,))
        compiler.start()
        compiler.join(START_SECONDS)

    def turn(self, seconds: float) -> None:
        """Attacks for so many seconds, or until all inputs were tried."""
        end = time.monotonic() + seconds
        finished = False
        while not finished and self._number < self._end and time.monotonic() < end:
            began = time.monotonic()
            if self._child is None:
                self._start()
                end += time.monotonic() - began
            if self._child is None:
                continue
            left = self._end - self._number
            self._pipe.send((self._number, left, end - time.monotonic()))
            finished = self._listen()

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._child = self._context.Process(
            target=_attack, args=(self._name, self._seed, other), daemon=True
        )
        self._child.start()
        other.close()
        self._is_busy = True
        self._receive(START_SECONDS)
        self._is_busy = False

    def _receive(self, patience: float):
        """Returns the process's next message; None if it ended, which may be a problem."""
        try:
            if not self._pipe.poll(patience):
                self._child.kill()
                self._add("hangs")
            return self._pipe.recv()
        except EOFError:
            self._child.join()
            if self._child.exitcode != 0:
                self._add(f"the process ended ({self._child.exitcode})")
            self._child = None
            # Not again what a process ended with.
            self._number += self._is_busy
            return None

    def _listen(self) -> bool:
        """Takes a turn's messages; returns whether the turn came to its end."""
        out = self.outcome
        while (message := self._receive(HANG_SECONDS)) is not None:
            word, value = message
            if word == "begin":
                self._number, self._is_busy = value, True
            elif word == "end":
                return True
            else:
                refused, took, peak, whole, problem = value
                out.inputs, out.refused = out.inputs + 1, out.refused + refused
                out.slowest = max(out.slowest, took)
                out.memory, out.whole = max(out.memory, peak), max(out.whole, whole)
                if problem:
                    self._add(problem)
                self._number, self._is_busy = self._number + 1, False
        return False

    def _add(self, text: str) -> None:
        again = (
            f"--only {self._name} --seed {self._seed} --first {self._number} --inputs 1"
        )
        text = f"python -m tests.hostile.fuzz {again}: {text}".rstrip()
        self.outcome.problems.append(text)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Ends the process."""
        if self._child is not None:
            self._pipe.send(None)
            self._child.join()
            self._child = None


def run(name: str, seed: int, first: int, inputs: int, seconds: float) -> Outcome:
    """Attacks one kind of thing in one turn."""
    attacker = Attacker(name, seed, first, inputs)
    attacker.turn(seconds)
    attacker.close()
    return attacker.outcome


def run_all(names: list[str], seed: int, minutes: float) -> dict[str, Outcome]:
    """Attacks the kinds in turns, each for its share of the time."""
    rounds = max(1, min(MOST_ROUNDS, int(minutes / ROUND_MINUTES)))
    total = sum(KINDS[name].share for name in names)
    attackers: dict[str, Attacker] = {}
    for number in range(rounds):
        for name in names:
            if name not in attackers:
                attackers[name] = Attacker(name, seed)
            attacker = attackers[name]
            attacker.turn(60 * minutes * KINDS[name].share / total / rounds)
            sys.stdout.write(f"{number + 1}/{rounds}  {attacker.outcome.line(name)}")
            sys.stdout.flush()
    for attacker in attackers.values():
        attacker.close()
    return {name: attacker.outcome for name, attacker in attackers.items()}


def run_counts(counts: dict[str, int], seed: int) -> dict[str, Outcome]:
    """Attacks each kind so many times."""
    return {
        name: run(name, seed, 0, count, float("inf")) for name, count in counts.items()
    }


def _counts(text: str) -> dict[str, int]:
    pairs = (part.split("=") for part in text.split(","))
    return {name: int(count) for name, count in pairs}


def main() -> int:
    """Attacks in turn, prints a line for each kind, and says yes or no."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--counts", type=_counts, help="chunks=10000,tables=1000,...")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inputs", type=int)
    args = parser.parse_args()
    names = list(args.counts or args.only.split(","))
    if unknown := sorted(set(names) - set(KINDS)):
        parser.error(f"unknown kinds {unknown}; expected some of {sorted(KINDS)}")
    if args.counts:
        outcomes = run_counts(args.counts, args.seed)
    elif args.inputs is not None:
        outcomes = {
            name: run(name, args.seed, args.first, args.inputs, 60 * args.minutes)
            for name in names
        }
    else:
        outcomes = run_all(names, args.seed, args.minutes)
    for name, outcome in outcomes.items():
        sys.stdout.write(outcome.line(name))
    failed = sum(len(outcome.problems) for outcome in outcomes.values())
    sys.stdout.write(f"fuzz: {'yes' if not failed else f'no, {failed} problems'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
