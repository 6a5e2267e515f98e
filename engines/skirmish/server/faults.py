"""Misbehaviour on order: what the real game does wrong now and then, done at a chosen point.

In: the file `faults.json` in the installation, or the same JSON in the environment variable
STARMILL_SKIRMISH_FAULTS. Out: a `FaultInjector` that the server and the game ask at each point.

    {"seed": 1, "rules": [{"kind": "crash", "loop": 500, "replay": "3f9a", "player": 1,
                           "attempts": [1], "probability": 0.2}]}

kind: one of KINDS. loop: from which game loop on (default 0, the first step). replay: a
prefix of the replay's sha256, or its number in the order in which this installation first saw
replays, from 0; left out, every replay. player: the observed player; left out, both.
attempts: on which starts of (replay, player), counted from 1 in this installation; left out,
on every one. probability: draws from (seed, rule, replay, player, attempt), so that a rule
decides the same for the same attempt on any machine, in any order; default 1. seconds,
megabytes: for `slow` and `leak`.
Attempts are counted in `faults.state/` in the installation; delete it to start over. The first
rule that applies is obeyed. `no_start` counts processes instead of attempts, and
looks at no replay. Rules without a replay apply to live games too (player 0, attempt 1).
"""

import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from starmill.schema import errors

VARIABLE = "STARMILL_SKIRMISH_FAULTS"
FILE_NAME = "faults.json"
STATE_DIR = "faults.state"
# no_start: exits before it listens. crash: exits without a word. hang: never answers.
# close: half of an answer, then a closed connection. garbage: bytes that do not parse.
# wrong_id: another request's id. leak: keeps memory with each answer. slow: waits before
# each answer. stub: the last observation has loop 2**32 - 1 and no content. short: the
# replay ends at `loop`, with a result.
KINDS = frozenset(
    [
        "no_start",
        "crash",
        "hang",
        "close",
        "garbage",
        "wrong_id",
        "leak",
        "slow",
        "stub",
        "short",
    ]
)
CRASH_EXIT_CODE = 139  # what a shell reports for a segmentation fault
_GARBAGE = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00garbage"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """One order; see the module's docstring."""

    kind: str
    loop: int = 0
    replay: str | int | None = None
    player: int | None = None
    attempts: tuple[int, ...] | None = None
    probability: float = 1.0
    seconds: float = 1.0
    megabytes: int = 16

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise errors.ConfigError(
                f"faults: expected a kind of {sorted(KINDS)}, found {self.kind!r}"
            )
        if not 0.0 <= self.probability <= 1.0:
            raise errors.ConfigError(
                f"faults: expected a probability in [0, 1], found {self.probability!r}"
            )


class Sender(Protocol):
    """The connection, as far as a fault needs it."""

    def send(self, payload: bytes) -> None:
        """Sends one message."""

    def send_half(self, payload: bytes) -> None:
        """Sends half of one message and closes."""


def draw(seed: int, rule: int, replay: str, player: int, attempt: int) -> float:
    """Returns the number in [0, 1) that decides a rule's probability."""
    text = f"{seed}:{rule}:{replay}:{player}:{attempt}"
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


class FaultInjector:
    """The rules, and which of them holds for what is being played now."""

    def __init__(
        self,
        rules: tuple[Rule, ...] = (),
        *,
        seed: int = 0,
        state_dir: Path | None = None,
    ) -> None:
        self._rules = rules
        self._seed = seed
        self._state_dir = state_dir
        self._active: Rule | None = None
        self._loop = 0
        self._leaked: list[bytes] = []

    @classmethod
    def load(
        cls, data_dir: str, environ: Mapping[str, str] | None = None
    ) -> "FaultInjector":
        """Returns the orders for an installation: the variable's, else the file's, else none."""
        variables = os.environ if environ is None else environ
        file = Path(data_dir or ".") / FILE_NAME
        if variables.get(VARIABLE):
            text, where = variables[VARIABLE], VARIABLE
        elif data_dir and file.is_file():
            text, where = file.read_text("utf-8"), str(file)
        else:
            return cls()
        try:
            content = json.loads(text)
            rules = tuple(_rule(entry) for entry in content.get("rules", ()))
        except (ValueError, TypeError, AttributeError) as error:
            raise errors.ConfigError(f"{where}: {error}") from error
        state = Path(data_dir) / STATE_DIR if data_dir else None
        return cls(rules, seed=int(content.get("seed", 0)), state_dir=state)

    def at_start(self) -> None:
        """Exits, if this process was told not to start."""
        if not any(rule.kind == "no_start" for rule in self._rules):
            return
        process = self._count("processes")
        for index, rule in enumerate(self._rules):
            if rule.kind == "no_start" and self._applies(index, rule, "", 0, process):
                raise SystemExit("SC2_x64: told not to start")

    def begin(self, replay: str, player: int) -> None:
        """Chooses the rule for a replay (its sha256, "" for a live game) that now starts."""
        self._active = None
        self._loop = 0
        rules = [r for r in self._rules if r.kind != "no_start"]
        if not rules:
            return
        attempt = self._count(f"{replay}-{player}") if replay else 1
        number = self._number(replay) if replay else -1
        for index, rule in enumerate(self._rules):
            if rule.kind == "no_start" or not _matches(rule, replay, number, player):
                continue
            if self._applies(index, rule, replay, player, attempt):
                self._active = rule
                return

    def at_loop(self, loop: int) -> None:
        """Notes how far the game is."""
        self._loop = loop

    def stop_at(self) -> int | None:
        """Returns the loop at which a crash waits for the game, None without one."""
        return (
            self._active.loop if self._active and self._active.kind == "crash" else None
        )

    def crash(self) -> None:
        """Ends the process at once."""
        os._exit(CRASH_EXIT_CODE)

    def short_end(self) -> int | None:
        """Returns the loop at which the replay is to end early, None if it is not."""
        return (
            self._active.loop if self._active and self._active.kind == "short" else None
        )

    def stub_at_end(self) -> bool:
        """Returns whether the last observation is to be a stub."""
        return self._active is not None and self._active.kind == "stub"

    def send(self, client: Sender, payload: bytes, request_id: int) -> bool:
        """Sends an answer, or does what was ordered instead; False if the client is gone."""
        rule = self._active
        try:
            if rule is None or self._loop < rule.loop:
                client.send(payload)
                return True
            return self._misbehave(rule, client, payload, request_id)
        except OSError:
            return False

    def _misbehave(
        self, rule: Rule, client: Sender, payload: bytes, request_id: int
    ) -> bool:
        match rule.kind:
            case "close":
                client.send_half(payload)
                return False
            case "garbage":
                client.send(_GARBAGE)
            case "wrong_id":
                # The last occurrence of a field counts: this id replaces the true one.
                client.send(payload + b"\x88\x06" + bytes([(request_id + 1) % 128]))
            case "hang":
                while True:
                    time.sleep(3600)
            case _:
                if rule.kind == "slow":
                    time.sleep(rule.seconds)
                if rule.kind == "leak":
                    self._leaked.append(b"\x01" * (rule.megabytes << 20))
                client.send(payload)
        return True

    def _applies(
        self, index: int, rule: Rule, replay: str, player: int, attempt: int
    ) -> bool:
        if rule.attempts is not None and attempt not in rule.attempts:
            return False
        return draw(self._seed, index, replay, player, attempt) < rule.probability

    def _count(self, name: str) -> int:
        """Counts one more of `name` in this installation; returns how many there are now."""
        if self._state_dir is None:
            return 1
        self._state_dir.mkdir(parents=True, exist_ok=True)
        # Appending one byte is atomic, so two processes never get the same number.
        with (self._state_dir / name).open("ab") as file:
            file.write(b".")
            file.flush()
            return file.tell()

    def _number(self, replay: str) -> int:
        """Returns the place of a replay among those this installation has seen."""
        if self._state_dir is None:
            return 0
        order = self._state_dir / "order"
        order.mkdir(parents=True, exist_ok=True)
        known = order / replay
        try:
            with known.open("x") as file:
                file.write(str(self._count("replays") - 1))
        except FileExistsError:
            while not known.read_text():  # another process is just writing it
                time.sleep(0.01)
        return int(known.read_text())


def _rule(entry: dict[str, Any]) -> Rule:
    values = dict(entry)
    if values.get("attempts") is not None:
        values["attempts"] = tuple(values["attempts"])
    return Rule(**values)


def _matches(rule: Rule, replay: str, number: int, player: int) -> bool:
    if isinstance(rule.replay, str) and not (replay and replay.startswith(rule.replay)):
        return False
    if isinstance(rule.replay, int) and rule.replay != number:
        return False
    return rule.player is None or rule.player == player
